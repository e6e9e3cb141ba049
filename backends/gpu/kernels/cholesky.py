"""Cholesky factorizations: a block of threads for a matrix, which lies in shared memory where it fits there.

A panel of PANEL columns at a time (Golub and Van Loan, "Matrix Computations", section 4.2.9). Every thread factors the
square of the panel on the diagonal in registers, so no thread waits for another one inside a panel; then each solves
for some rows below the square, and behind a barrier the threads subtract the panel's products from what is to the right
of it. A matrix of one panel is factored by one thread, in registers. Large matrices come here in blocks
(passes/block_factorizations.py).

Kept is W, the transposed upper factor: A = U^H U, W[j, k] = U[k, j]. From every element, products are subtracted in the
order that the CPU's kernel has, so the bits of a matrix are the same as there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels import cholesky
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.gpu.kernels import serial
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_function, numbered_kernel, read_ahead
from stablehlo_py.backends.gpu.kernels.combining import Accumulators, accumulator_bytes
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import rounded
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.region import subtract_product
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.types import flag, shape

PANEL = 8  # columns of real numbers; of complex ones half as many
# Rows of a matrix from which on a block has as many threads along both sides of it, each with a square of elements.
SQUARES = ((96, 16, 4), (32, 16, 2), (0, 8, 2))


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel of `hlo.cholesky`: the factor of each matrix of the batch, zeros in the other triangle.

    Only the triangle of A that corresponds to the factor counts. Where a pivot is not positive the factor is NaN or
    infinite from there on, and its diagonal element is NaN or zero.
    """
    op = fusion.op("hlo.cholesky")
    sizes = [int(size) for size in shape(op.operands[0])]
    if 0 in sizes:
        return GpuKernel((), {})
    if element(op.operands[0]).bits < 8:  # threads would write parts of a byte
        return serial.of_phases(cholesky.emit(fusion, serial.Thread.of(target)), fusion, target)
    factor = _Factor(fusion, target, math.prod(sizes[:-2]), sizes[-1])
    return factor.by_threads() if sizes[-1] <= factor.panel else factor.by_blocks()


class _Factor:
    """The factors of `batch` matrices of n x n."""

    def __init__(self, fusion: Fusion, target: GpuTarget, batch: int, n: int) -> None:
        self.fusion, self.target, self.batch, self.n = fusion, target, batch, n
        self.op = fusion.op("hlo.cholesky")
        self.of, self.lower = element(self.op.operands[0]), flag(self.op, "lower")
        self.panel = PANEL // 2 if self.of.is_complex else PANEL

    # --- a thread for a matrix ---------------------------------------------------------------------------------------

    def by_threads(self) -> GpuKernel:
        """One kernel; a matrix is in the registers of a thread."""
        return GpuKernel.of(numbered_kernel(self.fusion, self.target, self.fusion.name, self.batch, self._matrix))

    def _matrix(self, f: Function, number: Value) -> None:
        self._begin(f)
        base, n = f.imul(number, self.n * self.n), self.n
        square = [[self._given(base, row, column) for column in range(row + 1)] for row in range(n)]
        self._factored(square)
        zero = types.constant(f, self.of, 0)
        for row in range(n):
            for column in range(row + 1):
                at = (row, column) if self.lower else (column, row)
                value = square[row][column]
                self._put(base, *at, self._conjugate(value) if self.lower and row != column else value)
                if row != column:
                    self._put(base, *at[::-1], zero)

    def _begin(self, f: Function) -> None:
        self.f, self.source, self.out = f, operand(f, self.fusion, self.op.operands[0]), f.parameters["out0"]

    def _given(self, base: Index, row: Index, column: Index) -> Lanes:
        """W[row, column] before anything is subtracted."""
        f, at = self.f, (row, column) if self.lower else (column, row)
        value = types.load(f, self.of, self.source, f.iadd(base, f.iadd(f.imul(at[0], self.n), at[1])))
        return self._conjugate(value) if self.lower else value

    def _put(self, base: Index, row: Index, column: Index, value: Lanes) -> None:
        f = self.f
        types.store(f, self.of, value, self.out, f.iadd(base, f.iadd(f.imul(row, self.n), column)))

    def _conjugate(self, value: Lanes) -> Lanes:
        return (value[0], self.f.fneg(value[1])) if isinstance(value, tuple) else value

    # --- a square in registers ---------------------------------------------------------------------------------------

    def _factored(self, square: list[list[Lanes]]) -> list[Value]:
        """Factors the lower triangle of a square of W in place. Returns the roots of its pivots, not rounded yet."""
        f, roots = self.f, list[Value]()
        for k in range(len(square)):
            root = f.intrinsic("sqrt", types.parts(square[k][k])[0])
            roots.append(root)
            pivot = (root, f.const(0.0, root.type)) if self.of.is_complex else root
            square[k][k] = rounded(f, self.of, pivot)
            for row in square[k + 1 :]:
                row[k] = self._quotient(row[k], root)
            for row in square[k + 1 :]:
                for j in range(k + 1, len(row)):
                    row[j] = self._less(row[j], square[j][k], row[k])
        return roots

    def _quotient(self, value: Lanes, root: Value) -> Lanes:
        return rounded(self.f, self.of, types.each(lambda part: self.f.fdiv(part, root), value))

    def _less(self, total: Lanes, beside: Lanes, own: Lanes) -> Lanes:
        """W[i, j] less the product of column k, by W[j, k] and W[i, k]."""
        return subtract_product(self.f, total, self._conjugate(beside), own)

    def _solved(self, row: list[Lanes], square: Sequence[Sequence[Lanes]], roots: Sequence[Value]) -> None:
        """A row of the panel below its square, in place."""
        for k, root in enumerate(roots):
            for m in range(k):
                row[k] = self._less(row[k], square[k][m], row[m])
            row[k] = self._quotient(row[k], root)

    # --- a block for a matrix ----------------------------------------------------------------------------------------

    def by_blocks(self) -> GpuKernel:
        """One kernel; W lies in shared memory, or, where that is too small, in scratch memory."""
        n, target = self.n, self.target
        self.edge, self.square = next((edge, square) for least, edge, square in SQUARES if n >= least)
        self.threads = self.edge**2
        self.line = n | 1  # odd: neighbouring rows are in different banks
        count = n * self.line
        is_shared = accumulator_bytes(self.of, count) <= target.shared_bytes
        f = kernel_function(self.fusion, target, self.fusion.name, self.batch, self.threads)
        self._begin(f)
        if is_shared:
            self.w, self.start = Accumulators.shared(f, self.of, count), 0
        else:
            self.w = Accumulators.scratch(f, self.of, self.batch * count, 0)
            self.start = f.imul(f.block_number(), count)
        self._block()
        f.ret()
        scratch = 0 if is_shared else accumulator_bytes(self.of, self.batch * count)
        return GpuKernel.of(f, scratch_bytes=scratch)

    start: Index

    def _at(self, row: Index, column: Index) -> Index:
        f = self.f
        return f.iadd(self.start, f.iadd(f.imul(row, self.line), column))

    def _block(self) -> None:
        f, n = self.f, self.n
        base = f.imul(f.block_number(), n * n)
        thread = f.thread_number()

        def place(number: Index) -> tuple[Index, Index]:
            """Neighbours read neighbouring elements of A."""
            row, column = f.idiv(number, n), f.irem(number, n)
            return (row, column) if self.lower else (column, row)

        def keep(number: Index, value: Lanes) -> None:
            row, column = place(number)
            is_ours = f.cmp("sge", f.index(row), f.index(column))
            f.if_(is_ours, lambda: self.w.store(self._at(row, column), value))

        read_ahead(f, n * n, self.threads, lambda number: self._given(base, *place(number)), keep)
        whole = n // self.panel * self.panel
        f.loop(0, whole, self.panel, lambda first: self._panel(first, self.panel))
        if whole < n:
            self._panel(whole, n - whole)
        f.barrier()
        zero = types.constant(f, self.of, 0)

        def write(number: Index) -> None:
            row, column = f.idiv(number, n), f.irem(number, n)
            at = (row, column) if self.lower else (column, row)
            order = [f.index(each) for each in at]

            def stored(is_ours: bool) -> None:
                value = self.w.load(self._at(*at)) if is_ours else zero
                if is_ours and self.lower and self.of.is_complex:
                    value = types.select(f, f.cmp("eq", *order), value, self._conjugate(value))
                types.store(f, self.of, value, self.out, f.iadd(base, number))

            f.if_(f.cmp("sge", *order), lambda: stored(True), lambda: stored(False))

        f.loop(thread, n * n, self.threads, write)

    def _panel(self, first: Index, width: int) -> None:
        """Columns [first, first + width) of W become those of the factor, and the columns behind them what is left."""
        f, thread = self.f, self.f.thread_number()
        f.barrier()

        def load(row: Index, column: int) -> Lanes:
            return self.w.load(self._at(row, f.iadd(first, column)))

        square = [[load(f.iadd(first, row), column) for column in range(row + 1)] for row in range(width)]
        roots = self._factored(square)
        behind = f.iadd(first, width)

        def below(row: Value) -> None:
            values = [load(row, column) for column in range(width)]
            self._solved(values, square, roots)
            for column, value in enumerate(values):
                self.w.store(self._at(row, f.iadd(first, column)), value)

        def keep() -> None:
            for row, values in enumerate(square):
                for column, value in enumerate(values):
                    self.w.store(self._at(f.iadd(first, row), f.iadd(first, column)), value)

        is_last = not isinstance(behind, Value) and behind == self.n
        if not is_last:
            f.loop(f.iadd(behind, thread), self.n, self.threads, below)
        f.barrier()  # the square is read by all before it is written
        f.if_(f.cmp("eq", thread, f.const(0)), keep)
        if not is_last:
            step = self.edge * self.square

            def band(row: Value) -> None:
                end = f.imin(f.iadd(row, step), self.n)
                f.loop(behind, end, step, lambda column: self._subtract(first, width, row, column))

            f.loop(behind, self.n, step, band)

    def _subtract(self, first: Index, width: int, row: Value, column: Value) -> None:
        """The products of a panel from the elements of a tile, of which a thread has a square."""
        f, size, n = self.f, self.square, self.n
        y, x = f.idiv(f.thread_number(), self.edge), f.irem(f.thread_number(), self.edge)
        rows = [f.index(f.iadd(f.iadd(row, y), self.edge * number)) for number in range(size)]
        columns = [f.index(f.iadd(f.iadd(column, x), self.edge * number)) for number in range(size)]
        safe_rows, safe_columns = ([f.imin(each, n - 1) for each in some] for some in (rows, columns))
        ours = [[f.binary("and", f.cmp("slt", i, f.const(n)), f.cmp("sle", j, i)) for j in columns] for i in rows]
        # Where there is no element, a thread reads what nobody writes now.
        totals = [
            [self.w.load(self._at(i, f.select(ours[a][b], columns[b], f.index(first)))) for b in range(size)]
            for a, i in enumerate(safe_rows)
        ]
        for k in range(width):
            left, right = (
                [self.w.load(self._at(each, f.iadd(first, k))) for each in some] for some in (safe_rows, safe_columns)
            )
            for a in range(size):
                for b in range(size):
                    totals[a][b] = self._less(totals[a][b], right[b], left[a])
        for a in range(size):
            for b in range(size):
                self._keep(ours[a][b], rows[a], columns[b], totals[a][b])

    def _keep(self, condition: Value, row: Index, column: Index, value: Lanes) -> None:
        self.f.if_(condition, lambda: self.w.store(self._at(row, column), value))
