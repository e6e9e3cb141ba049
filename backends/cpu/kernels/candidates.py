"""Looking through a row for what beats the least of the best so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import compare
from stablehlo_py.codegen.builder import I64, Function, Index, ScalarType, Value
from stablehlo_py.codegen.types import Element, Lanes

Load: TypeAlias = Callable[[Index, int], Lanes]  # so many elements of the row, from one on
Put: TypeAlias = Callable[[Lanes, Index, Index], None]  # an element, of a number in the row, to a place among the best

SMALL_K = 32  # of which the best so far may be kept sorted
AT_ONCE = 2  # vectors of which a few comparisons say that no element beats


def greater(f: Function, of: Element, a: Lanes, b: Lanes) -> Value:
    """a > b in total order."""
    return compare(f, "GT", of, a, b, total_order=True)


def beating(f: Function, of: Element, load: Load, start: Index, bar: Lanes, lanes: int, vectors: int) -> Value:
    """Of the elements from `start` on, which are so many vectors, those that are greater than `bar`: a bit each."""
    least, bits = types.splat(f, bar, lanes), f.const(0)
    for at in range(0, lanes * vectors, lanes):
        found = greater(f, of, load(f.iadd(start, at), lanes), least)
        mask = f.cast("zext", f.bitcast(found, ScalarType(f"i{lanes}", lanes)), I64)
        bits = f.binary("or", bits, f.binary("shl", mask, f.const(at)))
    return bits


def each_bit(f: Function, bits: Value, body: Callable[..., list[Value]], carries: Sequence[Value] = ()) -> list[Value]:
    """Emit body(number, *carries) for each bit that is set, the lowest first. Returns the last carries."""

    def turn(bits: Value, *carried: Value) -> list[Value]:
        others = f.binary("and", bits, f.binary("sub", bits, f.const(1)))
        return [others, *body(f.intrinsic("cttz", bits), *carried)]

    return f.while_([bits, *carries], lambda bits, *_: f.cmp("ne", bits, f.const(0)), turn)[1:]


def look_through(
    f: Function,
    of: Element,
    load: Load,
    put: Put,
    bar: Lanes,
    state: tuple[Value, Value],
    sizes: tuple[int, int],
    lanes: int,
) -> tuple[Value, Value]:
    """Put every element that is greater than `bar` behind the best, until the row ends or their room does. `state` is
    the number of the first element and the first free place, before and after that; `sizes` are those of the row and
    of the room. Vectors have `lanes`."""
    size, room = sizes
    many = AT_ONCE * lanes if lanes > 1 else size + 1

    def within(limits: tuple[int, int], start: Value, count: Value) -> Value:
        row, place = limits
        return f.binary("and", f.cmp("sle", start, f.const(row)), f.cmp("sle", count, f.const(place)))

    def block(start: Value, count: Value) -> list[Value]:
        def one(number: Value, count: Value) -> list[Value]:
            j = f.iadd(start, number)
            put(load(j, 1), j, count)
            return [f.binary("add", count, f.const(1))]

        bits = beating(f, of, load, start, bar, lanes, AT_ONCE)
        return [f.index(f.iadd(start, many)), *each_bit(f, bits, one, [count])]

    def last(j: Value, count: Value) -> list[Value]:
        value = load(j, 1)
        put(value, j, count)
        beats = f.cast("zext", greater(f, of, value, bar), I64)
        return [f.index(f.iadd(j, 1)), f.binary("add", count, beats)]

    def is_last(start: Value, count: Value) -> Value:
        near = f.cmp("sgt", start, f.const(size - many))
        return f.binary("and", near, within((size - 1, room - 1), start, count))

    if lanes > 1:
        start, count = f.while_(state, lambda *at: within((size - many, room - many), *at), block)
        state = start, count
    start, count = f.while_(state, is_last, last)
    return start, count
