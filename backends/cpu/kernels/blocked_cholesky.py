"""Cholesky factorization of large matrices, by blocks of rows of the upper factor U, A = U^H U. Golub and Van Loan,
"Matrix Computations", section 4.2.

A row of U solves the equations that the rows above it are the coefficients of, with the columns of A for right-hand
sides: what the rows above a block contribute is a product, as in blocked_substitution.py, whose panels are columns
here. A block takes three steps, between which threads wait for each other:

    update:  the block's own columns, less what the rows above contribute     panel by panel
    factor:  the triangle on the diagonal                                     one thread
    beside:  the columns after it, less what the rows above contribute, solved    panel by panel

All steps are one phase, which reads in scratch which one it does; so the code is the same for any size. For the lower
factor panels are rows of A, and of L.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, Part, finished, phase, phase_function
from stablehlo_py.backends.cpu.kernels.blocked_substitution import BLOCK, MOST_VECTORS, BlockedSubstitution
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.kernels.panel_transpose import PanelTranspose, Sizes
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, I64, Function, Index, Value
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.types import flag, shape

STEPS = 3  # of a block
STATE_BYTES = 64  # the number of the step, before the panels


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """Phases: panels are made of A, the steps of each block, the result is made of panels."""
    op = fusion.op("hlo.cholesky")
    *batch, _, n = map(int, shape(op.operands[0]))
    code = _Blocks(fusion, target, n, math.prod(batch), lower=flag(op, "lower"))
    load, advance, step, store = code.load(), code.advance(), code.step(), code.store()
    kernel = Kernel.of(load, advance, step, store, shared_bytes=STATE_BYTES + code.batch * code.matrix_bytes)
    steps = [advance[1], step[1]] * (STEPS * -(-code.padded // BLOCK))
    return replace(kernel, phases=(load[1], *steps, store[1]))


@dataclass(frozen=True)
class _Step:
    """What a step does: of a block, the rows `first`..`last`, in the panels `panel`..`panels`, the contributions of the
    rows `chunk`..`chunks`. `factors`: it is the triangle on the diagonal."""

    factors: Value
    first: Value
    last: Value
    panel: Value
    panels: Value
    chunk: Value
    chunks: Value


class _Blocks:
    """Code of the phases. Panels have a width of vectors, and a row for each column of the matrix, the number of which
    is rounded up to whole panels."""

    def __init__(self, fusion: Fusion, target: CpuTarget, n: int, batch: int, *, lower: bool) -> None:
        self.fusion, self.target, self.n, self.batch, self.lower = fusion, target, n, batch, lower
        self.of = element(fusion.outputs[0])
        self.lanes = target.lanes(self.of.storage.bits)
        self.width = self.lanes * MOST_VECTORS
        self.panels = -(-n // self.width)
        self.padded = self.panels * self.width

    @property
    def matrix_bytes(self) -> int:
        """Of a matrix as panels."""
        return self.padded**2 * self.of.bytes

    def _parted(self, f: Function, number: Value, each: int) -> tuple[Index, Index]:
        """The matrix of an iteration, of which each has so many, and which of these it is."""
        return (0, number) if self.batch == 1 else (f.idiv(number, each), f.irem(number, each))

    def _panel(self, f: Function, matrix: Index, number: Index) -> Value:
        """Where a panel begins."""
        place = f.imul(f.iadd(f.imul(matrix, self.panels), number), self.padded * self.width * self.of.bytes)
        return f.gep(f.gep(f.shared, STATE_BYTES, I8), place, I8)

    # --- between matrices and panels ---------------------------------------------------------------------------------

    def load(self) -> Part:
        """Panels of A, down to their squares on the diagonal."""
        f = phase_function(self.fusion, self.target, "_load")
        source = operand(f, self.fusion, self.fusion.op("hlo.cholesky").operands[0])
        f.if_(f.cmp("eq", f.begin, f.const(0)), lambda: f.store(f.const(-1), f.shared))  # before the first step

        def load(base: Index, panel: Value, number: Index, columns: int) -> None:
            first = f.imul(number, self.width)
            if columns < self.width:
                f.set_memory(panel, 0, self.padded * self.width * self.of.bytes)
            rows = f.imin(f.iadd(first, self.width), self.n)
            if not self.lower:
                self._copy(f, source, f.iadd(base, first), self.n, panel, self.width, rows, columns)
                return
            start = f.gep(source, f.iadd(base, f.imul(first, self.n)), self.of.storage)
            self._transpose(f, start, Sizes(columns, self.n, rows, self.width), panel, columns)

        return self._each_panel(f, load)

    def store(self) -> Part:
        """The factor, and zeros beyond its diagonal."""
        f = phase_function(self.fusion, self.target, "_store")
        out, size = f.parameters["out0"], self.of.bytes

        def store(base: Index, panel: Value, number: Index, columns: int) -> None:
            first = f.imul(number, self.width)
            rows = f.imin(f.iadd(first, self.width), self.n)
            at = f.iadd(base, f.imul(first, self.n) if self.lower else first)
            start = f.gep(out, at, self.of.storage)
            if self.lower:
                self._transpose(f, panel, Sizes(rows, self.width, columns, self.n), start, columns)
            else:
                self._copy(f, panel, 0, self.width, start, self.n, rows, columns)

            def clear(row: Index, begin: Index, end: Index) -> None:
                place = f.gep(out, f.iadd(base, f.iadd(f.imul(row, self.n), begin)), self.of.storage)
                f.set_memory(place, 0, f.imul(f.isub(end, begin), size))

            if self.lower:
                f.loop(first, rows, 1, lambda row: clear(row, f.iadd(row, 1), self.n))
            else:
                f.loop(first, rows, 1, lambda row: clear(row, first, row))
                f.loop(rows, self.n, 1, lambda row: clear(row, first, rows))

        return self._each_panel(f, store)

    def _each_panel(self, f: Function, body: Callable[[Index, Value, Index, int], None]) -> Part:
        """A phase of `body(where its matrix begins, panel, its number, valid columns)` for all panels."""

        def one(number: Value) -> None:
            matrix, panel = self._parted(f, number, self.panels)
            base, start = f.imul(matrix, self.n * self.n), self._panel(f, matrix, panel)
            if self.padded == self.n:
                body(base, start, panel, self.width)
                return
            is_last = f.cmp("eq", f.index(panel), f.const(self.panels - 1))
            rest = self.n % self.width
            f.if_(is_last, lambda: body(base, start, panel, rest), lambda: body(base, start, panel, self.width))

        f.loop(f.begin, f.end, 1, one)
        return phase(f, self.batch * self.panels, 0.5 * self.width * self.n / self.lanes)

    def _transpose(self, f: Function, source: Value, sizes: Sizes, target: Value, columns: int) -> None:
        """Squares at once of a whole panel, elements of one that has fewer columns."""
        if columns == self.width and self.lanes > 1:
            whole = self.n % self.lanes == 0
            PanelTranspose(self.lanes, self.of.name, self.of.name, whole=whole).emit(f, source, target, sizes)
            return

        def element(row: Index, column: Index) -> None:
            value = types.load(f, self.of, source, f.iadd(f.imul(row, sizes.across), column))
            types.store(f, self.of, value, target, f.iadd(f.imul(column, sizes.width), row))

        f.loop(0, sizes.rows, 1, lambda row: f.loop(0, sizes.size, 1, lambda column: element(row, column)))

    def _copy(
        self,
        f: Function,
        source: Value,
        start: Index,
        across: int,
        target: Value,
        width: int,
        rows: Index,
        columns: int,
    ) -> None:
        """Rows of so many columns."""

        def row(number: Index) -> None:
            source_row = f.gep(source, f.iadd(start, f.imul(number, across)), self.of.storage)
            f.copy_memory(f.gep(target, f.imul(number, width), self.of.storage), source_row, columns * self.of.bytes)

        f.loop(0, rows, 1, row)

    # --- steps -------------------------------------------------------------------------------------------------------

    def advance(self) -> Part:
        """What makes the next step of one."""
        f = phase_function(self.fusion, self.target, "_advance")
        f.store(f.index(f.iadd(f.load(I64, f.shared), 1)), f.shared)
        return finished(f)

    def step(self) -> Part:
        """A step, which has as many iterations as any may have: those that it has no panels for do nothing."""
        f = phase_function(self.fusion, self.target)
        most = max(self.panels, BLOCK // self.width)
        step = self._read_step(f)

        def iteration(number: Value) -> None:
            matrix, after = self._parted(f, number, most)
            panel = f.index(f.iadd(step.panel, after))
            # One iteration factors the block.
            is_first = f.cmp("eq", panel, step.panel)
            end = f.select(step.factors, f.select(is_first, step.panels, panel), f.index(f.iadd(panel, 1)))
            f.loop(panel, f.imin(end, step.panels), 1, lambda panel: self._panel_step(f, step, matrix, panel))

        f.loop(f.begin, f.end, 1, iteration)
        return phase(f, self.batch * most, 0.125 * MOST_VECTORS * BLOCK * self.n)

    def _read_step(self, f: Function) -> _Step:
        """The step that scratch says."""
        number = f.load(I64, f.shared)
        kind, first = f.irem(number, STEPS), f.imul(f.idiv(number, STEPS), BLOCK)
        updates, factors, is_beside = (f.cmp("eq", f.index(kind), f.const(one)) for one in range(STEPS))
        first, last = f.index(first), f.index(f.imin(f.iadd(first, BLOCK), self.padded))
        panel, behind = f.idiv(first, self.width), f.idiv(f.iadd(last, self.width - 1), self.width)
        return _Step(
            factors=factors,
            first=first,
            last=last,
            panel=f.select(is_beside, f.index(behind), f.index(panel)),
            panels=f.select(is_beside, f.const(self.panels), f.index(behind)),
            chunk=f.select(factors, first, f.const(0)),
            chunks=f.select(updates, first, last),
        )

    def _panel_step(self, f: Function, step: _Step, matrix: Index, panel: Value) -> None:
        """What a step does to a panel: of the rows that are solved those down to the diagonal."""
        diagonal = f.index(f.imul(panel, self.width))
        own_last = f.index(f.imin(step.last, f.iadd(diagonal, self.width)))
        last = f.select(step.factors, own_last, step.last)

        def place(row: Index, number: Index, other: Index) -> tuple[Value, Index]:
            """Where in U row `other` has the column that is so many after `row`; tiles end where panels do."""
            start = self._panel(f, matrix, f.idiv(row, self.width))
            at = f.gep(start, f.iadd(f.imul(other, self.width), f.irem(row, self.width)), self.of.storage)
            return at, number

        def coefficient(row: Index, number: Index, other: Index) -> Value:
            value = types.load(f, self.of, *place(row, number, other))
            assert isinstance(value, Value)
            return value

        def divisor(row: Index, number: Index, keep: Callable[[], None]) -> Value:
            """The diagonal element of a row, in the panel that has it the root of what is left there."""

            def element() -> Value:
                return coefficient(row, number, f.iadd(row, number))

            def root() -> Value:
                keep()
                return f.intrinsic("sqrt", element())

            return f.if_(f.cmp("sge", f.index(row), diagonal), root, element)[0]

        def solved(row: Index, number: Index, root: Value) -> None:
            is_own = f.cmp("sge", f.index(row), diagonal)
            f.if_(is_own, lambda: types.store(f, self.of, root, *place(row, number, f.iadd(row, number))))

        code = BlockedSubstitution(
            f, self.of, self.lanes, MOST_VECTORS, coefficient, divisor, self.target.registers, solved
        )
        start = self._panel(f, matrix, panel)
        f.loop(step.chunk, step.chunks, BLOCK, lambda chunk: code.chunk(start, chunk, step.first, last))
