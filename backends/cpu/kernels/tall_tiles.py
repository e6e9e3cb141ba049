"""Rows whose number comes with the call, cut into tiles of few heights.

Code is made for each height, so there can be no tile for every rest. Instead the last tile overlaps the one before it:
it computes some rows again, and stores only those that are new. Rows past the end are neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stablehlo_py.codegen.builder import I64, Function, Index
from stablehlo_py.codegen.index import Affine, affine_of
from stablehlo_py.dialect.symint import IntLike, always_at_most

#: (row, the same as an index, height, how many of its first rows are in another tile already or None)
TileBody = Callable[[Index, Affine, int, "Index | None"], None]


@dataclass(frozen=True)
class TallTiles:
    """`size` rows in tiles of `heights[0]`; `heights`, from the tallest, also serve the rest, and fewer rows than that.
    `hint` is how many rows there may be, for estimates of cost."""

    size: IntLike
    heights: tuple[int, ...]
    hint: int

    @property
    def height(self) -> int:
        """Of the tiles that most rows are in."""
        return self.heights[0]

    @property
    def tiles(self) -> IntLike:
        """Tiles of full height, and one for the rest."""
        return -(-self.size // self.height)

    def emit(self, f: Function, first: Index, last: Index | None, tile: TileBody) -> None:
        """Call `tile` for tiles first..last of full height (None: all), the last of which may be several lower ones."""
        done = f.imul(first, self.height)
        end = self.size if last is None else f.imin(f.imul(last, self.height), self.size)

        def body(row: Index, height: int, skip: Index | None) -> None:
            tile(row, affine_of(row, self.size - height), height, skip)

        for height, following in zip(self.heights, (*self.heights[1:], 0), strict=True):
            left = f.isub(end, done)
            whole, rest = f.idiv(left, height), f.irem(left, height)
            stop = f.iadd(done, f.imul(whole, height))
            more = f.cmp("sgt", f.index(rest), f.const(following))  # than a lower tile would hold
            if not always_at_most(height, self.size):
                more = f.binary("and", more, f.cmp("sge", f.index(end), f.const(height)))
            if height == self.height:
                f.loop(done, stop, height, lambda row, height=height: body(row, height, None))
                f.if_(more, lambda: body(f.isub(end, height), height, f.isub(height, rest)))  # noqa: B023 - run at once
            elif height == 1:
                f.loop(done, end, 1, lambda row: body(row, 1, None))
            else:
                limit = f.iadd(stop, f.imul(f.cast("zext", more, I64), height))

                def overlapping(row: Index, height: int = height) -> None:
                    start = f.imin(row, f.isub(end, height))
                    body(start, height, f.isub(row, start))

                f.loop(done, limit, height, overlapping)
            done = f.select(more, f.index(end), f.index(stop))
