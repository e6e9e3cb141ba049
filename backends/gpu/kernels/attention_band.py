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
from stablehlo_py.backends.gpu.kernels.base import kernel_function
from stablehlo_py.backends.gpu.kernels.combining import block_combined
from stablehlo_py.backends.gpu.kernels.product import PIECE_BITS
from stablehlo_py.codegen.builder import I32, Function, Index, Value
from stablehlo_py.codegen.index import scalar
from stablehlo_py.codegen.types import element
from stablehlo_py.passes.fusing.attention_mask import Linear, Mask

LEAST_TILES = 8  # of keys: fewer are not worth the kernel in front
BLOCK, PART, MOST_PARTS = 256, 1 << 16, 16  # threads, values of a block at least, and blocks for the values of a batch
EXPONENTS = {"f32": 0x7F800000, "bf16": 0x7F807F80, "f16": 0x7C007C00}  # of the numbers in a word: all bits set
Run = Callable[[Index, Index], list[Value]]  # through the tiles between two keys
Score = Callable[[Index, int, Value, bool], Value]  # a tile's first key, which score, its sum, whether its key is seen


class Band:
    """The keys that the queries of a block see.

    Args:
        program, mask: what is computed.
        keys: of a tile.
        batch, first, count: the block's queries.
    """

    def __init__(self, program: Program, mask: Mask, keys: int, batch: Index, first: Index, count: int) -> None:
        self.p, self.mask, self.tile, self.batch = program, mask, keys, batch
        f, (self.key,) = program.f, program.found.keys
        last = f.imin(f.iadd(first, count - 1), program.rows - 1)
        low, high = (
            {label: scalar(f, at) for label, at in program.places(batch, row, 0).items()} for row in (first, last)
        )
        self.spans = {label: (at, at) for label, at in low.items() if label not in program.found.rows}
        outer: list[Value] = []  # whether all rows are at one place along the dimensions before
        for label in program.found.rows:
            ends = low[label], high[label]
            if outer:
                same = reduce(lambda a, b: f.binary("and", a, b), outer)
                size = program.sizes[label]
                ends = f.select(same, f.index(ends[0]), f.const(0)), f.select(same, f.index(ends[1]), f.const(size - 1))
                ends = f.bounded(ends[0], 0, size - 1), f.bounded(ends[1], 0, size - 1)
            self.spans[label] = ends
            outer.append(f.cmp("eq", f.index(low[label]), f.index(high[label])))

    def _end(self, bound: Linear, largest: bool) -> Index:
        """The largest or the smallest that a bound is for the block's queries, without the part of the key."""
        f = self.p.f
        total: Index = bound.constant
        for label, factor in bound.factors.items():
            if label != self.key:
                total = f.iadd(total, f.imul(self.spans[label][(factor > 0) == largest], factor))
        return total

    def range(self) -> tuple[Index, Index]:
        """The tiles outside of which no query sees a key: the first key of the first one, the end of the last one."""
        f = self.p.f
        low: Index = 0
        high: Index = self.p.count
        for bound in self.mask.bounds:
            end = self._end(bound, largest=True)
            factor = bound.factors.get(self.key, 0)
            if factor == 1:
                low = f.imax(low, f.isub(0, end))
            elif factor == -1:
                high = f.imin(high, f.iadd(end, 1))
            elif factor == 0:
                high = f.select(f.cmp("slt", f.index(end), f.const(0)), f.const(0), f.index(high))
        first = f.idiv(f.imin(low, self.p.count - 1), self.tile)
        end = f.idiv(f.iadd(f.imax(high, 0), self.tile - 1), self.tile)
        return f.imul(first, self.tile), f.imul(end, self.tile)

    def is_full(self, begin: Index) -> Value:
        """Whether all queries see all keys of a tile, and the tile has no place behind the last key."""
        f = self.p.f
        tests = [f.cmp("sle", f.index(begin), f.const(self.p.count - self.tile))] if self.p.count % self.tile else []
        for bound in self.mask.bounds:
            factor = bound.factors.get(self.key, 0)
            key = f.iadd(begin, self.tile - 1) if factor < 0 else begin
            least = f.iadd(self._end(bound, largest=False), f.imul(key, factor))
            tests.append(f.cmp("sge", f.index(least), f.const(0)))
        return reduce(lambda a, b: f.binary("and", a, b), tests)


class Skipping:
    """How a kernel goes through the tiles that its queries see.

    Args:
        program, mask: what is computed; threads: of a block.
    """

    def __init__(self, program: Program, mask: Mask, threads: int) -> None:
        self.p, self.mask, self.threads = program, mask, threads
        part = max(PART // program.width, -(-program.count // MOST_PARTS))
        self.part = -(-part // PIECE_BITS) * PIECE_BITS  # keys whose values a block looks at: whole pieces
        self.parts = -(-program.count // self.part)

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
        batch, first = f.idiv(f.block_number(), self.parts), f.imul(f.irem(f.block_number(), self.parts), self.part)
        wide = self._piece_width(batch)

        def look(number: Value, found: Value) -> list[Value]:
            return [f.binary("or", found, self._not_finite(batch, first, number, wide))]

        (found,) = f.loop(f.thread_number(), self.part * p.width // wide, BLOCK, look, [f.const(0, I32)])
        numbers = (f.const(number, p.of.compute) for number in (1.0, 0.0))
        largest = self._over_block(f, f.select(f.cmp("ne", found, f.const(0, I32)), *numbers), BLOCK)
        f.if_(f.cmp("eq", f.thread_number(), f.const(0)), lambda: f.store(largest, f.scratch, f.block_number()))
        f.ret()
        return f

    def _piece_width(self, batch: Index) -> int:
        """Values that a thread reads together."""
        of = element(self.p.columns.value)
        if of.name not in EXPONENTS or self.p.values.piece(self.p.columns, batch, 0, 0) is None:
            return 1
        return PIECE_BITS // of.bits

    def _not_finite(self, batch: Index, first: Index, number: Index, wide: int) -> Value:
        """i32: not 0 where one of so many neighbouring values is not finite."""
        f, p = self.p.f, self.p
        operand = p.columns
        if operand.contracts_last:
            across = self.part // wide
            key, column = f.imul(f.irem(number, across), wide), f.idiv(number, across)
        else:
            across = p.width // wide
            key, column = f.idiv(number, across), f.imul(f.irem(number, across), wide)
        key = f.imin(f.iadd(first, key), p.count - (wide if operand.contracts_last else 1))
        if wide == 1:
            value = p.values.element(operand, batch, column, key)
            return f.select(p.is_finite(value), f.const(0, I32), f.const(1, I32))
        piece = p.values.piece(operand, batch, column, key)
        assert piece is not None
        words, ones = piece.load(f), EXPONENTS[element(operand.value).name]
        masks = [ones] if ones < 1 << 31 and ones & 0xFFFF == 0 else [ones & 0xFFFF, ones & ~0xFFFF]
        found = f.const(0, I32)
        for number in range(PIECE_BITS // 32):
            for mask in masks:
                bits = f.const(mask, I32)
                is_set = f.cmp("eq", f.binary("and", f.extract(words, number), bits), bits)
                found = f.binary("or", found, f.cast("zext", is_set, I32))
        return found

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
