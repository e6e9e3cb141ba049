"""Windows that reach from one end of a dimension to the output's place (cumulative sums, maxima ...): one pass.

`jax.lax.cumsum` arrives as a `reduce_window` as wide as the dimension, with padding on one side. Output element i
combines operand elements 0..i (or i..end): what the place before it holds, and one element more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import fold
from stablehlo_py.backends.cpu.kernels.base import Kernel, op_phase
from stablehlo_py.backends.cpu.kernels.common import full_lanes, last_lanes, operand, scalar_operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import rounded
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.region import Combiner
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.symint import always_at_most, always_less, size_hint
from stablehlo_py.dialect.types import shape
from stablehlo_py.dialect.window import Window
from stablehlo_py.mlir import ir

STEP_COST = 1.5  # nanoseconds for one step: the combiner's latency, a load, a store


def cumulative_dimension(windows: Sequence[Window]) -> int | None:
    """The dimension that the window runs over from one end, if that is what it does; None for any other window."""
    moving = [dimension for dimension, window in enumerate(windows) if not window.trivial]
    if len(moving) != 1:
        return None
    window = windows[moving[0]]
    plain = window.stride == window.base_dilation == window.dilation == 1
    plain = plain and always_at_most(window.size, window.width) and always_less(0, window.size)
    ends = (window.low, window.high) in ((window.width - 1, 0), (0, window.width - 1))
    return moving[0] if plain and ends else None


def emit_cumulative(
    f: Function, fusion: Fusion, target: CpuTarget, op: ir.OpView, dimension: int, window: Window, combine: Combiner
) -> Kernel:
    """One phase; an iteration walks the dimension once, for as many neighbours behind it as a vector holds."""
    count = len(op.operands) // 2
    sizes = shape(op.operands[0])
    length, inner = sizes[dimension], math.prod(sizes[dimension + 1 :])
    elements = [element(value) for value in op.operands[:count]]
    inputs = [operand(f, fusion, value) for value in op.operands[:count]]
    lanes = full_lanes(target, elements) if inner != 1 else 1
    blocks = -(-inner // lanes)
    backwards = window.low == 0 and length != 1

    def walk(i: Value) -> None:
        column, mask = last_lanes(f, f.imul(f.irem(i, blocks), lanes), inner, lanes)
        first = f.iadd(f.imul(f.idiv(i, blocks), length * inner), column)
        start = [scalar_operand(f, fusion, value, lanes) for value in op.operands[count:]]

        def step(number: Index, held: list[Lanes]) -> list[Lanes]:
            place = f.isub(length - 1, number) if backwards else number
            at = f.iadd(first, f.imul(place, inner))
            loaded = [types.load(f, of, base, at, lanes, mask) for of, base in zip(elements, inputs, strict=True)]
            values = combine([*held, *loaded])
            for output, (of, value) in enumerate(zip(elements, values, strict=True)):
                types.store(f, of, rounded(f, of, value), f.parameters[f"out{output}"], at, mask)
            return values

        fold(f, 0, length, 1, start, step)

    f.loop(f.begin, f.end, 1, walk)
    return Kernel.of(op_phase(f, math.prod(sizes[:dimension]) * blocks, STEP_COST * size_hint(length)))
