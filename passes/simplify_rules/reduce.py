"""Rules on `hlo.reduce` and `stablehlo.reduce`. The spec leaves open how often the initial value enters a reduction, so
one that is the combiner's identity element may be left out, or come once more."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.commuting import place_of
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.ops import combiner
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.types import element_type, i64, i64s, is_bool, num_elements, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import (
    has_one_use,
    integer_bounds,
    is_empty,
    is_float_value,
    is_integer_value,
    operand_of,
)
from stablehlo_py.passes.simplify_rules.combine import is_identity
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet, defining

REDUCE = RuleSet("reduce")
LONG = 1 << 14  # elements of a vector that leaves the nearest cache
MOST_STACKED = 128  # pieces that are added up as so many operations


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
    return rewriter.broadcast(init, shape(op.result), []) if is_empty(x) else None


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


@REDUCE.pair(
    "hlo.reduce",
    "stablehlo.concatenate",
    where="over its dimension alone, of which each piece has one element; one use; no sums or products of short floats",
)
def reduce_stack(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce(concatenate(x, y, ...)) -> combination of x, y, ..."
    stack, init = op.operands
    kind, dimension = text(op, "kind"), i64(inner, "dimension")
    pieces = list(inner.operands)
    if list(i64s(op, "dimensions")) != [dimension] or len(pieces) > MOST_STACKED or not has_one_use(stack):
        return None
    if any(shape(piece)[dimension] != 1 for piece in pieces):
        return None
    if not combiner(kind).idempotent and is_float_value(stack) and element_type(stack).width < 32:
        return None  # they add up in f32
    values = [rewriter.reshape(piece, shape(op.result)) for piece in pieces]
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        values = [rewriter.like(kind, *pair) for pair in pairs] + values[len(values) & ~1 :]
    return reduce(rewriter, kind, values[0], init, [])


@REDUCE.pair("hlo.reduce", "hlo.select", where="square in both; the rest is the identity; over one of them at least")
def reduce_diagonal(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce(select(i == j and p, x, c)) over j -> reduce(diagonal of select(p, x, c))"
    kind, dimensions, init = text(op, "kind"), i64s(op, "dimensions"), op.operands[1]
    pred, x, rest = inner.operands
    sizes = shape(x)
    both = defining(pred, "hlo.and")
    terms = list(both.operands) if both is not None else [pred]
    pair, other = next(((pair, term) for term in terms if (pair := _equal_places(term))), (None, pred))
    if pair is None or not is_identity(kind, rest):
        return None
    gone, kept = pair if pair[0] in dimensions else pair[::-1]
    size = sizes[kept]
    if gone not in dimensions or not is_known(*sizes) or sizes[gone] != size or size < 2:
        return None
    if both is not None:
        x = rewriter.value("select", x.type, *(term for term in terms if term != other), x, rest)
    # What is left of the two dimensions lies where the kept one was.
    order = [dimension for dimension in range(len(sizes)) if dimension != gone]
    at = order.index(kept)
    low = at + (gone > kept)
    order.insert(low, gone)
    outer, inside = [[sizes[dimension] for dimension in side] for side in (order[:at], order[at + 2 :])]
    flat = rewriter.reshape(rewriter.transpose(x, order), [*outer, size * size, *inside])
    ends = [1] * len(outer), [1] * len(inside)
    diagonal = rewriter.slice(
        flat, [0] * (len(sizes) - 1), [*outer, size * size, *inside], [*ends[0], size + 1, *ends[1]]
    )
    others = [dimension - (dimension > gone) for dimension in dimensions if dimension != gone]
    if kind == "add" and not others and not is_integer_value(x):
        diagonal = rewriter.like("add", diagonal, rewriter.splat(0, diagonal.type))  # which makes 0 of -0
    return reduce(rewriter, kind, diagonal, init, others)


def _equal_places(value: ir.Value) -> tuple[int, int] | None:
    """The two dimensions along which an element's places are equal where it is true."""
    outer = defining(value, "hlo.broadcast")
    if outer is not None:
        inner = _equal_places(outer.operands[0])
        return inner and (i64s(outer, "dimensions")[inner[0]], i64s(outer, "dimensions")[inner[1]])
    op = defining(value, "hlo.compare")
    if op is None or text(op, "direction") != "EQ":
        return None
    pairs = [
        [dimension for dimension in range(len(shape(value))) if _is_places(operand, dimension)]
        for operand in op.operands
    ]
    if [len(pair) for pair in pairs] != [1, 1] or pairs[0] == pairs[1]:
        return None
    (one,), (two,) = pairs
    fits = all(shape(value)[d] - 1 <= integer_bounds(side)[1] for d, side in zip((one, two), op.operands, strict=True))
    return (one, two) if fits else None


@REDUCE.rule(
    "stablehlo.reduce",
    where="only the place is read; places count along the one dimension that is reduced; starts are identities",
)
def reduce_to_place(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce(x, iota) by which is larger -> least place where x = max(x), or is NaN"
    if len(op.operands) != 4 or any(True for _ in op.results[0].uses):
        return None
    x, places, start, first = op.operands
    sizes, dimensions = shape(x), i64s(op, "dimensions")
    if len(dimensions) != 1 or not is_known(*sizes) or not num_elements(x) or not _is_places(places, dimensions[0]):
        return None
    kind, (dimension,) = place_of(op.regions[0].blocks[0]), dimensions
    if is_bool(element_type(x)):
        kind = {"maximum": "or", "minimum": "and"}.get(kind, "")
    if not kind or splat(first) != 0 or not is_identity(kind, start):
        return None
    _, most = integer_bounds(places)
    if LONG <= sizes[dimension] == num_elements(x) and sizes[dimension] <= most:
        flat = rewriter.reshape(x, [sizes[dimension]])
        place = _place_in_pieces(rewriter, kind, flat, start, places.type.element_type)
        best, place = (rewriter.reshape(value, shape(op.results[0])) for value in place)
        return [best, place]
    best = reduce(rewriter, kind, x, start, [dimension])
    return [best, _least_place(rewriter, x, best, places, dimension)]


def _least_place(rewriter: Rewriter, x: ir.Value, best: ir.Value, places: ir.Value, dimension: int = 0) -> ir.Value:
    """The least place along a dimension where x is the best, or NaN."""
    sizes = shape(x)
    kept = [other for other in range(len(sizes)) if other != dimension]
    seen = rewriter.compare(x, rewriter.broadcast(best, sizes, kept), "EQ")
    if is_float_value(x):
        seen = rewriter.like("or", seen, rewriter.compare(x, x, "NE"))
    _, most = integer_bounds(places)
    place = rewriter.value("select", places.type, seen, places, rewriter.splat(most, places.type))
    return reduce(rewriter, "minimum", place, rewriter.splat(most, tensor([], places.type.element_type)), [dimension])


def _place_in_pieces(
    rewriter: Rewriter, kind: str, x: ir.Value, start: ir.Value, integer: ir.Type
) -> tuple[ir.Value, ir.Value]:
    """(the best, its least place) in a vector: the best of each piece, then the place in the first piece that has it.
    So the vector is read once. The last piece may overlap the one before, which then has what is in both."""
    (size,) = shape(x)
    width = _width_of_pieces(int(size))
    whole = size // width * width
    pieces = rewriter.reshape(rewriter.slice(x, [0], [whole], [1]), [whole // width, width])
    bests = reduce(rewriter, kind, pieces, start, [1])
    best = reduce(rewriter, kind, bests, start, [0])
    if whole < size:
        last = reduce(rewriter, kind, rewriter.slice(x, [size - width], [size], [1]), start, [0])
        best = rewriter.like(kind, best, last)
    number, scalar = _least_place(rewriter, bests, best, _places(rewriter, shape(bests), integer)), tensor([], integer)
    if whole < size:  # the last one, where none of them has it: to look for it in all would need these in one array
        number = rewriter.like("minimum", number, rewriter.splat(whole // width, scalar))
    at = rewriter.like("multiply", number, rewriter.splat(width, scalar))
    at = rewriter.like("minimum", at, rewriter.splat(size - width, scalar))
    piece = rewriter.made("dynamic_slice", x, at, sizes=[width])
    return best, rewriter.like("add", at, _least_place(rewriter, piece, best, _places(rewriter, [width], integer)))


def _width_of_pieces(size: int) -> int:
    """About as many elements as there will be pieces; such that none is left over, where whole vectors allow that."""
    about = 1 << size.bit_length() // 2
    divisors = [width for width in range(about // 2, 2 * about, 64) if size % width == 0]
    return min(divisors, key=lambda width: abs(width - about), default=about)


def _places(rewriter: Rewriter, sizes: Sequence[IntLike], integer: ir.Type) -> ir.Value:
    return rewriter.value("iota", tensor(sizes, integer), dimension=0)


def _is_places(value: ir.Value, dimension: int) -> bool:
    """Whether elements are their own indices along a dimension."""
    inner = operand_of(value, "hlo.broadcast")
    if inner is not None and i64s(value.owner, "dimensions") == (dimension,):
        value, dimension = inner, 0
    line = operand_of(value, "hlo.reshape")  # others have size 1
    if line is not None and shape(line) == (shape(value)[dimension],):
        value, dimension = line, 0
    return (
        is_integer_value(value)
        and not isinstance(value.owner, ir.Block)
        and (value.owner.name == "hlo.iota" and i64(value.owner, "dimension") == dimension)
    )
