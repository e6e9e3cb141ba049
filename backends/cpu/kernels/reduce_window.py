"""Windowed reductions (pooling): `hlo.reduce_window` with a simple combiner, and the general `stablehlo.reduce_window`.

Each output position combines the in-bounds part of its window; padding never enters, since it holds the initial value.
Lanes run along the last dimension, also where the window moves along it (sliding.py); the kernel is scalar where there
are too few outputs for that. Windows that lie in the operand whole have code for each of their places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import offset, unravel
from stablehlo_py.backends.common.windows import is_whole, over_whole_window, over_window, window_place
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import last_lanes, operand, scalar_operand
from stablehlo_py.backends.cpu.kernels.cumulative import cumulative_dimension, emit_cumulative
from stablehlo_py.backends.cpu.kernels.iteration import STRAIGHT
from stablehlo_py.backends.cpu.kernels.sliding import Sliding, sliding_lanes
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import arith, types
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.region import Combiner, combiner
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.symint import is_known, minimum, size_hint
from stablehlo_py.dialect.types import num_elements, shape, text
from stablehlo_py.dialect.window import beyond_one, windows_of
from stablehlo_py.mlir import ir

TOGETHER = 64  # vectors of a row that are one iteration
UNROLLED = 25  # places of a window
PLACE_NS, ROW_NS = 0.5, 2.0  # of a place of a window, for a vector; of an iteration


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over output positions."""
    op = fusion.op("hlo.reduce_window", "stablehlo.reduce_window")
    windows = windows_of(op)
    f = phase_function(fusion, target)
    combine = _combine(f, op)
    dimension = cumulative_dimension(windows)
    if dimension is not None:
        return emit_cumulative(f, fusion, target, op, dimension, windows[dimension], combine)
    count = len(op.operands) // 2
    dimensions = beyond_one(windows)
    windows = [windows[dimension] for dimension in dimensions]
    sizes, operand_sizes = ([shape(value)[d] for d in dimensions] for value in (op.results[0], op.operands[0]))
    elements = [element(value) for value in op.operands[:count]]
    inputs = [operand(f, fusion, value) for value in op.operands[:count]]
    strides, output_strides = row_major_strides(operand_sizes), row_major_strides(sizes)
    last = len(sizes) - 1
    lanes = target.lanes(max(of.storage.bits for of in elements)) if windows and sizes[last] != 1 else 1
    if lanes > 1 and not windows[last].trivial:
        lanes = sliding_lanes(windows[last], sizes[last], lanes) if is_known(sizes[last]) else 1
    sliding = None
    if lanes > 1 and not windows[last].trivial:
        sliding = Sliding(f, windows[last], lanes, inputs, elements, combine, num_elements(op.operands[0]))
    blocks = -(-sizes[last] // lanes) if lanes > 1 else 1
    outer = list(sizes[:-1]) if lanes > 1 else list(sizes)

    def vector(place: Sequence[Index], column: Index, whole: bool, between_ends: bool) -> None:
        mask = None
        if sliding is not None:
            column = f.imin(column, sizes[last] - lanes)  # the last vector overlaps the one before
        elif lanes > 1:
            column, mask = last_lanes(f, column, sizes[last], lanes)
        carries = [scalar_operand(f, fusion, value, lanes) for value in op.operands[count:]]

        def meet(at: Index, values: list[Lanes]) -> list[Lanes]:
            if sliding is not None:
                return sliding.fold(at, column, values, between_ends=between_ends)
            at = f.iadd(at, column)
            loaded = [types.load(f, of, base, at, lanes, mask) for of, base in zip(elements, inputs, strict=True)]
            return combine([*values, *loaded])

        fold = over_whole_window if whole else over_window
        results = fold(f, windows[: len(outer)], place, strides, carries, meet)
        to = f.iadd(offset(f, place, output_strides[: len(outer)]), column)
        for n, (of, value) in enumerate(zip(elements, results, strict=True)):
            types.store(f, of, arith.rounded(f, of, value), f.parameters[f"out{n}"], to, mask)

    # Of a few vectors each has code of its own, which knows where windows leave the row.
    straight = sliding is not None and is_known(blocks) and blocks <= STRAIGHT
    together = minimum(blocks, TOGETHER)
    parts = -(-blocks // together)
    unrolled = UNROLLED // 5 if sliding is not None else UNROLLED  # each place of a sliding window is a window, too

    def lies_between_ends(sliding: Sliding, place: Sequence[Index]) -> Value:
        rows = windows[: len(outer)]
        corners = [0] * len(outer), [int(window.width) - 1 for window in rows]
        first, last_row = (window_place(f, rows, place, strides, corner) for corner in corners)
        return sliding.between_ends(first, last_row, sizes[last])

    def row(i: Value) -> None:
        place = unravel(f, f.idiv(i, parts), outer)
        first = f.imul(f.irem(i, parts), together)
        end = f.imin(f.iadd(first, together), blocks)

        def vectors(whole: bool, *, between_ends: bool) -> None:
            if straight:
                for number in range(int(blocks)):
                    vector(place, number * lanes, whole, between_ends)
            else:
                f.loop(
                    first,
                    end,
                    1,
                    lambda number: vector(place, f.imul(number, lanes), whole, between_ends),
                    nonempty=True,
                )

        whole = is_whole(f, windows[: len(outer)], place, unrolled)
        if isinstance(whole, bool):
            vectors(whole, between_ends=False)
            return
        if sliding is not None:
            whole = f.binary("and", whole, lies_between_ends(sliding, place))
        f.if_(whole, lambda: vectors(True, between_ends=True), lambda: vectors(False, between_ends=False))

    f.loop(f.begin, f.end, 1, row)
    vector_ns = PLACE_NS * size_hint(math.prod(window.width for window in windows)) + 1
    return Kernel.of(phase(f, math.prod(outer) * parts, size_hint(together) * vector_ns + ROW_NS))


def _combine(f: Function, op: ir.OpView) -> Combiner:
    if op.operation.name == "stablehlo.reduce_window":
        return combiner(f, op)
    kind, of = text(op, "kind"), element(op.results[0])
    return lambda values: [arith.combine(f, kind, of, *values)]  # narrow floats are rounded when stored only
