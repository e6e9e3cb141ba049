"""Panels of an operand whose contracted axis is the contiguous one: rows in memory become columns, by squares that are
transposed in registers.

A square is some 100 instructions, and what differs between the products of a program are sizes and strides. So it is a
function that all kernels call which pack such an operand; sizes and strides are its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from stablehlo_py.backends.common.contraction import Operand
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.base import SharedFunction
from stablehlo_py.backends.cpu.kernels.transposing import transposed
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I64, PTR, Function, Index, Value
from stablehlo_py.codegen.types import ELEMENTS


@dataclass(frozen=True)
class Sizes:
    """Of one panel: `rows` of the source, each `size` elements long and `across` elements after the one before it; rows
    of the panel are `width` scalars apart."""

    rows: Index
    across: Index
    size: Index
    width: Index


@dataclass(frozen=True)
class PanelTranspose:
    """What the code depends on.

    Attributes:
        lanes: rows and columns of a square.
        source, panel: the names of the element types in memory and of the panel.
        masked: rows of the panel may have no room for whole vectors.
    """

    lanes: int
    source: str
    panel: str
    masked: bool = False

    @property
    def symbol(self) -> str:
        """The name of its function."""
        return f"shlo_panel_{self.lanes}_{self.source}_{self.panel}{'_masked' * self.masked}"

    def text(self, target: CpuTarget) -> str:
        """Its code, for rows that are at least `lanes` long."""
        return _text(self, target)

    def emit(self, f: Function, source: Value, target: Value, sizes: Sizes, shared: set[SharedFunction] | None) -> None:
        """Make the panel at `target` of the rows from `source` on. Lanes past the last row repeat it. `shared` gets the
        function where that is called; None: the code is part of `f`."""
        if shared is None or (isinstance(sizes.size, int) and sizes.size < self.lanes):
            self.emit_here(f, source, target, sizes)
            return
        shared.add(self)
        numbers = (sizes.rows, sizes.across, sizes.size, sizes.width)
        f.call(self.symbol, [source, target, *map(f.index, numbers)], external=True)

    def emit_here(self, f: Function, source: Value, target: Value, sizes: Sizes) -> None:
        """The same as part of `f`. The last squares overlap their neighbours where they can."""
        of, lanes, size = Operand("", 0, ELEMENTS[self.source]), self.lanes, sizes.size
        arithmetic = Arithmetic(ELEMENTS[self.panel])
        scalar = arithmetic.accumulator
        count = min(size, lanes) if isinstance(size, int) else lanes
        mask = f.tail_mask(count, lanes) if count < lanes else None
        last = f.isub(sizes.rows, 1)

        def square(k: Index, first: Index) -> None:
            start = f.gep(source, k, of.element.storage)
            end = f.gep(target, f.iadd(f.imul(k, sizes.width), first), scalar)
            rows = []
            for i in range(lanes):
                row = f.imul(f.imin(f.iadd(first, i), last), sizes.across)
                rows.append(arithmetic.load(f, of, start, row, lanes, mask))
            room = f.tail_mask(f.isub(sizes.width, first), lanes) if self.masked else None
            for column, value in enumerate(transposed(f, rows)[:count]):
                f.store(value, f.gep(end, f.imul(sizes.width, column), scalar), 0, room)

        def columns(first: Index) -> None:
            if count < lanes:
                square(0, first)
            else:
                f.loop(0, size, lanes, lambda k: square(f.imin(k, f.isub(size, lanes)), first), nonempty=True)

        f.loop(0, sizes.rows, lanes, columns, nonempty=True)


@lru_cache(maxsize=64)
def _text(panel: PanelTranspose, target: CpuTarget) -> str:
    names = ("rows", "across", "size", "width")
    parameters = [("source", PTR), ("target", PTR), *((name, I64) for name in names)]
    f = Function(panel.symbol, parameters, target.emitter(), noalias=("target",))
    panel.emit_here(f, f.source, f.target, Sizes(*(f.parameters[name] for name in names)))
    f.ret()
    return f.text()
