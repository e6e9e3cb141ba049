"""The compute phase of a product by instructions that add up groups (vector_unit.py), and the sums it begins with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from stablehlo_py.backends.common.loops import nest, offset, unravel, vectors
from stablehlo_py.backends.cpu.kernels.matrix_unit import TILE
from stablehlo_py.backends.cpu.kernels.tile_packing import flipped
from stablehlo_py.backends.cpu.kernels.unit_panels import Chunk, Panel, Strip, emit_panels, when
from stablehlo_py.backends.cpu.kernels.vector_unit import VECTORS, VectorProduct
from stablehlo_py.backends.cpu.weight_tiles import PANEL, SIDE
from stablehlo_py.codegen.builder import I32, Function, Index, Value, VectorType
from stablehlo_py.codegen.index import add

UNROLLED = 32  # multiplications of a turn of the innermost loop, about
SHIFT = 7  # 128 times the sum of a row


def emit_vector_product(f: Function, product: VectorProduct) -> None:
    """The body of the compute phase."""
    emit_panels(f, product, _Panel)


def emit_row_sums(f: Function, product: VectorProduct) -> None:
    """The body of the phase that adds up rows of A: sums begin with 128 times that, less where B gets signed bytes'
    sum and 128."""
    unit, lanes, own = product.vectors, product.vectors.lanes, [axis for axis in product.outer if axis.a]
    room = product.room_sums
    assert room is not None
    type_ = VectorType(lanes, I32)

    def row(number: Value) -> None:
        *digits, line = unravel(f, number, [*(axis.size for axis in own), product.m])
        total = f.alloca(lanes, I32)
        f.store(f.const(0, type_), total)
        if product.room_a:
            a = product.room_a.at(f, digits, product.strides("a", own))
            f.loop(
                0,
                product.steps * SIDE,
                lanes,
                partial(_add_groups, f, product, f.gep(a, f.imul(line, product.row_pitch), I32), total),
            )
        else:
            a = product.contraction.a.at(f, digits, [axis.a for axis in own])
            a = f.gep(a, f.imul(line, int(product.contraction.m.a)), unit.scalar)

            def place(indices: list[Index]) -> None:
                at = f.gep(a, offset(f, indices, [int(axis.a) for axis in product.others]), unit.scalar)
                vectors(f, product.groups, lanes, partial(_add_groups, f, product, at, total))

            nest(f, [(0, axis.size) for axis in product.others], place)
        found = f.binary("shl", f.reduce_lanes("add", f.load(type_, total)), f.const(SHIFT, I32))
        if not unit.signs[0]:
            found = f.binary("sub", f.const(0, I32), found)
        f.store(found, room.at(f), number)

    f.loop(f.begin, f.end, 1, row)


def _add_groups(
    f: Function, product: VectorProduct, at: Value, total: Value, number: Index, mask: Value | None = None
) -> None:
    """Add a vector of groups, from `number` on, to a total in memory."""
    type_ = VectorType(product.vectors.lanes, I32)
    if mask is None:
        groups = f.load(type_, f.gep(at, number, I32))
    else:
        groups = f.masked_load(type_, f.gep(at, number, I32), 0, mask, f.const(0, type_))
    f.store(product.vectors.sum_of(f, groups, f.load(type_, total)), total)


class _Panel(Panel):
    def _strips(self, chunk: Chunk, last: Index, whole: int) -> None:
        rows = self.product.strip
        self.f.loop(self.first, last, 1, lambda strip: _Strip(self, strip, rows, whole - 1).emit(chunk))

    def _short_strip(self, chunk: Chunk, number: int, rows: int) -> None:
        _Strip(self, number, rows, number).emit(chunk)


class _Strip(Strip):
    @property
    def vectors(self) -> VectorProduct:
        """The product."""
        return cast(VectorProduct, self.product)

    def emit(self, chunk: Chunk) -> None:
        """Its sums with the products of a chunk: a pass for as many columns as registers hold the sums of, then the
        epilogue."""
        lanes = self.vectors.unit.lanes
        columns = [column for column in range(0, self.panel.column_tiles * SIDE, lanes) if column < self.panel.valid]
        for first in range(0, len(columns), VECTORS):
            self._pass(chunk, columns[first : first + VECTORS])
        if not self._from_registers:
            when(self.f, chunk.is_last, lambda: self.finish(0, self.rows))

    @property
    def _from_registers(self) -> bool:
        """Whether sums go to the epilogue at once."""
        return self.product.epilogue.inline and not self.product.fold

    def _pass(self, chunk: Chunk, columns: Sequence[int]) -> None:
        f = self.f
        sums = self._steps(chunk, columns, self._begin(chunk, columns))
        places = [(row, column) for row in range(self.rows) for column in columns]

        def keep() -> None:
            for (row, column), value in zip(places, sums, strict=True):
                f.store(value, self.sums(), row * PANEL + column)

        def finish() -> None:
            for (row, column), value in zip(places, sums, strict=True):
                self.store(self.panel.places, add(f, self.first_row(), row), column, value)

        when(f, chunk.is_last, finish if self._from_registers else keep, keep)

    def _begin(self, chunk: Chunk, columns: Sequence[int]) -> list[Value]:
        """The sums before a chunk."""
        f, product, lanes = self.f, self.vectors, self.vectors.unit.lanes
        type_ = VectorType(lanes, product.accumulator)
        sums = []
        for row in range(self.rows):
            first = f.const(0, type_)
            if product.room_sums and chunk.is_first is not False:
                of = product.room_sums.at(f, self.panel.outer, product.sum_strides)
                first = f.splat(f.load(I32, of, f.iadd(self.row, row)), lanes)
            for column in columns:
                if chunk.is_first is True:
                    sums.append(first)
                    continue
                kept = f.load(type_, self.sums(), row * PANEL + column)
                sums.append(kept if chunk.is_first is False else f.select(chunk.is_first, first, kept))
        return sums

    def _steps(self, chunk: Chunk, columns: Sequence[int], sums: list[Value]) -> list[Value]:
        """The sums with the products of a chunk."""
        f, product = self.f, self.vectors
        unit, contraction, panel = product.vectors, product.contraction, self.panel
        at_b = [column // SIDE * TILE + column % SIDE for column in columns]
        if product.room_a:
            across, scalar = product.row_pitch, I32
        else:
            across, scalar = int(contraction.m.a), unit.scalar
        start = f.gep(panel.a, f.imul(self.row, across), scalar)
        sizes, strides = [axis.size for axis in product.others], [int(axis.a) for axis in product.others]
        last = product.groups - (product.steps_of_inner - 1) * SIDE  # groups of the last step
        each = next(count for count in (16, 8, 4, 2, 1) if count * self.rows * len(columns) <= UNROLLED or count == 1)

        def step(k: Index, *sums: Value) -> list[Value]:
            *others, block = unravel(f, k, [*sizes, product.steps_of_inner])
            if product.room_a:
                a = f.gep(start, f.imul(k, SIDE), I32)
            else:
                a = f.gep(start, f.iadd(offset(f, others, strides), f.imul(block, unit.depth)), unit.scalar)
            b = f.gep(panel.b, f.imul(k, 2 * TILE), I32)

            def group(number: Index, *sums: Value) -> list[Value]:
                factors = []
                for at in at_b:
                    factor = f.load(VectorType(unit.lanes, I32), f.gep(b, f.iadd(f.imul(number, SIDE), at), I32))
                    factors.append(flipped(f, factor) if unit.flips and contraction.b.tiled else factor)
                place = f.gep(a, number, I32)
                result = []
                for row in range(self.rows):
                    there = f.gep(place, row * across, scalar)
                    left = f.splat(f.load(I32, there), unit.lanes)
                    for factor, value in zip(factors, sums[row * len(factors) :], strict=False):
                        result.append(unit.multiply(f, left, factor, value))
                return result

            def several(number: Index, *sums: Value) -> list[Value]:
                values = list(sums)
                for more in range(each):
                    values = group(f.iadd(number, more), *values)
                return values

            count: Index = SIDE
            if last != SIDE:
                is_last = f.cmp("eq", f.index(block), f.const(product.steps_of_inner - 1))
                count = last if product.steps_of_inner == 1 else f.select(is_last, f.const(last), f.const(SIDE))
            if last % each == 0:
                return f.loop(0, count, each, several, sums, nonempty=True)
            whole = f.imul(f.idiv(count, each), each)
            return f.loop(whole, count, 1, group, f.loop(0, whole, each, several, sums))

        return f.loop(chunk.low, chunk.high, 1, step, sums, nonempty=True)
