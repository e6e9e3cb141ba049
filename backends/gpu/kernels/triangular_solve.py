"""Triangular solves by substitution: a block of threads for some right-hand sides of a system, which lie in shared
memory where they fit there, as does the triangle.

A panel of PANEL unknowns at a time (Golub and Van Loan, "Matrix Computations", section 3.1): every thread solves the
panel's triangle for its right-hand side in registers, so no thread waits for another one inside a panel; then the
threads of a side subtract the products of these unknowns from the equations behind them. A system of one panel is
solved by a thread for each right-hand side, in registers. Large ones come here in blocks
(passes/block_factorizations.py).

Equations are counted in the order in which they are solved: from the last one on, where the triangle is an upper one.
Products are subtracted in that order, as in the CPU's kernel, so the bits of a system are the same as there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels import triangular_solve
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.gpu.kernels import serial
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_function, numbered_kernel, read_ahead
from stablehlo_py.backends.gpu.kernels.combining import Accumulators, accumulator_bytes
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import rounded
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.region import field_arithmetic, subtract_product
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.types import flag, shape, text

PANEL = 8  # unknowns that are real numbers; of complex ones half as many
THREADS = 256
SIDES = 32  # threads side by side, for neighbouring right-hand sides


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel of `hlo.triangular_solve`."""
    op = fusion.op("hlo.triangular_solve")
    sizes = [int(size) for size in shape(op.operands[1])]
    if 0 in sizes:
        return GpuKernel((), {})
    if element(op.operands[1]).bits < 8:  # threads would write parts of a byte
        return serial.of_phases(triangular_solve.emit(fusion, serial.Thread.of(target)), fusion, target)
    systems = _Systems(fusion, target, sizes)
    return systems.by_threads() if systems.n <= systems.panel else systems.by_blocks()


class _Systems:
    """`batch` systems of n equations with `sides` right-hand sides each.

    Solving x op(a) = b is solving op(a)^T x^T = b^T: with `transposed`, the coefficient of unknown k in equation i is
    a[k, i].
    """

    start: Index  # of the block's right-hand sides, where they are kept
    triangle: Accumulators | None = None

    def __init__(self, fusion: Fusion, target: GpuTarget, sizes: Sequence[int]) -> None:
        self.fusion, self.target = fusion, target
        op = self.op = fusion.op("hlo.triangular_solve")
        self.of, self.left = element(op.operands[1]), flag(op, "left_side")
        self.batch = math.prod(sizes[:-2])
        self.n, self.sides = sizes[-2:] if self.left else sizes[:-3:-1]
        form = text(op, "transpose_a")
        self.transposed = (form != "NO_TRANSPOSE") == self.left
        self.conjugated = form == "ADJOINT" and self.of.is_complex
        self.forward = flag(op, "lower") != self.transposed
        self.unit = flag(op, "unit_diagonal")
        self.panel = PANEL // 2 if self.of.is_complex else PANEL

    # --- elements in memory ------------------------------------------------------------------------------------------

    def _begin(self, f: Function, system: Index) -> None:
        op = self.op
        self.f, self.a, self.b = f, operand(f, self.fusion, op.operands[0]), operand(f, self.fusion, op.operands[1])
        self.out = f.parameters["out0"]
        self.first_a, self.first_b = f.imul(system, self.n * self.n), f.imul(system, self.n * self.sides)

    def _row(self, equation: Index) -> Index:
        return equation if self.forward else self.f.isub(self.n - 1, equation)

    def _coefficient(self, equation: Index, unknown: Index) -> Lanes:
        """Of an unknown in an equation."""
        f = self.f
        if self.triangle is not None:
            return self.triangle.load(self._kept(equation, unknown))
        at = self._row(equation), self._row(unknown)
        row, column = at[::-1] if self.transposed else at
        value = types.load(f, self.of, self.a, f.iadd(self.first_a, f.iadd(f.imul(row, self.n), column)))
        return (value[0], f.fneg(value[1])) if self.conjugated and isinstance(value, tuple) else value

    def _place(self, equation: Index, side: Index) -> Index:
        """Of an element in the right-hand sides, and of an unknown in the result."""
        f, row = self.f, self._row(equation)
        at, line = ((row, side), self.sides) if self.left else ((side, row), self.n)
        return f.iadd(self.first_b, f.iadd(f.imul(at[0], line), at[1]))

    # --- a triangle in registers -------------------------------------------------------------------------------------

    def _triangle(self, first: Index, width: int) -> list[list[Lanes]]:
        """The coefficients of `width` unknowns in their equations; the last one of each divides, if anything does."""
        f = self.f
        places = [f.iadd(first, number) for number in range(width)]
        return [
            [self._coefficient(places[i], places[j]) for j in range(i if self.unit else i + 1)] for i in range(width)
        ]

    def _solved(self, triangle: Sequence[Sequence[Lanes]], sides: Sequence[Lanes]) -> list[Lanes]:
        """The unknowns of a panel, from what is left of a right-hand side."""
        f, found = self.f, list[Lanes]()
        for i, total in enumerate(sides):
            for j in range(i):
                total = subtract_product(f, total, triangle[i][j], found[j])
            if not self.unit:
                total = field_arithmetic(f, "divide", total, triangle[i][i])
            found.append(rounded(f, self.of, total))
        return found

    # --- a thread for a right-hand side ------------------------------------------------------------------------------

    def by_threads(self) -> GpuKernel:
        """One kernel; triangle and unknowns are in the registers of a thread."""
        count = self.batch * self.sides

        def solve(f: Function, number: Value) -> None:
            system, side = f.idiv(number, self.sides), f.irem(number, self.sides)
            self._begin(f, system)
            places = [self._place(equation, side) for equation in range(self.n)]
            known = [types.load(f, self.of, self.b, place) for place in places]
            for place, value in zip(places, self._solved(self._triangle(0, self.n), known), strict=True):
                types.store(f, self.of, value, self.out, place)

        return GpuKernel.of(numbered_kernel(self.fusion, self.target, self.fusion.name, count, solve))

    # --- a block for some right-hand sides ---------------------------------------------------------------------------

    def by_blocks(self) -> GpuKernel:
        """One kernel; what is left of the right-hand sides lies in shared memory, or, where that is too small, in
        scratch memory. The triangle lies in shared memory if both fit."""
        n, of, target = self.n, self.of, self.target
        self.across = min(SIDES, 1 << (self.sides - 1).bit_length())
        wanted = THREADS // self.across
        self.down = max(target.subgroup // self.across, min(wanted, 1 << (n - 1).bit_length()))
        self.threads = self.across * self.down
        many = self.batch * -(-self.sides // (2 * SIDES)) * self.threads >= target.resident
        self.own = 2 if many else 1  # right-hand sides of a thread, which share the loads of coefficients
        self.width = self.across * self.own
        self.line = self.width | 1  # odd, as below: what lies below each other is in different banks
        tiles = -(-self.sides // self.width)
        count, held = n * self.line, n * (n | 1)
        used = accumulator_bytes(of, count)
        is_shared = used <= target.shared_bytes
        f = kernel_function(self.fusion, target, self.fusion.name, self.batch * tiles, self.threads)
        block = f.block_number()
        self._begin(f, f.idiv(block, tiles))
        self.first_side = f.imul(f.irem(block, tiles), self.width)
        if is_shared:
            self.left_over, self.start = Accumulators.shared(f, of, count), 0
        else:
            self.left_over = Accumulators.scratch(f, of, self.batch * tiles * count, 0)
            self.start = f.imul(block, count)
        if used + accumulator_bytes(of, held) <= target.shared_bytes:
            self._keep_triangle(Accumulators.shared(f, of, held))
        self._block()
        f.ret()
        scratch = 0 if is_shared else accumulator_bytes(of, self.batch * tiles * count)
        return GpuKernel.of(f, scratch_bytes=scratch)

    def _kept(self, equation: Index, unknown: Index) -> Index:
        """Where a coefficient of the triangle is in shared memory."""
        return self.f.iadd(self.f.imul(equation, self.n | 1), unknown)

    def _at(self, equation: Index, side: Index) -> Index:
        """Where an element of the block's right-hand sides is kept."""
        f = self.f
        return f.iadd(self.start, f.iadd(f.imul(equation, self.line), side))

    def _keep_triangle(self, triangle: Accumulators) -> None:
        """Read it: neighbours read neighbouring elements of the matrix."""
        f, n = self.f, self.n

        def place(number: Index) -> tuple[Index, Index]:
            at = self._row(f.idiv(number, n)), self._row(f.irem(number, n))
            return at[::-1] if self.transposed else at

        def keep(number: Index, value: Lanes) -> None:
            equation, unknown = place(number)
            is_ours = f.cmp("sge", f.index(equation), f.index(unknown))
            f.if_(is_ours, lambda: triangle.store(self._kept(equation, unknown), value))

        read_ahead(f, n * n, self.threads, lambda number: self._coefficient(*place(number)), keep)
        self.triangle = triangle

    def _block(self) -> None:
        f, n, width = self.f, self.n, self.width

        def place(number: Index) -> tuple[Index, Index]:
            """Neighbours read neighbouring elements."""
            if self.left:
                return f.idiv(number, width), f.irem(number, width)
            return f.irem(number, n), f.idiv(number, n)

        def read(number: Index) -> Lanes:
            """Behind the last side, it is read again."""
            equation, side = place(number)
            from_ = f.imin(f.iadd(self.first_side, side), self.sides - 1)
            return types.load(f, self.of, self.b, self._place(equation, from_))

        def keep(number: Index, value: Lanes) -> None:
            self.left_over.store(self._at(*place(number)), value)

        read_ahead(f, n * width, self.threads, read, keep)
        whole = n // self.panel * self.panel
        f.loop(0, whole, self.panel, lambda first: self._panel(first, self.panel))
        if whole < n:
            self._panel(whole, n - whole)

    def _panel(self, first: Index, width: int) -> None:
        """Unknowns [first, first + width), and what is left of the equations behind theirs."""
        f = self.f
        y, x = f.idiv(f.thread_number(), self.across), f.irem(f.thread_number(), self.across)
        sides = [f.iadd(x, self.across * number) for number in range(self.own)]
        f.barrier()
        triangle = self._triangle(first, width)
        places = [f.iadd(first, number) for number in range(width)]
        found = [
            self._solved(triangle, [self.left_over.load(self._at(place, side)) for place in places]) for side in sides
        ]
        for side, values in zip(sides, found, strict=True):
            self._put(y, places, f.iadd(self.first_side, side), values)

        def equation(row: Value) -> None:
            coefficients = [self._coefficient(row, place) for place in places]
            totals = [self.left_over.load(self._at(row, side)) for side in sides]
            for k, coefficient in enumerate(coefficients):
                totals = [
                    subtract_product(f, total, coefficient, values[k])
                    for total, values in zip(totals, found, strict=True)
                ]
            for side, total in zip(sides, totals, strict=True):
                self.left_over.store(self._at(row, side), total)

        f.loop(f.iadd(f.iadd(first, width), y), self.n, self.down, equation)

    def _put(self, y: Index, places: Sequence[Index], side: Index, values: Sequence[Lanes]) -> None:
        """The first thread of a right-hand side writes its unknowns."""
        f = self.f
        exists = f.binary("and", f.cmp("eq", f.index(y), f.const(0)), f.cmp("slt", f.index(side), f.const(self.sides)))

        def put() -> None:
            for place, value in zip(places, values, strict=True):
                types.store(f, self.of, value, self.out, self._place(place, side))

        f.if_(exists, put)
