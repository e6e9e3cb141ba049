"""Windows of `reduce_window` and `select_and_scatter`, and the values that their loops carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.loops import fold, pack, unpack
from stablehlo_py.codegen.builder import I1, Function, Index
from stablehlo_py.codegen.types import Lanes
from stablehlo_py.dialect.size import IntLike, always_at_most
from stablehlo_py.dialect.types import shape
from stablehlo_py.dialect.window import window_of
from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class Window:
    """One dimension of a window: sizes of the operand and the window, steps, dilations, low padding."""

    size: int
    width: int
    stride: int = 1
    base_dilation: int = 1
    dilation: int = 1
    low: int = 0
    high: int = 0

    @property
    def trivial(self) -> bool:
        """The output position is the operand position."""
        return self.width == 1 and self.stride == 1 and self.base_dilation == 1 and self.low == 0 and self.high == 0


def windows_of(op: ir.OpView) -> list[Window]:
    """The window of an hlo.reduce_window or of a kept StableHLO op, per dimension."""
    window = window_of(op)
    edges = window.pop("padding")
    rows = zip(shape(op.operands[0]), *window.values(), edges[::2], edges[1::2], strict=True)
    return [Window(*row) for row in rows]


def over_window(
    f: Function,
    windows: Sequence[Window],
    place: Sequence[Index],
    strides: Sequence[IntLike],
    carries: list[Lanes],
    body: Callable[[Index, list[Lanes]], list[Lanes]],
    at: Index = 0,
) -> list[Lanes]:
    """Fold `body(operand offset, carries)` over the in-bounds operand positions of the window at output position
    `place`; offsets begin at `at`."""
    if not windows:
        return body(at, carries)
    window, index, stride = windows[0], place[0], strides[0]

    def rest(position: Index, values: list[Lanes]) -> list[Lanes]:
        below = f.iadd(at, f.imul(position, stride))
        return over_window(f, windows[1:], place[1:], strides[1:], values, body, below)

    if window.trivial:
        return rest(index, carries)
    start = f.isub(f.imul(index, window.stride), window.low)

    def step(number: Index, values: list[Lanes]) -> list[Lanes]:
        spot = f.iadd(start, f.imul(number, window.dilation))
        if window.base_dilation == 1 and window.dilation == 1:
            return rest(spot, values)
        return _predicated(f, window, spot, lambda position: rest(position, values), values)

    low: Index = 0
    high: Index = window.width
    if window.base_dilation == 1 and window.dilation == 1:
        padded = not (always_at_most(window.low, 0) and always_at_most(window.high, 0))
        low = f.imax(0, f.isub(0, start)) if padded else 0
        high = f.imin(window.width, f.isub(window.size, start)) if padded else window.width
    return fold(f, low, high, 1, carries, step)


def _predicated(
    f: Function, window: Window, spot: Index, inside: Callable[[Index], list[Lanes]], values: list[Lanes]
) -> list[Lanes]:
    """Run `inside` where a dilated position falls on an operand element; the values elsewhere."""
    position = f.index(spot)
    reach = (window.size - 1) * window.base_dilation
    good = f.binary("and", f.cmp("sge", position, f.const(0)), f.cmp("sle", position, f.index(reach)))
    if window.base_dilation > 1:
        on_element = f.cmp("eq", f.index(f.irem(position, window.base_dilation)), f.const(0))
        good = f.binary("and", good, on_element)
    assert good.type is I1
    return unpack(
        f.if_(good, lambda: pack(inside(f.idiv(position, window.base_dilation))), lambda: pack(values)), values
    )
