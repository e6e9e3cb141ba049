"""Triangular solve of each system of a batch, by substitution. Spec: section triangular_solve.

Right-hand sides are independent of each other: lanes are sides. Solving from the left they lie side by side in memory;
solving from the right each is a row, and a group of rows is transposed through scratch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from stablehlo_py.backends.cpu.kernels.base import Fusion, Kernel, Phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand, the_op
from stablehlo_py.backends.cpu.kernels.transposing import load_rows, store_rows
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import rounded
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.region import field_arithmetic, subtract_product
from stablehlo_py.codegen.types import Element, Lanes, element
from stablehlo_py.dialect.size import estimate
from stablehlo_py.dialect.types import flag, shape, text

MOST_VECTORS = 4  # vectors of sides that share the loads of coefficients


@dataclass(frozen=True)
class _Systems:
    """The shape of the problem: op(A) of n x n and `sides` right-hand sides per system.

    Solving x op(a) = b is solving op(a)^T x^T = b^T: with `transposed`, the coefficient of unknown k in equation i is
    a[k, i].
    """

    of: Element
    n: int
    sides: int
    batch: int
    left: bool
    transposed: bool
    conjugated: bool
    forward: bool
    unit: bool


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over groups of right-hand sides."""
    op = the_op(fusion, "hlo.triangular_solve")
    left, transpose = flag(op, "left_side"), text(op, "transpose_a")
    sizes, of = shape(op.operands[1]), element(op.operands[0])
    n, sides = sizes[-2:] if left else sizes[:-3:-1]
    transposed = (transpose != "NO_TRANSPOSE") == left
    systems = _Systems(
        of=of,
        n=n,
        sides=sides,
        batch=math.prod(sizes[:-2]),
        left=left,
        transposed=transposed,
        conjugated=transpose == "ADJOINT" and of.is_complex,
        forward=flag(op, "lower") != transposed,
        unit=flag(op, "unit_diagonal"),
    )
    f = phase_function(fusion, fusion.name)
    lanes = min(target.lanes(of.compute.bits), 1 << max(0, sides.bit_length() - 1))
    vectors = min(MOST_VECTORS, sides // lanes) if left and sides else 1
    groups, private = -(-sides // (lanes * vectors)) if sides else 0, 0
    if n and sides:
        group = _Group(f, systems, lanes, vectors, operand(f, fusion, op.operands[0]))
        known, out = operand(f, fusion, op.operands[1]), f.parameters["out0"]
        f.loop(f.begin, f.end, 1, lambda number: group.solve(number, groups, known, out))
        private = 0 if left else n * lanes * of.bytes
    f.ret()
    cost = estimate(n) ** 2 * 0.5 * vectors
    iterations = systems.batch * groups if n else 0
    phase = Phase(fusion.name, iterations, max(1, int(5000 / max(cost, 1))), cost)
    return Kernel((f.text(target.function_attributes),), (phase,), private_bytes=private)


class _Group:
    """Solves `vectors` times `lanes` sides at once. The last group of a system overlaps the one before it: what both
    solve is the same."""

    def __init__(self, f: Function, systems: _Systems, lanes: int, vectors: int, matrix: Value) -> None:
        self.f, self.systems, self.lanes, self.vectors, self.matrix = f, systems, lanes, vectors, matrix

    def solve(self, number: Value, groups: int, known: Value, out: Value) -> None:
        """Group number: system * groups + group."""
        f, s, of = self.f, self.systems, self.systems.of
        system, width = f.idiv(number, groups), self.lanes * self.vectors
        side = f.imin(f.imul(f.irem(number, groups), width), s.sides - width)
        a, b = f.imul(system, s.n * s.n), f.imul(system, s.n * s.sides)
        if s.left:

            def place(row: Index, vector: int) -> Index:
                return f.iadd(f.iadd(b, f.imul(row, s.sides)), f.iadd(side, vector * self.lanes))

            self._substitute(
                a,
                lambda row, vector: types.load(f, of, known, place(row, vector), self.lanes),
                lambda row, vector: types.load(f, of, out, place(row, vector), self.lanes),
                lambda row, vector, value: types.store(f, of, value, out, place(row, vector)),
            )
            return
        first = f.imul(f.iadd(b, f.imul(side, s.n)), 2 if of.is_complex else 1)
        scratch = f.private

        def read(row: Index, _vector: int = 0) -> Lanes:
            return types.load(f, of, scratch, f.imul(row, self.lanes), self.lanes)

        def write(row: Index, _vector: int, value: Lanes) -> None:
            types.store(f, of, value, scratch, f.imul(row, self.lanes))

        source, target = (f.gep(pointer, first, of.storage) for pointer in (known, out))
        load_rows(f, of, source, s.n, self.lanes, lambda j, value: write(j, 0, value))
        self._substitute(a, read, read, write)
        store_rows(f, of, target, s.n, self.lanes, read)

    def _coefficient(self, base: Index, row: Index, column: Index) -> Lanes:
        """The coefficient of unknown `column` in equation `row`, in every lane."""
        f, s = self.f, self.systems
        first, second = (column, row) if s.transposed else (row, column)
        value = types.load(f, s.of, self.matrix, f.iadd(base, f.iadd(f.imul(first, s.n), second)))
        if s.conjugated and isinstance(value, tuple):
            value = value[0], f.fneg(value[1])
        return types.splat(f, value, self.lanes)

    def _substitute(
        self,
        base: Index,
        known: Callable[[Index, int], Lanes],
        solved: Callable[[Index, int], Lanes],
        solve: Callable[[Index, int, Lanes], None],
    ) -> None:
        """Forward or backward substitution: known(i, v), minus the solved ones times their coefficients, divided."""
        f, s = self.f, self.systems

        def unknown(step: Value) -> None:
            row = step if s.forward else f.isub(s.n - 1, step)

            def eliminate(k: Value, *flat: Value) -> list[Value]:
                other = k if s.forward else f.isub(s.n - 1, k)
                coefficient = self._coefficient(base, row, other)
                result: list[Value] = []
                for vector, total in enumerate(_grouped(s.of, flat)):
                    result += types.parts(subtract_product(f, total, coefficient, solved(other, vector)))
                return result

            start = [part for vector in range(self.vectors) for part in types.parts(known(row, vector))]
            totals = _grouped(s.of, f.loop(0, step, 1, eliminate, start))
            diagonal = None if s.unit else self._coefficient(base, row, row)
            for vector, total in enumerate(totals):
                value = total if diagonal is None else field_arithmetic(f, "divide", total, diagonal)
                solve(row, vector, rounded(f, s.of, value))

        f.loop(0, s.n, 1, unknown)


def _grouped(of: Element, flat: tuple[Value, ...] | list[Value]) -> list[Lanes]:
    return list(zip(flat[0::2], flat[1::2], strict=True)) if of.is_complex else list(flat)
