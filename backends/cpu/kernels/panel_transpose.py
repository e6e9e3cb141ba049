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
from stablehlo_py.backends.cpu.kernels.transposing import columns_at_once, half_transposed, transposed
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
        lanes: rows that are transposed at once.
        source, panel: the names of the element types in memory and of the panel.
        masked: rows of the panel may have no room for whole vectors.
        whole: the number of rows is a multiple of `lanes`, so that none is looked up.
    """

    lanes: int
    source: str
    panel: str
    masked: bool = False
    whole: bool = False

    @property
    def symbol(self) -> str:
        """The name of its function."""
        return f"shlo_panel_{self.lanes}_{self.source}_{self.panel}{'_masked' * self.masked}{'_whole' * self.whole}"

    @property
    def _columns(self) -> int:
        """Columns that are transposed at once."""
        return columns_at_once(Arithmetic(ELEMENTS[self.panel]).accumulator.bits, self.lanes)

    def emit(self, f: Function, source: Value, target: Value, sizes: Sizes) -> None:
        """Make the panel at `target` of the rows from `source` on. Lanes past the last row repeat it. A call, where `f`
        shares functions, for rows that are at least as long as columns are transposed at once."""
        if f.common is None or (isinstance(sizes.size, int) and sizes.size < self._columns):
            self.emit_here(f, source, target, sizes)
            return
        f.common[self.symbol] = _text(self, f.emit.target)
        numbers = (sizes.rows, sizes.across, sizes.size, sizes.width)
        f.call(self.symbol, [source, target, *map(f.index, numbers)], external=True)

    def emit_here(self, f: Function, source: Value, target: Value, sizes: Sizes) -> None:
        """The same as part of `f`. The last squares overlap their neighbours where they can."""
        of, lanes, size = Operand("", 0, ELEMENTS[self.source]), self.lanes, sizes.size
        arithmetic = Arithmetic(ELEMENTS[self.panel])
        scalar = arithmetic.accumulator
        many = self._columns
        count = min(size, many) if isinstance(size, int) else many
        mask = f.tail_mask(count, many) if count < many else None
        last = f.isub(sizes.rows, 1)

        def square(k: Index, first: Index) -> None:
            start = f.gep(source, k, of.element.storage)
            end = f.gep(target, f.iadd(f.imul(k, sizes.width), first), scalar)

            def row(number: int) -> Value:
                if self.whole:
                    line = f.gep(start, f.imul(first, sizes.across), of.element.storage)
                    return arithmetic.load(f, of, line, f.imul(sizes.across, number), many, mask)
                at = f.imul(f.imin(f.iadd(first, number), last), sizes.across)
                return arithmetic.load(f, of, start, at, many, mask)

            columns = half_transposed(f, row, lanes) if many < lanes else transposed(f, [*map(row, range(lanes))])
            room = f.tail_mask(f.isub(sizes.width, first), lanes) if self.masked else None
            for column, value in enumerate(columns[:count]):
                f.store(value, f.gep(end, f.imul(sizes.width, column), scalar), 0, room)

        def panel(first: Index) -> None:
            if count < many:
                square(0, first)
            else:
                f.loop(0, size, many, lambda k: square(f.imin(k, f.isub(size, many)), first), nonempty=True)

        f.loop(0, sizes.rows, lanes, panel, nonempty=True)


@lru_cache(maxsize=64)
def _text(panel: PanelTranspose, target: CpuTarget) -> str:
    names = ("rows", "across", "size", "width")
    parameters = [("source", PTR), ("target", PTR), *((name, I64) for name in names)]
    f = Function(panel.symbol, parameters, target.emitter(), noalias=("target",))
    panel.emit_here(f, f.source, f.target, Sizes(*(f.parameters[name] for name in names)))
    f.ret()
    return f.text()
