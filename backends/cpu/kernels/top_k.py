"""The k largest elements of each row, in descending total order, ties by lower index.

Many rows are taken side by side (top_k_side_by_side.py). Else, for small k, the best so far are kept sorted, and most
elements fail one comparison. For larger k the best so far and a buffer of candidates are sorted together whenever the
buffer is full. Where k is most of the row, the row is sorted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels import top_k_side_by_side
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.candidates import SMALL_K, Load, beating, each_bit, greater, look_through
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.kernels.merge import Sorter, merge_passes, rooms
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I32, Function, Index, ScalarType, Value
from stablehlo_py.codegen.types import Element, Lanes, element
from stablehlo_py.dialect.formats import FORMATS, Specials
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import shape, symint

MIN_CANDIDATES = 64
VECTORS = 4  # that are looked through at once


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over rows."""
    op = fusion.op("hlo.top_k")
    sizes, k = shape(op.operands[0]), int(symint(op, "k"))
    size, rows = int(sizes[-1]), math.prod(sizes[:-1])
    of, indices = element(op.operands[0]), element(op.results[1])
    f = phase_function(fusion, target)
    source = operand(f, fusion, op.operands[0])
    many = top_k_side_by_side.emit(f, of, source, (int(rows), size, k), target) if k and is_known(rows) else None
    if many is not None:
        return many
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

        def load(number: Index, lanes: int) -> Lanes:
            return types.load(f, of, source, f.iadd(base, number), lanes)

        if keep:
            best = columns
            _keep_best(f, of, indices, load, size, k, columns, target.lanes(32))
        elif select:
            best = columns
            sorter = Sorter(f, [of, indices], columns, spare, before)
            _select(sorter, load, size, k, capacity, target.lanes(32))
        else:

            def fetch(j: Index) -> None:
                types.store(f, of, load(j, 1), columns[0], j)
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


def _keep_best(
    f: Function,
    of: Element,
    indices: Element,
    load: Load,
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
        insert(load(j, 1), j, j)

    f.loop(0, k, 1, first)

    def rest(j: Index) -> None:
        value = load(j, 1)
        beats = greater(f, of, value, types.load(f, of, best[0], k - 1))
        f.if_(beats, lambda: insert(value, j, k - 1))

    def block(start: Index) -> None:
        """Most blocks have none that beats the last one: a few vector compares say so."""

        def one(number: Value) -> list[Value]:
            rest(f.iadd(start, number))  # which does not beat what others before it have put there
            return []

        each_bit(f, beating(f, of, load, start, types.load(f, of, best[0], k - 1), lanes, VECTORS), one)

    whole = k
    if lanes > 1:
        many = VECTORS * lanes
        whole += (size - k) // many * many
        f.loop(k, whole, many, block)
    f.loop(whole, size, 1, rest)


def _select(sorter: Sorter, load: Load, size: int, k: int, capacity: int, lanes: int) -> None:
    """The first `capacity` elements, then every one that beats the k-th best, go behind the best k; whenever there is
    no room for more, they are sorted. The order of equal elements holds: earlier ones stand before later ones."""
    f, (of, indices) = sorter.f, sorter.elements
    values, numbers = sorter.columns
    lowest = _lowest(f, of)

    def put(value: Lanes, number: Index, place: Index) -> None:
        types.store(f, of, value, values, place)
        types.store(f, indices, f.cast("trunc", f.index(number), I32), numbers, place)

    def collect(start: Value) -> Value:
        bar = types.load(f, of, values, k - 1)
        start, count = look_through(f, of, load, put, bar, (start, f.const(k)), (size, capacity), lanes)
        f.loop(count, capacity, 1, lambda at: f.store(lowest, values, at))  # behind its equals
        return start

    def turn(start: Value) -> list[Value]:
        result = sorter.sort(capacity)
        if result != sorter.columns:
            for one, source, target in zip((of, indices), result, sorter.columns, strict=True):
                f.copy_memory(target, source, k * one.bytes)
        return f.if_(f.cmp("slt", start, f.const(size)), lambda: collect(start), lambda: f.const(size + 1))

    f.loop(0, capacity, 1, lambda j: put(load(j, 1), j, j))
    f.while_([f.const(capacity)], lambda start: f.cmp("sle", start, f.const(size)), turn)


def _lowest(f: Function, of: Element) -> Value:
    """The bits of the least value in total order."""
    integer = ScalarType(f"i{of.storage.bits}", of.storage.bits)
    if of.is_float:
        signed = FORMATS[of.name].specials is not Specials.SCALE
        return f.const(-1 if signed else 0, integer)
    return f.const(0 if of.unsigned else -(1 << (of.bits - 1)), integer)
