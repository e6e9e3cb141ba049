"""Loops that do the same for each item of a batch, independently of the others: what `jax.vmap` makes of a loop over
few values, and loops of elementwise work on large ones.

    %far = scf.while (%i = 0, %far = zeros[19200]) { %i < 48 } do { ... work on each element of %far ... }

An item has `before * after` elements of a value; the items are `size` numbers, at digits in between in row-major order:
an element's number is `(b * size + item) * after + a`. A value of `[120, 160, 3]` has 19,200 items of three elements
with `before` = 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from operator import mul

from stablehlo_py.dialect.edit import terminator
from stablehlo_py.dialect.ops import Work, record_of
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import i64, i64s, is_tensor, num_elements, shape, static_shape
from stablehlo_py.mlir import ir

LEAST = 256  # items of a batch
_CONTROL = frozenset(("scf.condition", "scf.yield", "tensor.extract"))

Need = tuple[ir.Value, int | None]  # what an item needs of a value: its own elements, `before` given; None: one element


@dataclass(frozen=True)
class Batch:
    """Of a loop.

    Attributes:
        size: how many items there are.
        before: of each carry; None: it is the same for all items.
    """

    size: int
    before: tuple[int | None, ...]

    def elements(self, value: ir.Value) -> int:
        """How many of a value of a trip are computed for an item: all of a few that are the same for all of them."""
        count = int(num_elements(value))
        return count // self.size if count >= self.size else count


def batch_of(loop: ir.Operation) -> Batch | None:
    """The batch of an `scf.while`; the one with most items. None: there is none."""
    block = loop.regions[1].blocks[0]
    if not all(map(_is_simple, itertools.chain.from_iterable(region.blocks[0].operations for region in loop.regions))):
        return None
    if not all(is_tensor(value) and is_known(*shape(value)) for value in loop.operands):
        return None
    large = [value for value in block.arguments if num_elements(value) >= LEAST]
    if not large:
        return None
    smallest = min(large, key=num_elements)
    for before, size in _groups(static_shape(smallest), LEAST):
        found = _Walk(loop, size).run(smallest, before)
        if found is not None:
            return found
    return None


def _is_simple(op: ir.OpView) -> bool:
    """Is an element of what the op gives computed from a few of its operands?"""
    name, record = op.operation.name, record_of(op.operation.name)
    works = (Work.ELEMENTS, Work.INDICES, Work.MOVES)
    return name in _CONTROL or name == "hlo.reduce" or (record is not None and record.work in works)


def _groups(sizes: Sequence[int], least: int) -> list[tuple[int, int]]:
    """(before, size) of runs of dimensions that have so many elements together, the largest first."""
    bounds = sorted(set(accumulate(sizes, mul, initial=1)))
    groups = {(low, high // low) for low, high in combinations(bounds, 2) if high // low >= least}
    return sorted(groups, key=lambda group: (-group[1], group[0]))


def _runs_of(sizes: Sequence[int], size: int) -> list[int]:
    """Every `before` of a value of this shape that has so many items."""
    return [before for before, count in _groups(sizes, size) if count == size]


class _Walk:
    """From what a loop yields back to what it carries."""

    def __init__(self, loop: ir.Operation, size: int) -> None:
        self.size = size
        self.condition, self.body = (region.blocks[0] for region in loop.regions)
        self.before: dict[int, int | None] = {}  # by number of the carry
        self.waiting: list[Need] = []
        self.seen: set[Need] = set()
        self.varies: dict[ir.Value, bool] = {}

    def run(self, start: ir.Value, before: int) -> Batch | None:
        """The batch, where the carry `start` has it there."""
        arguments = list(self.body.arguments)
        for number, value in enumerate(arguments):
            if num_elements(value) < LEAST:
                self.before[number] = None
        if not self._carry(arguments.index(start), before):
            return None
        if self._varies(terminator(self.condition).operands[0]):
            return None
        yielded = terminator(self.body).operands
        for number, value in enumerate(yielded):
            if self.before.get(number, 0) is None and self._varies(value):
                return None
        while True:
            if not self._settle():
                return None
            missing = [number for number in range(len(arguments)) if number not in self.before]
            if not missing:
                return Batch(self.size, tuple(self.before[number] for number in range(len(arguments))))
            runs = _runs_of(static_shape(arguments[missing[0]]), self.size)  # a carry that no other needs
            if not runs or not self._carry(missing[0], runs[0]):
                return None

    def _carry(self, number: int, before: int | None) -> bool:
        """Note where a carry has its items; whether that is where it had them before."""
        if number in self.before:
            return self.before[number] == before
        self.before[number] = before
        self.waiting.append((terminator(self.body).operands[number], before))
        return True

    def _settle(self) -> bool:
        while self.waiting:
            need = self.waiting.pop()
            if need in self.seen:
                continue
            self.seen.add(need)
            value, before = need
            if not self._varies(value):
                continue
            if before is None or before not in _runs_of(static_shape(value), self.size):
                return False
            if isinstance(value, ir.BlockArgument):
                if not self._carry(value.arg_number, before):
                    return False
                continue
            operands = _operands(value.owner, before, self.size)
            if operands is None:
                return False
            self.waiting += operands
        return True

    def _varies(self, value: ir.Value) -> bool:
        """Whether it depends on a carry that has items."""
        if value not in self.varies:
            if isinstance(value, ir.BlockArgument):
                inside = value.owner in (self.body, self.condition)
                self.varies[value] = inside and num_elements(value) >= LEAST
            else:
                inside = value.owner.operation.block in (self.body, self.condition)
                self.varies[value] = inside and any(map(self._varies, value.owner.operands))
        return self.varies[value]


# --- what an item of a result needs -----------------------------------------------------------------------------------


def _operands(op: ir.OpView, before: int, size: int) -> list[Need] | None:
    """What the items of an op's result need of its operands; None: more than one item of them."""
    name, record = op.operation.name.removeprefix("hlo."), record_of(op.operation.name)
    if len(op.results) != 1 or record is None:
        return None
    result = shape(op.results[0])
    if record.work is Work.ELEMENTS:
        return [(each, before if shape(each) == result else None) for each in op.operands]
    rule = _RULES.get(name.removeprefix("stablehlo."))
    dimensions = _dimensions(static_shape(op.results[0]), before, size)
    return list(rule(op, dimensions)) if rule and _keeps(name, op, dimensions) else None


def _dimensions(sizes: Sequence[int], before: int, size: int) -> range:
    """Those that the digits of the items are."""
    bounds = list(accumulate(sizes, mul, initial=1))
    start = max(number for number, bound in enumerate(bounds) if bound == before)
    return range(start, bounds.index(before * size))


def _keeps(name: str, op: ir.OpView, dimensions: range) -> bool:
    """Does an op leave the items where they are, all of them and in their order?"""
    result = shape(op.results[0])
    if name in ("slice", "pad"):
        return all(shape(op.operands[0])[d] == result[d] for d in dimensions)
    if name == "reverse":
        return not set(i64s(op, "dimensions")) & set(dimensions)
    if name == "stablehlo.concatenate":
        return i64(op, "dimension") not in dimensions
    return True


def _at(value: ir.Value, dimensions: Sequence[int]) -> Iterator[Need]:
    """The items are these dimensions of a value, if they follow each other."""
    first = dimensions[0]
    if list(dimensions) == list(range(first, first + len(dimensions))):
        yield value, math.prod(static_shape(value)[:first])
    else:
        yield value, None


def _same(op: ir.OpView, dimensions: range) -> Iterator[Need]:
    yield from _at(op.operands[0], dimensions)
    yield from ((each, None) for each in list(op.operands)[1:])


def _reshape(op: ir.OpView, dimensions: range) -> Iterator[Need]:
    yield op.operands[0], math.prod(static_shape(op.results[0])[: dimensions[0]])


def _broadcast(op: ir.OpView, dimensions: range) -> Iterator[Need]:
    result, to = shape(op.results[0]), i64s(op, "dimensions")
    wanted = [d for d in dimensions if result[d] != 1]
    found = [position for position, d in enumerate(to) if d in wanted]
    whole = [to[position] for position in found] == wanted
    yield from _at(op.operands[0], found) if whole else [(op.operands[0], None)]


def _transpose(op: ir.OpView, dimensions: range) -> Iterator[Need]:
    permutation = i64s(op, "permutation")
    yield from _at(op.operands[0], [permutation[d] for d in dimensions])


def _concatenate(op: ir.OpView, dimensions: range) -> Iterator[Need]:
    for each in op.operands:
        yield from _at(each, dimensions)


def _reduce(op: ir.OpView, dimensions: range) -> Iterator[Need]:
    reduced = set(i64s(op, "dimensions"))
    kept = [d for d in range(len(shape(op.operands[0]))) if d not in reduced]
    yield from _at(op.operands[0], [kept[d] for d in dimensions])
    yield from ((each, None) for each in list(op.operands)[1:])


_RULES: dict[str, Callable[[ir.OpView, range], Iterator[Need]]] = {
    "broadcast": _broadcast,
    "concatenate": _concatenate,
    "copy": _reshape,
    "pad": _same,
    "reduce": _reduce,
    "reshape": _reshape,
    "reverse": _same,
    "slice": _same,
    "transpose": _transpose,
}
