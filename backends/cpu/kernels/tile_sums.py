"""The compute phase of a product on a matrix unit (matrix_unit.py)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stablehlo_py.backends.common.loops import offset, unravel
from stablehlo_py.backends.cpu.kernels.finished_tiles import StoreTo, keeps_sums
from stablehlo_py.backends.cpu.kernels.matrix_unit import (
    ROW_BYTES,
    STRIP,
    TILE,
    UnitProduct,
    configuration,
    configure_tiles,
)
from stablehlo_py.backends.cpu.kernels.unit_panels import Chunk, Panel, Strip, emit_panels, when
from stablehlo_py.backends.cpu.tiles import CONFIGURE
from stablehlo_py.backends.cpu.weight_tiles import PANEL, SIDE
from stablehlo_py.codegen.builder import I8, I32, I64, Function, Index, ScalarType, Value
from stablehlo_py.codegen.index import add

LOAD, STORE = "llvm.x86.tileloadd64", "llvm.x86.tilestored64"
STREAM = "llvm.x86.tileloaddt164"  # loads a tile past the L1 cache


def emit_unit_product(f: Function, product: UnitProduct) -> None:
    """The body of the compute phase."""
    configure_tiles(f)
    emit_panels(f, product, _Panel)
    f.target_effect("llvm.x86.tilerelease")


class _Panel(Panel):
    def _prepare(self) -> None:
        # Cache lines of the next panel that a step of a strip prefetches.
        self.share = -(-2 * SIDE // self.product.block)
        self.streams_a = self._streams_a()

    def _streams_a(self) -> bool | Value:
        """Whether A is loaded past the L1 cache: a panel has that, and every line of A is in one row of one tile."""
        f, product = self.f, self.product
        if product.block == 1:
            return False
        if product.room_a:
            return True
        axes, size = [product.contraction.m, *product.outer, *product.others], product.unit.scalar.bits // 8
        if any(axis.a * size % ROW_BYTES for axis in axes):
            return False
        place = f.cast("ptrtoint", product.contraction.a.at(f), I64)
        return f.cmp("eq", f.binary("and", place, f.const(ROW_BYTES - 1)), f.const(0))

    def _strips(self, chunk: Chunk, last: Index, whole: int) -> None:
        f = self.f
        f.loop(self.first, last, 1, lambda strip: _Strip(self, strip, STRIP, whole - 1).emit(chunk))
        if whole and not self.is_direct(STRIP):
            finishes = f.cmp("slt", f.index(self.first), f.index(last))
            if isinstance(chunk.is_last, Value):
                finishes = f.binary("and", finishes, chunk.is_last)
            f.if_(finishes, lambda: _Strip(self, f.isub(last, 1), STRIP, whole - 1).finish(0, STRIP))

    def _short_strip(self, chunk: Chunk, number: int, rows: int) -> None:
        f, strip = self.f, _Strip(self, number, rows, number)
        if rows % SIDE and not self.product.packs_a:  # no tile reaches past the last row
            f.target_effect(CONFIGURE, configuration(f, rows))
            strip.emit(chunk)
            configure_tiles(f)
        else:
            strip.emit(chunk)
        if not self.is_direct(rows):
            when(f, chunk.is_last, lambda: strip.finish(0, rows))

    def is_direct(self, rows: int) -> bool:
        """Whether tiles of sums are stored where the result lies."""
        product = self.product
        whole = self.valid % SIDE == 0 and (rows % SIDE == 0 or not product.packs_a) and not product.fold
        return whole and keeps_sums(product.epilogue, product.accumulator)


class _Strip(Strip):
    panel: _Panel

    def __init__(self, panel: _Panel, number: Index, rows: int, highest: int) -> None:
        super().__init__(panel, number, rows, highest)
        self.row_tiles = -(-rows // SIDE)
        self.tiles = [(r, c) for r in range(self.row_tiles) for c in range(panel.column_tiles)]

    def emit(self, chunk: Chunk) -> None:
        """Its sums with the products of a chunk: stored, but for the epilogue."""
        f = self.f
        when(f, chunk.is_first, self._clear, lambda: self._move(LOAD))
        self._steps(chunk)
        direct = self._store if self.panel.is_direct(self.rows) else self._save
        when(f, chunk.is_last, direct, self._save)

    def _clear(self) -> None:
        for r, c in self.tiles:
            self.f.target_effect("llvm.x86.tilezero", self._tile(2 * r + c))

    def _save(self) -> None:
        self._move(STORE)

    def _move(self, instruction: str) -> None:
        """Load or store unfinished sums."""
        f = self.f
        for r, c in self.tiles:
            place = f.gep(self.sums(), r * SIDE * PANEL + c * SIDE, self.product.accumulator)
            f.target_effect(instruction, self._tile(2 * r + c), place, f.const(4 * PANEL))

    def _store(self) -> None:
        """Tiles to the result."""
        f, epilogue = self.f, self.product.epilogue
        assert isinstance(epilogue, StoreTo)
        axes = epilogue.axes
        row = self.first_row()
        for r, c in self.tiles:
            places = [*self.panel.places, add(f, row, r * SIDE), add(f, self.panel.n, c * SIDE)]
            f.target_effect(STORE, self._tile(2 * r + c), epilogue.address(f, places), f.const(4 * int(axes[-2].c)))

    def _steps(self, chunk: Chunk) -> None:
        """Add the products of a chunk to the sums."""
        f, product = self.f, self.product
        unit, contraction, panel = product.unit, product.contraction, self.panel
        # Each strip of the block has its share of the next panel, and of the epilogue of the one before.
        number = f.isub(self.number, panel.first)
        ahead = f.gep(panel.b, f.iadd(2 * product.steps * TILE, f.imul(number, panel.share * SIDE)), I32)
        step = partial(self._step, ahead, self._lines(chunk))
        if product.room_a:
            packed = f.gep(panel.a, f.imul(self.row, product.steps * TILE // SIDE), I32)

            def turn(k: Index) -> None:
                step(f.gep(packed, f.imul(k, TILE), I32), k, product.steps * TILE, ROW_BYTES, I32)

            f.loop(chunk.low, chunk.high, 1, turn)
            return
        across = int(contraction.m.a)
        start = f.gep(panel.a, f.imul(self.row, across), unit.scalar)
        sizes, strides = [axis.size for axis in product.others], [int(axis.a) for axis in product.others]

        def turn_in_place(k: Index) -> None:
            *others, block = unravel(f, k, [*sizes, product.steps_of_inner])
            place = f.gep(start, f.iadd(offset(f, others, strides), f.imul(block, unit.depth)), unit.scalar)
            step(place, k, SIDE * across, across * unit.scalar.bits // 8, unit.scalar)

        f.loop(chunk.low, chunk.high, 1, turn_in_place)

    def _lines(self, chunk: Chunk) -> Callable[[Index], None]:
        """What a step does of the epilogue of the strip before."""
        f, product = self.f, self.product
        if self.panel.is_direct(STRIP) or self.rows != STRIP or product.block == 1:
            return lambda step: None
        least = product.steps - (product.chunks - 1) * product.chunk  # steps of the last chunk
        each = next(lines for lines in (1, 2, 4, 8, 16, STRIP) if lines * least >= STRIP)
        before = _Strip(self.panel, f.isub(self.number, 1), STRIP, max(0, self.highest - 1))
        starts = f.cmp("ne", f.index(self.number), f.index(self.panel.first))
        if isinstance(chunk.is_last, Value):
            starts = f.binary("and", starts, chunk.is_last)
        end = f.iadd(chunk.low, f.select(starts, f.const(STRIP // each), f.const(0)))

        def lines(step: Index) -> None:
            line = f.imul(f.isub(step, chunk.low), each)
            f.if_(f.cmp("slt", f.index(step), f.index(end)), lambda: before.finish(line, f.iadd(line, each)))

        return lines

    def _step(
        self,
        ahead: Value,
        lines: Callable[[Index], None],
        a: Value,
        step: Index,
        second: int,
        stride: int,
        scalar_a: ScalarType,
    ) -> None:
        """One step: the tiles of A are at `a` and `second` further, their rows `stride` bytes apart."""
        f, panel = self.f, self.panel
        multiply = partial(f.target_effect, self.product.unit.instruction)
        product = self.product
        load_b = STREAM if product.block == 1 else LOAD
        b = f.gep(panel.b, f.imul(step, 2 * TILE), I32)
        for line in range(0 if panel.region else panel.share):
            f.prefetch(ahead, f.iadd(f.imul(step, 2 * TILE), line * SIDE), I32, locality=2)
        for r in range(self.row_tiles):
            tile = self._tile(4 + r), f.gep(a, r * second, scalar_a), f.const(stride)
            ways = [partial(f.target_effect, instruction, *tile) for instruction in (STREAM, LOAD)]
            when(f, panel.streams_a, *ways)
            if r == 1:
                lines(step)
            for c in range(panel.column_tiles):
                if r == 0:
                    f.target_effect(load_b, self._tile(6 + c), f.gep(b, c * TILE, I32), f.const(ROW_BYTES))
                multiply(self._tile(2 * r + c), self._tile(4 + r), self._tile(6 + c))

    def _tile(self, number: int) -> Value:
        """A register: sums are 0 to 3, tiles of A 4 and 5, of B 6 and 7."""
        return self.f.const(number, I8)
