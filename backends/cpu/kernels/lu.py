"""LU factorization with row interchanges of many small matrices, as LAPACK's getf2: lanes are matrices. Golub and
Van Loan, "Matrix Computations", section 3.4.

A call of LAPACK takes some hundred nanoseconds, in which a core factorizes a whole vector of matrices of six rows."""

from __future__ import annotations

import math
from functools import partial

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.blocks import is_short
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.kernels.interleaved import Interleaved, matrices_of
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, I32, Function, Index, Value
from stablehlo_py.codegen.region import field_arithmetic, subtract_product
from stablehlo_py.codegen.types import ELEMENTS, Element, Lanes, element
from stablehlo_py.dialect.alignment import aligned
from stablehlo_py.dialect.attributes import BY_ROWS
from stablehlo_py.dialect.symint import IntLike, is_known


def fits(target: CpuTarget, of: Element, rows: IntLike, columns: IntLike, batch: IntLike) -> bool:
    """Whether the matrices are small, and fill a vector."""
    if not is_short(rows, columns):
        return False
    return not is_known(batch) or batch >= target.lanes(of.compute.bits)


def emit(fusion: Fusion, target: CpuTarget, rows: int, columns: int, batch: IntLike) -> Kernel:
    """One phase over groups of matrices, column-major as LAPACK's unless the call says otherwise. Results: L below the
    diagonal and U; i32: the rows, from 1, with which rows were exchanged, and the number of the first pivot that is
    zero, or 0."""
    op = fusion.op("stablehlo.custom_call")
    of = element(op.operands[0])
    f = phase_function(fusion, target)
    source = operand(f, fusion, op.operands[0])
    lanes, least = target.lanes(of.compute.bits), min(rows, columns)
    used: int = 0
    parts: list[Interleaved] = []
    for kind, count in ((of, rows * columns), (ELEMENTS["i32"], least), (ELEMENTS["i32"], 1)):
        parts.append(Interleaved(f, kind, count, lanes, f.gep(f.private, used, I8)))
        used += aligned(parts[-1].bytes)
    code = _Elimination(f, rows, columns, BY_ROWS in op.attributes, *parts)

    def group(number: Value) -> None:
        first, held = matrices_of(f, number, lanes, batch, aliased=fusion.aliased)
        parts[0].read(source, first, held)
        code.factorize()
        for part, result in zip(parts, range(3), strict=True):
            part.write(f.parameters[f"out{result}"], first, held, by_squares=result > 0)

    f.loop(f.begin, f.end, 1, group)
    cost = 4.0 * math.prod((rows, columns, 2 if of.is_complex else 1)) * (4 + least / 2)
    return Kernel.of(phase(f, -(-batch // lanes), cost), private_bytes=used)


class _Elimination:
    """Code for one group."""

    def __init__(
        self,
        f: Function,
        rows: int,
        columns: int,
        by_rows: bool,
        matrix: Interleaved,
        pivots: Interleaved,
        info: Interleaved,
    ) -> None:
        self.f, self.rows, self.columns, self.by_rows = f, rows, columns, by_rows
        self.matrix, self.pivots, self.info = matrix, pivots, info
        self.of, self.lanes = matrix.of, matrix.lanes

    def factorize(self) -> None:
        f = self.f
        (first_zero,) = f.loop(0, min(self.rows, self.columns), 1, self._column, [self._number(0)])
        self.info.set(0, first_zero)

    def _column(self, k: Index, first_zero: Value) -> Value:
        f, below = self.f, self.f.iadd(k, 1)

        def larger(i: Index, row: Value, most: Value) -> list[Value]:
            size = self._size(self._get(i, k))
            wins = f.cmp("ogt", size, most)
            return [f.select(wins, self._number(i), row), f.select(wins, size, most)]

        row, most = f.loop(below, self.rows, 1, larger, [self._number(k), self._size(self._get(k, k))])
        self.pivots.set(k, f.binary("add", row, self._number(1)))
        f.loop(0, self.columns, 1, partial(self._exchange, k, row))
        is_zero = f.cmp("oeq", most, f.const(0.0, most.type))
        one = types.constant(f, self.of, 1, self.lanes)
        divisor = types.select(f, is_zero, one, self._get(k, k))
        f.loop(below, self.rows, 1, lambda i: self._set(i, k, field_arithmetic(f, "divide", self._get(i, k), divisor)))

        def update(j: Index) -> None:
            factor = self._get(k, j)

            def eliminate(i: Index) -> None:
                self._set(i, j, subtract_product(f, self._get(i, j), self._get(i, k), factor))

            f.loop(below, self.rows, 1, eliminate)

        f.loop(below, self.columns, 1, update)
        is_first = f.binary("and", is_zero, f.cmp("eq", first_zero, self._number(0)))
        return f.select(is_first, self._number(below), first_zero)

    def _exchange(self, k: Index, row: Value, j: Index) -> None:
        """Rows k and `row` of column j, which is another one in each lane."""
        f, top = self.f, self._get(k, j)

        def with_row(i: Index, *found: Value) -> list[Value]:
            is_it, own = f.cmp("eq", row, self._number(i)), self._get(i, j)
            self._set(i, j, types.select(f, is_it, top, own))
            return [f.select(is_it, one, two) for one, two in zip(types.parts(own), found, strict=True)]

        found = f.loop(f.iadd(k, 1), self.rows, 1, with_row, types.parts(top))
        self._set(k, j, (found[0], found[1]) if self.of.is_complex else found[0])

    def _get(self, i: Index, j: Index) -> Lanes:
        return self.matrix.get(self._at(i, j))

    def _set(self, i: Index, j: Index, value: Lanes) -> None:
        self.matrix.set(self._at(i, j), value)

    def _at(self, i: Index, j: Index) -> Index:
        outer, inner, size = (i, j, self.columns) if self.by_rows else (j, i, self.rows)
        return self.f.iadd(self.f.imul(outer, size), inner)

    def _size(self, value: Lanes) -> Value:
        """By which LAPACK compares pivots: the sum of absolute parts."""
        f = self.f
        sizes = [f.intrinsic("fabs", part) for part in types.parts(value)]
        return sizes[0] if len(sizes) == 1 else f.fadd(sizes[0], sizes[1])

    def _number(self, i: Index) -> Value:
        """An i32 in all lanes."""
        f = self.f
        return f.splat(f.const(i, I32) if isinstance(i, int) else f.cast("trunc", f.index(i), I32), self.lanes)
