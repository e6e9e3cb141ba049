"""Copies of operands into panels, the first phase of a large contraction.

A panel holds, for every k, the `width` neighbouring elements that one step of the register tile reads: B as
[panel][k][lanes of the panel], A as [tile][k][rows of the tile]. The copy converts to the accumulator's type. Sources
whose contracted axis is the contiguous one are transposed in registers, a square of lanes at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stablehlo_py.backends.common.contraction import Axis, Operand
from stablehlo_py.backends.common.loops import unravel
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.panel_transpose import PanelTranspose, Sizes
from stablehlo_py.backends.cpu.kernels.tiling import Problem, Split, dense_steps, each_panel
from stablehlo_py.codegen.builder import I64, Function, Index, Value
from stablehlo_py.dialect.symint import IntLike, is_known


def pack_iterations(gemm: Problem, side: str) -> IntLike:
    """Panels that the packing of A ("a") or B ("b") makes, over all outer places."""
    outer = math.prod(axis.size for axis in gemm.contraction.outer if getattr(axis, side))
    return outer * (gemm.panels if side == "b" else gemm.plan.rows.tiles)


def emit_pack_b(gemm: Problem, destination: Operand, f: Function, number: Value) -> None:
    """Pack panel `number` of B, counted over all outer places."""
    panel, outer = f.irem(number, gemm.panels), f.idiv(number, gemm.panels)
    target = destination.at(f, [number], [gemm.panel_size])
    emit_panel(f, gemm, _outer_address(f, gemm, gemm.contraction.b, "b", outer), panel, target)


def emit_panel(
    f: Function,
    gemm: Problem,
    source: Value,
    panel: Index,
    target: Value,
    steps: IntLike | None = None,
) -> None:
    """Pack one panel of the B that begins at `source`; only the first `steps` of the slowest contracted axis."""
    contraction, plan = gemm.contraction, gemm.plan
    axes = contraction.k
    if steps is not None:
        axes = (replace(axes[0], size=steps), *axes[1:])
    source = f.gep(source, f.imul(panel, gemm.panel * contraction.n.b), contraction.b.element.storage)
    width = plan.lanes * plan.vectors
    strides = [axis.b for axis in axes]
    panels = _Panels(f, gemm.arithmetic, contraction.b, axes, strides, contraction.n.b, plan.lanes)

    if panels.transposes or not is_known(contraction.n.size % gemm.panel):
        valid = f.imin(f.isub(contraction.n.size, f.imul(panel, gemm.panel)), gemm.panel)
        if panels.transposes:
            panels.copy_transposed(source, target, valid, width)
        else:
            panels.copy(source, target, valid, width)
        return

    each_panel(f, panel, contraction.n.size, gemm.panel, lambda at, valid: panels.copy(source, target, valid, width))


def emit_pack_a(gemm: Problem, destination: Operand, f: Function, number: Value) -> None:
    """Pack tile `number` of A."""
    contraction, rows, parts = gemm.contraction, gemm.plan.rows, gemm.arithmetic.parts
    tile, outer = f.irem(number, rows.tiles), f.idiv(number, rows.tiles)
    source = _outer_address(f, gemm, contraction.a, "a", outer)
    target = destination.at(f, [outer], [gemm.packed_size("a")])
    steps = [axis.a for axis in contraction.k]
    panels = _Panels(f, gemm.arithmetic, contraction.a, contraction.k, steps, contraction.m.a, gemm.plan.lanes)

    def copy(first: Index, row: Index, height: Index) -> None:
        """`height` rows from the `first` on, to the place of a tile that begins with `row`."""
        start = f.gep(source, f.imul(first, contraction.m.a), contraction.a.element.storage)
        place = f.gep(target, f.imul(row, contraction.depth * parts), destination.element.storage)
        if panels.transposes:
            panels.copy_transposed(start, place, height, height)
        else:
            assert isinstance(height, int)
            panels.copy(start, place, height, height * parts)

    def of_height(height: Index, offset: Index) -> None:
        row = f.iadd(f.imul(tile, height), offset)
        copy(row, row, height)

    if not isinstance(rows, Split):
        row = f.imul(tile, rows.height)
        copy(f.imin(row, f.isub(rows.size, rows.height)), row, rows.height)
    elif not rows.extra:
        of_height(rows.base, 0)
    elif panels.transposes:
        height = f.iadd(rows.base, f.cast("zext", f.cmp("slt", f.index(tile), f.const(rows.extra)), I64))
        row = f.iadd(f.imul(tile, rows.base), f.imin(tile, rows.extra))
        copy(row, row, height)
    else:
        tall = f.cmp("slt", f.index(tile), f.const(rows.extra))
        f.if_(tall, lambda: of_height(rows.base + 1, 0), lambda: of_height(rows.base, rows.extra))


def _outer_address(f: Function, gemm: Problem, operand: Operand, side: str, number: Index) -> Value:
    """The operand's address at the number-th place of the outer axes it has."""
    axes = [axis for axis in gemm.contraction.outer if getattr(axis, side)]
    digits = unravel(f, number, [axis.size for axis in axes])
    return operand.at(f, digits, [getattr(axis, side) for axis in axes])


@dataclass(frozen=True)
class _Panels:
    """Copies panels of one operand; `steps` are those of the contracted axes, `across` that from one panel element to
    the next."""

    f: Function
    arithmetic: Arithmetic
    operand: Operand
    axes: Sequence[Axis]
    steps: Sequence[IntLike]
    across: IntLike
    lanes: int

    @property
    def transposes(self) -> bool:
        """The contiguous axis of the source is contracted: panels are made by transposing squares."""
        usable = self.across != self.arithmetic.parts and self.arithmetic.parts == 1 and is_known(self.axes[-1].size)
        return usable and self.steps[-1] == 1 and self.axes[-1].size >= 4 and self.lanes >= 4

    def copy(self, source: Value, target: Value, valid: Index, width: int) -> None:
        """One panel: `valid` elements for every k, `width` scalars apart in the target; lanes past `valid` are zero
        where written."""
        parts = self.arithmetic.parts

        def row(at: Value, to: Value) -> None:
            if self.across == parts:
                assert isinstance(valid, int)
                self._row(at, to, valid * parts, width)
            else:
                self._elements(at, to, valid)

        self._nest(source, target, width, len(self.axes), row)

    def copy_transposed(self, source: Value, target: Value, valid: Index, width: Index) -> None:
        """The same by squares; one code for every `valid` and `width`. Lanes past `valid` repeat the last element."""
        levels = len(self.axes) - 1
        self._nest(source, target, width, levels, lambda at, to: self._transpose(at, to, valid, width))

    def _nest(
        self,
        source: Value,
        target: Value,
        width: Index,
        levels: int,
        body: Callable[[Value, Value], None],
        depth: int = 0,
    ) -> None:
        """Loops over the first `levels` axes from `depth` on, around `body(source, target)` at the addresses there."""
        if depth == levels:
            body(source, target)
            return
        f, dense = self.f, dense_steps(self.axes, 1)

        def step(index: Index) -> None:
            at = f.gep(source, f.imul(index, self.steps[depth]), self.operand.element.storage)
            to = f.gep(target, f.imul(f.imul(index, dense[depth]), width), self.arithmetic.accumulator)
            self._nest(at, to, width, levels, body, depth + 1)

        f.loop(0, self.axes[depth].size, 1, step)

    def _row(self, at: Value, to: Value, valid: int, width: int) -> None:
        f, lanes = self.f, self.lanes
        for first in range(0, valid, lanes):
            mask = f.tail_mask(valid - first, lanes) if first + lanes > valid else None
            value = self.arithmetic.load(f, self.operand, at, first, lanes, mask)
            self._store(value, to, first, valid, width)

    def _store(self, value: Value, to: Value, first: int, valid: int, width: int) -> None:
        """A vector of a panel row: whole where the row has room for it, else only its valid lanes."""
        mask = None if first + self.lanes <= width else self.f.tail_mask(valid - first, self.lanes)
        self.f.store(value, to, first, mask)

    def _elements(self, at: Value, to: Value, valid: Index) -> None:
        f, parts = self.f, self.arithmetic.parts

        def element(index: Index) -> None:
            source = f.gep(at, f.imul(index, self.across), self.operand.element.storage)
            target = f.gep(to, f.imul(index, parts), self.arithmetic.accumulator)
            for part in range(parts):
                f.store(self.arithmetic.load(f, self.operand, source, part, 1), target, part)

        f.loop(0, valid, 1, element)

    def _transpose(self, at: Value, to: Value, valid: Index, width: Index) -> None:
        """The rows of the contiguous contracted axis."""
        masked = not isinstance(width, int) or width % self.lanes != 0
        panel = PanelTranspose(self.lanes, self.operand.element.name, self.arithmetic.element.name, masked)
        sizes = Sizes(valid, self.across, self.axes[-1].size, width)
        panel.emit(self.f, at, to, sizes)
