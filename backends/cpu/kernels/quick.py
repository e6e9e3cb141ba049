"""Records that are keys and nothing else, sorted by partitions in vectors (quicksort), short parts by a bitonic network
in registers.

A partition writes to another memory, the lesser records from the front, the others from the back: a vector at a time,
each side brought together by one instruction (compress). Equal records are the same bits, so the sort need not be
stable. Parts of which many partitions made no small ones are divided at the middle of the range of their keys, which
halves it: no input takes quadratic time. Source: Bramas, A Novel Hybrid Quicksort Algorithm Vectorized using AVX-512
(2017).
"""

from __future__ import annotations

import math

from stablehlo_py.backends.cpu.kernels.quick_pieces import Keys, Network, Partition
from stablehlo_py.backends.cpu.kernels.records import Order, RecordSorter
from stablehlo_py.backends.cpu.kernels.shared_function import call_piece
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I1, I64, Index, Value
from stablehlo_py.codegen.target import X86_64
from stablehlo_py.dialect.symint import IntLike, is_known

REGISTERS = 8  # that a network sorts
LEAST_RECORDS = 1 << 13  # of an op
# By bits of a record: shorter rows are sorted side by side in less time, where they can be.
LEAST_PARTITIONED = {32: 48, 64: 32}
SAMPLES = 9  # vectors of which a pivot is the median
DEPTH = 2.0  # partitions of a part, in those that halve it


def partitions(order: Order, rows: IntLike, size: int, target: CpuTarget) -> bool:
    """Whether records are sorted this way: keys of whole lanes, where vectors can be compressed, and so many that it
    pays to compile what is longer than other ways."""
    can = target.vector_bits == 512 and target.architecture is X86_64
    many = is_known(rows) and rows * size >= LEAST_RECORDS
    return can and many and not order.carries and order.bits > 16


def beats_lanes(order: Order, size: int, stride: IntLike) -> bool:
    """Whether rows that may be sorted side by side, too, are not. Columns would be copied one by one."""
    return stride == 1 and size >= LEAST_PARTITIONED[32 if order.bits <= 32 else 64]


def depth_limit(size: int) -> int:
    """How many partitions by samples may precede a part of a row of so many records."""
    return int(DEPTH * math.log2(max(2, size))) + 2


class QuickSorter(RecordSorter):
    """Sorts rows of keys of more than 16 bits."""

    masked = True

    def prepare(self) -> None:
        f, size = self.f, self.size
        self.keys = Keys(self.word)
        self.width, self.vector = self.keys.width, self.keys.vector
        self.most = REGISTERS * self.width
        self.depth = depth_limit(size)
        self.stack = f.alloca(3 * 2 * 64, I64) if size > self.most else None

    def private_rooms(self) -> int:
        """A result whose rows are dense is the other memory."""
        return 1 if self.stride == 1 else 2

    def begin(self, base: Index) -> None:
        assert self.order.restored is not None
        if self.stride == 1:
            result = self.f.gep(self.targets[self.order.restored], base, self.word)
            self.rooms = [[result], self.rooms[-1]]

    def count(self, start: Index, many: int) -> None:
        """Partitions need no counts."""

    @property
    def cost(self) -> float:
        """Nanoseconds for a row."""
        return self.size * (1.5 + 0.2 * math.log2(max(2, self.size)) * self.word.bits / 32)

    def in_order(self) -> list[Value]:
        f, records = self.f, self.rooms[0][0]
        if self.stack is None:
            registers = 1 << (-(-self.size // self.width) - 1).bit_length()
            call_piece(f, Network(self.word, registers), [records, records, f.const(self.size)])
            return self.rooms[0]
        self._push(f.const(0), f.const(0), f.const(self.size), f.const(0))
        f.while_([f.const(1)], lambda height: f.cmp("sgt", height, f.const(0)), self._part)
        return self.rooms[0]

    # --- parts -------------------------------------------------------------------------------------------------------
    # The stack holds parts that are to be sorted: where they begin and end, and twice the number of partitions before
    # them, plus one where they lie in the second room.

    def _push(self, height: Index, *part: Value) -> None:
        for number, value in enumerate(part):
            self.f.store(value, self._stack, self.f.iadd(self.f.imul(height, 3), number))

    @property
    def _stack(self) -> Value:
        assert self.stack is not None
        return self.stack

    def _part(self, height: Value) -> list[Value]:
        """Take one part from the stack: sort it, or put what it is divided into there."""
        f = self.f
        top = f.iadd(height, -1)
        low, high, state = (f.load(I64, self._stack, f.iadd(f.imul(top, 3), number)) for number in range(3))
        size = f.index(f.isub(high, low))
        is_first = f.cmp("eq", f.binary("and", state, f.const(1)), f.const(0))
        first, second = (room[0] for room in self.rooms)
        source, other = f.select(is_first, first, second), f.select(is_first, second, first)

        def short() -> Value:
            places = [f.gep(room, low, self.word) for room in (source, first)]
            call_piece(f, Network(self.word, REGISTERS), [*places, size])
            return f.index(top)

        def long() -> list[Value]:
            return self._divide(top, low, high, state, source, other)

        return f.if_(f.cmp("sle", size, f.const(self.most)), short, long)

    def _divide(self, top: Index, low: Value, high: Value, state: Value, source: Value, other: Value) -> list[Value]:
        f = self.f
        deep = f.cmp("sgt", state, f.const(2 * self.depth))
        sampled, middle_ = (lambda: self._sampled(source, low, high)), (lambda: self._middle(source, low, high))
        (pivot,) = f.if_(deep, middle_, sampled, unlikely=True)
        is_greatest = f.cmp("eq", pivot, f.const(-1, self.word))

        def is_open(tried: Value, middle: Value) -> Value:
            """Not tried yet; or no record is less than the pivot, and those that equal it shall be the lesser ones."""
            again = f.binary("and", f.cmp("eq", tried, f.const(1)), f.cmp("eq", middle, low))
            again = f.select(is_greatest, f.const(False, I1), again)
            return f.binary("or", f.cmp("eq", tried, f.const(0)), again)

        def divide(tried: Value, _: Value) -> list[Value]:
            by = f.binary("add", pivot, f.cast("trunc", tried, self.word))
            middle = call_piece(f, Partition(self.word), [source, other, low, high, by], I64)
            assert middle is not None
            return [f.binary("add", tried, f.const(1)), middle]

        tried, middle = f.while_([f.const(0), low], is_open, divide)
        following = f.binary("xor", f.binary("add", state, f.const(2)), f.const(1))

        def usual() -> Value:
            # The longer part waits: so the stack holds no more parts than a size can be halved.
            shorter = f.cmp("slt", f.binary("sub", middle, low), f.binary("sub", high, middle))
            waits = f.select(shorter, middle, low), f.select(shorter, high, middle)
            self._push(top, *waits, following)
            self._push(f.iadd(top, 1), f.select(shorter, low, middle), f.select(shorter, middle, high), following)
            return f.index(f.iadd(top, 2))

        def equal() -> Value:
            end = f.select(f.cmp("eq", middle, low), high, middle)  # all, where the pivot is the greatest key
            self._fill(low, end, pivot)
            self._push(top, end, high, following)
            return f.index(f.iadd(top, 1))

        divided = f.binary("and", f.cmp("eq", tried, f.const(1)), f.cmp("ne", middle, low))
        return f.if_(divided, usual, equal)

    def _sampled(self, source: Value, low: Value, high: Value) -> Value:
        """A record that about half of them precede: medians of three, of three, and so on, of vectors first."""
        f, width = self.f, self.width
        step = f.index(f.idiv(f.isub(f.isub(high, low), width), SAMPLES - 1))
        places = [f.gep(source, low, self.word)]
        while len(places) < SAMPLES:
            places.append(f.gep(places[-1], step, self.word))
        values = [f.load(self.vector, place) for place in places]
        while len(values) > 1:
            values = [self._median(*values[first : first + 3]) for first in range(0, len(values), 3)]
        (value,) = values
        for distance in (width // 3, 1):
            turned = [[(lane + times * distance) % width for lane in range(width)] for times in (1, 2)]
            value = self._median(value, *(f.shuffle(value, value, lanes) for lanes in turned))
        return f.extract(value, 0)

    def _median(self, a: Value, b: Value, c: Value) -> Value:
        f = self.f
        return f.intrinsic("umax", f.intrinsic("umin", a, b), f.intrinsic("umin", f.intrinsic("umax", a, b), c))

    def _middle(self, source: Value, low: Value, high: Value) -> Value:
        """The middle of the range of a part's keys: greater than the least one, if they differ."""
        f = self.f
        last = f.isub(high, self.width)

        def widen(at: Value, least: Value, greatest: Value) -> list[Value]:
            value = f.load(self.vector, source, f.imin(at, last))
            return [f.intrinsic("umin", least, value), f.intrinsic("umax", greatest, value)]

        ends = f.loop(low, high, self.width, widen, [f.const(-1, self.vector), f.const(0, self.vector)], nonempty=True)
        least, greatest = (f.reduce_lanes(kind, end) for kind, end in zip(("umin", "umax"), ends, strict=True))
        half = f.binary("lshr", f.binary("sub", greatest, least), f.const(1, self.word))
        return f.binary("sub", greatest, half)

    def _fill(self, low: Value, high: Value, record: Value) -> None:
        """Write one record to all these places of the result."""
        f, width = self.f, self.width
        records = f.splat(record, width)

        def fill(at: Value) -> None:
            many = f.intrinsic("smin", f.index(f.isub(high, at)), f.const(width))
            f.store(records, self.rooms[0][0], at, self.keys.below(f, many))

        f.loop(low, high, width, fill)
