"""Loop nests and addresses over dense tensors, in the kernel language; and what loops carry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.types import Element, Lanes, parts
from stablehlo_py.dialect.size import is_known


def nest(f: Function, bounds: Sequence[tuple[Index, Index]], body: Callable[[list[Index]], None]) -> None:
    """Loops over every [low, high), outermost first; body gets the indices."""
    if not bounds:
        body([])
        return
    (low, high), *inner = bounds
    f.loop(low, high, 1, lambda i: nest(f, inner, lambda indices: body([i, *indices])))


def if_any(f: Function, count: int, body: Callable[[Index], None]) -> None:
    """`body(count)` where the count, which may depend on the call, is not zero."""
    if not is_known(count):
        f.if_(f.cmp("ne", f.index(count), f.const(0)), lambda: body(count))
    elif count:
        body(count)


def offset(f: Function, indices: Sequence[Index], strides: Sequence[int]) -> Index:
    """sum(index * stride)."""
    total: Index = 0
    for index, stride in zip(indices, strides, strict=True):
        total = f.iadd(total, f.imul(index, stride))
    return total


def delinearize(f: Function, number: Index, sizes: Sequence[int]) -> list[Index]:
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
