"""The k largest elements of many rows, side by side: a row is a lane (side_by_side.py).

Very few of short rows are kept in vectors, and each element is put among them. Else the best so far of a row, and
candidates behind them, lie in memory. Whenever each row has no room for more, or no more elements, all are sorted by a
network; the best stay, and the least of those is what candidates have to beat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from stablehlo_py.backends.common.comparators import ordered, unordered
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase
from stablehlo_py.backends.cpu.kernels.candidates import SMALL_K, look_through
from stablehlo_py.backends.cpu.kernels.side_by_side import (
    MOVE_NS,
    Network,
    load,
    rows_at_once,
    rows_of,
    signed,
    store,
)
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, I32, I64, Function, Index, ScalarType, Value, vector
from stablehlo_py.codegen.types import ELEMENTS, Element, Lanes

FEW, INSERTED = 8, 256  # of each row, in vectors; elements of a row that are put among them
INSERT_NS = 1.5  # of a vector of records, for each that it is compared with
KEPT_ROW = 20  # elements of a row, for each pair of its largest, from which on these are kept sorted in less time
LEAST_ROOM, MOST_ROOM = 64, 1024  # records
LEAST_VECTORS = 3  # that there is room for behind the best: a row is looked through until there is none for two
SHORT = 160  # a row of up to so many is sorted whole
PLACE_BITS = 32  # of a record, which is the key and the place of an element
LOOK_NS, PUT_NS = 0.3, 1.5  # of an element that is compared, and of one that is a candidate

Record: TypeAlias = "tuple[Value, Value]"  # keys as signed integers, and places


def emit(f: Function, of: Element, source: Value, sizes: tuple[int, int, int], target: CpuTarget) -> Kernel | None:
    """Of `sizes` = (rows, elements of a row, k); None: they are not many rows, or other ways are faster."""
    rows, size, k = sizes
    lanes = target.lanes(max(32, of.bits))
    if k <= FEW and k < size <= INSERTED and 1 < lanes <= rows:
        return _by_insertion(f, of, source, sizes, lanes)
    kept = k <= SMALL_K and size > INSERTED and size >= KEPT_ROW * k * k
    lanes = 0 if kept else rows_at_once(rows, 64, target)
    if lanes and 2 * k <= MOST_ROOM and of.bits + PLACE_BITS <= 64:
        return _Selection(f, of, source, sizes, lanes, target.lanes(32)).kernel()
    return None


class _Selection:
    """`lanes` rows at once. Rows are looked through with vectors of so many lanes."""

    def __init__(
        self, f: Function, of: Element, source: Value, sizes: tuple[int, int, int], lanes: int, vector_lanes: int
    ) -> None:
        self.f, self.of, self.source, self.lanes, self.vector_lanes = f, of, source, lanes, vector_lanes
        self.rows, self.size, self.k = sizes
        least = max(LEAST_ROOM, self.k + max(self.k, LEAST_VECTORS * vector_lanes))
        room = 1 << (least - 1).bit_length()
        self.room = self.size if self.size <= max(SHORT, room) else room
        self.memory = f.private
        self.network = Network(f, self.room, lanes, I64, self.memory)
        self.seen = f.gep(f.private, self.network.used, I8)  # how many elements of each row

    def kernel(self) -> Kernel:
        f = self.f
        groups = -(-self.rows // self.lanes)
        f.loop(f.begin, f.end, 1, self._group)
        used = self.network.used + 8 * self.lanes
        return Kernel.of(phase(f, groups, self._cost()), private_bytes=used, tables=self.network.tables)

    def _cost(self) -> float:
        """Nanoseconds for a group, of elements in no order."""
        later = self.k * math.log(self.size / self.room)
        sorts = 1 + math.ceil(later / max(1, self.room - self.k))
        rows = PUT_NS * (self.room + 2 * later + self.k) + LOOK_NS * self.size
        return self.lanes * rows + sorts * self.network.cost

    def _group(self, number: Value) -> None:
        f = self.f
        first = f.imul(number, self.lanes)

        def of_row(lane: Value) -> Index:
            return f.imin(f.iadd(first, lane), self.rows - 1)

        def turn(_: Value) -> list[Value]:
            self.network.sort()
            if self.room == self.size:
                return [f.const(0)]
            return f.loop(0, self.lanes, 1, lambda lane, left: self._collect(of_row(lane), lane, left), [f.const(0)])

        f.loop(0, self.lanes, 1, lambda lane: self._fill(of_row(lane), lane))
        f.while_([f.const(1)], lambda left: f.cmp("ne", left, f.const(0)), turn)
        f.loop(0, self.lanes, 1, lambda lane: self._write(of_row(lane), lane))

    def _at(self, place: Index, lane: Index) -> Index:
        return self.f.iadd(self.f.imul(place, self.lanes), lane)

    def _element(self, row: Index, number: Index, lanes: int = 1) -> Lanes:
        return types.load(self.f, self.of, self.source, self.f.iadd(self.f.imul(row, self.size), number), lanes)

    def _put(self, value: Lanes, number: Index, place: Index, lane: Index) -> None:
        f = self.f
        key = f.cast("zext", ordered(f, self.of, value, descending=True), I64)
        record = f.binary("or", f.binary("shl", key, f.const(PLACE_BITS)), f.index(number))
        f.store(signed(f, record), self.memory, self._at(place, lane))

    def _value(self, record: Value) -> Lanes:
        key = self.f.binary("lshr", signed(self.f, record), self.f.const(PLACE_BITS))
        return unordered(self.f, self.of, key, descending=True)

    def _fill(self, row: Index, lane: Value) -> None:
        f = self.f
        f.loop(0, self.room, 1, lambda place: self._put(self._element(row, place), place, place, lane))
        f.store(f.const(self.room), self.seen, lane)

    def _collect(self, row: Index, lane: Value, left: Value) -> list[Value]:
        """Candidates of a row. Whether there were elements left, of it or others before."""
        f = self.f
        start = f.load(I64, self.seen, lane)

        def more() -> Value:
            bar = self._value(f.load(I64, self.memory, self._at(self.k - 1, lane)))
            after, count = look_through(
                f,
                self.of,
                lambda number, lanes: self._element(row, number, lanes),
                lambda value, number, place: self._put(value, number, place, lane),
                bar,
                (start, f.const(self.k)),
                (self.size, self.room),
                self.vector_lanes,
            )
            f.loop(
                count, self.room, 1, lambda place: f.store(f.const((1 << 63) - 1), self.memory, self._at(place, lane))
            )
            f.store(after, self.seen, lane)
            return f.const(1)

        return f.if_(f.cmp("slt", start, f.const(self.size)), more, lambda: left)

    def _write(self, row: Index, lane: Value) -> None:
        f = self.f
        to = f.imul(row, self.k)

        def one(place: Value) -> None:
            record = f.load(I64, self.memory, self._at(place, lane))
            types.store(f, self.of, self._value(record), f.parameters["out0"], f.iadd(to, place))
            types.store(f, ELEMENTS["i32"], f.cast("trunc", record, I32), f.parameters["out1"], f.iadd(to, place))

        f.loop(0, self.k, 1, one)


def _by_insertion(f: Function, of: Element, source: Value, sizes: tuple[int, int, int], lanes: int) -> Kernel:
    """Groups of rows: each element of theirs is put among the best so far, and the least of those leaves."""
    rows, size, k = sizes
    groups, word, places_at = -(-rows // lanes), ScalarType(f"i{of.bits}", of.bits), k * lanes * of.bytes
    memory = f.private, f.gep(f.private, places_at, I8)

    def group(number: Value) -> None:
        numbers = rows_of(f, number, lanes, rows)

        def step(place: Index, *held: Value, count: Value | None = None) -> list[Value]:
            given = load(f, of, f.gep(source, place, of.storage), [f.imul(row, size) for row in numbers])
            keys = signed(f, ordered(f, of, given, descending=False))
            record = keys, f.splat(f.cast("trunc", f.index(place), I32), lanes)
            kept = _inserted(f, [*zip(held[::2], held[1::2], strict=True)], record, count)
            return [part for each in kept for part in each]

        none = [f.const(0, vector(lanes, bits)) for bits in (word, I32)] * k
        first = f.loop(0, k, 1, lambda place, *held: step(place, *held, count=f.index(place)), none)
        best = f.loop(k, size, 1, step, first)
        for place, (keys, places) in enumerate(zip(best[::2], best[1::2], strict=True)):
            f.store(keys, memory[0], place * lanes)
            f.store(places, memory[1], place * lanes)
        f.loop(0, k, 1, lambda place: write(numbers, place))

    def write(numbers: Sequence[Index], place: Value) -> None:
        at, to = f.imul(place, lanes), [f.iadd(f.imul(row, k), place) for row in numbers]
        keys = signed(f, f.load(vector(lanes, word), memory[0], at))
        store(f, of, unordered(f, of, keys, descending=False), f.parameters["out0"], to)
        store(f, ELEMENTS["i32"], f.load(vector(lanes, I32), memory[1], at), f.parameters["out1"], to)

    f.loop(f.begin, f.end, 1, group)
    cost = lanes * (size + k) * MOVE_NS + size * k * INSERT_NS
    return Kernel.of(phase(f, groups, cost), private_bytes=places_at + 4 * k * lanes)


def _inserted(f: Function, held: Sequence[Record], record: Record, count: Value | None) -> list[Record]:
    """Records in descending order, with one more behind its equals: what it beats moves down by one place. Those from
    number `count` on are none yet."""
    result, above, beaten = list[Record](), record, None
    for number, each in enumerate(held):
        beats = f.cmp("sgt", record[0], each[0])
        if count is not None:
            is_none = f.cmp("sge", f.const(number), count)
            beats = f.binary("or", beats, f.splat(is_none, beats.type.lanes))
        new = above if beaten is None else _chosen(f, beaten, above, record)
        result.append(_chosen(f, beats, new, each))
        above, beaten = each, beats
    return result


def _chosen(f: Function, condition: Value, one: Record, other: Record) -> Record:
    return f.select(condition, one[0], other[0]), f.select(condition, one[1], other[1])
