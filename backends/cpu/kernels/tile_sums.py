"""The compute phase of a product on a matrix unit (matrix_unit.py): panels, chunks of steps, strips of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from stablehlo_py.backends.common.contraction import Operand
from stablehlo_py.backends.common.loops import offset, unravel
from stablehlo_py.backends.cpu.kernels.gemm import StoreTo
from stablehlo_py.backends.cpu.kernels.matrix_unit import (
    ROW_BYTES,
    STRIP,
    TILE,
    UnitProduct,
    configuration,
    configure_tiles,
)
from stablehlo_py.backends.cpu.kernels.tile_packing import TilePacking
from stablehlo_py.backends.cpu.kernels.tiling import each_panel
from stablehlo_py.backends.cpu.tiles import CONFIGURE
from stablehlo_py.backends.cpu.weight_tiles import PANEL, SIDE
from stablehlo_py.codegen.builder import I8, I32, I64, Function, Index, ScalarType, Value, VectorType
from stablehlo_py.codegen.index import Affine, add, affine_of, linearize, scalar
from stablehlo_py.dialect.symint import IntLike

LOAD, STORE = "llvm.x86.tileloadd64", "llvm.x86.tilestored64"
STREAM = "llvm.x86.tileloaddt164"  # loads a tile past the L1 cache


def emit_unit_product(f: Function, product: UnitProduct) -> None:
    """The body of the compute phase."""
    configure_tiles(f)
    (_by_regions if product.streams_b else _by_panels)(f, product)
    f.target_effect("llvm.x86.tilerelease")


def _by_panels(f: Function, product: UnitProduct) -> None:
    """One after the other: each meets all steps."""
    outer = product.outer

    def iteration(number: Value) -> None:
        *digits, block, panel = unravel(f, number, [*(axis.size for axis in outer), product.blocks, product.panels])

        def one(at: Index, valid: IntLike) -> None:
            place = _Panel(product, f, digits, block, at, int(valid))
            f.loop(0, product.chunks, 1, place.chunk)

        each_panel(f, panel, product.n, PANEL, one)

    f.loop(f.begin, f.end, 1, iteration)


def _by_regions(f: Function, product: UnitProduct) -> None:
    """Region by region of B, some panels and some chunks of steps: packed, and used while it is in the cache."""
    sizes, panels = [axis.size for axis in product.outer], product.panels

    def place(number: Index, low: Index, high: Index) -> None:
        digits = unravel(f, number, sizes)

        def group(first: Index) -> None:
            last = f.imin(f.iadd(first, product.group), high)

            def steps(number: Index) -> None:
                def panels(begin: Index) -> None:
                    end = f.imin(f.iadd(begin, product.region_panels), last)
                    region = _Region(product, f, digits, number, (begin, end), first)
                    region.pack()

                    def panel(at: Index, valid: IntLike) -> None:
                        f.loop(*region.chunks, 1, _Panel(product, f, digits, 0, at, int(valid), region).chunk)

                    f.loop(begin, end, 1, lambda at: each_panel(f, at, product.n, PANEL, panel))

                f.loop(first, last, product.region_panels, panels)

            f.loop(0, product.regions, 1, steps)

        f.loop(low, high, product.group, group)

    def part(number: Index) -> None:
        first = f.imul(number, panels)
        place(number, f.imax(f.isub(f.begin, first), 0), f.imin(f.isub(f.end, first), panels))

    if product.iterations == panels:
        place(0, f.begin, f.end)
    else:
        f.loop(f.idiv(f.begin, panels), f.idiv(f.iadd(f.end, panels - 1), panels), 1, part)


class _Region:
    """Region `number` of the steps, of panels from the first to the last, at a place of the outer axes. Panels whose
    sums are kept begin with `kept`."""

    def __init__(
        self,
        product: UnitProduct,
        f: Function,
        outer: Sequence[Index],
        number: Index,
        panels: tuple[Index, Index],
        kept: Index,
    ) -> None:
        self.product, self.f, self.outer, self.kept = product, f, outer, kept
        self.first, self.last = panels
        self.packing = TilePacking(f, product, "b")
        begin = f.imul(number, product.region_chunks)
        self.chunks = begin, f.imin(f.iadd(begin, product.region_chunks), product.chunks)
        self.low = f.imul(begin, product.chunk)
        assert product.room_b is not None
        self.room = product.room_b.at(f)

    def pack(self) -> None:
        """Copy it to scratch."""
        f, product = self.f, self.product
        high = f.imin(f.iadd(self.low, product.region_steps), product.steps)
        self.packing.region(self.outer, (self.low, high), (self.first, self.last), self.room)

    def panel(self, panel: Index) -> Value:
        """Where step 0 of a panel would be."""
        f, product = self.f, self.product
        place = f.isub(f.imul(f.isub(panel, self.first), product.region_steps), self.low)
        return f.gep(self.room, f.imul(place, 2 * TILE), I32)


class _Panel:
    """A panel of `valid` columns against a block of rows, at a place of the outer axes; one of a region, where B is
    packed so."""

    def __init__(
        self,
        product: UnitProduct,
        f: Function,
        outer: Sequence[Index],
        block: Index,
        panel: Index,
        valid: int,
        region: _Region | None = None,
    ) -> None:
        self.product, self.f, self.outer, self.block, self.panel, self.valid = product, f, outer, block, panel, valid
        self.region = region
        self.places = [affine_of(index, axis.size - 1) for index, axis in zip(outer, product.outer, strict=True)]
        start = f.imul(panel, PANEL)
        whole = product.n // PANEL * PANEL
        self.n = affine_of(start, whole - PANEL if valid == PANEL else whole, PANEL)
        self.column_tiles = -(-valid // SIDE)
        self.share = -(-2 * SIDE // product.block)  # cache lines of the next panel that a step of a strip prefetches
        self.first = f.imul(block, product.block)  # strip
        self.a = self._base("a", product.room_a, outer)
        self.streams_a = self._streams_a()
        number = f.isub(panel, region.kept) if region and product.regions > 1 else 0
        assert product.sums is not None and product.room_b is not None
        self.sums = product.sums.at(f, [number], [product.strips * STRIP * PANEL])
        if region:
            self.b = region.panel(panel)
        else:
            self.b = f.gep(self._base("b", product.room_b, outer), f.imul(panel, 2 * product.steps * TILE), I32)

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

    def _base(self, side: str, room: Operand | None, outer: Sequence[Index]) -> Value:
        """Where an operand begins at the place of the outer axes: where it lies, or was packed."""
        product = self.product
        if room is None:
            operand: Operand = getattr(product.contraction, side)
            return operand.at(self.f, outer, [getattr(axis, side) for axis in product.outer])
        return room.at(self.f, outer, product.strides(side, product.outer))

    def chunk(self, number: Index) -> None:
        """All strips of the block, for chunk `number` of the steps."""
        f, product = self.f, self.product
        low = f.imul(number, product.chunk)
        high = f.imin(f.iadd(low, product.chunk), product.steps)
        chunk = _Chunk(low, high, self._is(number, 0), self._is(number, product.chunks - 1))
        whole, rest = divmod(product.m, STRIP)
        last = f.imin(f.iadd(self.first, product.block), whole)
        f.loop(self.first, last, 1, lambda strip: _Strip(self, strip, STRIP, whole - 1).emit(chunk))
        if whole and not self.is_direct(STRIP):
            finishes = f.cmp("slt", f.index(self.first), f.index(last))
            if isinstance(chunk.is_last, Value):
                finishes = f.binary("and", finishes, chunk.is_last)
            f.if_(finishes, lambda: _Strip(self, f.isub(last, 1), STRIP, whole - 1).finish(0, STRIP))
        if rest:

            def short() -> None:
                strip = _Strip(self, whole, rest, whole)
                if rest % SIDE and not product.packs_a:  # no tile reaches past the last row
                    f.target_effect(CONFIGURE, configuration(f, rest))
                    strip.emit(chunk)
                    configure_tiles(f)
                else:
                    strip.emit(chunk)
                if not self.is_direct(rest):
                    _when(f, chunk.is_last, lambda: strip.finish(0, rest))

            f.if_(self._equal(self.block, product.blocks - 1), short)

    def _is(self, number: Index, value: int) -> bool | Value:
        return number == value if isinstance(number, int) else self._equal(number, value)

    def _equal(self, number: Index, value: int) -> Value:
        return self.f.cmp("eq", self.f.index(number), self.f.const(value))

    def is_direct(self, rows: int) -> bool:
        """Whether tiles of sums are stored where the result lies."""
        epilogue = self.product.epilogue
        product = self.product
        whole = self.valid % SIDE == 0 and (rows % SIDE == 0 or not product.packs_a) and not product.fold
        return whole and isinstance(epilogue, StoreTo) and epilogue.operand.element.storage == self.product.accumulator


@dataclass(frozen=True)
class _Chunk:
    """Steps from `low` to `high`; whether they are the first, and the last, of a sum."""

    low: Index
    high: Index
    is_first: bool | Value
    is_last: bool | Value


def _when(
    f: Function, condition: bool | Value, then: Callable[[], None], otherwise: Callable[[], None] | None = None
) -> None:
    """if condition: then() else: otherwise(), where the condition may be known."""
    if isinstance(condition, Value):
        f.if_(condition, then, otherwise)
    elif condition:
        then()
    elif otherwise:
        otherwise()


class _Strip:
    """Strip `number`, at most `highest`, of `rows` rows, against a panel."""

    def __init__(self, panel: _Panel, number: Index, rows: int, highest: int) -> None:
        self.panel, self.product, self.f = panel, panel.product, panel.f
        self.number, self.rows, self.highest = number, rows, highest
        self.row = self.f.imul(number, STRIP)
        self.row_tiles = -(-rows // SIDE)
        self.tiles = [(r, c) for r in range(self.row_tiles) for c in range(panel.column_tiles)]

    def emit(self, chunk: _Chunk) -> None:
        """Its sums with the products of a chunk: stored, but for the epilogue."""
        f = self.f
        _when(f, chunk.is_first, self._clear, lambda: self._move(LOAD))
        self._steps(chunk)
        direct = self._store if self.panel.is_direct(self.rows) else self._save
        _when(f, chunk.is_last, direct, self._save)

    def _clear(self) -> None:
        for r, c in self.tiles:
            self.f.target_effect("llvm.x86.tilezero", self._tile(2 * r + c))

    def _save(self) -> None:
        self._move(STORE)

    def _move(self, instruction: str) -> None:
        """Load or store unfinished sums."""
        f = self.f
        for r, c in self.tiles:
            place = f.gep(self._sums(), r * SIDE * PANEL + c * SIDE, self.product.accumulator)
            f.target_effect(instruction, self._tile(2 * r + c), place, f.const(4 * PANEL))

    def _sums(self) -> Value:
        """Where they are kept."""
        if self.product.chunks == 1:
            return self.panel.sums
        number = self.f.isub(self.number, self.panel.first)
        return self.f.gep(self.panel.sums, self.f.imul(number, STRIP * PANEL), self.product.accumulator)

    def _store(self) -> None:
        """Tiles to the result."""
        f, epilogue = self.f, self.product.epilogue
        assert isinstance(epilogue, StoreTo)
        axes, operand = epilogue.axes, epilogue.operand
        row = affine_of(self.row, self.highest * STRIP, STRIP)
        for r, c in self.tiles:
            places = [*self.panel.places, add(f, row, r * SIDE), add(f, self.panel.n, c * SIDE)]
            at = scalar(f, linearize(f, places, [axis.c for axis in axes]))
            place = f.gep(operand.at(f), at, operand.element.storage)
            f.target_effect(STORE, self._tile(2 * r + c), place, f.const(4 * int(axes[-2].c)))

    def finish(self, low: Index, high: Index) -> None:
        """The epilogue of lines from `low` to `high`, whose sums are saved."""
        self.f.loop(low, high, 1, self._finish_line, nonempty=True)

    def _finish_line(self, line: Index) -> None:
        f, fold = self.f, self.product.fold
        if fold is None:
            row = affine_of(self.row, self.highest * STRIP, STRIP)
            self._epilogue(line, self.panel.places, add(f, row, affine_of(line, self.rows - 1)))
            return
        above, at = unravel(f, f.iadd(self.row, line), [self.product.lines, fold.pitch])
        places = list(self.panel.places)
        places.insert(fold.number, affine_of(above, self.product.lines - 1))
        is_valid = f.cmp("slt", f.index(at), f.const(fold.valid))
        f.if_(is_valid, lambda: self._epilogue(line, places, affine_of(at, fold.valid - 1)))

    def _epilogue(self, line: Index, places: Sequence[Affine], row: Affine) -> None:
        """That of a line, which is `row` of the result at a place of the outer axes."""
        f, panel = self.f, self.panel
        for c in range(panel.column_tiles):
            at = f.iadd(f.imul(line, PANEL), c * SIDE)
            value = f.load(VectorType(SIDE, self.product.accumulator), self._sums(), at)
            left = panel.valid - c * SIDE
            mask = f.tail_mask(left, SIDE) if left < SIDE else None
            place = [*places, row, add(f, panel.n, Affine(c * SIDE, lane=1))]
            self.product.epilogue.store(f, place, (value,), SIDE, mask)

    def _steps(self, chunk: _Chunk) -> None:
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

    def _lines(self, chunk: _Chunk) -> Callable[[Index], None]:
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
            _when(f, panel.streams_a, *ways)
            if r == 1:
                lines(step)
            for c in range(panel.column_tiles):
                if r == 0:
                    f.target_effect(load_b, self._tile(6 + c), f.gep(b, c * TILE, I32), f.const(ROW_BYTES))
                multiply(self._tile(2 * r + c), self._tile(4 + r), self._tile(6 + c))

    def _tile(self, number: int) -> Value:
        """A register: sums are 0 to 3, tiles of A 4 and 5, of B 6 and 7."""
        return self.f.const(number, I8)
