"""Tiles of keys that the queries of a block do not see, where a mask says that by indices: they are not gone through.

A key that is masked has the score that the mask gives. It counts for nothing where the exponential of that score below
the row's largest one is 0, and its values are finite: 0 times an infinity is NaN, as the program says. So a kernel in
front finds out which values are finite. Where the score is -inf, its exponential is 0. Where it is a finite number,
blocks look at their rows' largest scores afterwards: if one is not far above (the queries of the row see no key, or
have scores as low as that), they begin again, and go through all keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, reduce

from stablehlo_py.backends.common.band import Band
from stablehlo_py.backends.common.reduction import Reduction
from stablehlo_py.backends.gpu.kernels.attention_program import Masked, Program
from stablehlo_py.backends.gpu.kernels.base import kernel_function
from stablehlo_py.backends.gpu.kernels.combining import block_combined
from stablehlo_py.backends.gpu.kernels.magnitudes import BLOCK, Magnitudes
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.passes.fusing.attention_mask import Mask

LEAST_TILES = 8  # of keys: fewer are not worth the kernel in front
Run = Callable[[Index, Index], list[Value]]  # through the tiles between two keys
Score = Callable[[Index, int, Value, bool], Value]  # a tile's first key, which score, its sum, whether its key is seen


class Skipping:
    """How a kernel goes through the tiles that its queries see.

    Args:
        program, mask: what is computed; threads: of a block.
    """

    def __init__(self, program: Program, mask: Mask, threads: int) -> None:
        self.p, self.mask, self.threads = program, mask, threads
        self.magnitudes = Magnitudes(program.values, program.columns, along_depth=True)
        self.parts = self.magnitudes.parts

    @property
    def bytes(self) -> int:
        """Scratch memory."""
        return self.p.batch * self.parts * self.p.of.compute.bits // 8

    @cached_property
    def _largest(self) -> Reduction:
        return self.p.reduction(self.p.found.maximum)

    def _over_block(self, f: Function, a: Value, threads: int) -> Value:
        """The largest of the threads' scores."""
        (result,) = block_combined(f, self.p.target, [self._largest], [a], threads)
        assert isinstance(result, Value)
        return result

    # --- values ------------------------------------------------------------------------------------------------------

    def finite_values(self) -> Function:
        """The kernel in front: 1 for each part of the values of a batch that has one that is not finite, else 0."""
        p = self.p
        symbol = f"{p.fusion.name}_finite"
        f = kernel_function(p.fusion, p.target, symbol, p.batch * self.parts, BLOCK)
        p.begin(f)
        largest = self.magnitudes.largest(f.idiv(f.block_number(), self.parts), f.irem(f.block_number(), self.parts))
        numbers = (f.const(number, p.of.compute) for number in (0.0, 1.0))
        is_not = self._over_block(f, f.select(p.is_finite(largest), *numbers), BLOCK)
        f.if_(f.cmp("eq", f.thread_number(), f.const(0)), lambda: f.store(is_not, f.scratch, f.block_number()))
        f.ret()
        return f

    def _are_finite(self, batch: Index) -> Value:
        """Whether all values of a batch are."""
        f, of = self.p.f, self.p.of.compute
        at = f.imul(batch, self.parts)
        found = (f.load(of, f.scratch, f.iadd(at, number)) for number in range(self.parts))
        return f.cmp("oeq", reduce(self.p.larger, found), f.const(0.0, of))

    # --- keys --------------------------------------------------------------------------------------------------------

    def run(self, band: Band, end: int, start: Sequence[Value], run: Run, rows: int) -> list[Value]:
        """What is carried out of the loop over the tiles, whose last one ends at `end`: `run` goes through some. The
        first `rows` of it are the rows' largest scores; `start` is what the loop begins with."""
        f = self.p.f
        first, last = self._seen(band, end)
        if self.mask.value == -math.inf:
            return run(first, last)

        def again(number: Value, *carried: Value) -> Value:
            return f.cmp("slt", number, f.const(2))

        def round_(number: Value, *carried: Value) -> list[Value]:
            is_first = f.cmp("eq", number, f.const(0))
            bounds = f.select(is_first, f.index(first), f.const(0)), f.select(is_first, f.index(last), f.const(end))
            found = run(*(f.bounded(each, 0, end) for each in bounds))
            fails = f.binary("and", is_first, self._sees_masked(found[:rows]))
            return [f.select(fails, f.const(1), f.const(2)), *found]

        return f.while_([f.const(0), *start], again, round_)[1:]

    def _seen(self, band: Band, end: int) -> tuple[Index, Index]:
        """The keys that a block goes through, as far as values say: all of them, where one is not finite."""
        f = self.p.f
        first, last = band.range()
        all_finite = self._are_finite(band.batch)
        first = f.select(all_finite, f.index(first), f.const(0))
        last = f.select(all_finite, f.index(last), f.const(end))
        return f.bounded(first, 0, end), f.bounded(last, 0, end)

    # --- parts of the keys -------------------------------------------------------------------------------------------

    def part(self, band: Band, end: int, part: Index, parts: int) -> tuple[Index, Index]:
        """The keys that a block goes through which has one of so many parts of those that its queries see."""
        f = self.p.f
        first, last = self._seen(band, end)
        tiles = f.imax(f.idiv(f.isub(last, first), band.tile), 0)
        begin, until = (
            f.iadd(first, f.imul(f.idiv(f.imul(f.iadd(part, more), tiles), parts), band.tile)) for more in (0, 1)
        )
        return f.bounded(begin, 0, end), f.bounded(until, 0, end)

    def masked_of(self, rows: int, tile: int, batch: Index, row: Index, column: Index) -> Masked:
        """What the keys add to a row and a column that no part went through: blocks with parts do not know the row's
        largest score, so they never begin again. `rows`, `tile`: queries of a block, keys of a tile."""
        f, p = self.p.f, self.p
        band = Band(f, p.sides, self.mask, tile, batch, f.imul(f.idiv(row, rows), rows), rows)
        first, last = self._seen(band, -(-p.count // tile) * tile)
        first, last = (f.imin(each, p.count) for each in (first, last))
        last = f.imax(first, last)
        masked = f.const(self.mask.value, p.of.compute)
        skips = f.binary("or", f.cmp("sgt", f.index(first), f.const(0)), f.cmp("slt", f.index(last), f.const(p.count)))

        def larger(largest: Value) -> Value:
            return largest if self.mask.value == -math.inf else f.select(skips, p.larger(largest, masked), largest)

        def add(largest: Value, sums: Sequence[Value]) -> list[Value]:
            if self.mask.value == -math.inf:
                return list(sums)
            reference = p.reference(largest)

            def one(key: Value, *sums: Value) -> list[Value]:
                added, weight = p.weight(band.batch, row, key, masked, reference)
                value = p.values.element(p.columns, band.batch, column, key)
                return [f.fadd(sums[0], added), f.fma(weight, value, sums[1])]

            def all_() -> list[Value]:
                return f.loop(last, p.count, 1, one, f.loop(0, first, 1, one, sums))

            counts = f.cmp("ugt", self._below(largest), f.const(self._least, masked.type))
            return f.if_(f.binary("and", skips, counts), all_, lambda: list(sums), unlikely=True)

        return Masked(larger, add)

    # --- the mask's score --------------------------------------------------------------------------------------------

    @property
    def _least(self) -> float:
        """Exponentials are 0 from here on."""
        return -1024.0 if self.p.of.compute.bits == 64 else -128.0

    def _below(self, top: Value) -> Value:
        """The mask's score less the largest one of a row."""
        f, p = self.p.f, self.p
        masked = f.const(self.mask.value, p.of.compute)
        is_below = f.cmp("olt", top, masked)
        return f.select(is_below, f.const(math.inf, masked.type), f.fsub(masked, p.reference(top)))

    def _sees_masked(self, largest: Sequence[Value]) -> Value:
        """Whether a masked key counts in one of the block's rows."""
        f = self.p.f
        found = reduce(self.p.larger, map(self._below, largest))
        return f.cmp("ugt", self._over_block(f, found, self.threads), f.const(self._least, found.type))


def scored(f: Function, band: Band | None, begin: Index, totals: Sequence[Value], score: Score) -> list[Value]:
    """The scores of a tile; the mask is evaluated where queries do not see all of it."""
    if band is None or not band.mask.exact:
        return [score(begin, number, total, False) for number, total in enumerate(totals)]

    def each(is_seen: bool) -> list[Value]:
        first = f.kept(f.index(begin))
        return [score(first, number, f.kept(total), is_seen) for number, total in enumerate(totals)]

    return f.if_(band.is_full(begin), lambda: each(True), lambda: each(False))


def skipping(program: Program, keys: int, threads: int) -> Skipping | None:
    """How tiles of so many keys are skipped, where that is worth it."""
    mask = program.mask
    few = program.count < LEAST_TILES * keys
    return None if mask is None or few or not program.drops_masked else Skipping(program, mask, threads)
