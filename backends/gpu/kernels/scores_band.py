"""Tiles that a mask leaves nothing of, in sums over scores: they are not gone through.

What such a tile adds is zeros times finite columns, which changes no sum, where its weights are zero: that depends on
rows (one that sees nothing has the same weight everywhere) and on how large products get. So a kernel in front finds
the largest magnitude of every operand that counts, and for groups of rows whether weights of masked places are zero
(scores_masked.py). Rows are places of the outer or of the inner side. Of an outer side, a block whose group has one
that is not goes through everything; of an inner side, a block also goes through such groups and all tiles in between.

Sums begin at +0, so what is left out would not even have changed the sign of a zero but for sums that underflowed to
-0; the kernels write +0 for that, whether tiles are left out or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from stablehlo_py.backends.common.band import Band
from stablehlo_py.backends.common.reduction import Reduction
from stablehlo_py.backends.common.scores_masked import FINITE, MaskedPlaces, largest_product
from stablehlo_py.backends.gpu.kernels.base import kernel_function
from stablehlo_py.backends.gpu.kernels.combining import block_combined
from stablehlo_py.backends.gpu.kernels.magnitudes import BLOCK, MOST_PARTS, Magnitudes
from stablehlo_py.backends.gpu.kernels.scores_program import Program
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.types import Element, element

LEAST_TILES = 8  # of the inner side: fewer are not worth the kernel in front


@dataclass(frozen=True)
class _Limit:
    """Operands, and what their largest magnitudes, multiplied, may be."""

    operands: tuple[Magnitudes, ...]
    most: float


class Skipping:
    """How a kernel goes through the tiles that a mask leaves something of.

    Args:
        program: what is computed, which has a mask; places: what is known of masked places.

    Attributes:
        from_end: whether blocks with later places of the outer side have more to do.
    """

    def __init__(self, program: Program, places: MaskedPlaces) -> None:
        self.p, self.places = program, places
        self.sides, self.mask = program.sides, places.masked.mask
        self.from_end = any(bound.factors.get(self.sides.key, 0) < 0 for bound in self.mask.bounds)
        self.limits = [
            _Limit(
                tuple(Magnitudes(each.product, side, along_depth=False) for side in (each.outer, each.inner)),
                largest_product(each.product.of, each.product.depth),
            )
            for node, each in zip(program.scores.products, program.products, strict=True)
            if node in places.used
        ]
        self.limits += [
            _Limit((Magnitudes(each.product, each.columns, along_depth=True),), FINITE[program.type.bits])
            for each in program.sums
        ]
        self.rows = program.rows if places.by_outer else program.count
        self.group = BLOCK * -(-self.rows // (BLOCK * MOST_PARTS))  # rows that are looked at together
        self.groups = -(-self.rows // self.group)
        self.looks = [each for limit in self.limits for each in limit.operands]
        self.line = sum(each.parts for each in self.looks) + self.groups  # what is found of a batch

    @property
    def bytes(self) -> int:
        """Scratch memory."""
        return self.p.batch * self.line * self.p.type.bits // 8

    def _larger(self, a: Value, b: Value) -> Value:
        found = arith.combine(self.p.f, "maximum", self._of, a, b)
        assert isinstance(found, Value)
        return found

    @property
    def _of(self) -> Element:
        return element("f64" if self.p.type.bits == 64 else "f32")

    # --- the kernel in front -----------------------------------------------------------------------------------------

    def front(self) -> Function:
        """What finds the largest magnitudes of parts of operands, and for groups of rows whether all weights of masked
        places are 0 (else it is 1): a block for each of them."""
        p = self.p
        f = kernel_function(p.fusion, p.target, f"{p.fusion.name}_masked", p.batch * self.line, BLOCK)
        p.begin(f)
        batch, number = f.idiv(f.block_number(), self.line), f.irem(f.block_number(), self.line)
        jobs: list[tuple[int, Callable[[Index], Value]]] = [
            (each.parts, partial(each.largest, batch)) for each in self.looks
        ]
        jobs.append((self.groups, partial(self._of_group, batch)))
        mine = self._chosen(f, number, jobs)
        result = p.products[0].product.result
        item = Reduction(result, result, result, "maximum", (), self._of)
        (largest,) = block_combined(f, p.target, [item], [mine], BLOCK)
        assert isinstance(largest, Value)
        f.if_(f.cmp("eq", f.thread_number(), f.const(0)), lambda: f.store(largest, f.scratch, f.block_number()))
        f.ret()
        return f

    def _chosen(self, f: Function, number: Index, jobs: Sequence[tuple[int, Callable[[Index], Value]]]) -> Value:
        """What the job gives that a number belongs to, which are numbered one after the other."""
        (count, job), *others = jobs
        if not others:
            return job(number)
        first = f.cmp("slt", f.index(number), f.const(count))
        return f.if_(first, lambda: [job(number)], lambda: [self._chosen(f, f.isub(number, count), others)])[0]

    def _of_group(self, batch: Index, group: Index) -> Value:
        """Of the rows of a group that a thread looks at."""
        f = self.p.f
        zero, one = (f.const(each, self.p.type) for each in (0.0, 1.0))

        def look(row: Value, found: Value) -> list[Value]:
            known = self.places.magnitudes(batch, f.imin(f.iadd(f.imul(group, self.group), row), self.rows - 1))
            assert known is not None
            tests = [f.cmp("oeq", each, f.const(0.0, each.type)) for each in known]
            return [f.select(reduce(partial(f.binary, "and"), tests), found, one)] if tests else [found]

        return f.loop(f.thread_number(), self.group, BLOCK, look, [zero])[0]

    # --- what a block goes through -----------------------------------------------------------------------------------

    def tiles_of(self, band: Band, first: Index) -> tuple[Index, Index]:
        """The first tile, and the one behind the last one, of a block, whose first place of the outer side is given."""
        f, of = self.p.f, self.p.type
        line, tile, tiles = f.imul(band.batch, self.line), band.tile, self._count(band)
        low, high = (f.idiv(place, tile) for place in band.range())
        tests, begin = list[Value](), line
        for limit in self.limits:
            product = f.const(1.0, of)
            for each in limit.operands:
                parts = [f.load(of, f.scratch, f.iadd(begin, number)) for number in range(each.parts)]
                begin = f.iadd(begin, each.parts)
                product = f.fmul(product, reduce(self._larger, parts))
            tests.append(f.cmp("ole", product, f.const(limit.most, of)))
        zero = f.const(0.0, of)
        if self.places.by_outer:
            tests.append(f.cmp("oeq", f.load(of, f.scratch, f.iadd(begin, f.idiv(first, self.group))), zero))
        else:
            for group in range(self.groups):
                fails = f.cmp("one", f.load(of, f.scratch, f.iadd(begin, group)), zero)
                ends = group * self.group // tile, min(tiles, -(-(group + 1) * self.group // tile))
                low = f.select(fails, f.index(f.imin(low, ends[0])), f.index(low))
                high = f.select(fails, f.index(f.imax(high, ends[1])), f.index(high))
        holds = reduce(partial(f.binary, "and"), tests) if tests else None
        if holds is not None:
            low = f.select(holds, f.index(low), f.const(0))
            high = f.select(holds, f.index(high), f.const(tiles))
        return f.bounded(low, 0, tiles), f.bounded(high, 0, tiles)

    def _count(self, band: Band) -> int:
        return -(-self.p.count // band.tile)

    def with_masked(self, band: Band, low: Index, high: Index, carried: Sequence[Value], rows: int) -> list[Value]:
        """What is carried out of the loop over tiles, reductions of so many rows first, with what the tiles have that
        were left out."""
        f, found = self.p.f, list(carried)
        ends = f.cmp("eq", f.index(low), f.const(0)), f.cmp("eq", f.index(high), f.const(self._count(band)))
        all_ = f.binary("and", *ends)
        for number, value in self.places.extremes.items():
            item = self.p.reductions[number]
            for row in range(number * rows, (number + 1) * rows):
                masked = f.const(value, found[row].type)
                found[row] = f.select(all_, found[row], item.combined(f, found[row], masked))
        return found


def skipping(program: Program, tile: int) -> Skipping | None:
    """How tiles of so many places of the inner side are left out, where that is worth it and a mask says what is 0."""
    masked = program.masked
    if masked is None or program.count < LEAST_TILES * tile:
        return None
    for by_outer in (True, False):
        places = MaskedPlaces(program, masked, by_outer=by_outer)
        f = kernel_function(program.fusion, program.target, "none", 1, 1)  # which is thrown away
        program.begin(f)
        if places.magnitudes(f.block_number(), f.thread_number()) is not None:
            return Skipping(program, places)
    return None
