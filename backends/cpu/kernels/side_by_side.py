"""Many short rows, sorted side by side: a row is a lane of vectors, what rows have in a place is a vector, and a
network exchanges places without looking at what they hold.

The network is Batcher's: Knuth, The Art of Computer Programming, vol. 3, 5.2.2, algorithm M. It is not stable, and need
not be. Equal keys are the same bits; a group in which elements differ that have one key (zeros of both signs, NaN) is
left to its caller. Where more than keys is sorted, no two records are equal: below its key each one has its place in
the row, from which all operands are taken in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from stablehlo_py.backends.common.comparators import compared_operands, restored
from stablehlo_py.backends.cpu.kernels.records import Order, joined_keys, row_base
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I16, I64, Function, Index, ScalarType, Value, vector
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.codegen.types import Element, Lanes, element, to_bits
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.mlir import ir

# Records of a row: vectors of them, and the exchanges, lie in near caches. Longer ones of bytes that are neighbours are
# sorted by their only digit in less time.
LONGEST, LONGEST_BYTES = 1024, 256
PLACE_BITS = 10  # of a place in a row
# Of records that something moves along with, for each lane of a vector: exchanges sort them in no more time than a pass
# over a digit of their keys takes.
DIGIT_RECORDS = 32
EXCHANGE_NS, MOVE_NS = 1.2, 0.4  # of a group; of an element, there and back, where lanes are not neighbours
TAKE_NS = 0.8  # of an element that is taken from where its record says


def lanes_of(order: Order, rows: IntLike, size: int, stride: IntLike, target: CpuTarget) -> int:
    """How many rows are sorted at once; 0: there are not enough of them, or they are no such rows."""
    if (
        size > _longest(order, stride, target)
        or not is_known(rows)
        or not (order.carries or order.restored is not None)
    ):
        return 0
    bits = _bits(order)
    return rows_at_once(int(rows), bits, target) if bits <= 64 else 0


def rows_at_once(rows: int, bits: int, target: CpuTarget) -> int:
    """Of all rows, whose records have so many bits; 0: there are not enough of them."""
    lanes = target.lanes(bits)
    return 0 if lanes == 1 else 2 * lanes if rows >= 4 * lanes else lanes if rows >= lanes else 0


def _longest(order: Order, stride: IntLike, target: CpuTarget) -> int:
    """Records of the longest row that is not sorted faster by digits."""
    if order.carries:
        lanes = target.lanes(64)
        records = DIGIT_RECORDS * (lanes if lanes > 2 else 1)  # SSE2 has no comparison of 64 bits
        return min(LONGEST, records * -(-order.bits // 8))
    return LONGEST if order.bits > 8 or stride != 1 else LONGEST_BYTES


def _bits(order: Order) -> int:
    """Of a record in memory."""
    if not order.carries:
        return max(8, order.bits)
    return max(32, 1 << (order.bits + PLACE_BITS - 1).bit_length())


def may_mix(order: Order) -> bool:
    """Whether a row may have elements that their keys do not give back, and nothing else says where they are."""
    return bool(order.classes) and not order.carries


def exchanges(size: int) -> np.ndarray:
    """The pairs of places of which the lesser key goes to the first one, in order."""
    top = 1 << max(0, (size - 1).bit_length() - 1)
    found, places, p = [np.zeros((0, 2), np.int64)], np.arange(size), top
    while p:
        q, r, d = top, 0, p
        while True:
            low = places[: max(0, size - d)]
            low = low[low & p == r]
            found.append(np.stack([low, low + d], 1))
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1
    return np.concatenate(found)


def rows_of(f: Function, group: Value, lanes: int, rows: int) -> list[Index]:
    """The numbers of the rows of a group; a last group that is not full has the last row several times."""
    numbers = [f.iadd(f.imul(group, lanes), lane) for lane in range(lanes)]
    return [f.imin(number, rows - 1) for number in numbers] if rows % lanes else numbers


def load(f: Function, of: Element, base: Value, places: Sequence[Index]) -> Value:
    """Real elements from these places: a lane each."""
    return types.decoded(f, of, f.joined([f.load(of.storage, base, place) for place in places]))


def store(f: Function, of: Element, value: Lanes, base: Value, places: Sequence[Index]) -> None:
    """Lanes to these places."""
    for lane, place in enumerate(places):
        types.store(f, of, types.each(lambda part, lane=lane: f.extract(part, lane), value), base, place)


def signed(f: Function, value: Value) -> Value:
    """Between unsigned integers and signed ones in the same order."""
    return f.binary("xor", value, f.const(-1 << (value.type.element.bits - 1), value.type))


class Network:
    """Sorts records of so many places: `lanes` of a place are neighbours, from `memory` on, of `used` bytes. Those of
    64 bits are signed integers, for which more processors have comparisons; others are unsigned.

    Attributes:
        tables: that the kernel reads.
        cost: nanoseconds.
    """

    def __init__(self, f: Function, size: int, lanes: int, word: ScalarType, memory: Value) -> None:
        self.f, self.memory = f, memory
        self.vector = vector(lanes, word)
        self.used = size * lanes * word.bits // 8
        table = exchanges(size) * lanes
        self.count = len(table)
        self.tables = {f"{f.name}.network": constant_table(f"{f.name}.network", table, I16, f.emit)}
        self.cost = EXCHANGE_NS * self.count

    def sort(self) -> None:
        """Emit the exchanges."""
        self.f.loop(0, self.count, 1, self._exchange)

    def _exchange(self, number: Value) -> None:
        f = self.f
        table = f.gep(f.address_of(f"{f.name}.network"), f.imul(number, 2), I16)
        low, high = (f.cast("zext", f.load(I16, table, part), I64) for part in (0, 1))
        one, other = (f.load(self.vector, self.memory, at) for at in (low, high))
        wide = self.vector.bits == 64
        lesser, greater = (f.intrinsic(each, one, other) for each in (("smin", "smax") if wide else ("umin", "umax")))
        if wide:
            lesser = f.opaque(lesser)  # LLVM stores a choice between what was there and other values with a mask
        f.store(lesser, self.memory, low)
        f.store(greater, self.memory, high)


class SideBySide:
    """Sorts groups of `lanes` rows of an op's operands. Each row has `size` records, `stride` apart; `mixed` sorts one
    row, of a number, another way, where `may_mix`.

    Attributes:
        groups: of all rows. The last one has its last row several times.
        used: bytes of private scratch, from `scratch` on.
        cost: nanoseconds for a group.
        tables: that the kernel reads.
    """

    def __init__(
        self,
        f: Function,
        op: ir.OpView,
        order: Order,
        lanes: int,
        sizes: tuple[int, IntLike, int],
        pointers: tuple[Sequence[Value], Sequence[Value]],
        scratch: Value,
    ) -> None:
        self.f, self.op, self.order, self.lanes = f, op, order, lanes
        self.elements = [element(value) for value in op.operands]
        self.size, self.stride, self.rows = sizes
        self.sources, self.targets = pointers
        self.scratch = scratch
        self.word = ScalarType(f"i{_bits(order)}", _bits(order))
        self.network = Network(f, self.size, lanes, self.word, scratch)
        self.used, self.tables = self.network.used, self.network.tables
        self.groups = -(-self.rows // lanes)
        self.neighbours = is_known(self.stride) and self.stride % lanes == 0
        moves = 0 if self.neighbours else MOVE_NS * lanes * self.size
        taken = TAKE_NS * lanes * self.size * len(self.elements) if order.carries else 0
        self.cost = self.size + moves + taken + self.network.cost

    def sort(self, group: Value, mixed: Callable[[Value], None] | None) -> None:
        """Emit the sort of a group."""
        f, first = self.f, self.f.imul(group, self.lanes)
        start, bases = self._bases(group, first)
        differs = self._read(start, bases)

        def exchanged() -> None:
            self.network.sort()
            if self.order.carries:
                f.loop(0, self.lanes, 1, partial(self._take, self.f.index(first)))
            else:
                f.loop(0, self.size, 1, lambda place: self._write(start, bases, place))

        if differs is None or mixed is None:
            exchanged()
            return
        last = f.imin(f.iadd(first, self.lanes), self.rows)
        f.if_(differs, lambda: f.loop(first, last, 1, mixed), exchanged, unlikely=True)

    def _bases(self, group: Value, first: Index) -> tuple[Index, list[Index]]:
        """Where a group begins, and each of its rows from there on; lanes that are neighbours begin at one place."""
        f = self.f
        if self.neighbours:
            return row_base(f, first, self.size, self.stride), [0]
        if self.stride == 1 and not self.rows % self.lanes:
            return f.imul(first, self.size), [lane * self.size for lane in range(self.lanes)]
        rows = rows_of(f, group, self.lanes, self.rows)
        return 0, [row_base(f, row, self.size, self.stride) for row in rows]

    def _read(self, start: Index, bases: list[Index]) -> Value | None:
        """Make the records of all places. Whether keys do not give back some elements; None: they need not, or do."""
        f, order = self.f, self.order
        read = compared_operands(self.op)

        def operand(number: int, at: Index) -> Lanes:
            of, source = self.elements[number], self.sources[number]
            if number not in read:
                return types.constant(f, of, 0, self.lanes)
            if self.neighbours:
                return types.load(f, of, source, at, self.lanes)
            return load(f, of, f.gep(source, at, of.storage), bases)

        def one(place: Value, *found: Value) -> list[Value]:
            at = f.iadd(start, f.imul(place, self.stride))
            record = [operand(number, at) for number in range(len(self.elements))]
            keys = joined_keys(f, self.op, order, record)
            word = f.cast("zext", keys, self.word)
            if order.carries:
                above = f.binary("shl", word, f.const(PLACE_BITS, word.type))
                word = f.binary("or", above, f.splat(f.cast("trunc", place, self.word), self.lanes))
            f.store(self._in_memory(word), self.scratch, f.imul(place, self.lanes))
            if not found:
                return []
            assert order.restored is not None
            of, given, back = self.elements[order.restored], record[order.restored], restored(f, order.keys[0], keys)
            assert isinstance(given, Value)
            assert isinstance(back, Value)
            return [f.binary("or", found[0], f.binary("xor", to_bits(f, of, given), to_bits(f, of, back)))]

        if not may_mix(order):
            f.loop(0, self.size, 1, one)
            return None
        assert order.restored is not None
        bits = self.elements[order.restored].bits
        none = f.const(0, vector(self.lanes, ScalarType(f"i{bits}", bits)))
        (found,) = f.loop(0, self.size, 1, one, [none])
        different = f.reduce_lanes("or", found)
        return f.cmp("ne", different, f.const(0, different.type))

    def _in_memory(self, word: Value) -> Value:
        """Between records and what the network sorts, in the same order."""
        return signed(self.f, word) if self.word.bits == 64 and not self.order.carries else word

    def _write(self, start: Index, bases: list[Index], place: Value) -> None:
        """Write what the keys of this place give back."""
        f, at = self.f, self.f.iadd(start, self.f.imul(place, self.stride))
        assert self.order.restored is not None
        of, target = self.elements[self.order.restored], self.targets[self.order.restored]
        word = self._in_memory(f.load(self.network.vector, self.scratch, f.imul(place, self.lanes)))
        value = restored(f, self.order.keys[0], word)
        if self.neighbours:
            types.store(f, of, value, target, at)
        else:
            store(f, of, value, f.gep(target, at, of.storage), bases)

    def _take(self, first: Value, lane: Value) -> None:
        """Write the row of a lane, from where its records say."""
        f = self.f
        base = row_base(f, f.imin(f.iadd(first, lane), self.rows - 1), self.size, self.stride)

        def one(place: Value) -> None:
            record = f.load(self.word, self.scratch, f.iadd(f.imul(place, self.lanes), lane))
            found = f.binary("and", f.cast("zext", record, I64), f.const((1 << PLACE_BITS) - 1))
            source, target = (f.iadd(base, f.imul(each, self.stride)) for each in (found, place))
            for of, given, result in zip(self.elements, self.sources, self.targets, strict=True):
                types.store(f, of, types.load(f, of, given, source), result, target)

        f.loop(0, self.size, 1, one)
