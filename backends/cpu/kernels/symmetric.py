"""Products of a matrix and its own transpose (Gram and covariance matrices): one half is computed, and copied to the
other one, as BLAS's `syrk` does.

Element (i, j) is the sum of the same products in the same order as element (j, i), so the result has the bits of the
whole product.
"""

from __future__ import annotations

import math

from stablehlo_py.backends.common.contraction import Axis, Contraction, Operand
from stablehlo_py.backends.common.loops import unravel
from stablehlo_py.backends.cpu.kernels.transposing import transposed
from stablehlo_py.codegen.builder import Function, Index, Value, vector
from stablehlo_py.dialect.symint import IntLike

# A copied element takes as long as so many of its products.
LEAST_DEPTH = 128


def is_symmetric(contraction: Contraction, panel: IntLike) -> bool:
    """Whether both operands are one matrix, for each place of the outer axes, whose panels are so wide that a half of
    them is worth leaving out."""
    m, n = contraction.m, contraction.n

    def alike(axis: Axis) -> bool:
        return axis.a == axis.b and not axis.tag

    return (
        contraction.is_known
        and contraction.a == contraction.b
        and (m.size, m.a, m.b) == (n.size, n.b, n.a)
        and n.c == 1
        and all(map(alike, (*contraction.outer, *contraction.k)))
        and m.size >= 2 * panel
        and contraction.depth >= LEAST_DEPTH
    )


class Mirror:
    """The phase that copies what is above the diagonal of `output`, each square of `lanes` rows and columns turned.

    An iteration is so many rows, at one place of the outer axes. It reads what no iteration writes.
    """

    def __init__(self, contraction: Contraction, output: Operand, lanes: int) -> None:
        self.contraction, self.output, self.lanes = contraction, output, lanes
        self.size, self.stride = int(contraction.n.size), int(contraction.m.c)
        self._sizes = [axis.size for axis in contraction.outer] + [-(-self.size // lanes)]
        self.iterations = math.prod(self._sizes)

    @property
    def cost(self) -> float:
        """Nanoseconds of an iteration."""
        return 0.25 * self.lanes * self.size

    def emit(self, f: Function) -> None:
        """The body of the phase."""

        def iteration(number: Value) -> None:
            *outer, block = unravel(f, number, self._sizes)
            matrix = self.output.at(f, outer, [axis.c for axis in self.contraction.outer])
            first = f.imul(block, self.lanes)
            rest = self.size % self.lanes
            if not rest:
                self._squares(f, matrix, first)
                return
            is_whole = f.cmp("sle", f.index(first), f.const(self.size - self.lanes))
            f.if_(is_whole, lambda: self._squares(f, matrix, first), lambda: self._rows(f, matrix, self.size - rest))

        f.loop(f.begin, f.end, 1, iteration)

    def _at(self, f: Function, row: Index, column: Index) -> Index:
        return f.iadd(f.imul(row, self.stride), column)

    def _squares(self, f: Function, matrix: Value, first: Index) -> None:
        """Fill the rows from `first` on, up to the square on the diagonal, which is computed."""
        type_ = vector(self.lanes, self.output.element.storage)

        def square(column: Index) -> None:
            places = [self._at(f, f.iadd(column, lane), first) for lane in range(self.lanes)]
            columns = transposed(f, [f.load(type_, matrix, place) for place in places])
            for lane, value in enumerate(columns):
                f.store(value, matrix, self._at(f, f.iadd(first, lane), column))

        f.loop(0, first, self.lanes, square)

    def _rows(self, f: Function, matrix: Value, first: int) -> None:
        """Fill the last rows, of which there are too few for a square."""
        type_ = self.output.element.storage

        def row(number: Index) -> None:
            def element(column: Index) -> None:
                value = f.load(type_, matrix, self._at(f, column, number))
                f.store(value, matrix, self._at(f, number, column))

            f.loop(0, first, 1, element)

        f.loop(first, self.size, 1, row)
