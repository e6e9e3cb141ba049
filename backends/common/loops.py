"""Loop nests and addresses over dense tensors, in the kernel language; what loops carry, and how they end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from stablehlo_py.codegen.builder import I1, I8, I32, PTR, Function, Index, Value
from stablehlo_py.codegen.index import Affine, delinearize
from stablehlo_py.codegen.types import Element, Lanes, parts
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.runtime.entry import ASKED

T = TypeVar("T")


def nest(f: Function, bounds: Sequence[tuple[Index, Index]], body: Callable[[list[Index]], None]) -> None:
    """Loops over every [low, high), outermost first; body gets the indices."""
    if not bounds:
        body([])
        return
    (low, high), *inner = bounds
    f.loop(low, high, 1, lambda i: nest(f, inner, lambda indices: body([i, *indices])))


def if_any(f: Function, count: Index, body: Callable[[Index], None]) -> None:
    """`body(count)` where the count, which may be known at run time only, is not zero."""
    if not isinstance(count, int):
        f.if_(f.cmp("ne", f.index(count), f.const(0)), lambda: body(count))
    elif count:
        body(count)


def vectors(f: Function, count: IntLike, lanes: int, body: Callable[[Index, Value | None], None]) -> None:
    """`body(first element, mask)` for the vectors of `count` elements, the mask None but where the last one has fewer
    than `lanes`."""
    whole = count // lanes * lanes
    f.loop(0, whole, lanes, lambda i: body(i, None))
    if_any(f, count - whole, lambda rest: body(whole, f.tail_mask(rest, lanes)))


def offset(f: Function, indices: Sequence[Index], strides: Sequence[Index], start: Index = 0) -> Index:
    """start + sum(index * stride)."""
    total = start
    for index, stride in zip(indices, strides, strict=True):
        total = f.iadd(total, f.imul(index, stride))
    return total


def unravel(f: Function, number: Index, sizes: Sequence[Index]) -> list[Index]:
    """Row-major digits of a number below the product of the sizes."""
    digits: list[Index] = []
    for position, size in reversed(list(enumerate(sizes))):
        digits.append(f.irem(number, size) if position else number)
        number = f.idiv(number, size)
    return digits[::-1]


def pack(values: Iterable[Lanes]) -> list[Value]:
    """Lanes as plain values, for loop carries: a complex number is two."""
    return [part for value in values for part in parts(value)]


def unpack(values: Sequence[Value], like: Element | Iterable[Lanes | Element]) -> list[Lanes]:
    """The inverse of `pack`, for Lanes like these, or of these types, or all of one type."""
    if isinstance(like, Element):
        return list(zip(values[::2], values[1::2], strict=True)) if like.is_complex else list(values)
    rest = iter(values)
    pairs = (one.is_complex if isinstance(one, Element) else isinstance(one, tuple) for one in like)
    return [(next(rest), next(rest)) if pair else next(rest) for pair in pairs]


def fold(
    f: Function,
    low: Index,
    high: Index,
    step: Index,
    carries: Sequence[Lanes],
    body: Callable[[Value, list[Lanes]], Iterable[Lanes]],
) -> list[Lanes]:
    """`Function.loop` with Lanes for carries."""

    def trip(index: Value, *flat: Value) -> list[Value]:
        return pack(body(index, unpack(flat, carries)))

    return unpack(f.loop(low, high, step, trip, pack(carries)), carries)


def tree(values: Sequence[T], rule: Callable[[T, T], T]) -> T:
    """Neighbours combined until one is left."""
    values = list(values)
    while len(values) > 1:
        pairs = [rule(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]


def end_if_asked(f: Function, block: Value, result: Value | None = None) -> None:
    """Return `result` if what `block` belongs to is not to go on. At the end of a trip.

    A program with loops takes the address of that block: an i32 which is not 0 when there is something to ask, and the
    address of `i32 answer(block)`, which says whether to go on (0). That is a load and a branch that is never taken,
    next to what any trip does. Sixteen zero bytes are a block that never ends a loop.
    """
    ended = f.emit.asked_to_end(block)
    if ended:
        f.ret_if(Value(ended, I1, None, f.level), result)
        return
    asked = f.atomic_load(I32, f.gep(block, ASKED, I8), ordering="monotonic")

    def ask() -> None:
        answer = f.load(PTR, block, 1)  # behind the i32, as aligned as pointers are
        status = f.call_pointer(answer, [block], I32)
        f.ret_if(f.cmp("ne", status, f.const(0, I32)), result)

    f.if_(f.cmp("ne", asked, f.const(0, I32)), ask, unlikely=True)


def split(f: Function, number: Affine, sizes: Mapping[int, int], lanes: int = 1) -> dict[int, Affine]:
    """The indices of some dimensions from their flat one."""
    count = math.prod(sizes.values())
    return dict(zip(sizes, delinearize(f, ((count, number),), list(sizes.values()), lanes), strict=True))
