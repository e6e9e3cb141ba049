"""Contractions that read their operands where they lie, and compute only what is read.

    %0 = hlo.transpose %x {permutation = [0, 2, 1]}
    %1 = hlo.dot %0, %y {batch [0] x [0], contract [2] x [1]}
        ==>  %1 = hlo.dot %x, %y {batch [0] x [0], contract [1] x [1]}

- A transposed operand is read through changed dimension numbers, where the result's dimensions stay in order. (A
  transposed result is left: an epilogue may store it so.)
- A reshape of an operand that splits or merges free dimensions, or batch dimensions of both operands alike, moves to
  the result.
- Where the transposed result has the right operand's rows before the left's, the operands change places: long rows are
  stored whole.
- Adjacent contracting dimensions are merged; contracting over nothing, or over size 1, is a multiply of broadcasts;
  over no elements, zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.index_map import long, reshaped_roles
from stablehlo_py.dialect.size import IntLike
from stablehlo_py.dialect.types import i64s, num_elements, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import defining, has_one_use
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet, apply_rules

DOT = RuleSet("canonicalize-dot")


@dataclass(frozen=True)
class CanonicalizeDot(Pass):
    """Folds transposes, reshapes and slices into contractions; turns trivial contractions into multiplies."""

    name: ClassVar[str] = "canonicalize-dot"
    disable: tuple[str, ...] = ()

    def rules(self) -> RuleSet:
        """The table that is applied; `disable` takes the names of its rules."""
        return DOT

    def run(self, module: ir.Module) -> None:
        apply_rules(module, self.rules(), disable=self.disable)


@dataclass
class DotNumbers:
    """Dimension numbers of a dot: batch and contracting dimensions of both operands."""

    lhs_batch: list[int]
    rhs_batch: list[int]
    lhs_contract: list[int]
    rhs_contract: list[int]

    @staticmethod
    def of(op: ir.Operation) -> DotNumbers:
        names = ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract")
        return DotNumbers(*(list(i64s(op, name)) for name in names))

    def side(self, which: int) -> tuple[list[int], list[int]]:
        """(batch, contracting) dimensions of operand 0 or 1."""
        return (self.rhs_batch, self.rhs_contract) if which else (self.lhs_batch, self.lhs_contract)

    def with_side(self, which: int, batch: Sequence[int], contract: Sequence[int]) -> DotNumbers:
        """The same with other numbers for one operand."""
        if which:
            return DotNumbers(self.lhs_batch, list(batch), self.lhs_contract, list(contract))
        return DotNumbers(list(batch), self.rhs_batch, list(contract), self.rhs_contract)

    def free(self, which: int, rank: int) -> list[int]:
        """Free dimensions of operand 0 or 1, in order."""
        batch, contract = self.side(which)
        return [dimension for dimension in range(rank) if dimension not in batch and dimension not in contract]


def make_dot(rewriter: Rewriter, op: ir.Operation, lhs: ir.Value, rhs: ir.Value, numbers: DotNumbers) -> ir.Value:
    """`hlo.dot` with the element type of `op`'s result, in the shape that operands and numbers give."""
    return rewriter.made("dot", lhs, rhs, element=op.result.type.element_type, **vars(numbers))


# --- trivial contractions --------------------------------------------------------------------------------------------


@DOT.rule("hlo.dot")
def dot_empty(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dot over no elements -> 0"
    return None if all(num_elements(operand) for operand in op.operands) else rewriter.splat(0, op.result.type)


@DOT.rule("hlo.dot", where="contracting dimensions of size 1, or none")
def dot_outer(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dot(x, y) -> broadcast(x) * broadcast(y)"
    numbers = DotNumbers.of(op)
    if any(shape(op.operands[0])[dimension] != 1 for dimension in numbers.lhs_contract):
        return None
    element, sizes = op.result.type.element_type, shape(op.result)
    batch_count, factors, offset = len(numbers.lhs_batch), [], 0
    for which, operand in enumerate(op.operands):
        operand = rewriter.convert(operand, element)
        batch, contract = numbers.side(which)
        free = numbers.free(which, operand.type.rank)
        ordered = rewriter.transpose(operand, [*contract, *batch, *free])
        flat = rewriter.reshape(ordered, shape(ordered)[len(contract) :])
        dimensions = [*range(batch_count), *range(batch_count + offset, batch_count + offset + len(free))]
        factors.append(rewriter.broadcast(flat, sizes, dimensions))
        offset += len(free)
    return rewriter.like("multiply", *factors)


@DOT.rule("hlo.dot", where="adjacent, in the same order, in both operands")
def dot_merge_contracting(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dot over dimensions (k, k + 1) -> dot of reshapes over one"
    numbers = DotNumbers.of(op)
    lhs, rhs = op.operands
    for i in range(len(numbers.lhs_contract) - 1):
        left, right = numbers.lhs_contract[i], numbers.rhs_contract[i]
        if numbers.lhs_contract[i + 1] == left + 1 and numbers.rhs_contract[i + 1] == right + 1:
            new = DotNumbers(
                _merged(numbers.lhs_batch, left),
                _merged(numbers.rhs_batch, right),
                _merged(numbers.lhs_contract, left),
                _merged(numbers.rhs_contract, right),
            )
            return make_dot(rewriter, op, _merge(rewriter, lhs, left), _merge(rewriter, rhs, right), new)
    return None


def _merged(dimensions: Sequence[int], at: int) -> list[int]:
    return [dimension - (dimension > at) for dimension in dimensions if dimension != at + 1]


def _merge(rewriter: Rewriter, x: ir.Value, at: int) -> ir.Value:
    sizes = shape(x)
    return rewriter.reshape(x, [*sizes[:at], sizes[at] * sizes[at + 1], *sizes[at + 2 :]])


# --- views of operands -----------------------------------------------------------------------------------------------


@DOT.rule("hlo.dot", needs="hlo.transpose", where="the free dimensions stay in order")
def dot_transpose(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dot(transpose(x), y) -> dot(x, y)"
    numbers, operands, changed = DotNumbers.of(op), list(op.operands), False
    for which in (0, 1):
        inner = defining(operands[which], "hlo.transpose")
        if inner is None:
            continue
        permutation = i64s(inner, "permutation")
        free = [permutation[dimension] for dimension in numbers.free(which, len(permutation))]
        sizes = shape(inner.operands[0])
        if long(free, sizes) != sorted(long(free, sizes)) or free != sorted(free):
            continue
        batch, contract = numbers.side(which)
        numbers = numbers.with_side(which, [permutation[d] for d in batch], [permutation[d] for d in contract])
        operands[which], changed = inner.operands[0], True
    return make_dot(rewriter, op, operands[0], operands[1], numbers) if changed else None


@DOT.rule("hlo.dot", needs="hlo.reshape", where="only free dimensions are split or merged")
def dot_free_reshape(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dot(reshape(x), y) -> reshape(dot(x, y))"
    numbers, operands = DotNumbers.of(op), list(op.operands)
    for which in (0, 1):
        inner = defining(operands[which], "hlo.reshape")
        if inner is None:
            continue
        target, batch_contract = shape(operands[which]), numbers.side(which)
        fixed = [dimension for dimensions in batch_contract for dimension in dimensions]
        own = [dimension if dimension in fixed else -1 for dimension in range(len(target))]
        roles = reshaped_roles(shape(inner.operands[0]), target, own)
        if roles is None or any(roles.count(dimension) != 1 for dimension in fixed):
            continue
        operands[which] = inner.operands[0]
        moved = ([roles.index(dimension) for dimension in dimensions] for dimensions in batch_contract)
        new = make_dot(rewriter, op, operands[0], operands[1], numbers.with_side(which, *moved))
        return rewriter.reshape(new, shape(op.result))
    return None


@DOT.rule("hlo.dot", needs="hlo.reshape", where="both operands' leading batch dimensions come from the same dimensions")
def dot_batch_reshape(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dot(reshape(x), reshape(y)) -> reshape(dot(x, y))"
    numbers = DotNumbers.of(op)
    if numbers.lhs_batch != [0] or numbers.rhs_batch != [0]:
        return None
    inner = [defining(operand, "hlo.reshape") for operand in op.operands]
    if inner[0] is None or inner[1] is None:
        return None
    sources = [each.operands[0] for each in inner if each is not None]
    counts = [
        _leading_group(shape(source), shape(operand)) for source, operand in zip(sources, op.operands, strict=True)
    ]
    count = counts[0]
    if count is None or count < 2 or counts[1] != count or shape(sources[0])[:count] != shape(sources[1])[:count]:
        return None
    batch = list(range(count))
    lhs_contract, rhs_contract = ([dimension + count - 1 for dimension in numbers.side(k)[1]] for k in (0, 1))
    new = make_dot(rewriter, op, sources[0], sources[1], DotNumbers(batch, batch, lhs_contract, rhs_contract))
    return rewriter.reshape(new, shape(op.result))


def _leading_group(source: Sequence[IntLike], target: Sequence[IntLike]) -> int | None:
    """How many leading dimensions of `source` merge into target's first, when all others stay as they are."""
    count = len(source) - len(target) + 1
    return count if count >= 1 and tuple(source[count:]) == tuple(target[1:]) else None


@DOT.rule("hlo.transpose", needs="hlo.dot", where="one use; the right operand's free dimensions come before the left's")
def transpose_dot(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "transpose(dot(x, y)) -> transpose(dot(y, x)), where rows stay whole or nothing is left to transpose"
    product = op.operands[0]
    dot = defining(product, "hlo.dot")
    if dot is None or not has_one_use(product):
        return None
    numbers = DotNumbers.of(dot)
    lhs, rhs = dot.operands
    batch, left = len(numbers.lhs_batch), len(numbers.free(0, lhs.type.rank))
    right = len(numbers.free(1, rhs.type.rank))
    permutation = i64s(op, "permutation")
    places = [permutation.index(dimension) for dimension in range(batch + left + right)]
    if not left or not right or max(places[batch + left :]) > min(places[batch : batch + left]):
        return None
    swapped = DotNumbers(numbers.rhs_batch, numbers.lhs_batch, numbers.rhs_contract, numbers.lhs_contract)
    renumbered = [d if d < batch else d + right if d < batch + left else d - left for d in permutation]
    return rewriter.transpose(make_dot(rewriter, dot, rhs, lhs, swapped), renumbered)


# --- slices of the result --------------------------------------------------------------------------------------------
