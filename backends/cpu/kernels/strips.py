"""Strips of a row: blocks of columns that meet some rows one after the other, where no cache holds the array.

Block by block, each row would be read in pieces of some lines, from a page each. What fetches ahead follows a page to
its end, so the blocks of a page meet eight rows, then the next ones; what a block holds waits in the L1 cache. It does
not follow rows that are shorter than a page: a block asks for what it reads of the next ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.iteration import Space
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, Function, Index
from stablehlo_py.codegen.index import Affine, add, scalar, scale
from stablehlo_py.codegen.types import ELEMENTS, Element, Lanes, element

STRIP_BYTES = 4096  # of a row, which several blocks read one after the other: a page
STRIP_ROWS = 8
LINE = 64  # bytes


def accumulator_type(of: Element) -> Element:
    """An element type that holds accumulators of `of` exactly."""
    return ELEMENTS[of.compute.text] if of.is_float else of


@dataclass(frozen=True)
class Rows:
    """An input whose rows are read side by side: element `start` + the sum of steps * indices, by loop."""

    number: int
    of: Element
    start: int
    steps: tuple[int, ...]

    def fetch(self, f: Function, indices: Sequence[Affine], count: int) -> None:
        """Ask for so many elements from a place on."""
        at = Affine(self.start)
        for index, step in zip(indices, self.steps, strict=True):
            at = add(f, at, scale(f, index, step)) if step else at
        start = f.imul(scalar(f, at), self.of.bytes)
        for line in range(0, count * self.of.bytes, LINE):
            f.prefetch(f.parameters[f"in{self.number}"], f.iadd(start, line), I8)


def rows_of(fusion: Fusion, space: Space) -> list[Rows]:
    """The inputs that are read so, once each; sizes are known."""
    found: dict[tuple[int, tuple[int, ...]], Rows] = {}
    for value, at in space.loads:
        steps = tuple(int(space.coefficient(at, loop)) for loop in range(len(space.sizes)))
        is_affine = at.vector is None and sum(map(bool, steps)) == len(at.terms)
        if is_affine and steps[-1] == 1:
            number = fusion.inputs.index(value)
            found.setdefault((number, steps), Rows(number, element(value), int(at.constant), steps))
    return list(found.values())


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
