"""Select-and-scatter (the gradient of max pooling). Spec: section select_and_scatter.

Phase 1 fills the result with the initial value; phase 2 walks the source positions of one batch slice in order: the
window's selected place is found with a running best, then the source value is combined into it. Leading dimensions that
no window moves along are the parallel iterations, so threads never write the same element.
"""

from __future__ import annotations

import math

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import nest, offset
from stablehlo_py.backends.common.windows import over_window
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import copy_phase, full_lanes, operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I1, I64, Function, Index, Value, vector
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import Known, Lanes, element
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.symint import IntLike, size_hint
from stablehlo_py.dialect.types import shape
from stablehlo_py.dialect.window import Window, beyond_one, windows_of
from stablehlo_py.mlir import ir


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """Fill, then select and scatter."""
    op = fusion.op("stablehlo.select_and_scatter")
    windows = windows_of(op)
    dimensions = beyond_one(windows)
    windows = [windows[dimension] for dimension in dimensions]
    sizes, source_sizes = ([shape(value)[d] for d in dimensions] for value in op.operands[:2])
    fill_here = op.operands[2] in fusion.inputs
    filled = None if fill_here else copy_phase(fusion, op.operands[2], 0, target)
    f = phase_function(fusion, target, ".select")
    parallel = 0
    while parallel < len(sizes) - 1 and windows[parallel].trivial:
        parallel += 1
    iterations = math.prod(sizes[:parallel])
    slice_elements = math.prod(sizes[parallel:])
    of = element(op.operands[0])
    _emit(f, fusion, op, windows, (sizes, source_sizes), parallel, target, fill=fill_here)
    visits = size_hint(math.prod(source_sizes[parallel:])) * size_hint(math.prod(window.width for window in windows))
    cost = 3.0 * visits + size_hint(slice_elements)
    selected = phase(f, iterations, cost / (4 if not of.is_complex else 1))
    return Kernel.of(filled, selected) if filled else Kernel.of(selected)


def _emit(
    f: Function,
    fusion: Fusion,
    op: ir.OpView,
    windows: list[Window],
    shapes: tuple[list[IntLike], list[IntLike]],
    parallel: int,
    target: CpuTarget,
    *,
    fill: bool,
) -> None:
    sizes, source_sizes = shapes  # with the windows, of the operand and of the source
    strides, source_strides = row_major_strides(sizes), row_major_strides(source_sizes)
    # The one type is compared in, the other summed in (legalize/reduction.py).
    of, summed = element(op.operands[0]), element(op.results[0])
    source_pointer, pointer = operand(f, fusion, op.operands[1]), operand(f, fusion, op.operands[0])
    out = f.parameters["out0"]
    select, scatter = combiner(f, op, 0), combiner(f, op, 1)
    last = len(sizes) - 1
    vectorized = bool(windows) and windows[last].trivial and sizes[last] != 1 and not of.is_complex
    lanes = full_lanes(target, [of]) if vectorized else 1
    inner_windows = windows[parallel:last] if vectorized else windows[parallel:]
    inner_sizes = source_sizes[parallel:last] if vectorized else source_sizes[parallel:]

    def batch(i: Value) -> None:
        base = f.imul(i, math.prod(sizes[parallel:]))
        source_base = f.imul(i, math.prod(source_sizes[parallel:]))
        if fill:
            initial = types.load(f, summed, operand(f, fusion, op.operands[2]), 0)
            f.loop(0, math.prod(sizes[parallel:]), 1, lambda j: types.store(f, summed, initial, out, f.iadd(base, j)))

        def place(indices: list[Index]) -> None:
            if not vectorized:
                window(indices, 0, None)
                return

            def columns(column: Value) -> None:
                mask = f.tail_mask(f.isub(sizes[last], column), lanes) if sizes[last] % lanes else None
                window(indices, column, mask)

            f.loop(0, sizes[last], lanes, columns)

        def window(indices: list[Index], column: Index, mask: Value | None) -> None:
            found_type, place_type = vector(lanes, I1), vector(lanes, I64)
            start = f.iadd(base, column)
            carries: list[Lanes] = [types.constant(f, of, 0, lanes), f.const(0, place_type), f.const(False, found_type)]

            def step(at: Index, values: list[Known]) -> list[Lanes]:
                best, where, found = values
                value = types.load(f, of, pointer, f.iadd(start, at), lanes, mask)
                better: Known = select([best, value])[0]
                keep = f.binary("and", better, found)
                spot = f.splat(f.index(at), lanes)
                return [types.select(f, keep, best, value), f.select(keep, where, spot), f.const(True, found_type)]

            chosen: list[Known] = over_window(f, inner_windows, indices, strides[parallel:], carries, step)
            _, where, found = chosen
            source_at = f.iadd(
                f.iadd(source_base, column), offset(f, indices, source_strides[parallel : parallel + len(indices)])
            )
            incoming = types.load(f, summed, source_pointer, source_at, lanes, mask)
            if mask is not None:
                found = f.binary("and", found, mask)
            for lane in range(lanes):
                put(lane, start, where, found, incoming)

        def put(lane: int, start: Index, where: Value, found: Value, incoming: Lanes) -> None:
            one_found = f.extract(found, lane) if lanes > 1 else found

            def combine() -> None:
                spot = f.extract(where, lane) if lanes > 1 else where
                value = types.each(lambda part: f.extract(part, lane), incoming) if lanes > 1 else incoming
                to = f.iadd(f.iadd(start, lane), spot)
                types.store(f, summed, scatter([types.load(f, summed, out, to), value])[0], out, to)

            f.if_(one_found, combine)

        nest(f, [(0, size) for size in inner_sizes], place)

    f.loop(f.begin, f.end, 1, batch)
