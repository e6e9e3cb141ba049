"""Affine contractions: what matrix products and (padded) convolutions have in common.

    C[outer, m, n] = sum over k of A[outer, m, k] * B[outer, n, k]

Every index is an `Axis`: a size and the step it takes in each of A, B and C, in elements. A matrix product is a
contraction as it stands; a convolution over a padded copy of its input is one whose axes overlap in A (two
neighbouring output pixels read the same input pixels). Axes that step through memory as one are merged, so a product
of any rank becomes few loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stablehlo_py.backends.common.loops import offset
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.types import Element
from stablehlo_py.dialect.index_map import Digits, refine
from stablehlo_py.dialect.symint import IntLike, is_known, size_hint
from stablehlo_py.dialect.types import i64s, rank
from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class Axis:
    """One loop of a contraction: `size` steps of `a`, `b`, `c` in A, B and C.

    Steps of A and B count scalars in memory (a complex number is two), steps of C count elements.

    A contracted axis may be shorter for some places of an outer axis, the one with the same non-zero `tag`: it has
    `size` steps where the outer index is at least `long_from`, one less before. That saves products which are zero
    anyway; who ignores it is still right.
    """

    size: IntLike
    a: IntLike = 0
    b: IntLike = 0
    c: IntLike = 0
    tag: int = 0
    long_from: IntLike = 0

    def swapped(self) -> Axis:
        """The axis with A and B exchanged."""
        return replace(self, a=self.b, b=self.a)

    def hinted(self) -> Axis:
        """The axis with size hints for numbers, and no empty one: plans divide by sizes."""
        size, a, b, c = map(size_hint, (self.size, self.a, self.b, self.c))
        return replace(self, size=max(1, size), a=a, b=b, c=c)


UNIT = Axis(1)
Dimensions = Sequence[Digits]


@dataclass(frozen=True)
class Operand:
    """Where an operand lies: a pointer parameter, an offset in scalars, and how its scalars are read. `tiled`: it has
    been packed for a matrix unit; its strides are those that it had before, dense and row-major. `rounded`: what its
    numbers are rounded to before they are multiplied; None: they are not. `apart`: where products take several
    neighbours of the contracted axis as one scalar, how far apart these lie; 0: they lie as such scalars already."""

    pointer: str
    offset: IntLike
    element: Element
    tiled: bool = False
    rounded: Element | None = None
    apart: int = 0

    @property
    def factor(self) -> Element:
        """The type of what is multiplied."""
        return self.rounded or self.element

    def at(
        self, f: Function, indices: Sequence[Index] = (), strides: Sequence[IntLike] = (), start: Index = 0
    ) -> Value:
        """The address of its scalar number `start` + sum(index * stride)."""
        place = offset(f, indices, strides, f.iadd(self.offset, start))
        return f.gep(f.parameters[self.pointer], place, self.element.storage)


@dataclass(frozen=True)
class Source:
    """An operand in memory and the digits of its dimensions, in scalars."""

    operand: Operand
    dimensions: tuple[Digits, ...]


@dataclass(frozen=True)
class Contraction:
    """Loops in normal form: any number of outer axes, one m axis (rows), one n axis (lanes), contracted axes from slow
    to fast."""

    outer: tuple[Axis, ...]
    m: Axis
    n: Axis
    k: tuple[Axis, ...]
    a: Operand
    b: Operand

    def outer_steps(self, side: str) -> list[IntLike]:
        """Steps of the outer axes in A ("a") or B ("b")."""
        return [getattr(axis, side) for axis in self.outer]

    @property
    def depth(self) -> IntLike:
        """Number of products summed for one element of the result."""
        return math.prod(axis.size for axis in self.k)

    @property
    def is_known(self) -> bool:
        """Whether no size or step depends on the call."""
        return all(is_known(axis.size, axis.a, axis.b, axis.c) for axis in (*self.outer, self.m, self.n, *self.k))

    def hinted(self) -> Contraction:
        """The same with size hints, to decide about costs by."""
        outer, k = (tuple(map(Axis.hinted, axes)) for axes in (self.outer, self.k))
        return replace(self, outer=outer, m=self.m.hinted(), n=self.n.hinted(), k=k)

    def swapped(self) -> Contraction:
        """The transposed problem: C^T = B^T A^T."""
        flip = Axis.swapped
        return Contraction(
            tuple(map(flip, self.outer)), flip(self.n), flip(self.m), tuple(map(flip, self.k)), self.b, self.a
        )


def _merged(outer: Axis, inner: Axis) -> Axis | None:
    """One axis for two nested ones, if it steps evenly through A, B and C."""
    if outer.tag or inner.tag or any(getattr(outer, side) != getattr(inner, side) * inner.size for side in "abc"):
        return None
    return Axis(outer.size * inner.size, inner.a, inner.b, inner.c)


def collapse(axes: Iterable[Axis]) -> list[Axis]:
    """Drop axes of size one and merge those that step evenly, from the widest step to the narrowest."""
    result = sorted(
        (axis for axis in axes if axis.size != 1 or axis.tag),
        key=lambda axis: tuple(abs(size_hint(step)) for step in (axis.c, axis.b, axis.a)),
        reverse=True,
    )
    changed = True
    while changed:
        changed = False
        for i in range(len(result)):
            for j in range(len(result)):
                merged = _merged(result[i], result[j]) if i != j else None
                if merged:
                    result[min(i, j)] = merged
                    del result[max(i, j)]
                    changed = True
                    break
            if changed:
                break
    return result


@dataclass(frozen=True)
class Axes:
    """The loops of a product by their role: in A, B and C; in A and C; in B and C; in A and B."""

    batch: list[Axis]
    m: list[Axis]
    n: list[Axis]
    k: list[Axis]

    @classmethod
    def of(cls, *groups: Sequence[list[Axis] | None]) -> Axes | None:
        """From the axes of each dimension (see `shared_axes`), by role; None if those of any dimension are."""
        roles: list[list[Axis]] = []
        for group in groups:
            roles.append([])
            for axes in group:
                if axes is None:
                    return None
                roles[-1] += axes
        return cls(*roles)


def scaled(dimensions: Dimensions, factor: int) -> tuple[Digits, ...]:
    """Digits with every stride multiplied."""
    return tuple(tuple((size, stride * factor) for size, stride in digits) for digits in dimensions)


def shared_axes(order: str, *sides: Digits) -> list[Axis] | None:
    """Axes common to the sides named in `order` ("abc", "ac", "bc", "ab"); None where their digits do not fit."""
    refined = refine(*sides)
    if refined is None:
        return None
    steps = [dict(zip(order, strides, strict=True)) for _, *strides in refined]
    return [
        Axis(size, step.get("a", 0), step.get("b", 0), step.get("c", 0))
        for (size, *_), step in zip(refined, steps, strict=True)
    ]


def dot_axes(op: ir.OpView, a: Dimensions, b: Dimensions, c: Dimensions | None) -> Axes | None:
    """The loops of a dot; without `c`, whether those of the operands alone fit."""
    batch, contract = i64s(op, "lhs_batch"), i64s(op, "lhs_contract")
    rhs_batch, rhs_contract = i64s(op, "rhs_batch"), i64s(op, "rhs_contract")
    rows = [d for d in range(rank(op.operands[0])) if d not in batch + contract]
    columns = [d for d in range(rank(op.operands[1])) if d not in rhs_batch + rhs_contract]
    k = [shared_axes("ab", a[left], b[right]) for left, right in zip(contract, rhs_contract, strict=True)]
    if c is None:
        outer = [shared_axes("ab", a[left], b[right]) for left, right in zip(batch, rhs_batch, strict=True)]
        return None if None in k + outer else Axes([], [], [], [])
    first, second = len(batch), len(batch) + len(rows)
    outer = [
        shared_axes("abc", a[left], b[right], result)
        for left, right, result in zip(batch, rhs_batch, c[: len(batch)], strict=True)
    ]
    m = [shared_axes("ac", a[d], c[first + i]) for i, d in enumerate(rows)]
    n = [shared_axes("bc", b[d], c[second + i]) for i, d in enumerate(columns)]
    return Axes.of(outer, m, n, k)
