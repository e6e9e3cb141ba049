"""Rules that move slices towards what they slice, so that nobody computes what nobody reads."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect.index_map import long, reshape_groups
from stablehlo_py.dialect.types import i64s, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import ELEMENTWISE_OPS, defining, has_one_use
from stablehlo_py.passes.shape_rules.through import elementwise_like
from stablehlo_py.passes.simplify_rules.move import slice_of
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet

SLICES = RuleSet("slices")


def _edges(op: ir.Operation) -> list[tuple[int, int, int]]:
    return list(zip(i64s(op, "start"), i64s(op, "limit"), i64s(op, "strides"), strict=True))


def slice_edges(rewriter: Rewriter, x: ir.Value, edges: Sequence[tuple[int, int, int]]) -> ir.Value:
    """`hlo.slice` by one (start, limit, stride) per dimension."""
    start, limit, strides = ([edge[k] for edge in edges] for k in range(3))
    return slice_of(rewriter, x, start, limit, strides)


@SLICES.rule("hlo.slice")
def slice_everything(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x[:] -> x"
    x = op.operands[0]
    return x if x.type == op.result.type else None


@SLICES.rule("hlo.slice", needs="hlo.slice")
def slice_twice(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x[a:b:s][c:d:t] -> x[a + c s : ... : s t]"
    inner = defining(op.operands[0], "hlo.slice")
    if inner is None or 0 in shape(op.result):
        return None
    edges = [
        (a + c * s, a + (d - 1) * s + 1, s * t) for (a, _, s), (c, d, t) in zip(_edges(inner), _edges(op), strict=True)
    ]
    return slice_edges(rewriter, inner.operands[0], edges)


@SLICES.rule("hlo.slice", needs="hlo.broadcast")
def slice_broadcast(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "broadcast(x)[...] -> broadcast(x[...])"
    inner = defining(op.operands[0], "hlo.broadcast")
    if inner is None:
        return None
    mapped, edges = i64s(inner, "dimensions"), _edges(op)
    operand = slice_edges(rewriter, inner.operands[0], [edges[dimension] for dimension in mapped])
    return rewriter.broadcast(operand, shape(op.result), mapped)


@SLICES.rule("hlo.slice", needs="hlo.transpose", where="one use")
def slice_transpose(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "transpose(x)[...] -> transpose(x[...])"
    x = op.operands[0]
    inner = defining(x, "hlo.transpose")
    if inner is None or not has_one_use(x):
        return None
    permutation, edges = i64s(inner, "permutation"), _edges(op)
    own = [edges[permutation.index(dimension)] for dimension in range(len(permutation))]
    return rewriter.transpose(slice_edges(rewriter, inner.operands[0], own), permutation)


@SLICES.rule("hlo.slice", needs="hlo.reshape", where="sliced dimensions are not split or merged")
def slice_reshape(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reshape(x)[...] -> reshape(x[...])"
    middle = op.operands[0]
    inner = defining(middle, "hlo.reshape")
    if inner is None:
        return None
    x = inner.operands[0]
    groups = reshape_groups(shape(x), shape(middle))
    if groups is None or 0 in shape(op.result):
        return None
    edges, own = _edges(op), [(0, size, 1) for size in shape(x)]
    for source, target in groups:
        one, two = long(source, shape(x)), long(target, shape(middle))
        if all(edges[dimension] == (0, shape(middle)[dimension], 1) for dimension in two):
            continue
        if len(one) != 1 or len(two) != 1:
            return None
        own[one[0]] = edges[two[0]]
    return rewriter.reshape(slice_edges(rewriter, x, own), shape(op.result))


@SLICES.rule("hlo.slice", needs=ELEMENTWISE_OPS, where="one use")
def slice_elementwise(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "f(x, y)[...] -> f(x[...], y[...])"
    x = op.operands[0]
    inner = defining(x)
    if inner is None or inner.name not in ELEMENTWISE_OPS or not has_one_use(x):
        return None
    edges = _edges(op)
    operands = [slice_edges(rewriter, operand, edges) for operand in inner.operands]
    return elementwise_like(rewriter, inner, operands)


@SLICES.rule("hlo.slice", needs="hlo.reduce", where="one use")
def slice_reduce(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce(x)[...] -> reduce(x[...])"
    x = op.operands[0]
    inner = defining(x, "hlo.reduce")
    if inner is None or not has_one_use(x):
        return None
    source, init = inner.operands
    dimensions, edges = i64s(inner, "dimensions"), iter(_edges(op))
    own = [(0, size, 1) if dimension in dimensions else next(edges) for dimension, size in enumerate(shape(source))]
    operand = slice_edges(rewriter, source, own)
    return rewriter.value("reduce", op.result.type, operand, init, kind=text(inner, "kind"), dimensions=dimensions)
