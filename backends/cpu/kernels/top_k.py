"""The k largest elements of each row, in descending total order, ties by lower index.

Of many short rows and very small k a row is a lane, and the best so far are vectors. Else, for small k, the best so far
are kept sorted, and most elements fail one comparison. For larger k the best so far and a buffer of candidates are
sorted together whenever the buffer is full. Where k is most of the row, the row is sorted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from stablehlo_py.backends.common.comparators import ordered, unordered
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import full_lanes, operand
from stablehlo_py.backends.cpu.kernels.merge import Sorter, merge_passes, rooms
from stablehlo_py.backends.cpu.kernels.side_by_side import LONGEST, MOVE_NS, load, rows_of, store
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import compare
from stablehlo_py.codegen.builder import I32, I64, Function, Index, ScalarType, Value
from stablehlo_py.codegen.types import ELEMENTS, Element, Lanes, element
from stablehlo_py.dialect.formats import FORMATS, Specials
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import shape, symint

FEW = 8  # of each row, where rows are lanes
INSERT_NS = 1.5  # of a vector of records, for each that it is compared with
SMALL_K = 32
MIN_CANDIDATES = 64
VECTORS = 4  # that are looked through at once

Record: TypeAlias = "tuple[Value, Value]"  # keys as signed integers, and places


def greater(f: Function, of: Element, a: Lanes, b: Lanes) -> Value:
    """a > b in total order."""
    return compare(f, "GT", of, a, b, total_order=True)


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over rows."""
    op = fusion.op("hlo.top_k")
    sizes, k = shape(op.operands[0]), int(symint(op, "k"))
    size, rows = int(sizes[-1]), math.prod(sizes[:-1])
    of, indices = element(op.operands[0]), element(op.results[1])
    f = phase_function(fusion, target)
    source = operand(f, fusion, op.operands[0])
    lanes = target.lanes(max(32, of.bits))
    if 0 < k <= FEW and k < size <= LONGEST and is_known(rows) and 1 < lanes <= rows:
        return _side_by_side(f, of, source, (int(rows), size, k), lanes)
    keep = k <= SMALL_K and k < size
    capacity = k + max(k, MIN_CANDIDATES)
    select = not keep and 2 * capacity <= size
    count = k if keep else capacity if select else size
    groups, used = rooms(f, (of, indices), count, 1 if keep else 2)
    columns, spare = groups[0], groups[-1]

    def before(a: Sequence[Lanes], b: Sequence[Lanes]) -> Value:
        return greater(f, of, a[0], b[0])

    def row(i: Value) -> None:
        base, to = f.imul(i, size), f.imul(i, k)
        if keep:
            best = columns
            _keep_best(f, of, indices, source, base, size, k, columns, full_lanes(target, [of]))
        elif select:
            best = columns
            sorter = Sorter(f, [of, indices], columns, spare, before)
            _select(sorter, lambda j: types.load(f, of, source, f.iadd(base, j)), size, k, capacity)
        else:

            def fetch(j: Index) -> None:
                types.store(f, of, types.load(f, of, source, f.iadd(base, j)), columns[0], j)
                types.store(f, indices, f.cast("trunc", f.index(j), I32), columns[1], j)

            f.loop(0, size, 1, fetch)
            best = Sorter(f, [of, indices], columns, spare, before).sort(size)

        def put(j: Value) -> None:
            for number, one in enumerate((of, indices)):
                types.store(f, one, types.load(f, one, best[number], j), f.parameters[f"out{number}"], f.iadd(to, j))

        f.loop(0, k, 1, put)

    if k:
        f.loop(f.begin, f.end, 1, row)
    cost = size * 0.5 + k * k if keep else size * (4.0 + 3.0 * merge_passes(size))
    if select:
        cost = size * 2.0 + 4 * capacity * (4.0 + 3.0 * merge_passes(capacity))
    return Kernel.of(phase(f, rows if k else 0, cost), private_bytes=used)


def _side_by_side(f: Function, of: Element, source: Value, sizes: tuple[int, int, int], lanes: int) -> Kernel:
    """Groups of rows: each element of theirs is put among the best so far, and the least of those leaves."""
    rows, size, k = sizes
    groups = -(-rows // lanes)

    def signed(value: Value) -> Value:
        """Between unsigned integers and signed ones in the same order, which processors compare."""
        return f.binary("xor", value, f.const(-1 << (value.type.element.bits - 1), value.type))

    def group(number: Value) -> None:
        numbers = rows_of(f, number, lanes, rows)

        def element_at(place: Index) -> Record:
            given = load(f, of, source, [f.iadd(f.imul(row, size), place) for row in numbers])
            return signed(ordered(f, of, given, descending=False)), f.splat(f.cast("trunc", f.index(place), I32), lanes)

        best: list[Record] = []
        for place in range(k):
            best = _inserted(f, best, element_at(place))

        def step(place: Value, *held: Value) -> list[Value]:
            kept = _inserted(f, [*zip(held[::2], held[1::2], strict=True)], element_at(place))[:k]
            return [part for record in kept for part in record]

        found = f.loop(k, size, 1, step, [part for record in best for part in record])
        for place, (keys, places) in enumerate(zip(found[::2], found[1::2], strict=True)):
            to = [f.iadd(f.imul(row, k), place) for row in numbers]
            store(f, of, unordered(f, of, signed(keys), descending=False), f.parameters["out0"], to)
            store(f, ELEMENTS["i32"], places, f.parameters["out1"], to)

    f.loop(f.begin, f.end, 1, group)
    return Kernel.of(phase(f, groups, lanes * (size + k) * MOVE_NS + size * k * INSERT_NS))


def _inserted(f: Function, held: Sequence[Record], record: Record) -> list[Record]:
    """Records in descending order, with one more behind its equals: what it beats moves down by one place."""
    result, above, beaten = list[Record](), record, None
    for each in held:
        beats = f.cmp("sgt", record[0], each[0])
        new = above if beaten is None else _chosen(f, beaten, above, record)
        result.append(_chosen(f, beats, new, each))
        above, beaten = each, beats
    return [*result, record if beaten is None else _chosen(f, beaten, above, record)]


def _chosen(f: Function, condition: Value, one: Record, other: Record) -> Record:
    return f.select(condition, one[0], other[0]), f.select(condition, one[1], other[1])


def _keep_best(
    f: Function,
    of: Element,
    indices: Element,
    source: Value,
    base: Index,
    size: int,
    k: int,
    best: list[Value],
    lanes: int,
) -> None:
    """Insert each element into the sorted best k (best[0]: values, best[1]: indices) when it beats the last one."""

    def insert(value: Lanes, number: Index, last: Index) -> None:
        """Shift smaller ones down from position `last`, and put the value."""

        def unsettled(j: Value) -> Value:
            previous = types.load(f, of, best[0], f.imax(f.isub(j, 1), 0))
            return f.binary("and", f.cmp("sgt", j, f.const(0)), greater(f, of, value, previous))

        def shift(j: Value) -> list[Value]:
            previous = f.isub(j, 1)
            for one, column in zip((of, indices), best, strict=True):
                types.store(f, one, types.load(f, one, column, previous), column, j)
            return [f.index(previous)]

        (place,) = f.while_([f.index(last)], unsettled, shift)
        types.store(f, of, value, best[0], place)
        types.store(f, indices, f.cast("trunc", f.index(number), I32), best[1], place)

    def first(j: Index) -> None:
        insert(types.load(f, of, source, f.iadd(base, j)), j, j)

    f.loop(0, k, 1, first)

    def rest(j: Index) -> None:
        value = types.load(f, of, source, f.iadd(base, j))
        beats = greater(f, of, value, types.load(f, of, best[0], k - 1))

        def better() -> None:
            insert(value, j, k - 1)

        f.if_(beats, better)

    def block(start: Index) -> None:
        """Most blocks have none that beats the last one: a few vector compares say so."""
        bar = types.splat(f, types.load(f, of, best[0], k - 1), lanes)
        loaded = [
            types.load(f, of, source, f.iadd(base, f.iadd(start, lanes * each)), lanes) for each in range(VECTORS)
        ]
        found = greater(f, of, loaded[0], bar)
        for values in loaded[1:]:
            found = f.binary("or", found, greater(f, of, values, bar))
        f.if_(f.reduce_lanes("or", found), lambda: f.loop(start, f.iadd(start, many), 1, rest))

    many = VECTORS * lanes
    whole = k + (size - k) // many * many
    f.loop(k, whole, many, block)
    f.loop(whole, size, 1, rest)


def _select(sorter: Sorter, fetch: Callable[[Index], Lanes], size: int, k: int, capacity: int) -> None:
    """The first `capacity` elements, then every one that beats the k-th best, go behind the best k; whenever there are
    `capacity` of them, they are sorted. The order of equal elements holds: earlier ones stand before later ones."""
    f, (of, indices) = sorter.f, sorter.elements
    values, numbers = sorter.columns
    lowest = _lowest(f, of)

    def collect(start: Value, count: Value) -> list[Value]:
        """Candidates from `start` on, until there is no more room or element."""
        bar = types.load(f, of, values, k - 1)
        everything = f.cmp("eq", start, f.const(0))

        def room(j: Value, count: Value) -> Value:
            return f.binary("and", f.cmp("slt", j, f.const(size)), f.cmp("slt", count, f.const(capacity)))

        def step(j: Value, count: Value) -> list[Value]:
            value = fetch(j)
            types.store(f, of, value, values, count)
            types.store(f, indices, f.cast("trunc", j, I32), numbers, count)
            taken = f.binary("or", everything, greater(f, of, value, bar))
            return [f.index(f.iadd(j, 1)), f.binary("add", count, f.cast("zext", taken, I64))]

        return f.while_([start, count], room, step)

    def sort_round(start: Value, count: Value) -> list[Value]:
        start, count = collect(start, count)
        f.loop(count, capacity, 1, lambda at: f.store(lowest, values, at))  # behind its equals
        result = sorter.sort(capacity)
        if result != sorter.columns:
            for one, source, target in zip((of, indices), result, sorter.columns, strict=True):
                f.copy_memory(target, source, k * one.bytes)
        return [start, f.const(k)]

    f.while_([f.const(0), f.const(0)], lambda start, _: f.cmp("slt", start, f.const(size)), sort_round)


def _lowest(f: Function, of: Element) -> Value:
    """The bits of the least value in total order."""
    integer = ScalarType(f"i{of.storage.bits}", of.storage.bits)
    if of.is_float:
        signed = FORMATS[of.name].specials is not Specials.SCALE
        return f.const(-1 if signed else 0, integer)
    return f.const(0 if of.unsigned else -(1 << (of.bits - 1)), integer)
