"""Triangular solve of each system of a batch, by substitution. Spec: section triangular_solve.

Right-hand sides are independent of each other: lanes are sides. Solving from the left they lie side by side in memory;
solving from the right each is a row, and a group of rows is transposed through scratch. Where there is one side, lanes
are coefficients (vector_substitution.py). Of many small systems with few sides, lanes are systems. Large ones are
solved by blocks (blocked_solve.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import fold
from stablehlo_py.backends.cpu.blocks import is_blocked
from stablehlo_py.backends.cpu.kernels import blocked_solve
from stablehlo_py.backends.cpu.kernels.base import Kernel, Part, phase, phase_function
from stablehlo_py.backends.cpu.kernels.blocked_substitution import MOST_ROWS, MOST_VECTORS, OTHER_REGISTERS
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.kernels.interleaved import Interleaved, matrices_of
from stablehlo_py.backends.cpu.kernels.systems import Systems
from stablehlo_py.backends.cpu.kernels.transposing import load_rows, store_rows
from stablehlo_py.backends.cpu.kernels.vector_substitution import VectorSubstitution
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import rounded
from stablehlo_py.codegen.builder import I8, Function, Index, Value
from stablehlo_py.codegen.region import field_arithmetic, subtract_product
from stablehlo_py.codegen.types import Lanes
from stablehlo_py.dialect.alignment import aligned
from stablehlo_py.dialect.symint import IntLike, is_known, less, maximum, select, size_hint

VECTORS_FROM = 2  # vectors of coefficients of a row, from which a single side is solved by them
MOST_BATCHED = 16  # unknowns of systems that are lanes: matrices of a vector of them fit into the nearest cache
SIDES_OF_VECTOR = 8  # lanes at least for each side: with more sides, lanes that are sides are as fast


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """Phases over groups of right-hand sides, one of which a call runs."""
    op = fusion.op("hlo.triangular_solve")
    systems = Systems.read(op)
    of, n, sides, left = systems.of, systems.n, systems.sides, systems.left
    most = target.lanes(of.compute.bits)
    of_reals = of.storage == of.compute and not of.is_complex
    if sides == 1 and of_reals and isinstance(n, int) and n >= VECTORS_FROM * most:
        return _of_vectors(fusion, target, systems, n, most)
    if isinstance(n, int) and isinstance(sides, int) and isinstance(systems.batch, int):
        few_sides = 0 < sides * SIDES_OF_VECTOR <= most
        if few_sides and 0 < n <= MOST_BATCHED and systems.batch >= most:
            return _of_batches(fusion, target, systems, n, sides, most)
    if is_blocked(op):
        return blocked_solve.emit(fusion, target, systems)
    parts: list[Part] = []
    private: IntLike = 0
    for lanes, vectors, served in _widths(sides, most, left):
        f = phase_function(fusion, target, f".{lanes * vectors}" if parts else "")
        groups = -(-sides // (lanes * vectors)) if sides else 0
        if n and sides:
            matrix = operand(f, fusion, op.operands[0])
            group = _Group(f, systems, lanes, vectors, matrix, target.registers)
            known, out = operand(f, fusion, op.operands[1]), f.parameters["out0"]
            solve = partial(group.solve, groups=groups, known=known, out=out)
            f.loop(f.begin, f.end, 1, solve)
            private = maximum(private, 0 if left else n * lanes * of.bytes)
        cost = size_hint(n) ** 2 * 0.5 * vectors
        iterations = select(served, systems.batch * groups, 0) if n else 0
        parts.append(phase(f, iterations, cost))
    return Kernel.of(*parts, private_bytes=private)


def _of_vectors(fusion: Fusion, target: CpuTarget, s: Systems, n: int, lanes: int) -> Kernel:
    """One phase over systems of one right-hand side each."""
    op = fusion.op("hlo.triangular_solve")
    f = phase_function(fusion, target)
    matrix, known = (operand(f, fusion, value) for value in op.operands)
    shared = (s.of, n, lanes, s.transposed, s.forward, s.unit, matrix, known, f.parameters["out0"])
    f.loop(f.begin, f.end, 1, VectorSubstitution(f, *shared).solve)
    return Kernel.of(phase(f, s.batch, n * (n / lanes * 0.2 + 10.0)))


def _of_batches(fusion: Fusion, target: CpuTarget, s: Systems, n: int, sides: int, lanes: int) -> Kernel:
    """One phase over groups of as many systems as lanes."""
    op = fusion.op("hlo.triangular_solve")
    f = phase_function(fusion, target)
    matrices = Interleaved(f, s.of, n * n, lanes, f.private)
    unknowns = Interleaved(f, s.of, n * sides, lanes, f.gep(f.private, aligned(matrices.bytes), I8))
    group = _Batch(f, s, sides, matrices, unknowns, target.registers)
    known, out = operand(f, fusion, op.operands[1]), f.parameters["out0"]
    source = operand(f, fusion, op.operands[0])
    f.loop(f.begin, f.end, 1, partial(group.solve_all, source=source, known=known, out=out, aliased=fusion.aliased))
    part = phase(f, -(-s.batch // lanes), 2.0 * n * (n + sides) + 0.5 * n * n * sides)
    return Kernel.of(part, private_bytes=aligned(matrices.bytes) + unknowns.bytes)


def _widths(sides: IntLike, most: int, left: bool) -> list[tuple[int, int, IntLike]]:
    """(lanes, vectors of them, whether this serves a call) for groups of right-hand sides. Of a dynamic number of sides
    a call has one of several widths: none that is wider than all sides."""
    if isinstance(sides, int):
        lanes = min(most, 1 << max(0, sides.bit_length() - 1))
        return [(lanes, min(MOST_VECTORS, sides // lanes) if left and sides else 1, 1)]
    widths: list[tuple[int, int, IntLike]] = []
    taken: IntLike = 0
    for lanes, vectors in ((most, MOST_VECTORS), (most, 1), (1, 1))[not left :]:
        fits = 1 - less(sides, lanes * vectors)
        widths.append((lanes, vectors, fits - taken))
        taken = fits
    return widths


class _Group:
    """Solves `vectors` times `lanes` sides at once. The last group of a system overlaps the one before it: what both
    solve is the same."""

    def __init__(self, f: Function, systems: Systems, lanes: int, vectors: int, matrix: Value, registers: int) -> None:
        self.f, self.systems, self.lanes, self.vectors, self.matrix = f, systems, lanes, vectors, matrix
        sums = vectors * (2 if systems.of.is_complex else 1)  # of an unknown
        self.rows = max(1, min(MOST_ROWS, (registers - OTHER_REGISTERS) // sums)) if vectors > 1 else 1

    def solve(self, number: Value, groups: IntLike, known: Value, out: Value) -> None:
        """Group number: system * groups + group. Of one system with whole groups of sides from the right, the code does
        not say how many: such kernels are one."""
        f, s, of = self.f, self.systems, self.systems.of
        width = self.lanes * self.vectors
        system, group = (0, number) if s.batch == 1 else (f.idiv(number, groups), f.irem(number, groups))
        side = f.imul(group, width)
        if not is_known(s.sides) or s.sides % width:
            side = f.imin(side, s.sides - width)
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
        load_rows(f, of, source, s.n, self.lanes, lambda j, number, value: write(f.iadd(j, number), 0, value))
        self._substitute(a, read, read, write)
        store_rows(f, of, target, s.n, self.lanes, lambda j, number: read(f.iadd(j, number)))

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
        """Forward or backward substitution: known(i, v), minus the solved ones times their coefficients, divided.

        Several unknowns go through the solved ones together, which shares their loads; each in the order that it has
        alone."""
        f, s = self.f, self.systems

        def row_of(step: Index) -> Index:
            return step if s.forward else f.isub(s.n - 1, step)

        def unknowns(first: Index, count: IntLike) -> None:
            rows = [row_of(f.iadd(first, position)) for position in range(count)]

            def eliminate(totals: Sequence[Lanes], row: Index, other: Index, values: Sequence[Lanes]) -> list[Lanes]:
                coefficient = self._coefficient(base, row, other)
                pairs = zip(totals, values, strict=True)
                return [subtract_product(f, total, coefficient, value) for total, value in pairs]

            def earlier(step: Value, totals: list[Lanes]) -> list[Lanes]:
                other = row_of(step)
                values = [solved(other, vector) for vector in range(self.vectors)]
                sums = [
                    eliminate(totals[i * self.vectors : (i + 1) * self.vectors], row, other, values)
                    for i, row in enumerate(rows)
                ]
                return [total for row in sums for total in row]

            start = [known(row, v) for row in rows for v in range(self.vectors)]
            totals = fold(f, 0, first, 1, start, earlier)
            results: list[list[Lanes]] = []
            for i, row in enumerate(rows):
                sums = totals[i * self.vectors : (i + 1) * self.vectors]
                for other, values in zip(rows[:i], results, strict=True):
                    sums = eliminate(sums, row, other, values)
                results.append(self._divided(base, row, sums))
                for vector, value in enumerate(results[i]):
                    solve(row, vector, value)

        whole = s.n // self.rows * self.rows
        f.loop(0, whole, self.rows, lambda first: unknowns(first, self.rows))
        f.loop(whole, s.n, 1, lambda first: unknowns(first, 1))

    def _divided(self, base: Index, row: Index, sums: Sequence[Lanes]) -> list[Lanes]:
        """The unknowns of a row, from what is left of its right-hand sides."""
        f, s = self.f, self.systems
        diagonal = None if s.unit else self._coefficient(base, row, row)
        values = sums if diagonal is None else [field_arithmetic(f, "divide", total, diagonal) for total in sums]
        return [rounded(f, s.of, value) for value in values]


class _Batch(_Group):
    """Solves as many systems at once as there are lanes; a vector holds one side of each."""

    def __init__(
        self, f: Function, systems: Systems, sides: int, matrices: Interleaved, unknowns: Interleaved, registers: int
    ) -> None:
        super().__init__(f, systems, matrices.lanes, sides, matrices.place, registers)
        self.matrices, self.unknowns, self.sides = matrices, unknowns, sides

    def solve_all(self, number: Value, source: Value, known: Value, out: Value, aliased: bool) -> None:
        """Those of group `number`; `aliased`: over what is known."""
        f = self.f
        first, held = matrices_of(f, number, self.lanes, self.systems.batch, aliased=aliased)
        self.matrices.read(source, first, held)
        self.unknowns.read(known, first, held)

        def place(row: Index, side: int) -> Index:
            if self.systems.left:
                return f.iadd(f.imul(row, self.sides), side)
            return f.iadd(row, self.systems.n * side)

        def get(row: Index, side: int) -> Lanes:
            return self.unknowns.get(place(row, side))

        self._substitute(0, get, get, lambda row, side, value: self.unknowns.set(place(row, side), value))
        self.unknowns.write(out, first, held)

    def _coefficient(self, base: Index, row: Index, column: Index) -> Lanes:
        """That of each system."""
        s = self.systems
        first, second = (column, row) if s.transposed else (row, column)
        value = self.matrices.get(self.f.iadd(self.f.imul(first, s.n), second))
        return (value[0], self.f.fneg(value[1])) if s.conjugated and isinstance(value, tuple) else value
