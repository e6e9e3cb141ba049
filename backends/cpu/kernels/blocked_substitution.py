"""Substitution block by block: the arithmetic of large triangular solves and Cholesky factorizations.

Some right-hand sides are a panel, of which a row holds an unknown of each. What the unknowns before a block contribute
is subtracted chunk by chunk, so that the rows of a chunk stay in the nearest cache; then the block's own are solved.
All of this is one tile of registers in loops, whose code is the same for any size. Each sum has the order that plain
substitution has. Golub and Van Loan, "Matrix Computations", section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from stablehlo_py.codegen.builder import Function, Index, Value, vector
from stablehlo_py.codegen.math import muladd
from stablehlo_py.codegen.types import Element

BLOCK = 128  # unknowns of a block, and of a chunk
MOST_VECTORS = 4  # of a row of a panel, which share the loads of coefficients
MOST_ROWS = 4  # unknowns that share the loads of solved ones; with this many a block has no rest
OTHER_REGISTERS = 8  # than those for sums: coefficients, loaded vectors


@dataclass(frozen=True)
class BlockedSubstitution:
    """Code for panels.

    Attributes:
        lanes, vectors: of a row of a panel.
        coefficient: coefficient(first of a tile, which of its unknowns, earlier unknown), loaded; unknowns are numbers
            in the order in which they are solved.
        divisor: divisor(first of a tile, which of its unknowns, keep) of what is left of the right-hand sides, which
            keep() puts into the panel; None: one.
        registers: of the target.
        solved: solved(first of a tile, which of its unknowns, its divisor) when it is in the panel.
        row_of: the row of the panel that has an unknown.
        forward: unknowns have the order of rows, or the reverse.
    """

    f: Function
    of: Element
    lanes: int
    vectors: int
    coefficient: Callable[[Index, Index, Index], Value]
    divisor: Callable[[Index, Index, Callable[[], None]], Value] | None
    registers: int
    solved: Callable[[Index, Index, Value], None] | None = None
    row_of: Callable[[Index], Index] = lambda unknown: unknown
    forward: bool = True

    @property
    def width(self) -> int:
        """Elements of a row."""
        return self.lanes * self.vectors

    @property
    def rows(self) -> int:
        """Unknowns of a tile: 4, 2 or 1, which divide a block."""
        fitting = max(1, (self.registers - OTHER_REGISTERS) // self.vectors)
        return min(MOST_ROWS, 1 << (fitting.bit_length() - 1))

    def at(self, row: Index) -> Index:
        """Where the row of an unknown is in the panel."""
        return self.f.imul(self.row_of(row), self.width)

    def solve(self, panel: Value, n: int) -> None:
        """All of so many unknowns, which replace the right-hand sides."""
        f = self.f

        def block(first: Index) -> None:
            last = f.imin(f.iadd(first, BLOCK), n)
            f.loop(0, f.iadd(first, 1), BLOCK, lambda begin: self.chunk(panel, begin, first, last, n % self.rows))

        f.loop(0, n, BLOCK, block)

    def chunk(self, panel: Value, begin: Index, first: Index, last: Index, rest: int = 0) -> None:
        """Subtract what a chunk contributes from the unknowns `first`..`last`, if there is a `rest` the last of them
        one by one. Those that begin where the chunk does are solved."""
        f = self.f
        is_own = f.cmp("eq", f.index(begin), f.index(first))
        whole = f.isub(last, f.irem(f.isub(last, first), self.rows)) if rest else last
        f.loop(first, whole, self.rows, lambda row: self._tile(panel, row, self.rows, begin, is_own))
        if rest:
            f.loop(whole, last, 1, lambda row: self._tile(panel, row, 1, begin, is_own))

    def _tile(self, panel: Value, first: Index, count: int, begin: Index, is_own: Value) -> None:
        f = self.f

        def step(other: Value, *totals: Value) -> list[Value]:
            values = self._load(panel, other)
            rows = enumerate(self._by_rows(totals))
            return [
                x for row, some in rows for x in self._eliminated(some, self.coefficient(first, row, other), values)
            ]

        start = [value for row in range(count) for value in self._load(panel, first, row)]
        totals = self._by_rows(f.loop(begin, f.imin(f.iadd(begin, BLOCK), first), 1, step, start))

        def keep() -> None:
            for row, values in enumerate(totals):
                self._store(panel, first, values, row)

        f.if_(is_own, lambda: self._finish(panel, first, totals), keep)

    def _finish(self, panel: Value, first: Index, totals: Sequence[Sequence[Value]]) -> None:
        """Solve the unknowns of a tile for each other, one a turn; what is left of the others moves up."""
        f = self.f

        def turn(number: Index, *left: Value) -> list[Value]:
            (values, *others), row = self._by_rows(left), f.iadd(first, number)

            def earlier(other: Index, *values: Value) -> list[Value]:
                return self._eliminated(values, self.coefficient(first, number, other), self._load(panel, other))

            values = f.loop(first, row, 1, earlier, values)
            keep = partial(self._store, panel, row, values)
            divisor = None if self.divisor is None else self.divisor(first, number, keep)
            if divisor is not None:
                values = [f.fdiv(value, f.splat(divisor, self.lanes)) for value in values]
            self._store(panel, row, values)
            if self.solved is not None and divisor is not None:
                self.solved(first, number, divisor)
            return [*(value for some in others for value in some), *values]

        f.loop(0, len(totals), 1, turn, [value for some in totals for value in some])

    def _eliminated(self, totals: Sequence[Value], coefficient: Value, values: Sequence[Value]) -> list[Value]:
        """What is left of the right-hand sides of an unknown when another one, of these values, is known."""
        negative = self.f.fneg(self.f.splat(coefficient, self.lanes))
        return [muladd(self.f, negative, value, total) for total, value in zip(totals, values, strict=True)]

    def _by_rows(self, values: Sequence[Value]) -> list[Sequence[Value]]:
        return [values[at : at + self.vectors] for at in range(0, len(values), self.vectors)]

    def _load(self, panel: Value, row: Index, after: int = 0) -> list[Value]:
        """The unknown so many after one."""
        type_ = vector(self.lanes, self.of.storage) if self.lanes > 1 else self.of.storage
        place, first = self._place(panel, row, after)
        return [self.f.load(type_, place, first + v * self.lanes) for v in range(self.vectors)]

    def _store(self, panel: Value, row: Index, values: Sequence[Value], after: int = 0) -> None:
        place, first = self._place(panel, row, after)
        for v, value in enumerate(values):
            self.f.store(value, place, first + v * self.lanes)

    def _place(self, panel: Value, row: Index, after: int) -> tuple[Value, int]:
        """Where it is, with what is known of that apart."""
        between = self.width if self.forward else -self.width
        return self.f.gep(panel, self.at(row), self.of.storage), after * between
