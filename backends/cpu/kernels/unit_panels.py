"""The order of a product whose B is packed into panels (matrix_unit.py): panels, chunks of steps, strips of rows; what
strips have in common, whatever multiplies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.contraction import Operand
from stablehlo_py.backends.common.loops import unravel
from stablehlo_py.backends.cpu.kernels.finished_tiles import each_vector
from stablehlo_py.backends.cpu.kernels.matrix_unit import TILE, UnitProduct
from stablehlo_py.backends.cpu.kernels.tile_packing import TilePacking
from stablehlo_py.backends.cpu.kernels.tiling import each_panel
from stablehlo_py.backends.cpu.weight_tiles import PANEL, SIDE
from stablehlo_py.codegen.builder import I32, Function, Index, Value, VectorType
from stablehlo_py.codegen.index import Affine, add, affine_of
from stablehlo_py.dialect.symint import IntLike


def emit_panels(f: Function, product: UnitProduct, kind: type[Panel]) -> None:
    """The body of the compute phase, of panels of a kind."""
    (_by_regions if product.streams_b else _by_panels)(f, product, kind)


def _by_panels(f: Function, product: UnitProduct, kind: type[Panel]) -> None:
    """One after the other: each meets all steps."""
    outer = product.outer

    def iteration(number: Value) -> None:
        *digits, block, panel = unravel(f, number, [*(axis.size for axis in outer), product.blocks, product.panels])

        def one(at: Index, valid: IntLike) -> None:
            place = kind(product, f, digits, block, at, int(valid))
            f.loop(0, product.chunks, 1, place.chunk)

        each_panel(f, panel, product.n, PANEL, one)

    f.loop(f.begin, f.end, 1, iteration)


def _by_regions(f: Function, product: UnitProduct, kind: type[Panel]) -> None:
    """Region by region of B, some panels and some chunks of steps: packed, and used while it is in the cache."""
    sizes, panels = [axis.size for axis in product.outer], product.panels

    def place(number: Index, low: Index, high: Index) -> None:
        digits = unravel(f, number, sizes)

        def group(first: Index) -> None:
            last = f.imin(f.iadd(first, product.group), high)

            def steps(number: Index) -> None:
                def panels(begin: Index) -> None:
                    end = f.imin(f.iadd(begin, product.region_panels), last)
                    region = Region(product, f, digits, number, (begin, end), first)
                    region.pack()

                    def panel(at: Index, valid: IntLike) -> None:
                        f.loop(*region.chunks, 1, kind(product, f, digits, 0, at, int(valid), region).chunk)

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


class Region:
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
        place = f.isub(f.imul(f.isub(panel, self.first), product.region_pitch), f.imul(self.low, 2 * TILE))
        return f.gep(self.room, place, I32)


class Panel:
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
        region: Region | None = None,
    ) -> None:
        self.product, self.f, self.outer, self.block, self.panel, self.valid = product, f, outer, block, panel, valid
        self.region = region
        self.places = [affine_of(index, axis.size - 1) for index, axis in zip(outer, product.outer, strict=True)]
        start = f.imul(panel, PANEL)
        whole = product.n // PANEL * PANEL
        self.n = affine_of(start, whole - PANEL if valid == PANEL else whole, PANEL)
        self.column_tiles = -(-valid // SIDE)
        self.first = f.imul(block, product.block)  # strip
        self.a = self._base("a", product.room_a, outer)
        number = f.isub(panel, region.kept) if region and product.regions > 1 else 0
        assert product.sums is not None and product.room_b is not None
        self.sums = product.sums.at(f, [number], [product.strips * product.strip * PANEL])
        if region:
            self.b = region.panel(panel)
        else:
            self.b = f.gep(self._base("b", product.room_b, outer), f.imul(panel, 2 * product.steps * TILE), I32)
        self._prepare()

    def _prepare(self) -> None:
        """What else strips of this kind need to know."""

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
        chunk = Chunk(low, high, self._is(number, 0), self._is(number, product.chunks - 1))
        whole, rest = divmod(product.m, product.strip)
        if rest and self._takes_any_rows:
            self._strips(chunk, f.imin(f.iadd(self.first, product.block), whole + 1), whole + 1)
            return
        self._strips(chunk, f.imin(f.iadd(self.first, product.block), whole), whole)
        if rest:
            is_last_block = self._equal(self.block, product.blocks - 1)
            f.if_(is_last_block, lambda: self._short_strip(chunk, whole, rest))

    @property
    def _takes_any_rows(self) -> bool:
        """Whether code of whole strips serves one that has fewer rows, too."""
        return False

    def _strips(self, chunk: Chunk, last: Index, whole: int) -> None:
        """The strips of the block up to `last`; all rows have so many `whole` ones, or of any rows."""
        raise AssertionError("defined by the subclasses")

    def _short_strip(self, chunk: Chunk, number: int, rows: int) -> None:
        """The strip of the last rows, which are fewer."""
        raise AssertionError("defined by the subclasses")

    def _is(self, number: Index, value: int) -> bool | Value:
        return number == value if isinstance(number, int) else self._equal(number, value)

    def _equal(self, number: Index, value: int) -> Value:
        return self.f.cmp("eq", self.f.index(number), self.f.const(value))


@dataclass(frozen=True)
class Chunk:
    """Steps from `low` to `high`; whether they are the first, and the last, of a sum."""

    low: Index
    high: Index
    is_first: bool | Value
    is_last: bool | Value


def when(
    f: Function, condition: bool | Value, then: Callable[[], None], otherwise: Callable[[], None] | None = None
) -> None:
    """if condition: then() else: otherwise(), where the condition may be known."""
    if isinstance(condition, Value):
        f.if_(condition, then, otherwise)
    elif condition:
        then()
    elif otherwise:
        otherwise()


class Strip:
    """Strip `number`, at most `highest`, of `rows` rows, against a panel."""

    def __init__(self, panel: Panel, number: Index, rows: int, highest: int) -> None:
        self.panel, self.product, self.f = panel, panel.product, panel.f
        self.number, self.rows, self.highest = number, rows, highest
        self.row = self.f.imul(number, self.product.strip)

    def sums(self) -> Value:
        """Where its sums are kept, a row of them after the other."""
        if self.product.chunks == 1:
            return self.panel.sums
        number = self.f.isub(self.number, self.panel.first)
        return self.f.gep(self.panel.sums, self.f.imul(number, self.product.strip * PANEL), self.product.accumulator)

    def first_row(self) -> Affine:
        """Its first row as an index."""
        return affine_of(self.row, self.highest * self.product.strip, self.product.strip)

    def finish(self, low: Index, high: Index) -> None:
        """The epilogue of lines from `low` to `high`, whose sums are kept."""
        self.f.loop(low, high, 1, self._finish_line, nonempty=True)

    def _finish_line(self, line: Index) -> None:
        f, fold = self.f, self.product.fold
        if fold is None:
            self._epilogue(line, self.panel.places, self._row_of(line))
            return
        above, at = unravel(f, f.iadd(self.row, line), [self.product.lines, fold.pitch])
        places = list(self.panel.places)
        places.insert(fold.number, affine_of(above, self.product.lines - 1))
        is_valid = f.cmp("slt", f.index(at), f.const(fold.valid))
        f.if_(is_valid, lambda: self._epilogue(line, places, affine_of(at, fold.valid - 1)))

    def _row_of(self, line: Index) -> Affine:
        """A line of it as an index of rows."""
        return add(self.f, self.first_row(), affine_of(line, self.rows - 1))

    def _epilogue(self, line: Index, places: Sequence[Affine], row: Affine) -> None:
        """That of a line, which is `row` of the result at a place of the outer axes."""
        f, epilogue, lanes = self.f, self.product.epilogue, self.product.unit.lanes
        if epilogue.long and self.panel.valid % (2 * lanes) == 0:
            # Of two vectors at once instructions alternate: a core meets few chains of so many operations at a time.
            lanes *= 2
        whole, rest = divmod(self.panel.valid, lanes)

        def one(number: Index) -> None:
            at = f.iadd(f.imul(line, PANEL), f.imul(number, lanes))
            self.store(places, row, number, f.load(VectorType(lanes, self.product.accumulator), self.sums(), at))

        each_vector(f, epilogue, whole + bool(rest), whole, one)

    def store(self, places: Sequence[Affine], row: Affine, number: Index, value: Value) -> None:
        """Give a vector of finished sums to the epilogue, of that number in the panel."""
        f, panel, lanes = self.f, self.panel, value.type.lanes
        left = panel.valid - number * lanes if isinstance(number, int) else lanes
        mask = f.tail_mask(left, lanes) if left < lanes else None
        column = add(f, affine_of(f.imul(number, lanes), PANEL - lanes, lanes), Affine(0, lane=1))
        self.product.epilogue.store(f, [*places, row, add(f, panel.n, column)], (value,), lanes, mask)
