"""Large triangular solves: substitution by blocks, for a panel of right-hand sides at a time.

A panel is copied to scratch, where its rows lie one after the other; solving from the right, a side is a row in memory,
and the panel is transposed on the way. The last panel of a system overlaps the one before it: what both solve is the
same.
"""

from __future__ import annotations

from collections.abc import Callable

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.blocked_substitution import MOST_VECTORS, BlockedSubstitution
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.kernels.systems import Systems
from stablehlo_py.backends.cpu.kernels.transposing import load_rows, store_rows
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.types import Lanes


def emit(fusion: Fusion, target: CpuTarget, systems: Systems) -> Kernel:
    """One phase over the panels of all systems, whose sizes are known."""
    op = fusion.op("hlo.triangular_solve")
    f = phase_function(fusion, target)
    matrix, known = (operand(f, fusion, value) for value in op.operands)
    n, sides, batch = int(systems.n), int(systems.sides), int(systems.batch)
    lanes = min(target.lanes(systems.of.compute.bits), 1 << (sides.bit_length() - 1))
    vectors, last = _widths(sides, lanes)
    groups = -(-sides // (lanes * vectors))

    def panel(number: Value) -> None:
        system, group = (0, number) if batch == 1 else (f.idiv(number, groups), f.irem(number, groups))
        start = f.imul(group, lanes * vectors)

        def solve(count: int) -> None:
            side = f.imin(start, sides - lanes * count) if sides % (lanes * vectors) else start
            _Panel(f, systems, target, lanes, count, matrix).emit(system, side, known, f.parameters["out0"])

        if last == vectors:
            solve(vectors)
        else:
            is_last = f.cmp("eq", f.index(group), f.const(groups - 1))
            f.if_(is_last, lambda: solve(last), lambda: solve(vectors))

    f.loop(f.begin, f.end, 1, panel)
    part = phase(f, batch * groups, n**2 * 0.5 * vectors)
    return Kernel.of(part, private_bytes=n * lanes * vectors * systems.of.bytes)


def _widths(sides: int, lanes: int) -> tuple[int, int]:
    """How many vectors panels have, and the last one, which is narrower only where no one width spares as many."""
    most, fewest = min(MOST_VECTORS, sides // lanes), -(-sides // lanes)
    for vectors in range(most, most // 2, -1):
        if fewest % vectors == 0:
            return vectors, vectors
    return most, fewest % most


class _Panel:
    """Code for one panel of so many vectors. In scratch rows have the order of the matrix."""

    def __init__(
        self, f: Function, systems: Systems, target: CpuTarget, lanes: int, vectors: int, matrix: Value
    ) -> None:
        self.f, self.systems, self.matrix, self.registers = f, systems, matrix, target.registers
        self.n, self.sides = int(systems.n), int(systems.sides)
        self.lanes, self.vectors, self.width = lanes, vectors, lanes * vectors

    def emit(self, system: Index, side: Index, known: Value, out: Value) -> None:
        """Solve the sides of a system from one on."""
        f = self.f
        first = f.iadd(f.imul(system, self.n * self.sides), side if self.systems.left else f.imul(side, self.n))
        source, result = (f.gep(pointer, first, self.systems.of.storage) for pointer in (known, out))
        load, store = (self._load, self._store) if self.systems.left else (self._load_turned, self._store_turned)
        load(source)
        self._solve(f.imul(system, self.n * self.n))
        store(result)

    def _solve(self, base: Index) -> None:
        """In scratch, by the matrix that begins there."""
        f, s = self.f, self.systems

        def coefficient(first: Index, number: Index, other: Index) -> Value:
            row, column = self._row_of(f.iadd(first, number)), self._row_of(other)
            at = f.iadd(f.imul(column, self.n), row) if s.transposed else f.iadd(f.imul(row, self.n), column)
            value = types.load(f, s.of, self.matrix, f.iadd(base, at))
            assert isinstance(value, Value)
            return value

        def divisor(first: Index, number: Index, keep: Callable[[], None]) -> Value:
            return coefficient(first, number, f.iadd(first, number))

        of_tile = self.lanes, self.vectors, coefficient, None if s.unit else divisor, self.registers
        BlockedSubstitution(f, s.of, *of_tile, row_of=self._row_of, forward=s.forward).solve(f.private, self.n)

    def _row_of(self, step: Index) -> Index:
        """The unknown that is solved in a step."""
        return step if self.systems.forward else self.f.isub(self.n - 1, step)

    def _put(self, row: Index, vector: Index, value: Lanes) -> None:
        types.store(self.f, self.systems.of, value, self.f.private, self._at(row, vector))

    def _get(self, row: Index, vector: Index) -> Lanes:
        return types.load(self.f, self.systems.of, self.f.private, self._at(row, vector), self.lanes)

    def _at(self, row: Index, vector: Index) -> Index:
        return self.f.iadd(self.f.imul(row, self.width), self.f.imul(vector, self.lanes))

    # --- sides that lie side by side ---------------------------------------------------------------------------------

    def _load(self, source: Value) -> None:
        f, of = self.f, self.systems.of

        def row(number: Index) -> None:
            for v in range(self.vectors):
                place = f.iadd(f.imul(number, self.sides), v * self.lanes)
                self._put(number, v, types.load(f, of, source, place, self.lanes))

        f.loop(0, self.n, 1, row)

    def _store(self, result: Value) -> None:
        f, of = self.f, self.systems.of

        def row(number: Index) -> None:
            for v in range(self.vectors):
                place = f.iadd(f.imul(number, self.sides), v * self.lanes)
                types.store(f, of, self._get(number, v), result, place)

        f.loop(0, self.n, 1, row)

    # --- sides that are rows -----------------------------------------------------------------------------------------

    def _load_turned(self, source: Value) -> None:
        f = self.f

        def vector(v: Index) -> None:
            def put(j: Index, number: int, value: Lanes) -> None:
                self._put(f.iadd(j, number), v, value)

            load_rows(f, self.systems.of, self._rows(source, v), self.n, self.lanes, put)

        f.loop(0, self.vectors, 1, vector)

    def _store_turned(self, result: Value) -> None:
        f = self.f

        def vector(v: Index) -> None:
            def get(j: Index, number: int) -> Lanes:
                return self._get(f.iadd(j, number), v)

            store_rows(f, self.systems.of, self._rows(result, v), self.n, self.lanes, get)

        f.loop(0, self.vectors, 1, vector)

    def _rows(self, pointer: Value, vector: Index) -> Value:
        """Where the sides of a vector begin."""
        return self.f.gep(pointer, self.f.imul(vector, self.lanes * self.n), self.systems.of.storage)
