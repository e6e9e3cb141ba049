"""The algebra of row-major index maps: strides, digits, and what reshapes do to them.

A dimension is a list of digits `(size, stride)`, slowest first: an index along it, delinearized into one number below
each size, lies at the sum of number times stride. A dimension that a reshape merged from two has two digits, a
dimension of size 1 has none. Sizes and strides may depend on the call (`SymInt`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from stablehlo_py.dialect.symint import IntLike, IntT, always_less, content

Digits = tuple[tuple[IntLike, IntLike], ...]
Group = tuple[list[int], list[int]]
T = TypeVar("T")


def row_major_strides(sizes: Sequence[IntT]) -> tuple[IntT, ...]:
    """Elements per step of each dimension of a dense row-major shape."""
    strides: list[IntT] = [1] * len(sizes)
    for dimension in range(len(sizes) - 2, -1, -1):
        strides[dimension] = strides[dimension + 1] * sizes[dimension + 1]
    return tuple(strides)


# --- reshapes --------------------------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """A part of a shape that a reshape keeps, of a dimension of the source and one of the target. Either is None for a
    part that the other side has no border for, and for a dimension of size 1."""

    size: IntLike
    source: int | None
    target: int | None


@functools.lru_cache(maxsize=1024)
def reshape_pieces(source: tuple[int, ...], target: tuple[int, ...]) -> tuple[Piece, ...]:
    """The finest parts, major to minor, that the shapes of a reshape (of no size 0) are made of.

    (8, 3) -> (2, 12): 2, 4 and 3 of both. (3, 4) -> (4, 3): 3 and 4 of the source, 4 and 3 of the target. Dynamic
    sizes that are not known to divide share nothing.
    """
    left, right = ([(size, number) for number, size in enumerate(sizes)][::-1] for sizes in (source, target))
    pieces: list[Piece] = []
    one, other = 1, 1  # elements of what each side has by itself; where they are equal, both sides meet
    while left or right:
        if left and left[-1][0] == 1:
            pieces.append(Piece(1, left.pop()[1], None))
        elif right and right[-1][0] == 1:
            pieces.append(Piece(1, None, right.pop()[1]))
        elif left and right and one == other:
            (a, i), (b, j) = left.pop(), right.pop()
            common = a if b % a == 0 else b if a % b == 0 else math.gcd(content(a), content(b))
            if common == 1:
                pieces += [Piece(a, i, None), Piece(b, None, j)]
                one, other = a, b
            else:
                pieces.append(Piece(common, i, j))
                left += [(a // common, i)] * (a != common)
                right += [(b // common, j)] * (b != common)
        elif left and (not right or always_less(one, other)):
            size, rest, i = _step(left, one, other)
            pieces.append(Piece(size, i, None))
            left += [(rest, i)] * (rest != 1)
            one = one * size
        else:
            size, rest, j = _step(right, other, one)
            pieces.append(Piece(size, None, j))
            right += [(rest, j)] * (rest != 1)
            other = other * size
    return tuple(pieces)


def _step(side: list[tuple[int, int]], behind: int, ahead: int) -> tuple[int, int, int]:
    """Of the next dimension of a side: what brings it to where the other one is, or all; the rest; its number."""
    size, dimension = side.pop()
    missing = ahead // behind if ahead % behind == 0 else size
    return (missing, size // missing, dimension) if size % missing == 0 else (size, 1, dimension)


@functools.lru_cache(maxsize=1024)
def reshape_groups(source: tuple[int, ...], target: tuple[int, ...]) -> tuple[Group, ...] | None:
    """Smallest runs (dimensions of source, dimensions of target) of equal size that a reshape maps onto each other;
    None when there are no elements. A dimension of size 1 is a run by itself."""
    if 0 in source or math.prod(source) != math.prod(target):
        return None
    sides, groups = (source, target), list[Group]()
    run: Group = ([], [])
    rest: list[IntLike] = [1, 1]  # of the dimension that a side is in
    total: list[IntLike] = [1, 1]  # of the run
    for size, *places in reshape_pieces(source, target):
        for side, dimension in enumerate(places):
            if dimension is not None:
                if dimension not in run[side]:
                    run[side].append(dimension)
                    rest[side] = sides[side][dimension]
                rest[side], total[side] = rest[side] // size, total[side] * size
        if total[0] == total[1] and rest == [1, 1]:
            groups.append(run)
            run, total = ([], []), [1, 1]
    return tuple(groups if run == ([], []) else [*groups, run])


def long(dimensions: Sequence[int], sizes: Sequence[IntLike]) -> list[int]:
    """Those dimensions whose size is not 1."""
    return [dimension for dimension in dimensions if sizes[dimension] != 1]


def reshaped_roles(
    source: tuple[IntLike, ...], target: tuple[IntLike, ...], roles: Sequence[T]
) -> list[T | None] | None:
    """What each dimension of the source of a reshape is to an op to which those of the target are `roles`; None for one
    of size 1. None where a run of dimensions has several roles."""
    found: list[T | None] = [None] * len(source)
    groups = reshape_groups(source, target)
    for before, after in groups or ():
        within = {roles[dimension] for dimension in long(after, target)}
        if len(within) > 1:
            return None
        for dimension in long(before, source):
            (found[dimension],) = within
    return None if groups is None else found


def is_degenerate(source: Sequence[IntLike], target: Sequence[IntLike]) -> bool:
    """True when a reshape only adds and drops dimensions of size 1."""
    return [size for size in source if size != 1] == [size for size in target if size != 1]


# --- digits ----------------------------------------------------------------------------------------------------------


def digits_of(sizes: Sequence[IntLike]) -> tuple[Digits, ...]:
    """The digits of a dense row-major tensor."""
    return tuple(
        ((size, stride),) if size != 1 else () for size, stride in zip(sizes, row_major_strides(sizes), strict=True)
    )


def merge_digits(digits: Digits) -> Digits:
    """Neighbouring digits that step evenly become one."""
    result: list[tuple[IntLike, IntLike]] = []
    for size, stride in digits:
        if size == 1:
            continue
        if result and result[-1][1] == stride * size:
            size *= result.pop()[0]
        result.append((size, stride))
    return tuple(result)


def regroup_digits(dimensions: Sequence[Digits], sizes: Sequence[IntLike]) -> tuple[Digits, ...] | None:
    """The digits under another shape; None where a new dimension cuts a digit unevenly."""
    if 0 in sizes:
        return tuple(() for _ in sizes)
    digits = merge_digits(tuple(digit for digits in dimensions for digit in digits))
    result: list[list[tuple[IntLike, IntLike]]] = [[] for _ in sizes]
    rest = [size for size, _ in digits]
    for size, source, target in reshape_pieces(tuple(rest), tuple(sizes)):
        if source is None or target is None:
            if size != 1:
                return None
            continue
        rest[source] //= size
        result[target].append((size, digits[source][1] * rest[source]))
    return tuple(merge_digits(tuple(each)) for each in result)


def refine(*sides: Digits) -> list[tuple[IntLike, ...]] | None:
    """Common digits of several readings of one dimension: (size, stride of each side ...), slowest first; None if they
    do not fit."""
    stacks = [list(merge_digits(side)) for side in sides]
    result: list[tuple[IntLike, ...]] = []
    while all(stacks):
        sizes = [stack[-1][0] for stack in stacks]
        size = next((size for size in sizes if all(whole % size == 0 for whole in sizes)), None)
        if size is None:
            return None
        strides = []
        for stack in stacks:
            whole, stride = stack.pop()
            if whole != size:
                stack.append((whole // size, stride * size))
            strides.append(stride)
        result.append((size, *strides))
    return result[::-1]


# --- views -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Where the elements of a tensor lie: at `offset`, and what the digits of its dimensions add."""

    offset: IntLike
    dimensions: tuple[Digits, ...]

    @classmethod
    def dense(cls, sizes: Sequence[IntLike]) -> Layout:
        """A row-major tensor."""
        return cls(0, digits_of(sizes))


# Ops whose result holds elements of their operand at other places, which a reader finds by arithmetic alone; and the
# attributes that say where.
VIEW_OPS: Mapping[str, tuple[str, ...]] = {
    "broadcast": ("dimensions",),
    "reshape": (),
    "reverse": ("dimensions",),
    "slice": ("start", "strides"),
    "transpose": ("permutation",),
}


def view(
    layout: Layout, name: str, attributes: Mapping[str, tuple[IntLike, ...]], sizes: tuple[IntLike, ...]
) -> Layout | None:
    """The layout of the result, of shape `sizes`, of a view op on an operand of that layout; None where digits cannot
    say it. `attributes`: those of VIEW_OPS."""
    dimensions = layout.dimensions
    if name == "reshape":
        regrouped = regroup_digits(dimensions, sizes)
        return None if regrouped is None else Layout(layout.offset, regrouped)
    if name == "transpose":
        return Layout(layout.offset, tuple(dimensions[d] for d in attributes["permutation"]))
    if name == "broadcast":
        source = dict(zip(attributes["dimensions"], dimensions, strict=True))
        return Layout(layout.offset, tuple(source.get(d, ((size, 0),)) for d, size in enumerate(sizes)))
    if name == "slice":
        return _slice(layout, attributes["start"], attributes["strides"], sizes)
    return _reverse(layout, attributes["dimensions"])


def _slice(
    layout: Layout, start: Sequence[IntLike], steps: Sequence[IntLike], sizes: Sequence[IntLike]
) -> Layout | None:
    offset, dimensions = layout.offset, []
    for digits, first, step, size in zip(layout.dimensions, start, steps, sizes, strict=True):
        whole = math.prod(count for count, _ in digits)
        if size == whole and first == 0:
            dimensions.append(digits)
            continue
        if len(digits) > 1:
            return None
        stride = digits[0][1] if digits else 0
        offset += first * stride
        dimensions.append(((size, stride * step),) if size != 1 else ())
    return Layout(offset, tuple(dimensions))


def _reverse(layout: Layout, reversed_: Sequence[IntLike]) -> Layout:
    offset, dimensions = layout.offset, list(layout.dimensions)
    for dimension in reversed_:
        offset += sum((size - 1) * stride for size, stride in dimensions[dimension])
        dimensions[dimension] = tuple((size, -stride) for size, stride in dimensions[dimension])
    return Layout(offset, tuple(dimensions))
