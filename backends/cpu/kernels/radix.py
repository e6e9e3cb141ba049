"""Rows of a sort whose comparator is a known order, sorted by the digits of its keys, least significant first (LSD
radix sort). It is stable, and its time does not depend on how the keys lie.

A record is the keys as one unsigned integer, and what moves along: the element of a second operand, or the record's
place in the row, by which the elements of all other operands are gathered in the end. What a key says of its own
operand need not move. One pass over the row makes the records and counts the digits of all places; a digit that all
records share takes no pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.comparators import (
    Key,
    compared_operands,
    key_values,
    restored,
    restored_operand,
    sort_keys,
)
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, I32, I64, Function, Index, ScalarType, Value, vector
from stablehlo_py.codegen.types import Element, Lanes, element, to_bits
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.mlir import ir

LEAST_ROW = 32  # records; fewer are merged faster
LONGEST_ROW = 1 << 31  # places are i32
KEY_BITS = 64  # of a record
WIDE_DIGITS_FROM = 4096  # records for which it pays to count digits of 11 bits instead of 8
BLOCK = 64  # records that are made, and then counted
UNROLLED = 4


@dataclass(frozen=True)
class Order:
    """What moves in a sort of records.

    Attributes:
        keys: most significant first.
        restored: the operand whose elements the keys give back; None: there is none.
        classes: its values of which only one comes back: "zero", "nan".
        moved: the operand whose elements move along; None: there is none, or places move.
        gathered: operands that are gathered by the places of the records.
    """

    keys: tuple[Key, ...]
    restored: int | None
    classes: frozenset[str]
    moved: int | None
    gathered: tuple[int, ...]

    @property
    def bits(self) -> int:
        return sum(key.bits for key in self.keys)

    @property
    def carries(self) -> bool:
        """Whether anything moves along."""
        return self.moved is not None or bool(self.gathered)


def order_of(op: ir.OpView, size: IntLike) -> Order | None:
    """How rows of this size are sorted by digits; None where they are not."""
    keys = sort_keys(op)
    if keys is None or not is_known(size) or not LEAST_ROW <= size < LONGEST_ROW:
        return None
    operand, classes = (restored_operand(keys[0]) if len(keys) == 1 else None) or (None, frozenset[str]())
    others = [number for number in range(len(op.operands)) if number != operand]
    elements = [element(op.operands[number]) for number in others]
    moved = others[0] if len(others) == 1 and elements[0].bytes <= 4 and not elements[0].is_complex else None
    order = Order(tuple(keys), operand, classes, moved, tuple(others) if moved is None else ())
    return order if order.bits <= KEY_BITS else None


class RadixSorter:
    """Sorts rows of `size` records, which lie in `sources`, into `targets`. `lanes`: of vectors, for rows whose
    elements are neighbours."""

    def __init__(
        self, f: Function, op: ir.OpView, order: Order, size: int, pointers: Sequence[Sequence[Value]], lanes: int
    ) -> None:
        self.f, self.op, self.order, self.size, self.lanes = f, op, order, size, lanes
        self.sources, self.targets = pointers
        self.elements = [element(value) for value in op.operands]
        self.packed = order.carries and order.bits <= 32  # keys and what they carry are one integer
        self.apart = order.carries and not self.packed
        self.word = I32 if order.bits <= 32 and not self.packed else I64
        self.shift = 32 if self.packed else 0
        self.passes = -(-order.bits // (11 if size >= WIDE_DIGITS_FROM else 8))
        self.digit = -(-order.bits // self.passes)
        self.used = 0
        self.rooms = [[self._room(self.word.bits // 8 * size)] for _ in range(2)]
        for room in self.rooms if self.apart else ():
            room.append(self._room(4 * size))
        self.counts = self._room(self.passes << (self.digit + 2))

    def _room(self, size: int) -> Value:
        """So many bytes of private scratch."""
        self.used += -(-size // 64) * 64
        return self.f.gep(self.f.private, self.used - -(-size // 64) * 64, I8)

    @property
    def cost(self) -> float:
        """Nanoseconds for a row."""
        return self.size * (2.0 + 1.2 * self.passes) + (self.passes << self.digit)

    def sort(self, base: Index, stride: IntLike) -> None:
        """Emit the sort of the row that begins at `base`."""
        f = self.f
        lanes = self.lanes if stride == 1 else 1
        zero = f.const(0, vector(self.lanes, I32))
        f.loop(0, self.passes << self.digit, self.lanes, lambda i: f.store(zero, self.counts, i))
        inexact = self._records(base, stride, lanes)
        columns = self._sorted()
        self._put(columns, base, stride, lanes)
        if inexact is not None:
            differs = f.cmp("ne", inexact, f.const(0, inexact.type))
            f.if_(differs, lambda: self._put_classes(columns[0], base, stride), unlikely=True)

    # --- records ---------------------------------------------------------------------------------------------------

    def _records(self, base: Index, stride: IntLike, lanes: int) -> Value | None:
        """Make all records and count their digits. Returns an integer that is zero if the keys give back every element
        of their operand exactly; None where they always do."""
        f, order = self.f, self.order
        start: list[Value] = []
        if order.restored is not None and order.classes:
            bits = self.elements[order.restored].bits
            start = [f.const(0, ScalarType(f"i{bits}", bits))]
        whole = self.size // BLOCK * BLOCK

        def block(i: Value, *found: Value) -> list[Value]:
            limit = f.iadd(i, BLOCK)
            found = tuple(f.loop(i, limit, lanes, lambda j, *seen: self._make(j, base, stride, lanes, seen), found))
            f.loop(i, limit, UNROLLED, lambda j: self._count(j, UNROLLED))
            return list(found)

        def single(i: Value, *found: Value) -> list[Value]:
            made = self._make(i, base, stride, 1, found)
            self._count(i, 1)
            return made

        wide = f.loop(0, whole, BLOCK, block, [f.const(0, vector(lanes, each.type.element)) for each in start])
        last = f.loop(whole, self.size, 1, single, start)
        return f.binary("or", f.reduce_lanes("or", wide[0]), last[0]) if start else None

    def _make(self, i: Index, base: Index, stride: IntLike, lanes: int, found: Sequence[Value]) -> list[Value]:
        """The records from number `i` on."""
        f, order = self.f, self.order
        at = f.iadd(base, f.imul(i, stride))
        read = compared_operands(self.op)
        record = [
            types.load(f, of, source, at, lanes) if number in read else types.constant(f, of, 0, lanes)
            for number, (of, source) in enumerate(zip(self.elements, self.sources, strict=True))
        ]
        keys = self._keys(record)
        word = f.cast("zext", keys, self.word)
        if order.carries:
            carried = self._carried(i, at, lanes)
            if self.packed:
                word = f.binary("or", f.binary("shl", word, f.const(32, word.type)), f.cast("zext", carried, I64))
            else:
                f.store(carried, self.rooms[0][1], i)
        f.store(word, self.rooms[0][0], i)
        if not found:
            return []
        assert order.restored is not None
        of, given = self.elements[order.restored], record[order.restored]
        back = restored(f, self.order.keys[0], keys)
        assert isinstance(given, Value)
        assert isinstance(back, Value)
        differs = f.binary("xor", to_bits(f, of, given), to_bits(f, of, back))
        return [f.binary("or", found[0], differs)]

    def _keys(self, record: Sequence[Lanes]) -> Value:
        """All keys of records as one integer."""
        f, others = self.f, self.order.keys[1:]
        value, *rest = key_values(f, self.op, self.order.keys, record)
        if not others:
            return value
        whole = I32 if self.order.bits <= 32 else I64
        value = f.cast("zext", value, whole)
        for key, following in zip(others, rest, strict=True):
            moved = f.binary("shl", value, f.const(key.bits, value.type))
            value = f.binary("or", moved, f.cast("zext", following, whole))
        return value

    def _carried(self, i: Index, at: Index, lanes: int) -> Value:
        """What moves along, in 32 bits."""
        f, moved = self.f, self.order.moved
        if moved is not None:
            integer = _integer(self.elements[moved])
            return f.cast("zext", f.load(vector(lanes, integer), self.sources[moved], at), I32)
        first = f.splat(f.cast("trunc", f.index(i), I32), lanes)
        return f.binary("add", first, f.lane_ids(lanes, I32)) if lanes > 1 else first

    # --- digits ----------------------------------------------------------------------------------------------------

    def _digit(self, word: Value, shift: Value) -> Value:
        f = self.f
        moved = f.binary("lshr", word, shift)
        return f.cast("zext", f.binary("and", moved, f.const((1 << self.digit) - 1, self.word)), I64)

    def _count(self, start: Index, many: int) -> None:
        """Count all digits of so many records."""
        f = self.f
        for word in [f.load(self.word, self.rooms[0][0], f.iadd(start, each)) for each in range(many)]:
            for number in range(self.passes):
                shift = f.const(self.shift + number * self.digit, self.word)
                at = f.gep(f.gep(self.counts, number << self.digit, I32), self._digit(word, shift), I32)
                f.store(f.binary("add", f.load(I32, at), f.const(1, I32)), at)

    def _sorted(self) -> list[Value]:
        """The passes over the digits; returns where the records are then."""
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

    # --- results ---------------------------------------------------------------------------------------------------

    def _put(self, columns: Sequence[Value], base: Index, stride: IntLike, lanes: int) -> None:
        """Write the sorted row."""
        f, order = self.f, self.order

        def put(i: Index, lanes: int) -> None:
            at = f.iadd(base, f.imul(i, stride))
            word = f.load(vector(lanes, self.word), columns[0], i)
            if order.restored is not None:
                key = f.binary("lshr", word, f.const(self.shift, word.type)) if self.shift else word
                value = restored(f, order.keys[0], key)
                types.store(f, self.elements[order.restored], value, self.targets[order.restored], at)
            if order.moved is not None:
                carried = f.load(vector(lanes, I32), columns[1], i) if self.apart else word
                f.store(f.cast("trunc", carried, _integer(self.elements[order.moved])), self.targets[order.moved], at)

        def gather(i: Index) -> None:
            at = f.iadd(base, f.imul(i, stride))
            # The lower half of a packed record is what it carries.
            place = f.load(I32, columns[1], i) if self.apart else f.cast("trunc", f.load(I64, columns[0], i), I32)
            source = f.iadd(base, f.imul(f.cast("zext", place, I64), stride))
            for number in order.gathered:
                of = self.elements[number]
                types.store(f, of, types.load(f, of, self.sources[number], source), self.targets[number], at)

        if order.restored is not None or order.moved is not None:
            whole = self.size // lanes * lanes
            f.loop(0, whole, lanes, lambda i: put(i, lanes))
            f.loop(whole, self.size, 1, lambda i: put(i, 1))
        if order.gathered:
            f.loop(0, self.size, 1, gather)

    def _put_classes(self, words: Value, base: Index, stride: IntLike) -> None:
        """Write the elements that are equal but differ in bits, in the order that they came in."""
        f, number = self.f, self.order.restored
        assert number is not None
        of, source, target = self.elements[number], self.sources[number], self.targets[number]
        classes = sorted(self.order.classes)
        first = [self._first(words, math.nan if each == "nan" else 0.0) for each in classes]

        def element_(i: Value, *places: Value) -> list[Value]:
            value = types.load(f, of, source, f.iadd(base, f.imul(i, stride)))
            assert isinstance(value, Value)
            following = []
            for each, place in zip(classes, places, strict=True):
                is_one = f.cmp("uno", value, value) if each == "nan" else f.cmp("oeq", value, f.const(0.0, value.type))

                def put(place: Value = place) -> None:
                    types.store(f, of, value, target, f.iadd(base, f.imul(place, stride)))

                f.if_(is_one, put)
                following.append(f.binary("add", place, f.cast("zext", is_one, I64)))
            return following

        f.loop(0, self.size, 1, element_, first)

    def _first(self, words: Value, number: float) -> Value:
        """How many records precede those whose element is this number."""
        f, restored_ = self.f, self.order.restored
        record = [types.constant(f, of, number if at == restored_ else 0) for at, of in enumerate(self.elements)]
        wanted = f.cast("zext", self._keys(record), self.word)

        def halve(low: Value, high: Value) -> list[Value]:
            middle = f.binary("lshr", f.binary("add", low, high), f.const(1))
            found = f.load(self.word, words, middle)
            key = f.binary("lshr", found, f.const(self.shift, self.word)) if self.shift else found
            precedes = f.cmp("ult", key, wanted)
            above = f.binary("add", middle, f.const(1))
            return [f.select(precedes, above, low), f.select(precedes, high, middle)]

        return f.while_([f.const(0), f.const(self.size)], lambda low, high: f.cmp("slt", low, high), halve)[0]


def _integer(of: Element) -> ScalarType:
    """As wide as an element in memory."""
    return ScalarType(f"i{of.storage.bits}", of.storage.bits)
