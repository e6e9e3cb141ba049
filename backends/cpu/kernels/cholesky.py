"""Cholesky factorization of each matrix of a batch, row by row (Golub and Van Loan, section 4.2).

Row k of the upper factor U, A = U^H U, is (A[k, k:] - sum over m < k of conj(U[m, k]) U[m, k:]) / U[k, k]: the sums are
vectors along the row. For the lower factor, rows of U are computed from columns of A, and transposed at the end.
"""

from __future__ import annotations

import math

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import fold, unpack
from stablehlo_py.backends.cpu.blocks import is_blocked
from stablehlo_py.backends.cpu.kernels import blocked_cholesky
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import rounded
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.region import subtract_product
from stablehlo_py.codegen.types import Element, Lanes, each, element
from stablehlo_py.dialect.symint import IntLike, is_known, size_hint
from stablehlo_py.dialect.types import flag, shape

MOST_VECTORS = 4  # vectors of a row that share the loads of multipliers


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over matrices. The lower factor L of A = L L^H, or the upper U = L^H; the other triangle is zero.

    Only the triangle of A that corresponds to the factor is read. Where a pivot is not positive the factor is NaN or
    infinite from there on, and its diagonal element is NaN or zero.
    """
    op = fusion.op("hlo.cholesky")
    if is_blocked(op):
        return blocked_cholesky.emit(fusion, target)
    sizes, of = shape(op.operands[0]), element(op.operands[0])
    n, batch = sizes[-1], math.prod(sizes[:-2])
    f = phase_function(fusion, target)
    if n:
        lanes = target.lanes(of.compute.bits)
        if is_known(n):
            lanes = min(lanes, max(2, 1 << (n - 1).bit_length()))
        factor = _Factor(f, of, n, flag(op, "lower"), lanes, operand(f, fusion, op.operands[0]), f.parameters["out0"])
        f.loop(f.begin, f.end, 1, factor.matrix)
    rows = float(size_hint(n))
    return Kernel.of(phase(f, batch if n else 0, 20.0 * rows + rows**3 / 30.0))


class _Factor:
    """Code for one matrix."""

    def __init__(
        self, f: Function, of: Element, n: IntLike, lower: bool, lanes: int, source: Value, out: Value
    ) -> None:
        self.f, self.of, self.n, self.lower, self.lanes = f, of, n, lower, lanes
        self.source, self.out = source, out

    def matrix(self, number: Value) -> None:
        """Factor matrix `number` of the batch; the upper triangle of the output holds U until the end."""
        f, n = self.f, self.n
        base = f.imul(number, n * n)
        if self.lower:
            self._conjugate_transposed(base)
        f.loop(0, n, 1, lambda k: self._row(base, k))
        f.loop(0, n, 1, lambda k: f.loop(0, k, 1, lambda j: self._finish(base, k, j)))

    def _at(self, base: Index, row: Index, column: Index) -> Index:
        return self.f.iadd(base, self.f.iadd(self.f.imul(row, self.n), column))

    def _conjugate_transposed(self, base: Index) -> None:
        """Upper triangle of the output = conjugate transpose of the lower one of A."""
        f, of = self.f, self.of

        def element_of(i: Value, j: Value) -> None:
            value = types.load(f, of, self.source, self._at(base, i, j))
            types.store(f, of, _conjugate(f, value), self.out, self._at(base, j, i))

        f.loop(0, self.n, 1, lambda i: f.loop(0, f.iadd(i, 1), 1, lambda j: element_of(i, j)))

    def _finish(self, base: Index, k: Value, j: Value) -> None:
        """Below the diagonal: zero, or for the lower factor what lies above it, which becomes zero."""
        f, of = self.f, self.of
        below, zero = self._at(base, k, j), types.constant(f, of, 0)
        if self.lower:
            above = self._at(base, j, k)
            types.store(f, of, _conjugate(f, types.load(f, of, self.out, above)), self.out, below)
            types.store(f, of, zero, self.out, above)
        else:
            types.store(f, of, zero, self.out, below)

    def _row(self, base: Index, k: Value) -> None:
        """Row k of U from column k on: a vector with the pivot, then runs of vectors, the last under a mask."""
        f, lanes, n = self.f, self.lanes, self.n
        mask = self._tail(k)
        head = self._sums(base, k, k, 1, mask)[0]
        pivot = types.parts(head)[0]
        root = f.intrinsic("sqrt", f.extract(pivot, 0) if lanes > 1 else pivot)
        (quotient,) = self._divided([head], root)
        diagonal = (root, f.const(0.0, root.type))  # which is real
        parts = [
            f.insert(part, number, 0) if lanes > 1 else number
            for part, number in zip(types.parts(quotient), diagonal, strict=False)
        ]
        self._store(unpack(parts, self.of), base, k, k, mask)

        def run(j: Index, vectors: int, mask: Value | None = None) -> None:
            self._store(self._divided(self._sums(base, k, j, vectors, mask), root), base, k, j, mask)

        start = f.iadd(k, lanes)
        wide = lanes * MOST_VECTORS
        long = f.iadd(start, f.imul(f.idiv(f.imax(f.isub(n, start), 0), wide), wide))
        short = f.iadd(long, f.imul(f.idiv(f.imax(f.isub(n, long), 0), lanes), lanes))
        f.loop(start, long, wide, lambda j: run(j, MOST_VECTORS))
        f.loop(long, short, lanes, lambda j: run(j, 1))
        if lanes > 1:
            rest = f.cmp("slt", f.index(short), f.index(n))
            f.if_(rest, lambda: run(short, 1, self._tail(short)))

    def _tail(self, column: Index) -> Value | None:
        """Which lanes of the vector at a column are in the row; None: one lane, which is."""
        return self.f.tail_mask(self.f.isub(self.n, column), self.lanes) if self.lanes > 1 else None

    def _sums(self, base: Index, k: Value, j: Index, vectors: int, mask: Value | None) -> list[Lanes]:
        """A[k, j:] - sum over m < k of conj(U[m, k]) U[m, j:]."""
        f, of, lanes = self.f, self.of, self.lanes
        # The upper triangle of the output holds A^H of the lower factor; the upper factor reads A itself.
        source = self.out if self.lower else self.source

        def load(pointer: Value, row: Index, vector: int) -> Lanes:
            return types.load(f, of, pointer, f.iadd(self._at(base, row, j), vector * lanes), lanes, mask)

        def step(m: Value, totals: list[Lanes]) -> list[Lanes]:
            factor = types.splat(f, _conjugate(f, types.load(f, of, self.out, self._at(base, m, k))), lanes)
            return [
                subtract_product(f, total, factor, load(self.out, m, vector)) for vector, total in enumerate(totals)
            ]

        return fold(f, 0, k, 1, [load(source, k, vector) for vector in range(vectors)], step)

    def _divided(self, rows: list[Lanes], root: Value) -> list[Lanes]:
        divisor = self.f.splat(root, self.lanes)
        return [each(lambda part: self.f.fdiv(part, divisor), row) for row in rows]

    def _store(self, rows: list[Lanes], base: Index, k: Value, j: Index, mask: Value | None) -> None:
        f = self.f
        for vector, row in enumerate(rows):
            place = f.iadd(self._at(base, k, j), vector * self.lanes)
            types.store(f, self.of, rounded(f, self.of, row), self.out, place, mask)


def _conjugate(f: Function, value: Lanes) -> Lanes:
    return (value[0], f.fneg(value[1])) if isinstance(value, tuple) else value
