"""Sums over scores by matrix units (scores.py says what they are): operands of 16 bits, sums and work on scores in f32.

As in attention_matrix.py each subgroup of a block has as many places of the outer side as the unit has rows. It keeps
their part of every product's operand in registers where there are enough, in shared memory else. Tiles of the inner
side lie in shared memory, those of the next step on their way while one is multiplied. Products have the places that
the unit wants of its left operand, so weights go from register to register. Weights of f32 are three parts of bf16,
whose sum they are, and three products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from stablehlo_py.backends.common.band import Band
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_function
from stablehlo_py.backends.gpu.kernels.product import Operand, Product
from stablehlo_py.backends.gpu.kernels.scores_band import skipping
from stablehlo_py.backends.gpu.kernels.scores_program import Program, WeightedSum
from stablehlo_py.backends.gpu.kernels.subgroup import Subgroup, takes_sums
from stablehlo_py.backends.gpu.kernels.tile import Tile
from stablehlo_py.codegen.builder import F32, I16, I32, Index, Value
from stablehlo_py.codegen.matrix_units import MatrixUnit
from stablehlo_py.codegen.types import element, to_bits

INNERS = (64, 32)  # places of a tile of the inner side, the most first
LEAST = 16  # places where registers are few
MOST_REGISTERS = 128  # of a thread, for operands, sums and scores: work on these takes as many
SUBGROUPS = 4  # of a block
STAGES = 2  # one is multiplied, one is on its way
MOST_DEPTH = 128  # of products, and columns of a sum


def suits(p: Program, unit: MatrixUnit) -> bool:
    """Whether the unit can take sums as its left operand, and registers and shared memory hold what a block has."""
    scores = {element(side.value).name for each in p.products for side in (each.product.a, each.product.b)}
    columns = {element(each.columns.value).name for each in p.sums}
    weights = {element(each.weights).name for each in p.sums}
    made = {each.product.of.name for each in p.products} | {each.product.of.name for each in p.sums}
    return (
        takes_sums(unit)
        and p.type == F32
        and {*scores, *columns} == {unit.operand}
        and weights <= ({unit.operand, "f32"} if unit.operand == "bf16" else {unit.operand})
        and made <= {"f32", unit.operand}
        and max(each.product.depth for each in p.products) <= MOST_DEPTH
        and max((each.width for each in p.sums), default=0) <= MOST_DEPTH
        and MatrixScores(p, unit).fits
    )


@dataclass(frozen=True)
class _Staged:
    """A tile of the inner side, and where it begins in a stage, in words."""

    tile: Tile
    begin: int


class MatrixScores:
    """The kernel."""

    def __init__(self, program: Program, unit: MatrixUnit) -> None:
        self.p, self.unit = program, unit
        self.threads, self.rows = SUBGROUPS * unit.threads, SUBGROUPS * unit.rows
        choices = [(inner, holds) for holds in (True, False) for inner in (INNERS if holds else INNERS[1:])]
        self.inner, self.holds = next(
            (each for each in choices if self._registers(*each) <= MOST_REGISTERS), (LEAST, False)
        )
        depths = [self._rounded(each.product.depth, self.inner) for each in program.products]
        widths = [self._rounded(each.width, self.inner) for each in program.sums]
        self.outers = [
            self._tile(each.product, each.outer, self.rows, depth)
            for each, depth in zip(program.products, depths, strict=True)
        ]
        tiles = [
            self._tile(each.product, each.inner, self.inner, depth)
            for each, depth in zip(program.products, depths, strict=True)
        ]
        tiles += [
            self._tile(each.product, each.columns, width, self.inner)
            for each, width in zip(program.sums, widths, strict=True)
        ]
        self.staged, self.words = list[_Staged](), 0
        for tile in tiles:
            self.staged.append(_Staged(tile, self.words))
            self.words += -(-tile.words // 256) * 256
        #: Where tiles of the outer side begin, in words: behind the stages, or where these come afterwards.
        self.begins = [sum(tile.words for tile in self.outers[:number]) for number in range(len(self.outers))]
        self.of_outers = sum(tile.words for tile in self.outers)

    @property
    def fits(self) -> bool:
        """Whether shared memory holds the stages, and the tiles of the outer side."""
        return 4 * self._all_words <= self.p.target.shared_bytes

    @property
    def _all_words(self) -> int:
        of_stages = STAGES * self.words
        return max(of_stages, self.of_outers) if self.holds else of_stages + self.of_outers

    def _registers(self, inner: int, holds: bool) -> float:
        """Of a thread, for sums, scores, and operands of the outer side that are held, if tiles of the inner side have
        so many places."""
        p, share = self.p, self.unit.rows / self.unit.threads
        depths = sum(self._rounded(each.product.depth, inner) for each in p.products) if holds else 0
        widths = sum(self._rounded(each.width, inner) for each in p.sums)
        return share * (depths / 2 + widths + len(p.products) * inner)

    def _rounded(self, size: int, inner: int) -> int:
        """A depth or a width of tiles, of which each has so many places at least: a piece for each thread."""
        least = max(self.unit.depth, self.unit.columns, 8 * self.threads // inner)
        return max(least, 1 << (size - 1).bit_length())

    def _tile(self, product: Product, operand: Operand, rows: int, depth: int) -> Tile:
        copies = product.target.copies and product.lies_in_pieces(operand)
        return Tile(product, operand, I16, partial(product.bits, operand), rows, depth, self.threads, True, copies)

    def emit(self) -> GpuKernel:
        """One kernel."""
        p, unit = self.p, self.unit
        down, tiles = -(-p.rows // self.rows), -(-p.count // self.inner)
        skips = skipping(p, self.inner)
        f = self.f = kernel_function(p.fusion, p.target, p.fusion.name, p.batch * down, self.threads)
        p.begin(f)
        number = f.block_number()
        self.batch, tile = f.idiv(number, down), f.irem(number, down)
        if skips and skips.from_end:
            tile = f.isub(down - 1, tile)  # those with most work first
        self.first = f.imul(tile, self.rows)
        self.subgroup = Subgroup(f, unit)
        self.mine = f.imul(self.subgroup.number, unit.rows)
        self.at = [f.imin(f.iadd(self.first, self._local(row)), p.rows - 1) for row in range(len(self.subgroup.own))]
        self.shared = f.shared_memory(self._all_words, I32, align=1024)
        self._bring_outer()
        start = [each.identity(f) for each in p.reductions for _ in self.at]
        start += [f.const(0.0, F32)] * sum(self._sums_of(each.tile) for each in self.staged[len(p.products) :])
        low: Index = 0
        end: Index = tiles
        band = Band(f, p.sides, skips.mask, self.inner, self.batch, self.first, self.rows) if skips else None
        if skips and band:
            low, end = skips.tiles_of(band, self.first)
        self._bring(f.imin(low, tiles - 1), f.irem(low, STAGES))()
        f.barrier()
        carried = f.loop(low, end, 1, partial(self._step, f.isub(end, 1)), start)
        if skips and band:
            carried = skips.with_masked(band, low, end, carried, len(self.at))
        self._finish(carried)
        f.ret()
        return GpuKernel.of(skips.front(), f, scratch_bytes=skips.bytes) if skips else GpuKernel.of(f)

    def _local(self, row: int) -> Index:
        """One of the thread's rows, in the block."""
        return self.f.iadd(self.mine, self.f.iadd(self.subgroup.outer, self.subgroup.own[row]))

    def _sums_of(self, tile: Tile) -> int:
        """How many sums a thread has of a tile of columns."""
        return tile.rows // self.unit.columns * len(self.unit.sums)

    # --- tiles -------------------------------------------------------------------------------------------------------

    def _bring_outer(self) -> None:
        """The operands of the outer side, to shared memory, and to registers where they are held there."""
        f = self.f
        self.behind = 0 if self.holds else STAGES * self.words
        places = [2 * (self.behind + begin) for begin in self.begins]
        self._come([(tile, to, self.first, 0) for tile, to in zip(self.outers, places, strict=True)])()
        f.barrier()
        self.held: list[list[list[Value]]] = []
        if self.holds:
            self.held = [self._left(number) for number in range(len(self.outers))]
            f.barrier()

    def _left(self, number: int) -> list[list[Value]]:
        """The registers of a product's outer operand, for each depth of the unit."""
        if self.held and number < len(self.held):
            return self.held[number]
        unit, tile, begin = self.unit, self.outers[number], 2 * (self.behind + self.begins[number])
        depths = range(0, tile.depth, unit.depth)
        return [self.subgroup.left(self.shared, begin, tile, self.mine, unit.rows, depth)[0] for depth in depths]

    def _come(self, tiles: Sequence[tuple[Tile, Index, Index, Index]]) -> Callable[[], None]:
        """Begin to bring tiles to elements of shared memory, each from a row and a product on; what is returned ends
        that."""
        f = self.f
        puts = [tile.bring(f, self.shared, to, self.batch, first, start) for tile, to, first, start in tiles]
        copies = any(tile.copies for tile, *_ in tiles)
        if copies:
            f.commit_copies()

        def come() -> None:
            for put in puts:
                put()
            if copies:
                f.await_copies(0)

        return come

    def _bring(self, step: Index, stage: Index) -> Callable[[], None]:
        """Begin to bring the tiles of the inner side of a step."""
        f = self.f
        begin = f.imul(step, self.inner)
        wanted = []
        for number, each in enumerate(self.staged):
            of_product = number < len(self.p.products)
            to = f.imul(f.iadd(f.imul(stage, self.words), each.begin), 2)
            wanted.append((each.tile, to, begin if of_product else 0, 0 if of_product else begin))
        return self._come(wanted)

    # --- one tile of the inner side ----------------------------------------------------------------------------------

    def _step(self, last: Index, step: Value, *carried: Value) -> list[Value]:
        f, p, unit, count = self.f, self.p, self.unit, len(self.at)
        stage = f.irem(step, STAGES)
        come = self._bring(f.imin(f.iadd(step, 1), last), f.irem(f.iadd(step, 1), STAGES))
        totals = []
        for product, each in enumerate(self.staged[: len(p.products)]):
            scores = [f.const(0.0, F32)] * (self.inner // unit.columns * len(unit.sums))
            begin = f.imul(f.iadd(f.imul(stage, self.words), each.begin), 2)
            for number, registers in enumerate(self._left(product)):
                right = self.subgroup.right(self.shared, begin, each.tile, 0, self.inner, number * unit.depth)
                scores = self.subgroup.multiplied([registers], right, scores)
            totals.append(scores)
        reduced = list(carried[: len(p.reductions) * count])
        weights: list[list[Value]] = [[] for _ in p.sums]
        for number in range(len(totals[0])):
            row = self.subgroup.row_of(number)
            inner = f.iadd(f.imul(step, self.inner), self.subgroup.column_of(number))
            exists = f.cmp("slt", f.index(inner), f.const(p.count)) if p.count % self.inner else None
            safe = inner if exists is None else f.imin(inner, p.count - 1)
            found = p.evaluated(self.batch, self.at[row], safe, [scores[number] for scores in totals])
            for sum_, mine, value in zip(p.sums, weights, found[: len(p.sums)], strict=True):
                weight = sum_.weight(value)
                mine.append(weight if exists is None else f.select(exists, weight, f.const(0.0, weight.type)))
            for at, (item, value) in enumerate(zip(p.reductions, found[len(p.sums) :], strict=True)):
                assert isinstance(value, Value)
                value = value if exists is None else f.select(exists, value, item.identity(f))
                reduced[at * count + row] = item.combined(f, reduced[at * count + row], value)
        results, first = list[Value](), len(reduced)
        for sum_, mine, each in zip(p.sums, weights, self.staged[len(p.products) :], strict=True):
            sums = list(carried[first : first + self._sums_of(each.tile)])
            first += len(sums)
            results += self._summed(sum_, mine, each, stage, sums)
        come()
        f.barrier()  # all have read this stage, and the next one is there
        return [*reduced, *results]

    def _summed(
        self, sum_: WeightedSum, weights: Sequence[Value], staged: _Staged, stage: Index, sums: list[Value]
    ) -> list[Value]:
        """Sums with a tile of the inner side added."""
        f, unit = self.f, self.unit
        begin = f.imul(f.iadd(f.imul(stage, self.words), staged.begin), 2)
        parts = [self._parts(sum_, weight) for weight in weights]
        for first in range(0, self.inner, unit.depth):
            right = self.subgroup.right(self.shared, begin, staged.tile, 0, staged.tile.rows, first)
            for bits in zip(*parts, strict=True):
                sums = self.subgroup.multiplied([self.subgroup.sums_as_left(bits, first)], right, sums)
        return sums

    def _parts(self, sum_: WeightedSum, weight: Value) -> list[Value]:
        """The bits of numbers of the unit's type whose sum a weight is, the smallest first: itself, or what eight bits
        at a time leave of an f32. What is not finite is one number."""
        f, of = self.f, element(sum_.weights)
        if of.name == self.unit.operand:
            return [to_bits(f, of, weight)]
        found = []
        is_finite = f.cmp("olt", f.intrinsic("fabs", weight), f.const(math.inf, F32))
        for last in (False, False, True):
            bits = f.bitcast(weight, I32)
            found.append(f.cast("trunc", f.binary("lshr", bits, f.const(16, I32)), I16))
            if not last:
                part = f.bitcast(f.binary("and", bits, f.const(-1 << 16, I32)), F32)
                weight = f.select(is_finite, f.fsub(weight, part), f.const(0.0, F32))
        return found[::-1]

    def _finish(self, carried: Sequence[Value]) -> None:
        """Store the results of the block's rows."""
        f, p, count = self.f, self.p, len(self.at)
        for number, item in enumerate(p.reductions):
            for row in range(count):
                total = self.subgroup.over_threads(carried[number * count + row], partial(item.combined, f))
                is_first = f.cmp("eq", f.index(self.subgroup.inner), f.const(0))
                put = partial(item.store, self.batch, self.at[row], total)
                f.if_(f.binary("and", self._exists(row), is_first), put)
        first = len(p.reductions) * count
        for sum_, each in zip(p.sums, self.staged[len(p.products) :], strict=True):
            mine = list(enumerate(carried[first : first + self._sums_of(each.tile)]))
            first += len(mine)
            for row in range(count):
                of_row = [
                    (self.subgroup.column_of(at), sum_of) for at, sum_of in mine if self.subgroup.row_of(at) == row
                ]
                f.if_(self._exists(row), partial(self._put, sum_, row, of_row, each.tile.rows))

    def _exists(self, row: int) -> Value:
        f = self.f
        return f.cmp("slt", f.index(f.iadd(self.first, self._local(row))), f.const(self.p.rows))

    def _put(self, sum_: WeightedSum, row: int, found: Sequence[tuple[Index, Value]], width: int) -> None:
        """Store the columns of a row that a thread has."""
        f = self.f
        for column, total in found:
            put = partial(sum_.store, self.batch, self.at[row], column, total)
            if sum_.width == width:
                put()
            else:
                f.if_(f.cmp("slt", f.index(column), f.const(sum_.width)), put)
