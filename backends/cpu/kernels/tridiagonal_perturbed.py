"""Tridiagonal systems that may be singular: `tridiagonal_solve_perturbed_ffi`, with which JAX computes eigenvectors by
inverse iteration.

As LAPACK's xLAGTF and xLAGTS: an LU factorization with row interchanges of neighbors, and pivots that would overflow
the solution perturbed by multiples of eps times the largest element of U. Forward elimination goes along with the
factorization (so in jaxlib/tridiagonal_solve_perturbed.h of jax-ml/jax, whose steps these are).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import complex as complex_math
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, Function, Index, Value
from stablehlo_py.codegen.region import field_arithmetic
from stablehlo_py.codegen.types import Element, Lanes, element
from stablehlo_py.dialect.custom_call import read_call
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.errors import UnsupportedError

TARGET = "tridiagonal_solve_perturbed_ffi"
FLOATS = ("f32", "f64", "complex<f32>", "complex<f64>")


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over systems. Operands: lower diagonal (its first element unused), diagonal, upper diagonal, n of each;
    right-hand sides, n x sides, column-major. Result: the solutions, likewise.

    Raises:
        UnsupportedError: the call is not so.
    """
    op = fusion.op("stablehlo.custom_call")
    call = read_call(op)
    buffers = (*call.operands, *call.results)
    of_types = {str(buffer.element) for buffer in buffers}
    *batch, n, sides = call.results[0].shape if call.results and len(call.results[0].shape) > 1 else (0, 0)
    shapes = [(*batch, n)] * 3 + [(*batch, n, sides)] * 2
    if [buffer.shape for buffer in buffers] != shapes or len(of_types) != 1 or not of_types <= {*FLOATS}:
        raise UnsupportedError(
            f"'{TARGET}' takes three diagonals of n numbers and n x sides of them, of one type of {', '.join(FLOATS)}"
        )
    of = element(op.operands[0])
    f = phase_function(fusion, target)
    systems, row_bytes = math.prod(batch), -(-sides * of.bytes // 64) * 64
    if n and sides:
        pointers = [operand(f, fusion, value) for value in op.operands]
        code = _System(f, of, n, sides, f.gep(f.private, row_bytes, I8))
        f.loop(f.begin, f.end, 1, lambda number: code.solve(number, pointers, f.parameters["out0"]))
    cost = 40.0 * int(n) * int(sides + 1)
    return Kernel.of(phase(f, systems if n and sides else 0, cost), private_bytes=row_bytes + 3 * n * of.bytes)


class _System:
    """Code for one system. `u` holds the diagonal of U and the two above it, row by row."""

    def __init__(self, f: Function, of: Element, n: IntLike, sides: IntLike, u: Value) -> None:
        self.f, self.of, self.n, self.sides, self.u = f, of, n, sides, u
        self.row = f.private  # one row of right-hand sides
        self.zero = types.constant(f, of, 0)
        self.none = self._real(0.0)
        limits = np.finfo(np.float32 if of.compute.bits == 32 else np.float64)
        self.eps, self.smallest, self.one = (self._real(float(x)) for x in (limits.eps, limits.tiny, 1.0))
        self.largest = self._real(float(1 / limits.tiny))

    def solve(self, number: Value, pointers: Sequence[Value], out: Value) -> None:
        """System `number` of the batch."""
        f, n = self.f, self.n
        diagonals, sides = f.imul(number, n), f.imul(number, n * self.sides)
        part = self.of.bytes
        low, diagonal, up = (f.gep(pointer, f.imul(diagonals, part), I8) for pointer in pointers[:3])
        known, x = (f.gep(pointer, f.imul(sides, part), I8) for pointer in (pointers[3], out))
        self.known, self.x = known, x
        first, above = self._load(diagonal, 0), self._load(up, 0) if n > 1 else self.zero
        self._store_u(0, [first, above, self.zero])
        self._columns(lambda c: self._store(x, self._at(0, c), self._load(known, self._at(0, c))))
        if n == 1:
            self._back(0, f.fmul(self.eps, self._abs(first)), 0)
            return
        start = [f.fadd(self._abs(first), self._abs(above)), self._larger(self._abs(first), self._abs(above))]

        def step(k: Index, scale: Value, largest: Value) -> list[Value]:
            return self._eliminate(k, scale, largest, self._load(low, f.iadd(k, 1)), diagonal, up)

        _, largest = f.loop(0, n - 1, 1, step, start)
        largest = self._larger(largest, self._abs(self._load(self.u, 3 * (n - 1))))
        perturbation = f.fmul(self.eps, largest)
        self._back(n - 1, perturbation, 0)
        self._back(n - 2, perturbation, 1)
        f.loop(2, n, 1, lambda done: self._back(f.isub(n - 1, done), perturbation, 2))

    # --- factorization and forward elimination -----------------------------------------------------------------------

    def _eliminate(
        self, k: Index, scale: Value, largest: Value, below: Lanes, diagonal: Value, up: Value
    ) -> list[Value]:
        """Rows k and k + 1; returns the scale of the next row and the largest element of U so far."""
        f = self.f
        following = f.index(f.iadd(k, 1))
        inner = f.cmp("slt", f.index(k), f.const(self.n - 2))  # row k + 1 has an upper element, and U a second diagonal
        own = self._load(diagonal, following)
        above = types.select(f, inner, self._load(up, following), self.zero)
        u0, u1 = self._load(self.u, f.imul(k, 3)), self._load(self.u, f.iadd(f.imul(k, 3), 1))
        size = f.fadd(f.fadd(self._abs(below), self._abs(own)), self._abs(above))

        def no_row_to_clear() -> Value:
            self._store_u(following, [own, above, self.zero])
            self._rows(following, lambda c: self._load(self.known, self._at(following, c)))
            return size

        def rows_stay() -> Value:
            factor = self._op("divide", below, u0)
            self._store_u(following, [self._minus(own, factor, u1), above, self.zero])
            self._rows(
                following,
                lambda c: self._minus(
                    self._load(self.known, self._at(following, c)), factor, self._load(self.x, self._at(k, c))
                ),
            )
            return size

        def rows_change() -> Value:
            factor = self._op("divide", u0, below)
            left = self._minus(u1, factor, own)
            # Not 0 - factor above: the sign of a pivot of zero becomes the sign of the whole solution.
            right = self._op("multiply", types.each(f.fneg, factor), above)
            self._store_u(k, [below, own, above])
            self._store_u(following, [left, right, self.zero])

            def sides(c: Value) -> None:
                upper, lower = self._load(self.x, self._at(k, c)), self._load(self.known, self._at(following, c))
                self._store(self.x, self._at(following, c), self._minus(upper, factor, lower))
                self._store(self.x, self._at(k, c), lower)

            self._columns(sides)
            return f.fadd(self._abs(left), self._abs(right))

        def row_to_clear() -> list[Value]:
            pivot = f.select(self._is_zero(u0), self.none, f.fdiv(self._abs(u0), scale))
            stays = f.cmp("ole", f.fdiv(self._abs(below), size), pivot)
            return f.if_(stays, rows_stay, rows_change)

        (new_scale,) = f.if_(self._is_zero(below), no_row_to_clear, row_to_clear)
        row = [self._abs(self._load(self.u, f.iadd(f.imul(k, 3), d))) for d in range(3)]
        grown = self._larger(largest, self._larger(row[0], self._larger(row[1], row[2])))
        return [new_scale, f.select(inner, grown, largest)]

    # --- back substitution -------------------------------------------------------------------------------------------

    def _back(self, k: Index, perturbation: Value, terms: int) -> None:
        """Row k of the solution, from `terms` rows after it."""
        f = self.f
        factors = [self._load(self.u, f.iadd(f.imul(k, 3), 1 + term)) for term in range(terms)]

        def subtract(c: Value, largest: Value) -> Value:
            value = self._load(self.x, self._at(k, c))
            for term, factor in enumerate(factors):
                value = self._minus(value, factor, self._load(self.x, self._at(f.iadd(k, 1 + term), c)))
            self._store(self.row, c, value)
            return self._larger(largest, self._abs(value))

        (largest,) = f.loop(0, self.sides, 1, subtract, [self.none])
        pivot = self._perturbed(self._load(self.u, f.imul(k, 3)), perturbation, largest)
        one = types.constant(f, self.of, 1)
        reciprocal = None if self.n == 1 else self._op("divide", one, pivot)

        def finish(c: Value) -> None:
            value = self._load(self.row, c)
            result = self._op("multiply", value, reciprocal) if reciprocal else self._op("divide", value, pivot)
            self._store(self.x, self._at(k, c), result)

        self._columns(finish)

    def _perturbed(self, pivot: Lanes, perturbation: Value, largest: Value) -> Lanes:
        """The pivot, changed until dividing numbers up to `largest` by it does not overflow; or it and the row scaled
        up, where both are tiny."""
        f = self.f
        real = types.parts(pivot)[0]
        amount = f.intrinsic("copysign", self._larger(perturbation, self.smallest), real)
        go_on = f.cmp("olt", self._abs(pivot), self.one)

        def grow(parts: Sequence[Value], amount: Value) -> list[Value]:
            grown = [f.fadd(parts[0], amount), *parts[1:]]
            return [*grown, f.fadd(amount, amount), f.cmp("olt", self._abs(self._value(grown)), self.one)]

        def scale(parts: Sequence[Value], amount: Value) -> list[Value]:
            def scaled(c: Value) -> None:
                value = self._load(self.row, c)
                self._store(self.row, c, types.each(lambda part: f.fmul(part, self.largest), value))

            self._columns(scaled)
            return [*(f.fmul(part, self.largest) for part in parts), amount, f.const(False, go_on.type)]

        def step(*carries: Value) -> list[Value]:
            *parts, amount, _ = carries
            size = self._abs(self._value(parts))
            tiny = f.cmp("olt", size, self.smallest)
            is_zero, small_sides = f.cmp("oeq", size, self.none), f.cmp("ogt", f.fmul(largest, self.smallest), size)
            overflows = f.cmp("ogt", largest, f.fmul(size, self.largest))
            grows = f.select(tiny, f.binary("or", is_zero, small_sides), overflows)

            def otherwise() -> list[Value]:
                return f.if_(tiny, lambda: scale(parts, amount), lambda: [*parts, amount, f.const(False, go_on.type)])

            return f.if_(grows, lambda: grow(parts, amount), otherwise)

        *parts, _, _ = f.while_([*types.parts(pivot), amount, go_on], lambda *carries: carries[-1], step)
        return self._value(parts)

    # --- pieces ------------------------------------------------------------------------------------------------------

    def _real(self, number: float) -> Value:
        return self.f.const(number, self.of.compute)

    def _value(self, parts: Sequence[Value]) -> Lanes:
        return (parts[0], parts[1]) if self.of.is_complex else parts[0]

    def _load(self, pointer: Value, position: Index) -> Lanes:
        return types.load(self.f, self.of, pointer, position)

    def _store(self, pointer: Value, position: Index, value: Lanes) -> None:
        types.store(self.f, self.of, value, pointer, position)

    def _store_u(self, row: Index, values: Sequence[Lanes]) -> None:
        for position, value in enumerate(values):
            self._store(self.u, self.f.iadd(self.f.imul(row, 3), position), value)

    def _at(self, row: Index, column: Index) -> Index:
        return self.f.iadd(self.f.imul(column, self.n), row)

    def _columns(self, body: Callable[[Value], None]) -> None:
        self.f.loop(0, self.sides, 1, body)

    def _rows(self, row: Index, value: Callable[[Value], Lanes]) -> None:
        """Row `row` of the solution so far."""
        self._columns(lambda c: self._store(self.x, self._at(row, c), value(c)))

    def _op(self, name: str, a: Lanes, b: Lanes) -> Lanes:
        return field_arithmetic(self.f, name, a, b)

    def _minus(self, a: Lanes, factor: Lanes, b: Lanes) -> Lanes:
        """a - factor b, both roundings."""
        return self._op("subtract", a, self._op("multiply", factor, b))

    def _abs(self, a: Lanes) -> Value:
        return complex_math.absolute(self.f, a) if isinstance(a, tuple) else self.f.intrinsic("fabs", a)

    def _larger(self, a: Value, b: Value) -> Value:
        """The larger one; the first where one is NaN, as std::max."""
        return self.f.select(self.f.cmp("olt", a, b), b, a)

    def _is_zero(self, a: Lanes) -> Value:
        equal = [self.f.cmp("oeq", part, self.none) for part in types.parts(a)]
        return equal[0] if len(equal) == 1 else self.f.binary("and", equal[0], equal[1])
