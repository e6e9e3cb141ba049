"""Windows that reach from one end of a dimension to the output's place (cumulative sums, maxima ...): one pass.

`jax.lax.cumsum` arrives as a `reduce_window` as wide as the dimension, with padding on one side. Output element i
combines operand elements 0..i (or i..end): what the place before it holds, and one element more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import fold
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase
from stablehlo_py.backends.cpu.kernels.common import last_lanes, operand, scalar_operand
from stablehlo_py.backends.cpu.kernels.iteration import power_of_two
from stablehlo_py.backends.cpu.kernels.strips import STRIP_BYTES, walk_strip
from stablehlo_py.backends.cpu.kernels.transposing import transposed
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import rounded
from stablehlo_py.codegen.builder import Function, Index, Value, vector
from stablehlo_py.codegen.region import Combiner
from stablehlo_py.codegen.types import Element, Lanes, element
from stablehlo_py.dialect.symint import IntLike, always_at_most, always_less, is_known, size_hint
from stablehlo_py.dialect.types import shape
from stablehlo_py.dialect.window import Window
from stablehlo_py.mlir import ir

STEP_COST = 1.5  # nanoseconds for one step: the combiner's latency, a load, a store
MOST_VECTORS = 4
FEWEST_BLOCKS = 4  # for threads


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
    """One phase; an iteration walks the dimension once, for as many neighbours behind it as some vectors hold, or rows
    where it is the last one."""
    count = len(op.operands) // 2
    sizes = shape(op.operands[0])
    length, inner = sizes[dimension], math.prod(sizes[dimension + 1 :])
    elements = [element(value) for value in op.operands[:count]]
    inputs = [operand(f, fusion, value) for value in op.operands[:count]]
    backwards = window.low == 0 and length != 1
    rows, across = math.prod(sizes[:dimension]), _lanes_of_rows(target, elements)
    if inner == 1 and across > 1 and always_at_most(across, rows) and is_known(length) and length >= across:

        def group(i: Value) -> None:
            row = f.imin(f.imul(i, across), rows - across)
            held = [scalar_operand(f, fusion, value, across) for value in op.operands[count:]]
            _rows(f, elements, inputs, f.imul(row, length), int(length), across, backwards, held, combine)

        f.loop(f.begin, f.end, 1, group)
        return Kernel.of(phase(f, -(-rows // across), 2 * STEP_COST * int(length)))

    def start(lanes: int) -> list[Lanes]:
        return [scalar_operand(f, fusion, value, lanes) for value in op.operands[count:]]

    lanes = target.lanes(max(of.storage.bits for of in elements)) if inner != 1 else 1
    return _Columns(f, elements, inputs, (rows, length, inner), lanes, backwards, start, combine).emit(target)


class _Columns:
    """Walks of neighbours along a dimension that is not the last one: [rows, length, inner]. What a block of them holds
    stays in registers; of arrays that the L2 cache does not hold, blocks of a page meet some rows one after the other,
    and what they hold waits in the L1 cache (strips.py)."""

    def __init__(
        self,
        f: Function,
        elements: Sequence[Element],
        inputs: Sequence[Value],
        sizes: tuple[IntLike, IntLike, IntLike],
        lanes: int,
        backwards: bool,
        start: Callable[[int], list[Lanes]],
        combine: Combiner,
    ) -> None:
        self.f, self.elements, self.inputs, self.lanes = f, elements, inputs, lanes
        self.outer, self.length, self.inner = sizes
        self.backwards, self.start, self.combine = backwards, start, combine
        self.vectors = self._vectors()
        self.block = self.vectors * lanes
        self.blocks = -(-self.inner // self.block)

    def _vectors(self) -> int:
        """Vectors of a block: independent chains, of some lines of a row. One where their number comes with a call."""
        if self.lanes == 1 or not is_known(self.outer, self.inner):
            return 1
        most = max(1, MOST_VECTORS // sum(2 if of.is_complex else 1 for of in self.elements))
        fewest_blocks = int(self.outer * self.inner) // (self.lanes * FEWEST_BLOCKS)
        return power_of_two(min(most, int(self.inner) // self.lanes, fewest_blocks))

    def emit(self, target: CpuTarget) -> Kernel:
        f, strip = self.f, self._strip(target)
        strips = -(-self.blocks // strip)
        cost = STEP_COST * size_hint(self.length) * self.vectors

        def one(i: Value) -> None:
            first, number = f.imul(f.idiv(i, strips), self.length * self.inner), f.irem(i, strips)
            if strip == 1:
                self._walk(first, number, 0, self.length, self.start(self.lanes) * self.vectors)
            else:
                self._walk_strip(first, f.imul(number, strip), strip)

        f.loop(f.begin, f.end, 1, one)
        together = min(strip, int(self.blocks)) if strip > 1 else 1
        return Kernel.of(phase(f, self.outer * strips, cost * together))

    def _strip(self, target: CpuTarget) -> int:
        """Blocks of a strip; 1: there are none."""
        widest = max(of.bytes for of in self.elements)
        if self.lanes == 1 or not is_known(self.outer, self.length, self.inner) or self.inner < self.block:
            return 1
        if int(self.outer * self.length * self.inner) * widest <= target.l2:
            return 1
        fair = int(self.outer * self.blocks) // FEWEST_BLOCKS
        return max(1, min(STRIP_BYTES // (self.block * widest), fair))

    def _walk_strip(self, first: Index, begin: Index, strip: int) -> None:
        blocks = begin, self.f.imin(self.f.iadd(begin, strip), self.blocks)
        start = self.start(self.lanes) * self.vectors
        walk = partial(self._walk, first)
        held = [*self.elements] * self.vectors
        walk_strip(self.f, held, self.lanes, blocks, strip, (0, self.length), lambda: start, walk)

    def _walk(self, first: Index, block: Index, low: Index, high: Index, held: list[Lanes]) -> list[Lanes]:
        """Rows from `low` to `high` of a block, after which it holds what is returned: all operands of a vector, then
        of the next one."""
        f, lanes, count = self.f, self.lanes, len(self.elements)
        columns, mask = self._columns(block)

        def step(number: Index, held: list[Lanes]) -> list[Lanes]:
            place = f.isub(self.length - 1, number) if self.backwards else number
            row = f.iadd(first, f.imul(place, self.inner))
            result: list[Lanes] = []
            for nth, column in enumerate(columns):
                at, before = f.iadd(row, column), held[nth * count : (nth + 1) * count]
                loaded = [
                    types.load(f, of, base, at, lanes, mask)
                    for of, base in zip(self.elements, self.inputs, strict=True)
                ]
                values = self.combine([*before, *loaded])
                for output, (of, value) in enumerate(zip(self.elements, values, strict=True)):
                    types.store(f, of, rounded(f, of, value), f.parameters[f"out{output}"], at, mask)
                result += values
            return result

        return fold(f, low, high, 1, held, step)

    def _columns(self, block: Index) -> tuple[list[Index], Value | None]:
        """Where the vectors of a block begin in a row, and the mask of one that may be shorter."""
        f, lanes = self.f, self.lanes
        if self.vectors == 1:
            column, mask = last_lanes(f, f.imul(block, lanes), self.inner, lanes)
            return [column], mask
        start = f.imul(block, self.block)
        if self.inner % self.block:
            start = f.imin(start, self.inner - self.block)  # the last block overlaps the one before
        return [f.iadd(start, vector * lanes) for vector in range(self.vectors)], None


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
