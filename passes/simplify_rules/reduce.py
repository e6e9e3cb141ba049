"""Rules on `hlo.reduce` and `stablehlo.reduce`. The spec leaves open how often the initial value enters a reduction, so
one that is the combiner's identity element may be left out, or come once more."""

from __future__ import annotations

import math

from stablehlo_py.dialect.commuting import place_of
from stablehlo_py.dialect.ops import combiner
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import element_type, i64, i64s, is_bool, num_elements, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import (
    has_one_use,
    integer_bounds,
    is_float_value,
    is_integer_value,
    operand_of,
    splat,
)
from stablehlo_py.passes.simplify_rules.combine import is_identity
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet

REDUCE = RuleSet("reduce")


def reduce(rewriter: Rewriter, kind: str, operand: ir.Value, init: ir.Value, dimensions: list[int]) -> ir.Value:
    """A new `hlo.reduce`; over no dimensions it is the operand, combined with `init` unless that is the identity."""
    if not dimensions:
        return (
            operand
            if is_identity(kind, init)
            else rewriter.like(kind, rewriter.broadcast(init, shape(operand), []), operand)
        )
    return rewriter.made("reduce", operand, init, kind=kind, dimensions=dimensions)


@REDUCE.rule("hlo.reduce")
def reduce_empty(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce(x without elements, c) -> broadcast(c)"
    x, init = op.operands
    return rewriter.broadcast(init, shape(op.result), []) if num_elements(x) == 0 else None


@REDUCE.rule("hlo.reduce", where="dimensions of size 1")
def reduce_size_one(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce over dimensions of size 1 -> reshape"
    x, init = op.operands
    sizes, dimensions = shape(x), i64s(op, "dimensions")
    ones = [dimension for dimension in dimensions if sizes[dimension] == 1]
    if not ones:
        return None
    kept = [dimension for dimension in range(len(sizes)) if dimension not in ones]
    squeezed = rewriter.reshape(x, [sizes[dimension] for dimension in kept])
    return reduce(rewriter, text(op, "kind"), squeezed, init, [kept.index(d) for d in dimensions if d not in ones])


@REDUCE.pair(
    "hlo.reduce",
    "hlo.broadcast",
    where="exact kinds: max, min, and, or; sums and products of integers by one multiply",
)
def reduce_broadcast(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce(broadcast(x)) over broadcast dimensions -> reduce(x)"
    x, init = op.operands
    mapped, dimensions, sizes = i64s(inner, "dimensions"), i64s(op, "dimensions"), shape(x)
    free = [dimension for dimension in dimensions if dimension not in mapped]
    kind = text(op, "kind")
    if not free or num_elements(x) == 0:
        return None
    count = math.prod(sizes[dimension] for dimension in free)
    source = inner.operands[0]
    if kind == "add" and is_integer_value(x) and x.type.element_type.width > 1:
        factor = rewriter.broadcast(rewriter.splat(count % 2**64, init.type), shape(source), [])
        source = rewriter.like("multiply", source, factor)
    elif not combiner(kind).idempotent:
        return None
    # The broadcast without its free dimensions, reduced over the rest.
    kept = [dimension for dimension in range(len(sizes)) if dimension not in free]
    smaller = rewriter.broadcast(source, [sizes[d] for d in kept], [kept.index(d) for d in mapped])
    rest = [kept.index(dimension) for dimension in dimensions if dimension not in free]
    return reduce(rewriter, kind, smaller, init, rest)


@REDUCE.pair(
    "hlo.reduce",
    "hlo.reduce",
    where="exact kinds and integers; the inner start is the identity, and nobody else reads the inner result",
)
def reduce_twice(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce(reduce(x)) -> reduce(x)"
    x, init = op.operands
    kind = text(op, "kind")
    if not has_one_use(x) or text(inner, "kind") != kind or not is_identity(kind, inner.operands[1]):
        return None
    if not is_integer_value(x) and not combiner(kind).idempotent:
        return None
    first = i64s(inner, "dimensions")
    kept = [dimension for dimension in range(len(shape(inner.operands[0]))) if dimension not in first]
    dimensions = sorted([*first, *(kept[dimension] for dimension in i64s(op, "dimensions"))])
    return reduce(rewriter, kind, inner.operands[0], init, dimensions)


@REDUCE.rule(
    "stablehlo.reduce",
    where="only the place is read; places count along the last dimension, which is reduced; starts are identities",
)
def reduce_to_place(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce(x, iota) by which is larger -> least place where x = max(x), or is NaN"
    if len(op.operands) != 4 or any(True for _ in op.results[0].uses):
        return None
    x, places, start, first = op.operands
    sizes, last = shape(x), len(shape(x)) - 1
    if i64s(op, "dimensions") != (last,) or not is_known(*sizes) or not num_elements(x) or not _is_places(places, last):
        return None
    kind = place_of(op.regions[0].blocks[0])
    if not kind or is_bool(element_type(x)) or splat(first) != 0 or not is_identity(kind, start):
        return None
    kept = list(range(last))
    best = reduce(rewriter, kind, x, start, [last])
    seen = rewriter.compare(x, rewriter.broadcast(best, sizes, kept), "EQ")
    if is_float_value(x):
        seen = rewriter.like("or", seen, rewriter.compare(x, x, "NE"))
    _, most = integer_bounds(places)
    place = rewriter.value("select", places.type, seen, places, rewriter.splat(most, places.type))
    return [best, reduce(rewriter, "minimum", place, rewriter.splat(most, first.type), [last])]


def _is_places(value: ir.Value, dimension: int) -> bool:
    """Whether elements are their own indices along a dimension."""
    inner = operand_of(value, "hlo.broadcast")
    if inner is not None and i64s(value.owner, "dimensions") == (dimension,):
        value, dimension = inner, 0
    return (
        is_integer_value(value)
        and not isinstance(value.owner, ir.Block)
        and (value.owner.name == "hlo.iota" and i64(value.owner, "dimension") == dimension)
    )
