"""Which tiles of one side a block goes through that has a tile of the other side, where a mask says by indices which
places see each other: queries and keys of attention, either side of sums over scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.index import Affine, scalar
from stablehlo_py.passes.fusing.attention_mask import Linear, Mask


@dataclass(frozen=True)
class Sides:
    """What a block has a tile of, and what it goes through.

    Attributes:
        labels: of the outer side, the last one fastest; key: the one of the inner side whose index bounds have, the
            slowest; sizes: by label.
        rows, count: places of the outer and the inner side; each: places of the inner side for each key.
        places: the index along each label of the outer side and of batches, by batch and place.
    """

    labels: tuple[int, ...]
    key: int
    sizes: Mapping[int, int]
    rows: int
    count: int
    each: int
    places: Callable[[Index, Index], Mapping[int, Affine]]


class Band:
    """The places of the inner side that those of a block see.

    Args:
        f: the kernel; sides, mask: what it goes through.
        tile: places of a tile of the inner side.
        batch, first, count: the block's places of the outer side.
    """

    def __init__(
        self, f: Function, sides: Sides, mask: Mask, tile: int, batch: Index, first: Index, count: int
    ) -> None:
        self.f, self.sides, self.mask, self.tile, self.batch = f, sides, mask, tile, batch
        last = f.imin(f.iadd(first, count - 1), sides.rows - 1)
        low, high = ({label: scalar(f, at) for label, at in sides.places(batch, row).items()} for row in (first, last))
        self.spans = {label: (at, at) for label, at in low.items() if label not in sides.labels}
        outer: list[Value] = []  # whether all rows are at one place along the dimensions before
        for label in sides.labels:
            ends = low[label], high[label]
            if outer:
                same = reduce(lambda a, b: f.binary("and", a, b), outer)
                size = sides.sizes[label]
                ends = f.select(same, f.index(ends[0]), f.const(0)), f.select(same, f.index(ends[1]), f.const(size - 1))
                ends = f.bounded(ends[0], 0, size - 1), f.bounded(ends[1], 0, size - 1)
            self.spans[label] = ends
            outer.append(f.cmp("eq", f.index(low[label]), f.index(high[label])))

    def _end(self, bound: Linear, largest: bool) -> Index:
        """The largest or the smallest that a bound is for the block's places, without the part of the key."""
        f = self.f
        total: Index = bound.constant
        for label, factor in bound.factors.items():
            if label != self.sides.key:
                total = f.iadd(total, f.imul(self.spans[label][(factor > 0) == largest], factor))
        return total

    def range(self, grain: int | None = None) -> tuple[Index, Index]:
        """The tiles outside of which no place sees another: the first key of the first one, the end of the last one, of
        which so many keys are there (None: all)."""
        f, sides = self.f, self.sides
        low: Index = 0
        high: Index = sides.count // sides.each
        for bound in self.mask.bounds:
            end = self._end(bound, largest=True)
            factor = bound.factors.get(sides.key, 0)
            if factor == 1:
                low = f.imax(low, f.isub(0, end))
            elif factor == -1:
                high = f.imin(high, f.iadd(end, 1))
            elif factor == 0:
                high = f.select(f.cmp("slt", f.index(end), f.const(0)), f.const(0), f.index(high))
        low, high = f.imul(f.imax(low, 0), sides.each), f.imul(f.imax(high, 0), sides.each)
        first = f.idiv(f.imin(low, sides.count - 1), self.tile)
        grain = grain or self.tile
        end = f.idiv(f.iadd(high, grain - 1), grain)
        return f.imul(first, self.tile), f.imul(end, grain)

    def is_full(self, begin: Index) -> Value:
        """Whether all queries see all keys of a tile, and the tile has no place behind the last key."""
        f, sides = self.f, self.sides
        tests = [f.cmp("sle", f.index(begin), f.const(sides.count - self.tile))] if sides.count % self.tile else []
        for bound in self.mask.bounds:
            factor = bound.factors.get(sides.key, 0)
            key = f.iadd(begin, self.tile - 1) if factor < 0 else begin
            least = f.iadd(self._end(bound, largest=False), f.imul(key, factor))
            tests.append(f.cmp("sge", f.index(least), f.const(0)))
        return reduce(lambda a, b: f.binary("and", a, b), tests)
