"""The compute phase of a product by instructions that add up groups (vector_unit.py), and the sums it begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from stablehlo_py.backends.common.loops import offset, unravel
from stablehlo_py.backends.cpu.kernels.base import SharedFunction
from stablehlo_py.backends.cpu.kernels.matrix_unit import ROW_BYTES, TILE
from stablehlo_py.backends.cpu.kernels.shared_function import call_piece
from stablehlo_py.backends.cpu.kernels.unit_panels import Chunk, Panel, Strip, emit_panels, when
from stablehlo_py.backends.cpu.kernels.vector_tile import VectorTile
from stablehlo_py.backends.cpu.kernels.vector_unit import VECTORS, VectorProduct, VectorUnit
from stablehlo_py.backends.cpu.weight_tiles import PANEL, SIDE
from stablehlo_py.codegen.builder import I8, I32, I64, Function, Index, Value, VectorType
from stablehlo_py.codegen.index import Affine, add, affine_of

MOST_LISTED = 1 << 10  # steps of a table, which is in the stack
SHORT = 4  # steps, fewer of which are code of each product: sums in memory would count
SHIFT = 7  # 128 times the sum of a row


def emit_vector_product(f: Function, product: VectorProduct, shared: set[SharedFunction] | None) -> None:
    """The body of the compute phase. `shared` gets the functions that it calls; None: it calls none."""
    # Sums that pass through memory anyway lose nothing by a call.
    least = SHORT if product.epilogue.inline and not product.fold else 1
    product.shared = shared if least <= product.steps <= MOST_LISTED else None
    if product.shared is not None:
        product.table = _table(f, product)
    emit_panels(f, product, _Panel)


def _table(f: Function, product: VectorProduct) -> Value:
    """Where each step is in a row of A, in bytes, and how many groups it has."""
    table = f.alloca(2 * product.steps, I64)

    def step(k: Index) -> None:
        for number, value in enumerate(_step(f, product, k)):
            f.store(f.index(value), table, f.iadd(f.imul(k, 2), number))

    f.loop(0, product.steps, 1, step)
    return table


def _step(f: Function, product: VectorProduct, k: Index) -> tuple[Index, Index]:
    """Where step `k` is in a row of A, in bytes, and how many groups it has."""
    size = product.unit.scalar.bits // 8
    *others, block = unravel(f, k, [*(axis.size for axis in product.others), product.steps_of_inner])
    place = f.imul(k, ROW_BYTES)
    if not product.room_a:
        place = f.iadd(offset(f, others, [int(axis.a) * size for axis in product.others]), f.imul(block, ROW_BYTES))
    if product.last_groups == SIDE or product.steps_of_inner == 1:
        return place, product.last_groups
    is_last = f.cmp("eq", f.index(block), f.const(product.steps_of_inner - 1))
    return place, f.select(is_last, f.const(product.last_groups), f.const(SIDE))


def emit_row_sums(f: Function, product: VectorProduct) -> None:
    """The body of the phase that adds up rows of A: sums begin with 128 times that, less where B gets signed bytes'
    sum and 128."""
    own, room = [axis for axis in product.outer if axis.a], product.room_sums
    assert room is not None
    if product.room_a:
        a, size = product.room_a.at(f), I32.bits // 8
        strides, line, others = product.strides("a", own), product.row_pitch, []
        groups = product.steps * SIDE
    else:
        a, size = product.contraction.a.at(f), product.unit.scalar.bits // 8
        strides, line = [int(axis.a) for axis in own], int(product.contraction.m.a)
        others = [(int(axis.size), size * int(axis.a)) for axis in product.others]
        groups = product.groups
    lines = [(int(axis.size), size * stride) for axis, stride in zip(own, strides, strict=True)]
    numbers = [number for pair in (*lines, (product.m, size * line), *others) for number in pair]
    piece = _RowSums(product.vectors, len(lines) + 1, len(others))
    call_piece(f, piece, [a, room.at(f), f.begin, f.end, *map(f.const, (*numbers, groups))], apart=True)


@dataclass(frozen=True)
class _RowSums:
    """Sums of rows of bytes; of each row's axis, and of each contracted one but the last, the size and the stride in
    bytes are arguments."""

    unit: VectorUnit
    lines: int
    others: int

    @property
    def symbol(self) -> str:
        """What the function is called."""
        return f"shlo_row_sums_{self.lines}_{self.others}_{self.unit.lanes}{'su'[self.unit.signs[0]]}"

    def emit(self, f: Function, *arguments: Value) -> None:
        """Of rows of A: to where, from the first one to before the last one, numbers."""
        a, sums, begin, end, *numbers, groups = arguments
        axes = [*zip(numbers[::2], numbers[1::2], strict=True)]
        sizes, strides = zip(*axes[: self.lines], strict=True)

        def row(number: Value) -> None:
            at = f.gep(a, offset(f, unravel(f, number, sizes), strides), I8)
            total = self._sum(f, at, axes[self.lines :], groups, f.const(0, VectorType(self.unit.lanes, I32)))
            found = f.binary("shl", f.reduce_lanes("add", total), f.const(SHIFT, I32))
            f.store(found if self.unit.signs[0] else f.binary("sub", f.const(0, I32), found), sums, number)

        f.loop(begin, end, 1, row)

    def _sum(self, f: Function, at: Value, axes: Sequence[tuple[Value, Value]], groups: Value, total: Value) -> Value:
        """A total with what is at places of some axes."""
        if axes:
            (size, stride), *inner = axes

            def place(index: Value, total: Value) -> Value:
                return self._sum(f, f.gep(at, f.imul(index, stride), I8), inner, groups, total)

            return f.loop(0, size, 1, place, [total])[0]
        lanes, type_ = self.unit.lanes, VectorType(self.unit.lanes, I32)
        whole = f.imul(f.idiv(groups, lanes), lanes)

        def vector(index: Value, total: Value) -> Value:
            return self.unit.sum_of(f, f.load(type_, f.gep(at, index, I32)), total)

        (total,) = f.loop(0, whole, lanes, vector, [total])
        rest = f.index(f.isub(groups, whole))

        def last() -> Value:
            left = f.masked_load(type_, f.gep(at, whole, I32), 0, f.tail_mask(rest, lanes), f.const(0, type_))
            return self.unit.sum_of(f, left, total)

        return f.if_(f.cmp("ne", rest, f.const(0)), last, lambda: total)[0]


class _Panel(Panel):
    @property
    def _takes_any_rows(self) -> bool:
        """Where sums are in memory, code of a strip is loops over its rows."""
        return cast(VectorProduct, self.product).shared is not None

    def _strips(self, chunk: Chunk, last: Index, whole: int) -> None:
        rows = self.product.strip
        self.f.loop(self.first, last, 1, lambda strip: _Strip(self, strip, rows, whole - 1).emit(chunk))

    def _short_strip(self, chunk: Chunk, number: int, rows: int) -> None:
        _Strip(self, number, rows, number).emit(chunk)


class _Strip(Strip):
    def __init__(self, panel: Panel, number: Index, rows: int, highest: int) -> None:
        super().__init__(panel, number, rows, highest)
        self.repeated: Index = 0  # rows of the strip before it, which it does not finish
        if self.vectors.repeats and self.product.m % rows:
            place = self.row
            self.row = self.f.imin(place, self.product.m - rows)
            self.repeated = self.f.isub(place, self.row)

    @property
    def vectors(self) -> VectorProduct:
        """The product."""
        return cast(VectorProduct, self.product)

    @property
    def _short(self) -> int:
        """Rows of the last strip, where code of whole ones serves it, too; else 0."""
        if self.vectors.shared is None or self.vectors.repeats or isinstance(self.number, int):
            return 0
        return self.product.m % self.rows

    @property
    def _count(self) -> Index:
        """Its rows."""
        return self.f.imin(self.f.isub(self.product.m, self.row), self.rows) if self._short else self.rows

    def _row_of(self, line: Index) -> Affine:
        if not self._short and not self.vectors.repeats:
            return super()._row_of(line)
        return affine_of(self.f.iadd(self.row, line), self.product.m - 1)

    def emit(self, chunk: Chunk) -> None:
        """Its sums with the products of a chunk: a pass for as many columns as registers hold the sums of, then the
        epilogue."""
        lanes = self.vectors.unit.lanes
        columns = [column for column in range(0, self.panel.column_tiles * SIDE, lanes) if column < self.panel.valid]
        for first in range(0, len(columns), VECTORS):
            self._pass(chunk, columns[first : first + VECTORS])
        if not self._from_registers:
            when(self.f, chunk.is_last, lambda: self.finish(self.repeated, self._count))

    @property
    def _from_registers(self) -> bool:
        """Whether sums go to the epilogue at once."""
        return self.product.epilogue.inline and not self.product.fold and self.vectors.shared is None

    def _pass(self, chunk: Chunk, columns: Sequence[int]) -> None:
        f, product = self.f, self.vectors
        flips = product.flips and product.contraction.b.tiled
        if product.shared is not None:
            heights = [self.rows, *([self._short] if self._short else [])]
            self._call(chunk, [VectorTile.of(product.vectors, height, columns, flips=flips) for height in heights])
            return
        tile = VectorTile.of(product.vectors, self.rows, columns, flips=flips)
        sums = self._steps(chunk, tile, self._begin(chunk, columns))
        places = [(row, column) for row in range(self.rows) for column in columns]

        def keep() -> None:
            for (row, column), value in zip(places, sums, strict=True):
                f.store(value, self.sums(), row * PANEL + column)

        def finish() -> None:
            for (row, column), value in zip(places, sums, strict=True):
                self.store(self.panel.places, add(f, self.first_row(), row), column // self.vectors.unit.lanes, value)

        when(f, chunk.is_last, finish if self._from_registers else keep, keep)

    def _first(self, row: Index) -> Value:
        """What the sums of a row begin with."""
        f, product, lanes = self.f, self.vectors, self.vectors.unit.lanes
        if product.room_sums is None:
            return f.const(0, VectorType(lanes, product.accumulator))
        of = product.room_sums.at(f, self.panel.outer, product.sum_strides)
        return f.splat(f.load(I32, of, f.iadd(self.row, row)), lanes)

    def _begin(self, chunk: Chunk, columns: Sequence[int]) -> list[Value]:
        """The sums before a chunk."""
        f, product, lanes = self.f, self.vectors, self.vectors.unit.lanes
        type_ = VectorType(lanes, product.accumulator)
        sums = []
        for row in range(self.rows):
            first = None if chunk.is_first is False else self._first(row)
            for column in columns:
                if first is not None and not isinstance(chunk.is_first, Value):
                    sums.append(first)
                    continue
                kept = f.load(type_, self.sums(), row * PANEL + column)
                sums.append(kept if first is None else f.select(cast(Value, chunk.is_first), first, kept))
        return sums

    def _call(self, chunk: Chunk, tiles: Sequence[VectorTile]) -> None:
        """The function of the tile, of whole strips or of the last one, on sums in memory."""
        f, product = self.f, self.vectors
        assert product.shared is not None and product.table is not None
        product.shared.update(tiles)

        def clear(row: Index) -> None:
            first = self._first(row)
            for column in tiles[0].columns:
                f.store(first, self.sums(), f.iadd(f.imul(row, PANEL), column))

        def begin() -> None:
            f.loop(0, self._count, 1, clear, nonempty=True)

        def fetch(row: Index) -> None:
            place = [*self.panel.places, self._row_of(row), self.panel.n]
            product.epilogue.fetch(f, place, self.panel.valid)

        def fetch_results() -> None:
            f.loop(0, self._count, 1, fetch, nonempty=True)

        when(f, chunk.is_first, begin)
        if not product.fold:  # whose lines have rows that are not stored
            when(f, chunk.is_last, fetch_results)
        across = self._across()
        a = f.gep(self.panel.a, f.imul(self.row, across), I8)
        b = f.gep(self.panel.b, f.imul(chunk.low, 2 * TILE), I32)
        steps = f.gep(product.table, f.imul(chunk.low, 2), I64), f.isub(chunk.high, chunk.low)
        calls = [partial(tile.call, f, self.sums(), a, across, b, steps) for tile in tiles]
        if len(calls) == 1:
            calls[0]()
        else:
            f.if_(f.cmp("eq", f.index(self._count), f.const(self.rows)), *calls)

    def _across(self) -> int:
        """Bytes from a row of A to the next."""
        product = self.vectors
        if product.room_a:
            return 4 * product.row_pitch
        return int(product.contraction.m.a) * product.unit.scalar.bits // 8

    def _steps(self, chunk: Chunk, tile: VectorTile, sums: list[Value]) -> list[Value]:
        """The sums with the products of a chunk."""
        f, product = self.f, self.vectors
        across, whole = self._across(), product.last_groups % tile.unrolled == 0
        start = f.gep(self.panel.a, f.imul(self.row, across), I8)

        def step(k: Index, *sums: Value) -> list[Value]:
            place, count = _step(f, product, k)
            a, b = f.gep(start, place, I8), f.gep(self.panel.b, f.imul(k, 2 * TILE), I32)
            return tile.groups(f, product.vectors, lambda row: f.gep(a, row * across, I8), b, count, sums, whole=whole)

        return f.loop(chunk.low, chunk.high, 1, step, sums, nonempty=True)
