"""Loops over the windows of `reduce_window` and `select_and_scatter`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial, reduce

from stablehlo_py.backends.common.loops import fold, pack, unpack
from stablehlo_py.codegen.builder import I1, Function, Index, Value
from stablehlo_py.codegen.types import Lanes
from stablehlo_py.dialect.symint import IntLike, always_at_most, is_known
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


def is_whole(f: Function, windows: Sequence[Window], place: Sequence[Index], most: int) -> Value | bool:
    """Whether a window at an output position has all its places in the operand; False where it has more than `most`, or
    the operand has holes."""
    if any(window.base_dilation != 1 or not is_known(window.width, window.dilation) for window in windows):
        return False
    if math.prod(window.width for window in windows) > most:
        return False
    conditions = []
    for window, index in zip(windows, place, strict=True):
        if always_at_most(window.low, 0) and always_at_most(window.high, 0):
            continue
        start = f.isub(f.imul(index, window.stride), window.low)
        room = f.isub(window.size, (window.width - 1) * window.dilation)
        begins, ends = f.cmp("sge", f.index(start), f.const(0)), f.cmp("slt", f.index(start), f.index(room))
        conditions.append(f.binary("and", begins, ends))
    return reduce(partial(f.binary, "and"), conditions) if conditions else True


def over_whole_window(
    f: Function,
    windows: Sequence[Window],
    place: Sequence[Index],
    strides: Sequence[IntLike],
    carries: list[Lanes],
    body: Callable[[Index, list[Lanes]], list[Lanes]],
) -> list[Lanes]:
    """`over_window` for a window that `is_whole`: code for each of its places."""
    for numbers in itertools.product(*(range(int(window.width)) for window in windows)):
        carries = body(window_place(f, windows, place, strides, numbers), carries)
    return carries


def window_place(
    f: Function, windows: Sequence[Window], place: Sequence[Index], strides: Sequence[IntLike], numbers: Sequence[int]
) -> Index:
    """The operand offset of a place of the window, by its numbers, at an output position."""
    at: Index = 0
    for window, index, number, stride in zip(windows, place, numbers, strides, strict=False):
        start = f.isub(f.imul(index, window.stride), window.low)
        at = f.iadd(at, f.imul(f.iadd(start, number * window.dilation), stride))
    return at


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
