"""Records sorted by the digits of their keys, least significant first (LSD radix sort).

It is stable, and its time does not depend on how the keys lie. The digits of all places are counted while the records
are made; a digit that all records share takes no pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.cpu.kernels.records import RecordSorter
from stablehlo_py.codegen.builder import I32, I64, Index, Value, vector

WIDE_DIGITS_FROM = 4096  # records for which it pays to count digits of 11 bits instead of 8
UNROLLED = 4


class RadixSorter(RecordSorter):
    """Sorts rows of any records."""

    counted = UNROLLED

    def prepare(self) -> None:
        order, size = self.order, self.size
        self.passes = -(-order.bits // (11 if size >= WIDE_DIGITS_FROM else 8))
        self.digit = -(-order.bits // self.passes)
        self.counts = self.room(self.passes << (self.digit + 2))

    @property
    def cost(self) -> float:
        """Nanoseconds for a row."""
        return self.size * (2.0 + 1.2 * self.passes) + (self.passes << self.digit)

    def begin(self, base: Index) -> None:
        """Set the counters to zero: by a loop, for some systems have no function of C for it."""
        zero = self.f.const(0, vector(self.lanes, I32))
        self.f.loop(0, self.passes << self.digit, self.lanes, lambda i: self.f.store(zero, self.counts, i))

    def _digit(self, word: Value, shift: Value) -> Value:
        f = self.f
        moved = f.binary("lshr", word, shift)
        return f.cast("zext", f.binary("and", moved, f.const((1 << self.digit) - 1, self.word)), I64)

    def count(self, start: Index, many: int) -> None:
        """Count all their digits."""
        f = self.f
        for word in [f.load(self.word, self.rooms[0][0], f.iadd(start, each)) for each in range(many)]:
            for number in range(self.passes):
                shift = f.const(self.shift + number * self.digit, self.word)
                at = f.gep(f.gep(self.counts, number << self.digit, I32), self._digit(word, shift), I32)
                f.store(f.binary("add", f.load(I32, at), f.const(1, I32)), at)

    def in_order(self) -> list[Value]:
        """The passes over the digits."""
        f, many = self.f, len(self.rooms[0])

        def digit(number: Value, *rooms: Value) -> list[Value]:
            counts = f.gep(self.counts, f.imul(number, 1 << self.digit), I32)
            shift = f.iadd(f.imul(number, self.digit), self.shift)
            by = f.cast("trunc", f.index(shift), self.word)
            first = self._digit(f.load(self.word, rooms[0]), by)
            differs = f.cmp("ne", f.load(I32, f.gep(counts, first, I32)), f.const(self.size, I32))

            def scatter() -> list[Value]:
                self._scatter(counts, by, rooms[:many], rooms[many:])
                return [*rooms[many:], *rooms[:many]]

            return f.if_(differs, scatter, lambda: list(rooms))

        return f.loop(0, self.passes, 1, digit, [*self.rooms[0], *self.rooms[1]])[:many]

    def _scatter(self, counts: Value, by: Value, sources: Sequence[Value], targets: Sequence[Value]) -> None:
        """Move every record to where its digit begins."""
        f = self.f

        def begin(at: Value, total: Value) -> list[Value]:
            count = f.load(I32, counts, at)
            f.store(total, counts, at)
            return [f.binary("add", total, count)]

        f.loop(0, 1 << self.digit, 1, begin, [f.const(0, I32)])

        def move(i: Index, many: int) -> None:
            records = [[f.load(self.word, sources[0], f.iadd(i, u))] for u in range(many)]
            for u, record in enumerate(records if self.apart else ()):
                record.append(f.load(I32, sources[1], f.iadd(i, u)))
            for record in records:
                at = f.gep(counts, self._digit(record[0], by), I32)
                place = f.load(I32, at)
                f.store(f.binary("add", place, f.const(1, I32)), at)
                to = f.cast("zext", place, I64)
                for value, target in zip(record, targets, strict=True):
                    f.store(value, target, to)

        whole = self.size // UNROLLED * UNROLLED
        f.loop(0, whole, UNROLLED, lambda i: move(i, UNROLLED))
        f.loop(whole, self.size, 1, lambda i: move(i, 1))
