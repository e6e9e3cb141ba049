"""Fusions around one product: operands as strided views, the product's phases, the epilogue.

Three ways, from the fastest to the one that always works:

* operands are read where they lie (views.py), results leave the register tile through the epilogue;
* where the result's elements do not go evenly to the outputs, the raw product is written to scratch and a last phase
computes the outputs;
* where an operand is not a view of an input, a first phase writes it to scratch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from stablehlo_py.backends.common.contraction import Axes, Contraction, Dimensions, Operand, Source, scaled
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.views import is_elementwise, output_digits, view_of
from stablehlo_py.backends.cpu.kernels.arithmetic import arithmetic_of, memory_element
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.kernels.depthwise import Prepare
from stablehlo_py.backends.cpu.kernels.epilogue import ElementalEpilogue, emit_operand, emit_outputs
from stablehlo_py.backends.cpu.kernels.finished_tiles import Epilogue, StoreTo
from stablehlo_py.backends.cpu.kernels.product import KernelBuilder, emit_product, with_best_lanes
from stablehlo_py.backends.cpu.kernels.tiling import normalize
from stablehlo_py.backends.cpu.kernels.units import fitting_unit, units_of
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.index_map import Digits, digits_of
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import num_elements, shape
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir

AxesOf: TypeAlias = Callable[[Dimensions, Dimensions, Dimensions], "Axes | None"]


@dataclass(frozen=True)
class Frame:
    """A tensor of `sizes` that holds the result of the root from `origin` on."""

    sizes: tuple[IntLike, ...]
    origin: tuple[IntLike, ...]


class NoLoops(InternalError):
    """No layout of the result gives the contraction a contiguous axis for its lanes."""


def scratch_layouts(sizes: Sequence[IntLike]) -> Iterator[tuple[Digits, ...]]:
    """Dense layouts of a result: row-major, then those with another dimension innermost."""
    for innermost in reversed(range(len(sizes))):
        order = [d for d in range(len(sizes)) if d != innermost] + [innermost]
        digits: list[Digits] = [()] * len(sizes)
        for place, d in zip(digits_of([sizes[d] for d in order]), order, strict=True):
            digits[d] = place
        yield tuple(digits)
    if not sizes:
        yield ()


class Rooted:
    """A fusion with one product, `root`, on its way to a kernel."""

    def __init__(self, fusion: Fusion, target: CpuTarget, root: ir.OpView) -> None:
        self.fusion = fusion
        self.root = root
        self.target = target
        self.arithmetic = arithmetic_of(root.results[0])
        self.builder = KernelBuilder(fusion, target)

    def source(self, value: ir.Value, *, rounds: bool = False) -> Source:
        """Where an operand of the root is read: in an input if it is a view of one, else in scratch that a first phase
        fills. `rounds`: who reads it can round its numbers."""
        view = view_of(value, self.arithmetic.element, rounds=rounds)
        if view is None:
            return self.materialized(value)
        parts, of = self.arithmetic.parts, memory_element(view.element)
        operand = Operand(f"in{view.argument}", view.layout.offset * parts, of, rounded=view.rounded)
        return Source(operand, scaled(view.layout.dimensions, parts))

    def materialized(self, value: ir.Value) -> Source:
        """The operand written densely to scratch, in a phase of its own."""
        parts, number = self.arithmetic.parts, len(self.builder.parts)
        room = self.builder.scratch.take(num_elements(value) * parts, memory_element(value))
        emit_operand(self.builder, self.fusion, value, room, f"operand{number}")
        return Source(room, scaled(digits_of(shape(value)), parts))

    def kernel(self) -> Kernel:
        """The finished kernel."""
        return self.builder.kernel()

    def emit(
        self,
        a: Source,
        b: Source,
        axes: AxesOf,
        frame: Frame | None = None,
    ) -> None:
        """Add the phases from the operands to the outputs. `axes(A, B, C)` gives the loops, None where digits do not
        fit.

        `frame`: the loops compute a larger tensor, in which the result lies somewhere.

        Raises:
            NoLoops: only outer axes could be contiguous in the result.
        """
        frame = frame or self._whole()
        self.emit_chosen(*self.chosen(a, b, axes, frame), frame)

    def emit_chosen(
        self,
        contraction: Contraction,
        layout: tuple[Digits, ...] | None,
        frame: Frame,
        prepare: Prepare | None = None,
    ) -> None:
        """The same of what was `chosen`; `prepare`: as of `emit_product`."""
        if layout is None:
            emit_product(self.builder, contraction, self.arithmetic, self._epilogue(contraction), prepare)
            return
        room = self.builder.scratch.take(math.prod(frame.sizes) * self.arithmetic.parts, self.arithmetic.element)
        raw = StoreTo(room, (*contraction.outer, contraction.m, contraction.n))
        emit_product(self.builder, contraction, self.arithmetic, raw, prepare)
        emit_outputs(self.builder, self.fusion, self.root, self.arithmetic, room, layout, frame.origin)

    def has_unit(self, a: Source, b: Source, axes: AxesOf, frame: Frame | None = None) -> bool:
        """Whether the target has a matrix unit, or instructions, that compute the product of these operands. Raises
        NoLoops as `emit` does."""
        if not units_of(a.operand.factor, b.operand.factor, self.arithmetic, self.target):
            return False
        contraction, _ = self.chosen(a, b, axes, frame or self._whole())
        return fitting_unit(contraction, self.arithmetic, self.target) is not None

    def lanes(self, a: Source, b: Source, axes: AxesOf) -> Source | None:
        """The operand whose neighbours are those of a vector of sums, if that is one of them."""
        contraction, _ = self.chosen(a, b, axes, self._whole())
        if not contraction.is_known or contraction.n.b != 1 or contraction.n.a:
            return None
        return a if contraction.b is a.operand else b

    def _whole(self) -> Frame:
        sizes = shape(self.root.results[0])
        return Frame(sizes, (0,) * len(sizes))

    def chosen(self, a: Source, b: Source, axes: AxesOf, frame: Frame) -> tuple[Contraction, tuple[Digits, ...] | None]:
        """The contraction, and the layout of its result in scratch; None: its elements go to the outputs at once."""
        layouts: list[tuple[Digits, ...] | None] = list(scratch_layouts(frame.sizes))
        direct = None
        if frame == self._whole():
            direct = output_digits(self.fusion.ops, self.fusion.outputs, self.root)
        if direct is not None:
            layouts.insert(0, None)
        for layout in layouts:
            result = direct if layout is None else layout
            assert result is not None
            contraction = self._contraction(a, b, axes(a.dimensions, b.dimensions, result))
            if contraction and (contraction.n.c == 1 or contraction.n.size == 1):
                return contraction, layout
        raise NoLoops(f"no loops for '{self.root.operation.name}'", op=self.root.operation.name)

    def _contraction(self, a: Source, b: Source, axes: Axes | None) -> Contraction | None:
        if axes is None:
            return None
        contraction = normalize(axes.batch, axes.m, axes.n, axes.k, a.operand, b.operand)
        return with_best_lanes(contraction, self.arithmetic)

    def _epilogue(self, contraction: Contraction) -> Epilogue:
        axes = (*contraction.outer, contraction.m, contraction.n)
        result = element(self.root.results[0])
        plain = (
            result.storage == self.arithmetic.accumulator and result.kind != "bool" and result.compute == result.storage
        )
        moves = not any(is_elementwise(op) for op in self.fusion.ops if op != self.root and self._follows(op))
        if len(self.fusion.outputs) == 1 and plain | result.is_complex and moves:
            return StoreTo(Operand("out0", 0, memory_element(result)), axes)
        return ElementalEpilogue(self.fusion, self.root, axes, self.arithmetic, self.target)

    def _follows(self, op: ir.OpView) -> bool:
        """Whether an op comes after the root in the body."""
        ops = list(self.fusion.ops)
        return ops.index(op) > ops.index(self.root)


def emit_rooted(fusion: Fusion, target: CpuTarget, name: str, phases: Callable[[Rooted], None]) -> Kernel:
    """The kernel of a fusion around one op called `name`; `phases` adds the phases of a non-empty product.

    Raises:
        InternalError: the fusion does not hold exactly one such op.
    """
    roots = [op for op in fusion.ops if op.operation.name == name]
    if len(roots) != 1:
        raise InternalError(f"a fusion of kind '{fusion.kind}' must hold one '{name}', not {len(roots)}", op=name)
    rooted = Rooted(fusion, target, roots[0])
    if all(num_elements(output) == 0 for output in fusion.outputs):
        rooted.builder.phase("", 0, 0.0, lambda f: None)
    elif any(num_elements(operand) == 0 for operand in rooted.root.operands):
        emit_outputs(rooted.builder, fusion, rooted.root, rooted.arithmetic, None, ())
    else:
        phases(rooted)
    return rooted.kernel()
