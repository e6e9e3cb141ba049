"""Copies of the operands of a product on a matrix unit (matrix_unit.py), as tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from stablehlo_py.backends.common.contraction import Axis, Operand
from stablehlo_py.backends.common.loops import offset, unravel
from stablehlo_py.backends.cpu.kernels.matrix_unit import TILE, UnitProduct
from stablehlo_py.backends.cpu.kernels.panel_groups import PanelGroups, columns_of, flipped, rounded
from stablehlo_py.backends.cpu.kernels.tiling import each_panel
from stablehlo_py.backends.cpu.kernels.transposing import transposed
from stablehlo_py.backends.cpu.weight_tiles import PANEL, SIDE
from stablehlo_py.codegen.builder import I8, I32, I64, Function, Index, Value, VectorType
from stablehlo_py.dialect.symint import IntLike


class TilePacking:
    """The packing of A ("a") or B ("b"), in iterations."""

    def __init__(self, f: Function, product: UnitProduct, side: str) -> None:
        self.f, self.product, self.side, self.unit = f, product, side, product.unit
        self.operand: Operand = getattr(product.contraction, side)
        self.rounds = self.operand.rounded is not None
        self.scalar = self.operand.element.storage if self.rounds else product.unit.scalar
        self.along = int(getattr(product.inner, side))
        self.panel_step, self.step, self.row_step = product.room_steps(side)
        if side == "b" and product.streams_b:
            self.panel_step = product.region_pitch
        axis = product.contraction.m if side == "a" else product.contraction.n
        self.across = int(getattr(axis, side))

    def emit(self, number: Value, room: Operand) -> None:
        """Iteration `number`."""
        f, product, side, unit, across = self.f, self.product, self.side, self.unit, self.across
        size = product.m if side == "a" else product.n
        width = SIDE if side == "a" else PANEL
        own = [axis for axis in product.outer if getattr(axis, side)]
        several = product.pack_iterations(side) // product.copies(side)
        digits = unravel(f, f.idiv(number, several), [axis.size for axis in own])
        source = self.operand.at(f, digits, [getattr(axis, side) for axis in own])
        target = room.at(f, digits, product.strides(side, own))
        part = f.irem(number, several)

        def tiles(at: Value, to: Value, place: Index, valid: int, depth: int, groups: int = SIDE) -> None:
            """One step of a panel, or of a tile of rows: so many groups of it."""
            start = f.gep(at, f.imul(place, width * across), self.scalar)
            self._tiles(start, f.gep(to, f.imul(place, self.panel_step), I32), valid, depth, groups)

        def step(at: Value, to: Value, block: Index, body: Callable[[Value, Value, int], None], depth: int) -> None:
            """Step `block` along the innermost axis: `body` where it begins. `depth` of its elements are there."""
            start = f.gep(at, f.imul(block, unit.depth * self.along), self.scalar)
            body(start, f.gep(to, f.imul(block, self.step), I32), depth)

        if product.by_tiles(side):

            def panel(place: Index, valid: IntLike) -> None:
                def steps(at: Value, to: Value) -> None:
                    def body(start: Value, end: Value, depth: int) -> None:
                        tiles(start, end, place, int(valid), depth)

                    whole, rest = divmod(int(product.inner.size), unit.depth)
                    f.loop(0, whole, 1, lambda block: step(at, to, block, body, unit.depth))
                    if rest:
                        step(at, to, whole, body, rest)

                self._nest(source, target, product.others, steps)

            each_panel(f, part, size, width, panel)
            return
        *outer, block = unravel(f, part, [*(axis.size for axis in product.others), product.steps_of_inner])
        steps = [int(getattr(axis, side)) for axis in product.others]
        at = f.gep(source, offset(f, outer, steps), self.scalar)
        to = f.gep(target, f.imul(f.isub(part, block), self.step), I32)

        def all_tiles(start: Value, end: Value, depth: int) -> None:
            whole, rest = divmod(size, width)
            groups = unit.reading.rows // unit.group if side == "b" and across == 1 and depth == unit.depth else SIDE

            def run(number: Index) -> None:
                at = f.gep(start, f.imul(number, groups * unit.group * self.along), self.scalar)
                to = f.gep(end, f.imul(number, groups * SIDE), I32)

                def panel(place: Index, valid: int) -> None:
                    tiles(at, to, place, valid, depth, groups)

                self._each_whole(0, whole, depth, panel)
                if rest:
                    panel(whole, rest)

            f.loop(0, SIDE // groups, 1, run)

        each_panel(
            f,
            block,
            product.inner.size,
            unit.depth,
            lambda at_block, depth: step(at, to, at_block, all_tiles, int(depth)),
        )

    def region(
        self, outer: Sequence[Index], steps: tuple[Index, Index], panels: tuple[Index, Index], to: Value
    ) -> None:
        """Of B, steps and panels from the first to the last: [panel][step], with the pitch of a whole region. Rows are
        read along the panels."""
        f, product, unit = self.f, self.product, self.unit
        (low, high), (first, last) = steps, panels
        whole, rest = product.n // PANEL, product.n % PANEL

        def step(number: Index) -> None:
            start = f.gep(to, f.imul(f.isub(number, low), 2 * TILE), I32)

            def rows(at: Value, depth: int) -> None:
                groups = unit.reading.rows // unit.group if depth == unit.depth and not product.is_near else SIDE

                def run(number: Index) -> None:
                    row = f.gep(at, f.imul(number, groups * unit.group * self.along), self.scalar)
                    end = f.gep(start, f.imul(number, groups * SIDE), I32)

                    def panel(place: Index, valid: int) -> None:
                        there = f.gep(row, f.imul(place, PANEL * self.across), self.scalar)
                        to_panel = f.gep(end, f.imul(f.isub(place, first), self.panel_step), I32)
                        self._tiles(there, to_panel, valid, depth, groups)

                    self._each_whole(first, f.imin(last, whole), depth, panel)
                    if rest:
                        f.if_(f.cmp("sgt", f.index(last), f.const(whole)), lambda: panel(whole, rest))

                f.loop(0, SIDE // groups, 1, run)

            self.each_step(outer, number, rows)

        f.loop(low, high, 1, step)

    def each_step(self, outer: Sequence[Index], number: Index, body: Callable[[Value, int], None]) -> None:
        """`body(where its first column begins, elements that are there)` for step `number` of all contracted axes of
        B."""
        f, product = self.f, self.product
        *others, block = unravel(f, number, [*(axis.size for axis in product.others), product.steps_of_inner])
        at = product.contraction.b.at(f, outer, [axis.b for axis in product.outer])
        at = f.gep(at, offset(f, others, [int(axis.b) for axis in product.others]), self.scalar)

        def begin(where: Index, depth: IntLike) -> None:
            body(f.gep(at, f.imul(where, self.unit.depth * self.along), self.scalar), int(depth))

        each_panel(f, block, product.inner.size, self.unit.depth, begin)

    def _each_whole(self, first: Index, last: Index, depth: int, body: Callable[[Index, int], None]) -> None:
        """`body(panel, columns)` of panels that are whole, of a step with `depth` rows: of two where these are a cache
        line of a row, and a function packs them."""
        f, unit = self.f, self.unit
        width, single = SIDE if self.side == "a" else PANEL, first
        is_called = self._along_rows and self.product.shared_packing is not None and depth == unit.depth
        if is_called and unit.reading.lines and self.scalar == I8:
            pairs = f.idiv(f.isub(last, first), 2)
            f.loop(0, pairs, 1, lambda number: body(f.iadd(first, f.imul(number, 2)), 2 * width))
            single = f.iadd(first, f.imul(pairs, 2))
        f.loop(single, last, 1, lambda place: body(place, width))

    @property
    def _along_rows(self) -> bool:
        """Whether whole rows of B are read at once: those of a large B share few places in the L1 cache."""
        return self.side == "b" and self.across == 1 and self.along != 1

    def _tiles(self, start: Value, end: Value, valid: int, depth: int, groups: int = SIDE) -> None:
        """So many groups of one step of `valid` rows or columns, of which step `depth` elements are there."""
        f = self.f
        called = self._call(start, end, valid, min(groups, depth // self.unit.group)) if self._along_rows else 0
        if called == groups:
            return
        width = PANEL if self._along_rows else SIDE
        for first in range(0, valid, width):
            at = f.gep(start, first * self.across, self.scalar)
            for row, values in enumerate(
                self._rows(at, depth, min(width, valid - first), range(called, groups)), called
            ):
                for half, value in enumerate(values, first // SIDE):
                    f.store(self._flipped(value), end, half * TILE + row * self.row_step)

    def _call(self, start: Value, end: Value, valid: int, groups: int) -> int:
        """Make the first groups of a panel, which are whole, by a function that products share, where there is one; how
        many it makes."""
        shared, product, unit = self.product.shared_packing, self.product, self.unit
        if shared is None or not groups:
            return 0
        rounding = unit.rounding if self.rounds else ""
        function = PanelGroups(unit.group, valid, product.flips, self.rounds, rounding, unit.reading.ahead)
        shared.add(function)
        function.call(self.f, start, self.along, end, groups, self.panel_step)
        return groups

    def _flipped(self, numbers: Value) -> Value:
        """Bytes as the instruction wants them."""
        if self.side == "a" or not self.product.flips:
            return numbers
        return flipped(self.f, numbers)

    def _nest(self, source: Value, target: Value, axes: Sequence[Axis], body: Callable[[Value, Value], None]) -> None:
        """Loops over contracted axes but the innermost, around `body(source, target)` there."""
        if not axes:
            body(source, target)
            return
        f, product = self.f, self.product
        first, *inner = axes
        below = product.steps_of_inner * math.prod(int(axis.size) for axis in inner)

        def turn(index: Index) -> None:
            at = f.gep(source, f.imul(index, getattr(first, self.side)), self.scalar)
            to = f.gep(target, f.imul(index, below * self.step), I32)
            self._nest(at, to, inner, body)

        f.loop(0, first.size, 1, turn)

    def _rows(self, at: Value, depth: int, valid: int, groups: range) -> Sequence[Sequence[Value]]:
        """The 16 rows of neighbouring tiles, as the instruction wants them: of A along the contracted axis, of B across
        it; of B these `groups`. Rows or columns, of which `valid` are there, are `across` apart; `depth` elements of
        the contracted axis are there."""
        f, side = self.f, self.side
        lanes = SIDE * self.unit.group
        if self.along == 1:
            mask = None if depth == lanes else f.tail_mask(depth, lanes)
            rows = [self._load(at, min(row, valid - 1) * self.across, lanes, mask) for row in range(SIDE)]
            rows = [f.bitcast(row, VectorType(SIDE, I32)) for row in rows]
            return [[row] for row in (rows if side == "a" else transposed(f, rows))]
        columns = [self._group(at, group, depth, valid) for group in groups]
        return columns if side == "b" else [[row] for row in transposed(f, [column for (column,) in columns])]

    def _group(self, at: Value, group: int, depth: int, valid: int) -> list[Value]:
        """One group of every row or column, of 16 at a time."""
        each = self.unit.group
        if group * each >= depth:
            return [self.f.const(0, VectorType(SIDE, I32))] * -(-valid // SIDE)

        def lanes_of(row: int, first: int) -> Value:
            return self._lanes(at, first, group * each + row, depth, min(SIDE, valid - first) if each == 4 else valid)

        return columns_of(self.f, each, valid, lanes_of)

    def _lanes(self, at: Value, first: int, number: int, depth: int, valid: int) -> Value:
        """Element `number` of the contracted axis, of `valid` rows or columns from `first` on."""
        f, unit, across = self.f, self.unit, self.across
        lanes = -(-valid // SIDE) * SIDE
        type_ = VectorType(lanes, self.scalar)
        if number >= depth:
            return f.const(0, VectorType(lanes, unit.scalar))
        start = number * self.along + first * across
        if across == 1:
            return self._load(at, start, lanes, None if valid == lanes else f.tail_mask(valid, lanes))
        places = f.const_lanes([min(lane, valid - 1) * across for lane in range(lanes)], I64)
        return self._rounded(f.gather(type_, f.gep(at, start, self.scalar), places))

    def _load(self, at: Value, offset: int, lanes: int, mask: Value | None) -> Value:
        f, type_ = self.f, VectorType(lanes, self.scalar)
        if mask is None:
            return self._rounded(f.load(type_, at, offset))
        return self._rounded(f.masked_load(type_, at, offset, mask, f.const(0, type_)))

    def _rounded(self, numbers: Value) -> Value:
        """Numbers as the unit multiplies them."""
        return rounded(self.f, numbers, self.unit.rounding) if self.rounds else numbers
