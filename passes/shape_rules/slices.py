"""Rules that move slices towards what they slice, so that nobody computes what nobody reads."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect.ops import Work, records
from stablehlo_py.dialect.ops.factors import Kind, factors_of
from stablehlo_py.dialect.ops.indexing import slice_size
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import num_elements, shape, symints
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import ELEMENTWISE_OPS, has_one_use
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet, defining

SLICES = RuleSet("slices")
Edge = tuple[IntLike, IntLike, IntLike]  # start, limit, stride

_FREE = ("hlo.broadcast", "hlo.reshape")
# What does not fuse with its operands: slices of them may have to be copied before.
_WHOLE = frozenset(record.name for record in records() if record.work is Work.WHOLE and record.operation is not None)
_FROM_MEMORY = _WHOLE - {"hlo.reduce"}
_SLICED = frozenset({*_FREE, *_FROM_MEMORY, *ELEMENTWISE_OPS, "hlo.bitcast_convert", "hlo.reduce", "hlo.transpose"})


def _edges(op: ir.Operation) -> list[tuple[IntLike, IntLike, IntLike]]:
    return list(zip(symints(op, "start"), symints(op, "limit"), symints(op, "strides"), strict=True))


def slice_edges(rewriter: Rewriter, x: ir.Value, edges: Sequence[Edge]) -> ir.Value:
    """`hlo.slice` by one (start, limit, stride) per dimension."""
    start, limit, strides = ([edge[k] for edge in edges] for k in range(3))
    return rewriter.slice(x, start, limit, strides)


@SLICES.rule("hlo.slice")
def slice_everything(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x[:] -> x"
    x = op.operands[0]
    return x if x.type == op.result.type else None


@SLICES.pair("hlo.slice", "hlo.slice")
def slice_twice(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x[a:b:s][c:d:t] -> x[a + c s : ... : s t]"
    if 0 in shape(op.result):
        return None
    edges = [
        (a + c * s, a + (d - 1) * s + 1, s * t) for (a, _, s), (c, d, t) in zip(_edges(inner), _edges(op), strict=True)
    ]
    return slice_edges(rewriter, inner.operands[0], edges)


@SLICES.rule(
    "hlo.slice",
    needs=_SLICED,
    where="along factors that are parallel, each alone in its dimensions; one use, unless the op costs nothing; of a "
    "product at most three quarters are kept",
)
def slice_operands(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "f(x, y)[...] -> f(x[...], y[...])"
    x, sizes = op.operands[0], shape(op.result)
    inner = defining(x)
    if inner is None or inner.name not in _SLICED or len(inner.results) > 1 or 0 in sizes:
        return None
    if inner.name not in _FREE and not has_one_use(x):
        return None
    if inner.name in _FROM_MEMORY and 4 * num_elements(op.result) > 3 * num_elements(x):
        return None
    factors = factors_of(inner)
    assert factors is not None
    edges: dict[int, Edge] = {}
    for dimension, edge, size, whole in zip(factors.results[0], _edges(op), sizes, shape(x), strict=True):
        if size != whole:
            number = factors.single(dimension)
            if number is None or factors.factors[number].kind is not Kind.PARALLEL:
                return None
            edges[number] = edge
    own: list[list[Edge]] = []
    for operand, dimensions in zip(inner.operands, factors.operands, strict=True):
        own.append([(0, size, 1) for size in shape(operand)])
        for place, dimension in enumerate(dimensions):
            if not edges.keys().isdisjoint(dimension):
                number = factors.single(dimension)
                if number is None:
                    return None
                own[-1][place] = edges[number]
    operands = [slice_edges(rewriter, *each) for each in zip(inner.operands, own, strict=True)]
    part = factors.with_sizes({number: slice_size(*edge) for number, edge in edges.items()})
    return rewriter.again(inner, operands, op.result.type, part.attributes_of(inner))
