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

from stablehlo_py.backends.common.reduction import Reduction
from stablehlo_py.backends.gpu.kernels.attention_program import Program
from stablehlo_py.backends.gpu.kernels.band import Band
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
        first, last = band.range()
        all_finite = self._are_finite(band.batch)
        first = f.bounded(f.select(all_finite, f.index(first), f.const(0)), 0, end)
        last = f.bounded(f.select(all_finite, f.index(last), f.const(end)), 0, end)
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

    def _sees_masked(self, largest: Sequence[Value]) -> Value:
        """Whether a masked key counts in one of the block's rows."""
        f, p = self.p.f, self.p
        masked = f.const(self.mask.value, p.of.compute)
        found = []
        for top in largest:
            is_below = f.cmp("olt", top, masked)
            difference = f.fsub(masked, p.reference(top))
            found.append(f.select(is_below, f.const(math.inf, masked.type), difference))
        least = f.const(-1024.0 if masked.type.bits == 64 else -128.0, masked.type)  # exponentials are 0 from here on
        return f.cmp("ugt", self._over_block(f, reduce(p.larger, found), self.threads), least)


def scored(f: Function, band: Band | None, begin: Index, totals: Sequence[Value], score: Score) -> list[Value]:
    """The scores of a tile; the mask is evaluated where queries do not see all of it."""
    if band is None or not band.mask.exact:
        return [score(begin, number, total, False) for number, total in enumerate(totals)]

    def each(is_seen: bool) -> list[Value]:
        first = f.kept(f.index(begin))
        return [score(first, number, f.kept(total), is_seen) for number, total in enumerate(totals)]

    return f.if_(band.is_full(begin), lambda: each(True), lambda: each(False))


def skipping(program: Program, parts: int, keys: int, threads: int) -> Skipping | None:
    """How tiles of so many keys are skipped, where that is worth it."""
    mask = program.mask
    few = parts > 1 or program.count < LEAST_TILES * keys
    return None if mask is None or few or not program.drops_masked else Skipping(program, mask, threads)
