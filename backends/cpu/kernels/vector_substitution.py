"""Triangular solve of one right-hand side: lanes are coefficients, which lie side by side along a row of the matrix.

A row holds what the solved unknowns are multiplied by in one equation, or (transposed) what one unknown is multiplied
by in the others. Several rows go through the unknowns together:

    x[i] = (b[i] - sum of a[i, k] x[k] over solved k) / a[i, i]
    x[k] = b[k] / a[k, k], then b[i] -= a[k, i] x[k] for all others i          (transposed)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.loops import fold
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import reduce_lanes
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.region import field_arithmetic, subtract_product
from stablehlo_py.codegen.types import Element, Lanes

ROWS = 4  # that share the loads of unknowns


@dataclass(frozen=True)
class VectorSubstitution:
    """In a phase over systems of real numbers, kept in the type that they are computed in. `known` and `out` are the
    right-hand sides and the unknowns."""

    f: Function
    of: Element
    n: int
    lanes: int
    transposed: bool
    forward: bool
    unit: bool
    matrix: Value
    known: Value
    out: Value

    def solve(self, number: Value) -> None:
        """One system."""
        f, n = self.f, self.n
        a, b = f.imul(number, n * n), f.imul(number, n)
        if self.transposed:  # the unknowns' places hold what is left of the right-hand sides
            self._through(
                0,
                n,
                lambda k, lanes, mask: self._keep(
                    b, k, types.load(f, self.of, self.known, f.iadd(b, k), lanes, mask), mask
                ),
            )
        whole = n // ROWS * ROWS
        f.loop(0, whole, ROWS, lambda first: self._unknowns(a, b, first, ROWS))
        f.loop(whole, n, 1, lambda first: self._unknowns(a, b, first, 1))

    def _keep(self, base: Index, at: Index, value: Lanes, mask: Value | None = None) -> None:
        types.store(self.f, self.of, value, self.out, self.f.iadd(base, at), mask)

    def _coefficients(self, base: Index, row: Index, k: Index, lanes: int = 1, mask: Value | None = None) -> Lanes:
        f = self.f
        return types.load(f, self.of, self.matrix, f.iadd(base, f.iadd(f.imul(row, self.n), k)), lanes, mask)

    def _unknowns(self, a: Index, b: Index, first: Index, count: int) -> None:
        """Unknowns in the order of substitution, from number `first` on."""
        f, of, n = self.f, self.of, self.n
        numbers = [f.iadd(first, position) for position in range(count)]
        rows = [number if self.forward else f.isub(n - 1, number) for number in numbers]
        source = self.out if self.transposed else self.known
        totals = [types.load(f, of, source, f.iadd(b, row)) for row in rows]
        if not self.transposed:
            sums = self._sums(a, b, rows, *((0, first) if self.forward else (f.isub(n, first), n)))
            totals = [field_arithmetic(f, "subtract", *each) for each in zip(totals, sums, strict=True)]
        found: list[Lanes] = []
        for row, total in zip(rows, totals, strict=True):
            for other, value in zip(rows, found, strict=False):
                at = (other, row) if self.transposed else (row, other)
                total = subtract_product(f, total, self._coefficients(a, *at), value)
            if not self.unit:
                total = field_arithmetic(f, "divide", total, self._coefficients(a, row, row))
            found.append(total)
            self._keep(b, row, found[-1])
        if self.transposed:
            after = f.iadd(first, count)
            self._eliminate(a, b, rows, found, *((after, n) if self.forward else (0, f.isub(n, after))))

    def _sums(self, a: Index, b: Index, rows: Sequence[Index], low: Index, high: Index) -> list[Lanes]:
        """Of coefficients of the rows times the unknowns from `low` to `high`."""
        f, of, lanes = self.f, self.of, self.lanes

        def add(k: Index, totals: Sequence[Lanes], mask: Value | None = None) -> list[Lanes]:
            values = types.load(f, of, self.out, f.iadd(b, k), lanes, mask)
            minus = types.each(f.fneg, values)
            terms = [self._coefficients(a, row, k, lanes, mask) for row in rows]
            return [subtract_product(f, total, term, minus) for total, term in zip(totals, terms, strict=True)]

        zeros = [types.constant(f, of, 0.0, lanes) for _ in rows]
        whole = f.iadd(low, f.imul(f.idiv(f.isub(high, low), lanes), lanes))
        totals = fold(f, low, whole, lanes, zeros, add)
        totals = add(whole, totals, f.tail_mask(f.isub(high, whole), lanes))
        return [reduce_lanes(f, "add", of, total) for total in totals]

    def _eliminate(
        self, a: Index, b: Index, rows: Sequence[Index], found: Sequence[Lanes], low: Index, high: Index
    ) -> None:
        """Take solved unknowns out of the equations from `low` to `high`."""
        f, of = self.f, self.of

        def step(i: Index, lanes: int, mask: Value | None) -> None:
            left = types.load(f, of, self.out, f.iadd(b, i), lanes, mask)
            for row, value in zip(rows, found, strict=True):
                term = self._coefficients(a, row, i, lanes, mask)
                left = subtract_product(f, left, term, types.splat(f, value, lanes))
            self._keep(b, i, left, mask)

        self._through(low, high, step)

    def _through(self, low: Index, high: Index, body: Callable[[Index, int, Value | None], None]) -> None:
        """`body(first, lanes, mask)` for the vectors of a range."""
        f, lanes = self.f, self.lanes
        whole = f.iadd(low, f.imul(f.idiv(f.isub(high, low), lanes), lanes))
        f.loop(low, whole, lanes, lambda k: body(k, lanes, None))
        body(whole, lanes, f.tail_mask(f.isub(high, whole), lanes))
