"""Loops over the windows of `reduce_window` and `select_and_scatter`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.backends.common.loops import fold, pack, unpack
from stablehlo_py.codegen.builder import I1, Function, Index
from stablehlo_py.codegen.types import Lanes
from stablehlo_py.dialect.symint import IntLike, always_at_most
from stablehlo_py.dialect.window import Window


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
