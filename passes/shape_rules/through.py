"""Rules that move broadcasts, reshapes and transposes down through the ops that follow them.

Direction: towards the results. Work is done on the smallest shape, and nothing splits a chain of elementwise ops: at
the end a reshape stands before a result, a contraction or whatever else needs the shape, where it is a view.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from stablehlo_py.dialect.build import AttributeValue, tensor
from stablehlo_py.dialect.index_map import reshaped_roles
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.size import IntLike
from stablehlo_py.dialect.types import i64s, num_elements, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import ELEMENTWISE_OPS, defining, is_scalar_broadcast, only_user
from stablehlo_py.passes.shape_rules.groups import reshaped_broadcast, reshaped_dimensions
from stablehlo_py.passes.simplify_rules.reduce import reduce
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet

THROUGH = RuleSet("through")

_ELEMENTWISE = tuple(sorted(ELEMENTWISE_OPS))
# What a fusion can compute in place; anything else is in memory, where a reshape is free.
_FUSIBLE = ELEMENTWISE_OPS | {
    f"hlo.{name}" for name in "broadcast gather iota pad reduce reverse slice transpose dynamic_slice".split()
}


def made_again(
    rewriter: Rewriter,
    op: ir.Operation,
    operands: Sequence[ir.Value],
    result: ir.Type,
    attributes: Mapping[str, AttributeValue] | None = None,
) -> ir.Value:
    """The op on other operands, with another type of its result; `attributes` are those that differ."""
    record = record_of(op.name)
    assert record is not None
    kept = {name: op.attributes[name] for name in (*record.attributes, *record.options) if name in op.attributes}
    return rewriter.create(op.name, [result], list(operands), kept | dict(attributes or {})).result


def elementwise_like(rewriter: Rewriter, op: ir.Operation, operands: Sequence[ir.Value]) -> ir.Value:
    """The elementwise op on other operands, in their shape."""
    return made_again(rewriter, op, operands, tensor(shape(operands[0]), op.result.type.element_type))


def _producers(op: ir.Operation) -> list[ir.Operation | None]:
    return [defining(operand) for operand in op.operands]


@THROUGH.rule(*_ELEMENTWISE, needs="hlo.broadcast", where="together they map to fewer elements")
def elementwise_broadcasts(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "f(broadcast(x), broadcast(y)) -> broadcast(f(x, y))"
    mapped: list[tuple[int, ...]] = []
    inner: list[ir.Operation] = []
    for producer in _producers(op):
        if producer is None or producer.name != "hlo.broadcast":
            return None
        inner.append(producer)
        mapped.append(i64s(producer, "dimensions"))
    sizes = shape(op.result)
    union = sorted({dimension for dimensions in mapped for dimension in dimensions})
    smaller = [sizes[dimension] for dimension in union]
    if math.prod(smaller) >= num_elements(op.result):
        return None
    operands = [
        rewriter.broadcast(each.operands[0], smaller, [union.index(dimension) for dimension in dimensions])
        for each, dimensions in zip(inner, mapped, strict=True)
    ]
    return rewriter.broadcast(elementwise_like(rewriter, op, operands), sizes, union)


@THROUGH.rule(*_ELEMENTWISE, needs="hlo.reshape", where="other operands take the inverse reshape at no cost")
def elementwise_reshapes(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "f(reshape(x), reshape(y)) -> reshape(f(x, y))"
    producers = _producers(op)
    sources = [each.operands[0] for each in producers if each is not None and each.name == "hlo.reshape"]
    if not sources:
        return None
    sizes = shape(sources[0])
    if any(shape(source) != sizes for source in sources[1:]):
        return None
    all_fusible = all((made := defining(source)) is not None and made.name in _FUSIBLE for source in sources)
    for operand, made in zip(op.operands, producers, strict=True):
        if not _takes_inverse(operand, made, sizes, all_fusible):
            return None
    operands = [_inverse(rewriter, operand, made, sizes) for operand, made in zip(op.operands, producers, strict=True)]
    return rewriter.reshape(elementwise_like(rewriter, op, operands), shape(op.result))


def _takes_inverse(
    operand: ir.Value, producer: ir.Operation | None, sizes: tuple[IntLike, ...], others_fusible: bool
) -> bool:
    """True for such a reshape, for a broadcast that has the other shape too, and for what lies in memory (if the others
    do not)."""
    if producer is not None and producer.name == "hlo.reshape":
        return True
    if producer is not None and producer.name == "hlo.broadcast":
        return reshaped_dimensions(i64s(producer, "dimensions"), shape(operand), sizes) is not None
    return others_fusible and (producer is None or producer.name not in _FUSIBLE)


def _inverse(
    rewriter: Rewriter, operand: ir.Value, producer: ir.Operation | None, sizes: tuple[IntLike, ...]
) -> ir.Value:
    if producer is not None and producer.name == "hlo.reshape":
        return producer.operands[0]
    if producer is not None and producer.name == "hlo.broadcast":
        found = reshaped_broadcast(rewriter, producer.operands[0], i64s(producer, "dimensions"), shape(operand), sizes)
        assert found is not None
        return found
    return rewriter.reshape(operand, sizes)


@THROUGH.rule(
    *_ELEMENTWISE,
    needs="hlo.transpose",
    where="all transposed alike (or splats); a single one only where a transpose follows",
)
def elementwise_transposes(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "f(transpose(x), transpose(y)) -> transpose(f(x, y))"
    permutation: tuple[int, ...] | None = None
    count, producers = 0, _producers(op)
    for operand, made in zip(op.operands, producers, strict=True):
        if made is not None and made.name == "hlo.transpose":
            own = i64s(made, "permutation")
            if permutation is not None and own != permutation:
                return None
            permutation, count = own, count + 1
        elif not is_scalar_broadcast(operand):
            return None
    if permutation is None:
        return None
    if count == 1 and ((user := only_user(op.result)) is None or user.name != "hlo.transpose"):
        return None
    transposed = [made for made in producers if made is not None and made.name == "hlo.transpose"]
    sizes = shape(transposed[0].operands[0])
    operands = [
        made.operands[0] if made.name == "hlo.transpose" else rewriter.broadcast(made.operands[0], sizes, [])
        for made in producers
        if made is not None
    ]
    return rewriter.transpose(elementwise_like(rewriter, op, operands), permutation)


@THROUGH.rule("hlo.reduce", needs="hlo.reshape", where="no group of dimensions is reduced in part")
def reduce_reshape(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce(reshape(x)) -> reshape(reduce(x))"
    middle, init = op.operands
    inner = defining(middle, "hlo.reshape")
    if inner is None:
        return None
    x, dimensions = inner.operands[0], i64s(op, "dimensions")
    roles = reshaped_roles(shape(x), shape(middle), [each in dimensions for each in range(len(shape(middle)))])
    reduced = [dimension for dimension, is_reduced in enumerate(roles or ()) if is_reduced]
    if not reduced:
        return None
    return rewriter.reshape(reduce(rewriter, text(op, "kind"), x, init, reduced), shape(op.result))
