"""Windows that reach from one end of a dimension to the output's place (cumulative sums, maxima ...): one pass.

`jax.lax.cumsum` arrives as a `reduce_window` as wide as the dimension, with padding on one side. Output element i
combines operand elements 0..i (or i..end): what the place before it holds, and one element more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import fold
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase
from stablehlo_py.backends.cpu.kernels.common import full_lanes, last_lanes, operand, scalar_operand
from stablehlo_py.backends.cpu.kernels.transposing import transposed
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import rounded
from stablehlo_py.codegen.builder import Function, Index, Value, vector
from stablehlo_py.codegen.region import Combiner
from stablehlo_py.codegen.types import Element, Lanes, element
from stablehlo_py.dialect.symint import always_at_most, always_less, is_known, size_hint
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
    """One phase; an iteration walks the dimension once, for as many neighbours behind it as a vector holds, or rows
    where it is the last one."""
    count = len(op.operands) // 2
    sizes = shape(op.operands[0])
    length, inner = sizes[dimension], math.prod(sizes[dimension + 1 :])
    elements = [element(value) for value in op.operands[:count]]
    inputs = [operand(f, fusion, value) for value in op.operands[:count]]
    lanes = full_lanes(target, elements) if inner != 1 else 1
    blocks = -(-inner // lanes)
    backwards = window.low == 0 and length != 1
    rows, across = math.prod(sizes[:dimension]), _lanes_of_rows(target, elements)
    if inner == 1 and across > 1 and always_at_most(across, rows) and is_known(length) and length >= across:

        def group(i: Value) -> None:
            row = f.imin(f.imul(i, across), rows - across)
            held = [scalar_operand(f, fusion, value, across) for value in op.operands[count:]]
            _rows(f, elements, inputs, f.imul(row, length), int(length), across, backwards, held, combine)

        f.loop(f.begin, f.end, 1, group)
        return Kernel.of(phase(f, -(-rows // across), 2 * STEP_COST * int(length)))

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
    return Kernel.of(phase(f, math.prod(sizes[:dimension]) * blocks, STEP_COST * size_hint(length)))


def _lanes_of_rows(target: CpuTarget, elements: Sequence[Element]) -> int:
    """Rows that are walked together: one a lane. Squares of more are too many registers."""
    widest = max(max(of.storage.bits, of.compute.bits, 32) for of in elements)
    return 1 if any(of.is_complex for of in elements) else target.lanes(widest)


def _rows(
    f: Function,
    elements: Sequence[Element],
    inputs: Sequence[Value],
    first: Index,
    length: int,
    lanes: int,
    backwards: bool,
    held: list[Lanes],
    combine: Combiner,
) -> None:
    """As many rows as lanes, from element `first` on, in squares that are transposed on the way in and out. Where
    lengths are not a multiple the first square is walked in part, and the second one overwrites the rest."""
    squares = [f.alloca(lanes * lanes, of.storage) for of in elements]
    outputs = [f.parameters[f"out{number}"] for number in range(len(elements))]

    def turn(of: Element, source: tuple[Value, Index, int], to: tuple[Value, Index, int]) -> None:
        """Copy a square, transposed; places are (pointer, element, step from row to row)."""
        raw = vector(lanes, of.storage)
        vectors = [f.load(raw, source[0], f.iadd(source[1], row * source[2])) for row in range(lanes)]
        for row, turned in enumerate(transposed(f, vectors)):
            f.store(turned, to[0], f.iadd(to[1], row * to[2]))

    def square(column: Index, steps: int, held: list[Lanes]) -> list[Lanes]:
        at = f.iadd(first, column)
        for of, source, inside in zip(elements, inputs, squares, strict=True):
            turn(of, (source, at, length), (inside, 0, lanes))

        def step(number: Index, held: list[Lanes]) -> list[Lanes]:
            place = f.imul(f.isub(lanes - 1, number) if backwards else number, lanes)
            loaded = [types.load(f, of, inside, place, lanes) for of, inside in zip(elements, squares, strict=True)]
            values = combine([*held, *loaded])
            for of, inside, value in zip(elements, squares, values, strict=True):
                types.store(f, of, rounded(f, of, value), inside, place)
            return values

        held = fold(f, 0, steps, 1, held, step)
        for of, inside, output in zip(elements, squares, outputs, strict=True):
            turn(of, (inside, 0, lanes), (output, at, length))
        return held

    rest = length % lanes
    if rest:
        held = square(length - lanes if backwards else 0, rest, held)

    def whole(number: Index, held: list[Lanes]) -> list[Lanes]:
        start = f.iadd(f.imul(number, lanes), rest)
        return square(f.isub(length - lanes, start) if backwards else start, lanes, held)

    fold(f, 0, length // lanes, 1, held, whole)
