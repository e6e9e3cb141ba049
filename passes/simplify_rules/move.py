"""Rules on concatenate, pad, reverse and slices of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import i64, i64s, num_elements, shape, symints
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import has_one_use, is_scalar_broadcast, operand_of, same_scalar, splat_is
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet, defining

MOVE = RuleSet("move")
_CONCATENATE = "stablehlo.concatenate"


@MOVE.rule(_CONCATENATE)
def concatenate_one(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "concatenate(x) -> x, and operands without elements are dropped"
    operands, dimension = list(op.operands), i64(op, "dimension")
    if len(operands) == 1:
        return operands[0]
    kept = [operand for operand in operands if shape(operand)[dimension]]
    if len(kept) == len(operands):
        return None
    return rewriter.concatenate(kept or operands[:1], dimension)


@MOVE.rule(_CONCATENATE, needs=_CONCATENATE, where="the inner one has no other use")
def concatenate_nested(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "concatenate(concatenate(x, y), z) -> concatenate(x, y, z)"
    dimension = i64(op, "dimension")
    flat: list[ir.Value] = []
    for operand in op.operands:
        inner = defining(operand, _CONCATENATE)
        if inner is not None and i64(inner, "dimension") == dimension and has_one_use(operand):
            flat += list(inner.operands)
        else:
            flat.append(operand)
    return rewriter.concatenate(flat, dimension) if len(flat) > len(op.operands) else None


@MOVE.rule(
    _CONCATENATE, needs="hlo.slice", where="slices of one value that touch, with strides of 1 along the dimension"
)
def concatenate_adjacent_slices(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "concatenate(x[a:b], x[b:c]) -> x[a:c]"
    dimension = i64(op, "dimension")
    merged: list[ir.Value] = []
    for operand in op.operands:
        joined = _join(rewriter, merged[-1], operand, dimension) if merged else None
        if joined is None:
            merged.append(operand)
        else:
            merged[-1] = joined
    return rewriter.concatenate(merged, dimension) if len(merged) < len(op.operands) else None


def _join(rewriter: Rewriter, first: ir.Value, second: ir.Value, dimension: int) -> ir.Value | None:
    one, two = defining(first, "hlo.slice"), defining(second, "hlo.slice")
    if one is None or two is None or one.operands[0] != two.operands[0]:
        return None
    (start, limit, strides), (begin, end, steps) = (
        [list(symints(each, name)) for name in ("start", "limit", "strides")] for each in (one, two)
    )
    if limit[dimension] != begin[dimension] or strides != steps or strides[dimension] != 1:
        return None
    others = [i for i in range(len(start)) if i != dimension]
    if any(start[i] != begin[i] or limit[i] != end[i] for i in others):
        return None
    limit[dimension] = end[dimension]
    return rewriter.slice(one.operands[0], start, limit, strides)


@MOVE.rule(_CONCATENATE, needs="hlo.broadcast", where="all splats of one scalar")
def concatenate_splats(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "concatenate(broadcast(c), broadcast(c)) -> broadcast(c)"
    if not all(map(is_scalar_broadcast, op.operands)):
        return None
    first, *others = (operand.owner.operands[0] for operand in op.operands)
    same = all(same_scalar(first, other) for other in others)
    return rewriter.broadcast(first, shape(op.result), []) if same else None


@MOVE.pair("hlo.slice", _CONCATENATE)
def slice_of_concatenate(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "concatenate(x, y)[a:b] -> x[a:b], or a concatenate of fewer operands"
    dimension = i64(inner, "dimension")
    start, limit, strides = (list(symints(op, name)) for name in ("start", "limit", "strides"))
    operands = list(inner.operands)
    offset: IntLike = 0
    first: IntLike = 0
    kept: list[ir.Value] = []
    for operand in operands:
        size = shape(operand)[dimension]
        if offset < limit[dimension] and offset + size > start[dimension]:
            first = first if kept else offset
            kept.append(operand)
        offset += size
    if not kept or len(kept) == len(operands):
        return None
    start[dimension] -= first
    limit[dimension] -= first
    return rewriter.slice(rewriter.concatenate(kept, dimension), start, limit, strides)


@MOVE.pair("hlo.slice", "hlo.pad", where="nothing of the padding is kept")
def slice_of_pad(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "pad(x)[inside] -> x[...]"
    if any(symints(inner, "interior")) or num_elements(op.result) == 0:
        return None
    low, sizes = symints(inner, "low"), shape(inner.operands[0])
    start = [a - b for a, b in zip(symints(op, "start"), low, strict=True)]
    limit = [a - b for a, b in zip(symints(op, "limit"), low, strict=True)]
    if any(a < 0 for a in start) or any(b > size for b, size in zip(limit, sizes, strict=True)):
        return None
    return rewriter.slice(inner.operands[0], start, limit, list(symints(op, "strides")))


@MOVE.rule("hlo.pad")
def pad_nothing(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "pad(x) by nothing -> x, pad(x without elements) -> broadcast(c)"
    x, c = op.operands
    if num_elements(x) == 0:
        return rewriter.broadcast(c, shape(op.result), [])
    interior = any(inner for inner, size in zip(symints(op, "interior"), shape(x), strict=True) if size > 1)
    return None if interior or any(symints(op, "low")) or any(symints(op, "high")) else x


@MOVE.rule("hlo.pad", where="no interior padding")
def pad_negative(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "pad(x) by negative amounts -> pad(x[...])"
    x, c = op.operands
    low, high = symints(op, "low"), symints(op, "high")
    if any(symints(op, "interior")) or min((*low, *high), default=0) >= 0:
        return None
    sizes = shape(x)
    start = [max(-a, 0) for a in low]
    limit = [size - max(-b, 0) for size, b in zip(sizes, high, strict=True)]
    if any(a > b for a, b in zip(start, limit, strict=True)):
        return None
    cropped = rewriter.slice(x, start, limit, [1] * len(sizes))
    before, after = [max(a, 0) for a in low], [max(b, 0) for b in high]
    if not any((*before, *after)):
        return cropped
    return rewriter.value("pad", op.result.type, cropped, c, low=before, high=after, interior=[0] * len(sizes))


@MOVE.pair("hlo.pad", "hlo.broadcast", where="the same splat")
def pad_splat(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "pad(broadcast(c), c) -> broadcast(c)"
    c = op.operands[1]
    return rewriter.broadcast(c, shape(op.result), []) if same_scalar(inner.operands[0], c) else None


@MOVE.rule("hlo.add", "hlo.or", needs="hlo.pad", where="each has its elements where the other is padded with zero")
def interleaved(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "pad(x) + pad(y) -> reshape(concatenate(x + 0, y + 0)), whose elements alternate"
    pads = [defining(operand, "hlo.pad") for operand in op.operands]
    if len(found := [pad for pad in pads if pad is not None and splat_is(pad.operands[1], 0)]) < 2:
        return None
    steps = list(symints(found[0], "interior"))
    if sorted(steps) != [0] * (len(steps) - 1) + [1]:
        return None
    at, none = steps.index(1), [0] * len(steps)
    early, late = [none, steps, steps], [steps, none, steps]  # low, high and interior padding
    edges = [[list(symints(pad, name)) for name in ("low", "high", "interior")] for pad in found]
    if edges not in ([early, late], [late, early]):
        return None
    found, parts = found if edges[0] == early else found[::-1], []
    for pad, other in zip(found, found[::-1], strict=True):
        x, zero = pad.operands[0], other.operands[1]
        sizes = shape(x)
        same = rewriter.like(op.name.removeprefix("hlo."), x, rewriter.broadcast(zero, sizes, []))  # -0 + 0 is +0
        parts.append(rewriter.reshape(same, [*sizes[: at + 1], 1, *sizes[at + 1 :]]))
    return rewriter.reshape(rewriter.concatenate(parts, at + 1), shape(op.result))


@MOVE.rule("hlo.add", "hlo.or", needs="hlo.pad", where="in zeros, beside each other along one dimension")
def side_by_side(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "pad(x) + pad(y) -> pad(concatenate(x + 0, y + 0))"
    # Gradients of slices are such sums: of columns, of halves, of all that was unstacked.
    one, other = (_Island.of(operand) for operand in op.operands)
    if one is None or other is None or not same_scalar(one.zero, other.zero):
        return None
    differing = [dimension for dimension in range(len(one.low)) if one.edges(dimension) != other.edges(dimension)]
    if len(differing) != 1:
        return None
    at, zero, sizes, combine = differing[0], one.zero, list(shape(one.inner)), op.name.removeprefix("hlo.")
    pieces = sorted([*one.pieces(at), *other.pieces(at)], key=lambda piece: piece[0])
    parts: list[ir.Value] = []
    end = first = pieces[0][0] if pieces else 0
    for start, piece in pieces:
        if start < end:
            return None
        sizes[at] = start - end
        parts += [rewriter.broadcast(zero, sizes, [])] if start > end else []
        parts.append(_add_zero(combine, piece, zero, rewriter))
        end = start + shape(piece)[at]
    if not parts:
        return None
    joined, low, high = rewriter.concatenate(parts, at), list(one.low), list(one.high)
    low[at], high[at] = first, shape(op.result)[at] - end
    if not any((*low, *high)):
        return joined
    return rewriter.value("pad", op.result.type, joined, zero, low=low, high=high, interior=[0] * len(low))


def _add_zero(combine: str, x: ir.Value, zero: ir.Value, rewriter: Rewriter) -> ir.Value:
    """x + 0, since -0 + 0 is +0; `x`, if that is what it is."""
    made = defining(operand_of(x, "hlo.reshape") or x, f"hlo.{combine}")
    if made is not None and _is_splat_of(made.operands[1], zero):
        return x
    return rewriter.like(combine, x, rewriter.broadcast(zero, shape(x), []))


@dataclass(frozen=True)
class _Island:
    """What lies in zeros: what is padded, or the pieces of a concatenation."""

    inner: ir.Value
    zero: ir.Value
    low: tuple[IntLike, ...]
    high: tuple[IntLike, ...]

    @staticmethod
    def of(value: ir.Value) -> _Island | None:
        """The one that is `value`, if all sizes are known."""
        if (pad := defining(value, "hlo.pad")) is not None:
            inner, zero = pad.operands
            low, high, interior = (symints(pad, name) for name in ("low", "high", "interior"))
        elif (joined := defining(value, _CONCATENATE)) is not None:
            zeros = [operand.owner.operands[0] for operand in joined.operands if is_scalar_broadcast(operand)]
            zeros = [each for each in zeros if splat_is(each, 0)]
            inner, zero = value, zeros[0] if zeros else None
            low = high = interior = (0,) * value.type.rank
        else:
            return None
        edges = (*low, *high, *shape(inner))
        is_known = zero is not None and not any(interior) and all(isinstance(edge, int) and edge >= 0 for edge in edges)
        return _Island(inner, zero, low, high) if is_known and splat_is(zero, 0) else None

    def edges(self, dimension: int) -> tuple[IntLike, IntLike]:
        return self.low[dimension], self.high[dimension]

    def pieces(self, dimension: int) -> Iterator[tuple[IntLike, ir.Value]]:
        """What is not zeros, and where along that dimension it starts."""
        joined = defining(self.inner, _CONCATENATE)
        start, pieces = self.low[dimension], [self.inner]
        if joined is not None and i64(joined, "dimension") == dimension:
            pieces = list(joined.operands)
        for piece in pieces:
            if not _is_splat_of(piece, self.zero):
                yield start, piece
            start += shape(piece)[dimension]


def _is_splat_of(value: ir.Value, scalar: ir.Value) -> bool:
    return is_scalar_broadcast(value) and same_scalar(value.owner.operands[0], scalar)


@MOVE.pair("hlo.reverse", "hlo.reverse")
def reverse_twice(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reverse(reverse(x)) -> x, over each dimension that both reverse"
    dimensions = sorted(set(i64s(op, "dimensions")) ^ set(i64s(inner, "dimensions")))
    source = inner.operands[0]
    return rewriter.like("reverse", source, dimensions=dimensions) if dimensions else source


@MOVE.rule("hlo.reverse", where="dimensions of size 1, and splats, read the same backwards")
def reverse_nothing(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reverse(x) over dimensions along which x does not change -> x"
    x, dimensions = op.operands[0], i64s(op, "dimensions")
    inner = defining(x, "hlo.broadcast")
    mapped = range(x.type.rank) if inner is None else i64s(inner, "dimensions")
    needed = [dimension for dimension in dimensions if shape(x)[dimension] > 1 and dimension in mapped]
    if len(needed) == len(dimensions):
        return None
    return rewriter.like("reverse", x, dimensions=needed) if needed else x
