"""Windowed reductions (pooling): `hlo.reduce_window` with a simple combiner, and the general `stablehlo.reduce_window`.

Each output position combines the in-bounds part of its window; padding never enters, since it holds the initial value.
Lanes run along the last dimension, also where the window moves along it (sliding.py); the kernel is scalar where there
are too few outputs for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from stablehlo_py.backends.cpu.kernels.base import Fusion, Kernel, Phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import offset, operand, scalar_operand, unravel
from stablehlo_py.backends.cpu.kernels.cumulative import cumulative_dimension, emit_cumulative
from stablehlo_py.backends.cpu.kernels.sliding import Sliding, sliding_lanes
from stablehlo_py.backends.cpu.kernels.windows import Window, flattened, grouped, windows_of
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import ARITH, rounded
from stablehlo_py.codegen.builder import I1, Function, Index, Value
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.size import always_at_most, estimate, is_known
from stablehlo_py.dialect.types import shape, text
from stablehlo_py.mlir import ir


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over output positions."""
    op = next(op for op in fusion.ops if op.operation.name in ("hlo.reduce_window", "stablehlo.reduce_window"))
    windows = windows_of(op)
    dimension = cumulative_dimension(windows)
    if dimension is not None:
        return emit_cumulative(fusion, target, op, dimension, windows[dimension], _combine)
    f = phase_function(fusion, fusion.name)
    count = len(op.operands) // 2
    sizes = shape(op.results[0])
    elements = [element(value) for value in op.operands[:count]]
    inputs = [operand(f, fusion, value) for value in op.operands[:count]]
    strides, output_strides = row_major_strides(shape(op.operands[0])), row_major_strides(sizes)
    combine = _combine(f, op)
    last = len(sizes) - 1
    lanes = 1
    if windows and sizes[last] != 1 and not any(of.is_complex for of in elements):
        lanes = target.lanes(max(of.storage.bits for of in elements))
        if not windows[last].trivial:
            lanes = sliding_lanes(windows[last], sizes[last], lanes) if is_known(sizes[last]) else 1
    sliding = (
        Sliding(f, windows[last], lanes, inputs, elements, combine) if lanes > 1 and not windows[last].trivial else None
    )
    blocks = -(-sizes[last] // lanes) if lanes > 1 else 1
    outer = list(sizes[:-1]) if lanes > 1 else list(sizes)

    def position(i: Value) -> None:
        place = unravel(f, f.idiv(i, blocks), outer)
        column: Index = f.imul(f.irem(i, blocks), lanes) if lanes > 1 else 0
        mask = None
        if sliding is not None:
            column = f.imin(column, sizes[last] - lanes)  # the last vector overlaps the one before
        elif lanes > 1 and sizes[last] % lanes:
            mask = f.tail_mask(f.isub(sizes[last], column), lanes)
        carries = [scalar_operand(f, fusion, value, lanes) for value in op.operands[count:]]

        def meet(at: Index, values: list[Lanes]) -> list[Lanes]:
            if sliding is not None:
                return sliding.fold(at, column, values)
            at = f.iadd(at, column)
            loaded = [types.load(f, of, base, at, lanes, mask) for of, base in zip(elements, inputs, strict=True)]
            return combine([*values, *loaded])

        results = over_window(f, windows[: len(outer)], place, strides, carries, meet)
        to = f.iadd(offset(f, place, output_strides[: len(outer)]), column)
        for n, (of, value) in enumerate(zip(elements, results, strict=True)):
            types.store(f, of, rounded(f, of, value), f.parameters[f"out{n}"], to, mask)

    f.loop(f.begin, f.end, 1, position)
    f.ret()
    cost = 1.0 * estimate(math.prod(window.width for window in windows)) + 2
    iterations = math.prod(outer) * blocks
    phase = Phase(fusion.name, iterations, COSTS.grain(cost, COSTS.op_grain_ns), cost)
    return Kernel((f.text(target.function_attributes),), (phase,))


def _combine(f: Function, op: ir.OpView) -> Callable[[list[Lanes]], list[Lanes]]:
    if op.operation.name == "stablehlo.reduce_window":
        return combiner(f, op)
    rule = ARITH[text(op, "kind")]  # narrow floats: rounded where they are stored, not at every step
    return lambda values: [rule(f, op, values)]


def over_window(
    f: Function,
    windows: Sequence[Window],
    place: Sequence[Index],
    strides: Sequence[int],
    carries: list[Lanes],
    body: Callable[[Index, list[Lanes]], list[Lanes]],
    at: Index = 0,
) -> list[Lanes]:
    """Fold `body(operand offset, carries)` over the in-bounds operand positions of the window at output position
    `place`; offsets begin at `at`."""
    if not windows:
        return body(at, carries)
    window, index, stride = windows[0], place[0], strides[0]

    def rest(position: Index, values: list[Lanes]) -> list[Lanes]:
        below = f.iadd(at, f.imul(position, stride))
        return over_window(f, windows[1:], place[1:], strides[1:], values, body, below)

    if window.trivial:
        return rest(index, carries)
    start = f.isub(f.imul(index, window.stride), window.low)

    def step(number: Index, *flat: Value) -> list[Value]:
        spot = f.iadd(start, f.imul(number, window.dilation))

        def inside(position: Index) -> list[Value]:
            return flattened(rest(position, grouped(flat, carries)))

        if window.base_dilation == 1 and window.dilation == 1:
            return inside(spot)
        return _guarded(f, window, spot, inside, list(flat))

    low: Index = 0
    high: Index = window.width
    if window.base_dilation == 1 and window.dilation == 1:
        padded = not (always_at_most(window.low, 0) and always_at_most(window.high, 0))
        low = f.imax(0, f.isub(0, start)) if padded else 0
        high = f.imin(window.width, f.isub(window.size, start)) if padded else window.width
    return grouped(f.loop(low, high, 1, step, flattened(carries)), carries)


def _guarded(
    f: Function, window: Window, spot: Index, inside: Callable[[Index], list[Value]], flat: list[Value]
) -> list[Value]:
    """Run `inside` where a dilated position falls on an operand element."""
    position = f.index(spot)
    reach = (window.size - 1) * window.base_dilation
    good = f.binary("and", f.cmp("sge", position, f.const(0)), f.cmp("sle", position, f.index(reach)))
    if window.base_dilation > 1:
        on_element = f.cmp("eq", f.index(f.irem(position, window.base_dilation)), f.const(0))
        good = f.binary("and", good, on_element)
    assert good.type is I1
    return f.if_(good, lambda: inside(f.idiv(position, window.base_dilation)), lambda: flat)
