"""Strips of a row: blocks of columns that meet some rows one after the other, where no cache holds the array.

Block by block, each row would be read in pieces of some lines, from a page each. What fetches ahead follows a page to
its end, so the blocks of a page meet eight rows, then the next ones; what a block holds waits in the L1 cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, Function, Index
from stablehlo_py.codegen.types import ELEMENTS, Element, Lanes

STRIP_BYTES = 4096  # of a row, which several blocks read one after the other: a page
STRIP_ROWS = 8


def accumulator_type(of: Element) -> Element:
    """An element type that holds accumulators of `of` exactly."""
    return ELEMENTS[of.compute.text] if of.is_float else of


def walk_strip(
    f: Function,
    held: Sequence[Element],
    lanes: int,
    blocks: tuple[Index, Index],
    most: int,
    rows: tuple[Index, Index],
    start: Callable[[], Sequence[Lanes]],
    walk: Callable[[Index, Index, Index, list[Lanes]], Sequence[Lanes]],
) -> Callable[[Index], list[Lanes]]:
    """Let all blocks of a strip, of which there are at most so many, meet some rows, then the next ones.

    A block holds vectors of accumulators of these types, those of `start` before the first row. `walk(block, begin,
    end, held)` gives what it holds after rows `begin` to `end`. Returns what says what a block holds in the end.
    """
    (first, last), (begin, end) = blocks, rows
    wide = [accumulator_type(of) for of in held]
    kept = [f.alloca(most * lanes * of.bytes, I8) for of in wide]

    def keep(block: Index, values: Sequence[Lanes]) -> None:
        at = f.imul(f.isub(block, first), lanes)
        for of, base, value in zip(wide, kept, values, strict=True):
            types.store(f, of, value, base, at)

    def found(block: Index) -> list[Lanes]:
        at = f.imul(f.isub(block, first), lanes)
        return [types.load(f, of, base, at, lanes) for of, base in zip(wide, kept, strict=True)]

    def some(low: Index) -> None:
        high = f.imin(f.iadd(low, STRIP_ROWS), end)
        f.loop(first, last, 1, lambda block: keep(block, walk(block, low, high, found(block))), nonempty=True)

    f.loop(first, last, 1, lambda block: keep(block, start()), nonempty=True)
    f.loop(begin, end, STRIP_ROWS, some, nonempty=True)
    return found
