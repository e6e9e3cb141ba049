"""Dimension factors: what the dimensions of an op's operands and results have to do with each other.

A factor is a loop of the op (openxla/shardy calls a set of them a sharding rule). Every dimension of every operand and
result is a list of factors, major to minor, and a factor stands in every dimension that its loop runs along:

    dot of 8x32 and 32x16    ([i, k], [k, j])->([i, j]) {i=8, j=16, k=32} reduction={k}
    reshape of 8x12 to 96    ([i, j])->([ij]) {i=8, j=12}

What follows for slices of operands and results, shardings, and costs depends on the kind of a factor (`Kind`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from stablehlo_py.dialect.ops.record import FactorRule, record_of
from stablehlo_py.dialect.symint import IntLike, product
from stablehlo_py.dialect.types import shape, symints
from stablehlo_py.mlir import ir

Dimension = tuple[int, ...]  # numbers of factors, major to minor
Tensor = tuple[Dimension, ...]
Op: TypeAlias = "ir.Operation | ir.OpView"


class Kind(enum.Enum):
    """What holds for slices along a factor."""

    PARALLEL = "pass-through"  # the op on slices of all operands that have the factor is that slice of the results
    REDUCED = "reduction"  # the ops on slices, combined by `Factors.combiner`, are the results
    WINDOWED = "permutation"  # an element of the result reads elements that stand elsewhere: near, or in another order
    REPLICATED = "need_replication"  # the results depend on the whole of it


@dataclass(frozen=True)
class Factor:
    """A loop of an op: how often it runs, and its kind."""

    size: IntLike
    kind: Kind = Kind.PARALLEL


@dataclass(frozen=True)
class Factors:
    """The factors of one op.

    Attributes:
        factors: all of them, by number.
        operands, results: the factors of each dimension of each tensor. Their sizes multiply to the size of the
            dimension, but for a windowed factor, whose size is the number of windows.
        attributes: attributes that hold sizes or counts, one entry a dimension, as factors: they follow when the op
            is made for slices. Entries without factors stay.
        combiner: the elementwise op that combines what reduced factors leave, "" for the body of the op itself.
        initial: operands that such a combination takes once; the other parts take the combiner's identity.
    """

    factors: tuple[Factor, ...]
    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    attributes: tuple[tuple[str, Tensor], ...] = ()
    combiner: str = ""
    initial: tuple[int, ...] = ()

    def of_kind(self, kind: Kind) -> list[int]:
        """Numbers of the factors of a kind."""
        return [number for number, factor in enumerate(self.factors) if factor.kind is kind]

    def with_sizes(self, sizes: Mapping[int, IntLike]) -> Factors:
        """The same op over other sizes of some factors."""
        factors = tuple(
            Factor(sizes.get(number, factor.size), factor.kind) for number, factor in enumerate(self.factors)
        )
        return Factors(factors, self.operands, self.results, self.attributes, self.combiner, self.initial)

    def size(self, dimension: Dimension) -> IntLike:
        """Elements along a dimension, windowed ones aside."""
        return product(self.factors[number].size for number in dimension)

    def single(self, dimension: Dimension) -> int | None:
        """The one factor of a size other than 1 that a dimension is made of; None if there is none, or another one."""
        numbers = [number for number in dimension if self.factors[number].size != 1]
        return numbers[0] if len(numbers) == 1 else None

    def attributes_of(self, op: Op) -> dict[str, IntLike | list[IntLike]]:
        """The attributes of an op that hold sizes, for these sizes."""
        found: dict[str, IntLike | list[IntLike]] = {}
        for name, entries in self.attributes:
            if isinstance(op.attributes[name], ir.IntegerAttr):
                found[name] = self.size(entries[0])
            else:
                numbers = zip(entries, symints(op, name), strict=True)
                found[name] = [self.size(entry) if entry else number for entry, number in numbers]
        return found

    def __str__(self) -> str:
        names = [chr(ord("i") + number) if number < 18 else f"z_{number - 17}" for number in range(len(self.factors))]

        def side(tensors: Sequence[Tensor]) -> str:
            return ", ".join(f"[{', '.join(''.join(names[n] for n in each) for each in tensor)}]" for tensor in tensors)

        parts = [f"({side(self.operands)})->({side(self.results)})"]
        if self.factors:
            sizes = (f"{name}={factor.size}" for name, factor in zip(names, self.factors, strict=True))
            parts.append(f"{{{', '.join(sizes)}}}")
        for kind in (Kind.REDUCED, Kind.REPLICATED, Kind.WINDOWED):
            if numbers := self.of_kind(kind):
                parts.append(f"{kind.value}={{{', '.join(names[number] for number in numbers)}}}")
        return " ".join(parts)


def factors_of(op: Op) -> Factors | None:
    """The factors of an op, as its record says them; None for one without (see `reason`)."""
    record, builder = record_of(op.operation.name), None
    if record is not None and record.elementwise:
        builder = Builder(op)
        builder.common(range(len(builder.result_shapes[0])))
    elif record is not None and not isinstance(record.factors, str):
        builder = Builder(op)
        record.factors(builder, op)
    return builder.build() if builder else None


def reason(op: Op) -> str | None:
    """Why an op has no factors; None if it has some."""
    record = record_of(op.operation.name)
    if record is None:
        return "it has no record"
    return record.factors if isinstance(record.factors, str) and not record.elementwise else None


# --- building --------------------------------------------------------------------------------------------------------


class Builder:
    """The factors of an op under construction: a factor goes behind those that its dimensions have already."""

    def __init__(self, op: Op) -> None:
        self.factors: list[Factor] = []
        self.shapes = [shape(value) for value in op.operands]
        self.result_shapes = [shape(value) for value in op.results]
        self.operands: list[list[Dimension]] = [[()] * len(sizes) for sizes in self.shapes]
        self.results: list[list[Dimension]] = [[()] * len(sizes) for sizes in self.result_shapes]
        self.attributes: dict[str, list[Dimension]] = {}
        self.combiner = ""
        self.initial: tuple[int, ...] = ()

    def add(
        self,
        size: IntLike,
        operands: Mapping[int, int],
        results: Mapping[int, int] | None = None,
        kind: Kind = Kind.PARALLEL,
    ) -> int:
        """A factor of a dimension of some operands and results (operand: dimension); its number."""
        number = len(self.factors)
        self.factors.append(Factor(size, kind))
        for tensors, places in ((self.operands, operands), (self.results, results or {})):
            for tensor, dimension in places.items():
                tensors[tensor][dimension] += (number,)
        return number

    def everywhere(self, dimension: int) -> tuple[dict[int, int], dict[int, int]]:
        """The same dimension of all operands and results that have it."""
        operands, results = (
            {number: dimension for number, sizes in enumerate(shapes) if dimension < len(sizes)}
            for shapes in (self.shapes, self.result_shapes)
        )
        return operands, results

    def common(self, dimensions: Iterable[int], kind: Kind = Kind.PARALLEL) -> None:
        """Factors that each run along the same dimension of all operands and results, the first result's size."""
        for dimension in dimensions:
            self.add(self.result_shapes[0][dimension], *self.everywhere(dimension), kind)

    def attribute(self, name: str, count: int, entry: int, number: int) -> None:
        """Entry `entry` of the `count` entries of an attribute is the size of a factor."""
        self.attributes.setdefault(name, [()] * count)[entry] += (number,)

    def build(self) -> Factors:
        """The factors; what has none by now is needed, or made, as a whole."""
        for tensor, sizes in enumerate(self.shapes):
            for dimension, size in enumerate(sizes):
                if not self.operands[tensor][dimension]:
                    self.add(size, {tensor: dimension}, kind=Kind.REPLICATED)
        for tensor, sizes in enumerate(self.result_shapes):
            for dimension, size in enumerate(sizes):
                if not self.results[tensor][dimension]:
                    self.add(size, {}, {tensor: dimension}, Kind.REPLICATED)
        return Factors(
            tuple(self.factors),
            tuple(map(tuple, self.operands)),
            tuple(map(tuple, self.results)),
            tuple((name, tuple(entries)) for name, entries in self.attributes.items()),
            self.combiner,
            self.initial,
        )


def common_but(apart: Callable[[Op], Iterable[int]], kind: Kind | None = None) -> FactorRule:
    """The rule of an op each dimension of which is the same one of all operands and results. Those that `apart` names
    (negative: from the last one on) are of another kind, or are needed as a whole, each tensor's by itself (None)."""

    def rule(b: Builder, op: Op) -> None:
        rank = len(b.result_shapes[0])
        named = {dimension % rank for dimension in apart(op)} if rank else ()
        for dimension in range(rank):
            if dimension not in named:
                b.common([dimension])
            elif kind is not None:
                b.common([dimension], kind)

    return rule


def at(tensors: Iterable[int], dimension: int) -> dict[int, int]:
    """The same dimension of several tensors."""
    return dict.fromkeys(tensors, dimension)


def others(rank: int, *removed: Sequence[IntLike]) -> list[int]:
    """Dimensions of a tensor that none of the lists names."""
    gone = set[IntLike]().union(*removed)
    return [dimension for dimension in range(rank) if dimension not in gone]
