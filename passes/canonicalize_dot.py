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
- Where the operand of a product with one row is repeated over a batch dimension, as the keys and values of grouped
  heads are, the repetitions are rows: it is read once, and never stored as often.
- Adjacent contracting dimensions are merged; contracting over nothing, or over size 1, is a multiply of broadcasts;
  over no elements, zero. One row times columns of up to four numbers is products and their sums, which fuse.
- Sums of products, each factor of which is repeated along dimensions of the other's, are a contraction: it reads its
  operands once for many rows and columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.index_map import reshape_groups
from stablehlo_py.dialect.ops.contraction import dot_shape
from stablehlo_py.dialect.symint import IntLike, always_at_most, is_known
from stablehlo_py.dialect.types import i64s, is_bool, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import has_one_use, is_empty, splat_is, without_reshapes
from stablehlo_py.passes.shape_rules.through import reshaped_operands, transposed_operands
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RulePass, RuleSet, defining

DOT = RuleSet("canonicalize-dot")
_SUMMED = ir.F32Type | ir.F64Type | ir.IntegerType


@dataclass(frozen=True)
class CanonicalizeDot(RulePass):
    """Folds transposes, reshapes and slices into contractions; turns trivial contractions into multiplies."""

    name: ClassVar[str] = "canonicalize-dot"
    table: ClassVar[RuleSet] = DOT


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

    def free(self, which: int, rank: int) -> list[int]:
        """Free dimensions of operand 0 or 1, in order."""
        batch, contract = self.side(which)
        return [dimension for dimension in range(rank) if dimension not in batch and dimension not in contract]


def make_dot(rewriter: Rewriter, op: ir.Operation, lhs: ir.Value, rhs: ir.Value, numbers: DotNumbers) -> ir.Value:
    """`hlo.dot` with the element type of `op`'s result, in the shape that operands and numbers give."""
    batch, contract = (numbers.lhs_batch, numbers.rhs_batch), (numbers.lhs_contract, numbers.rhs_contract)
    type_ = tensor(dot_shape(shape(lhs), shape(rhs), batch, contract), op.result.type.element_type)
    return rewriter.value("dot", type_, lhs, rhs, **vars(numbers))


def is_of_sums(dot: ir.Operation) -> bool:
    """Whether each element is a sum of products in its own type, as `hlo.reduce` makes it."""
    element = dot.result.type.element_type
    if any(operand.type.element_type != element for operand in dot.operands):
        return False
    return not is_bool(element) and isinstance(element, _SUMMED)


# --- trivial contractions --------------------------------------------------------------------------------------------


@DOT.rule("hlo.dot", name="dot-empty")
def product_empty(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "product over no elements -> 0"
    return rewriter.splat(0, op.result.type) if any(map(is_empty, op.operands)) else None


@DOT.rule("hlo.dot", where="contracting dimensions of size 1, or none")
def dot_outer(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dot(x, y) -> broadcast(x) * broadcast(y)"
    sizes = shape(op.operands[0])
    for dimension in i64s(op, "lhs_contract"):
        if sizes[dimension] != 1:
            return None
    numbers = DotNumbers.of(op)
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


@DOT.rule(
    "hlo.dot",
    where="of one type, no short floats; y is batch, columns and at most 4 contracted numbers, x has one row",
)
def dot_short_sums(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dot(x, y) -> reduce(broadcast(x) * y)"
    contract = i64s(op, "lhs_contract")
    if len(contract) != 1 or not always_at_most(shape(op.operands[0])[contract[0]], 4):
        return None
    if not is_of_sums(op):
        return None
    numbers, element = DotNumbers.of(op), op.result.type.element_type
    for which in (0, 1):
        x, y = op.operands[1 - which], op.operands[which]
        (x_batch, x_contract), (y_batch, y_contract) = numbers.side(1 - which), numbers.side(which)
        last, sizes = y.type.rank - 1, shape(y)
        in_order = y_batch == list(range(len(y_batch))) and y_contract == [last]
        if numbers.free(1 - which, x.type.rank) or not in_order:
            continue
        x = rewriter.transpose(x, [*x_batch, *x_contract])
        products = rewriter.like("multiply", rewriter.broadcast(x, sizes, [*y_batch, last]), y)
        zero = rewriter.splat(0, tensor((), element))
        return rewriter.made("reduce", products, zero, kind="add", dimensions=[last])
    return None


@DOT.pair(
    "hlo.reduce",
    "hlo.multiply",
    where="one use; batch dimensions first, at least 4 rows and columns, and 2 contracted numbers; no short floats",
)
def reduce_product(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce(broadcast(x) * broadcast(y), 0) -> dot(x, y)"
    product, init = op.operands
    element, sizes, contract = init.type.element_type, shape(product), list(i64s(op, "dimensions"))
    left, right = (defining(operand, "hlo.broadcast") for operand in inner.operands)
    if left is None or right is None or text(op, "kind") != "add" or not splat_is(init, 0) or not has_one_use(product):
        return None
    if is_bool(element) or not isinstance(element, _SUMMED):
        return None
    x, y = (list(i64s(broadcast, "dimensions")) for broadcast in (left, right))
    rows, columns = ([place for place in one if place not in other] for one, other in ((x, y), (y, x)))
    batch = [place for place in x if place in y and place not in contract]
    if batch != list(range(len(batch))):
        return None  # the sums of a vector of batches are computed together
    needed = (4, rows), (4, columns), (2, contract)
    if not all(always_at_most(least, math.prod(sizes[d] for d in part)) for least, part in needed):
        return None
    order = [*batch, *rows, *columns]
    if sorted([*order, *contract]) != list(range(len(sizes))):
        return None  # a dimension is in neither factor, or contracted in one alone
    if any(list(shape(one.operands[0])) != [sizes[d] for d in places] for one, places in ((left, x), (right, y))):
        return None  # a single element is repeated
    numbers = DotNumbers(*([places.index(d) for d in part] for part in (batch, contract) for places in (x, y)))
    made = make_dot(rewriter, op, left.operands[0], right.operands[0], numbers)
    return rewriter.transpose(made, [order.index(d) for d in sorted(order)])


@DOT.rule("hlo.dot", where="adjacent, in the same order, in both operands")
def dot_merge_contracting(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dot over dimensions (k, k + 1) -> dot of reshapes over one"
    if len(i64s(op, "lhs_contract")) < 2:
        return None
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


DOT.rule("hlo.dot", name="dot-transpose", needs="hlo.transpose", where="the free dimensions stay in order")(
    transposed_operands
)


@DOT.rule(
    "hlo.dot",
    needs="hlo.reshape",
    where="free dimensions are split or merged, or batch dimensions of both operands alike",
)
def dot_reshape(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dot(reshape(x), reshape(y)) -> reshape(dot(x, y))"
    # First what takes little: factors take ten times as long, and most reshapes have merged what is contracted.
    contract = (i64s(op, "lhs_contract"), i64s(op, "rhs_contract"))
    return reshaped_operands(op, rewriter) if any(map(_leaves, op.operands, contract)) else None


def _leaves(operand: ir.Value, contract: Sequence[int]) -> bool:
    """Whether an operand is a reshape that leaves the contracting dimensions as they are."""
    inner = defining(operand, "hlo.reshape")
    if inner is None:
        return False
    groups = reshape_groups(shape(inner.operands[0]), shape(operand)) or ()
    kept = [after[0] for before, after in groups if len(before) == len(after) == 1]
    return all(dimension in kept for dimension in contract)


@DOT.rule(
    "hlo.dot", needs=("hlo.broadcast", "hlo.reshape"), where="y is repeated along a batch dimension, x has one row"
)
def dot_repeated(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dot(x, repeat(y)) over batches (b, r) -> dot(x, y) over batches b, for rows r of x"
    operands = list(op.operands)
    broadcasts = [defining(without_reshapes(operand), "hlo.broadcast") for operand in operands]
    if not any(broadcasts):
        return None
    numbers = DotNumbers.of(op)
    for which, broadcast in enumerate(broadcasts):
        x, batch = operands[1 - which], numbers.side(1 - which)[0]
        if broadcast is None or math.prod(shape(x)[each] for each in numbers.free(1 - which, x.type.rank)) != 1:
            continue
        found = _repeated(operands[which], broadcast, numbers.side(which)[0])
        if found is None:
            continue
        source, counts = rewriter.reshape(found[0], found[1]), found[2]
        x_sizes: list[IntLike] = []
        places = []  # of the dimensions of x
        rows = dict[int, int]()  # batch dimension -> place of the rows that come of it
        for dimension, size in enumerate(shape(x)):
            places.append(len(x_sizes))
            repeats = counts[batch.index(dimension)] if dimension in batch else 1
            if repeats > 1:
                rows[batch.index(dimension)] = len(x_sizes) + 1
            x_sizes += [size // repeats, repeats] if repeats > 1 else [size]
        x_batch, x_contract = ([places[dimension] for dimension in side] for side in numbers.side(1 - which))
        y_batch, y_contract = numbers.side(which)
        # In this order rows come before columns; x has no others, so that reshapes do.
        moved = DotNumbers(x_batch, y_batch, x_contract, y_contract)
        made = make_dot(rewriter, op, rewriter.reshape(x, x_sizes), source, moved)
        free = moved.free(0, len(x_sizes))
        order = []
        for number in range(len(batch)):
            order += [number] + ([len(batch) + free.index(rows[number])] if number in rows else [])
        order += [place for place in range(made.type.rank) if place not in order]
        return rewriter.reshape(rewriter.transpose(made, order), shape(op.result))
    return None


def _repeated(
    y: ir.Value, broadcast: ir.Operation, batch: Sequence[int]
) -> tuple[ir.Value, list[IntLike], list[IntLike]] | None:
    """What a broadcast, of which y is a reshape, repeats along batch dimensions alone, each element several times in a
    row: the value, the sizes of y without repetitions, and how often it is repeated along each batch dimension. None
    for other broadcasts."""
    if not is_known(*shape(y)):
        return None
    source, mapped, full = broadcast.operands[0], i64s(broadcast, "dimensions"), shape(broadcast.result)
    sizes, counts, dimension = list[IntLike](), list[IntLike](), 0
    for size in shape(y):
        kept: IntLike = 1
        repeats: IntLike = 1
        while dimension < len(full) and (kept * repeats < size or full[dimension] == 1):
            if dimension not in mapped:
                repeats *= full[dimension]
            elif repeats == 1 or full[dimension] == 1:
                kept *= full[dimension]
            else:
                return None  # repeated as a whole, not each element
            dimension += 1
        if kept * repeats != size:
            return None
        sizes.append(kept)
        counts.append(repeats)
    others = (count for place, count in enumerate(counts) if place not in batch)
    if list(mapped) != sorted(mapped) or any(count != 1 for count in others) or max(counts, default=1) == 1:
        return None
    return source, sizes, [counts[place] for place in batch]


@DOT.pair("hlo.transpose", "hlo.dot", where="one use; the right operand's free dimensions come before the left's")
def transpose_dot(op: ir.Operation, dot: ir.Operation, rewriter: Rewriter) -> Replacement:
    "transpose(dot(x, y)) -> transpose(dot(y, x)), where rows stay whole or nothing is left to transpose"
    if not has_one_use(dot.result):
        return None
    lhs, rhs = dot.operands
    batch, contract = len(i64s(dot, "lhs_batch")), len(i64s(dot, "lhs_contract"))
    left, right = (operand.type.rank - batch - contract for operand in (lhs, rhs))
    permutation = i64s(op, "permutation")
    places = [permutation.index(dimension) for dimension in range(batch + left + right)]
    if not left or not right or max(places[batch + left :]) > min(places[batch : batch + left]):
        return None
    numbers = DotNumbers.of(dot)
    swapped = DotNumbers(numbers.rhs_batch, numbers.lhs_batch, numbers.rhs_contract, numbers.lhs_contract)
    renumbered = [d if d < batch else d + right if d < batch + left else d - left for d in permutation]
    return rewriter.transpose(make_dot(rewriter, dot, rhs, lhs, swapped), renumbered)
