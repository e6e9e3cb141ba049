"""Rules on chains of reshape, transpose, broadcast, iota and constants."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.index_map import is_degenerate, reshaped_roles
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import i64, i64s, num_elements, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet

VIEWS = RuleSet("views")


def reshaped_dimensions(
    mapped: Sequence[int], sizes: tuple[IntLike, ...], target: tuple[IntLike, ...]
) -> list[int] | None:
    """Result dimensions (of size > 1) that a reshape of a broadcast maps, when the reshape of `sizes` to `target`
    splits and merges only dimensions that are all mapped or all free; else None."""
    roles = reshaped_roles(target, sizes, [dimension in mapped for dimension in range(len(sizes))])
    return None if roles is None else [dimension for dimension, is_mapped in enumerate(roles) if is_mapped]


def reshaped_broadcast(
    rewriter: Rewriter, x: ir.Value, mapped: Sequence[int], sizes: tuple[IntLike, ...], target: tuple[IntLike, ...]
) -> ir.Value | None:
    """reshape(broadcast(x, sizes, mapped), target) as a broadcast of a reshape of x; None when there is no such
    form."""
    dimensions = reshaped_dimensions(mapped, sizes, target)
    if dimensions is None:
        return None
    operand = rewriter.reshape(x, [target[dimension] for dimension in dimensions]) if x.type.rank else x
    return rewriter.broadcast(operand, target, dimensions)


@VIEWS.rule("hlo.constant")
def constant_splat(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "constant of one repeated element -> broadcast(scalar constant)"
    type_ = op.result.type
    attribute = op.attributes["value"]
    if not type_.rank or not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        return None
    if isinstance(type_.element_type, ir.ComplexType) or num_elements(type_) == 0:
        return None
    scalar_type = tensor([], type_.element_type)
    scalar = ir.DenseElementsAttr.get_splat(scalar_type, attribute.get_splat_value())
    return rewriter.broadcast(rewriter.value("constant", scalar_type, value=scalar), shape(type_), [])


@VIEWS.rule("hlo.iota")
def iota_line(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "iota of several dimensions -> broadcast(iota of one)"
    sizes, dimension = shape(op.result), i64(op, "dimension")
    if len(sizes) == 1:
        return rewriter.splat(0, op.result.type) if sizes == (1,) else None
    line = tensor([sizes[dimension]], op.result.type.element_type)
    return rewriter.broadcast(rewriter.value("iota", line, dimension=0), sizes, [dimension])


# --- reshape ---------------------------------------------------------------------------------------------------------


@VIEWS.rule("hlo.reshape")
def reshape_same(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reshape(x) to x's shape -> x, reshape(scalar) -> broadcast(scalar)"
    x = op.operands[0]
    before, after = x.type, op.result.type
    if before == after:
        return x
    return None if before.rank else rewriter.broadcast(x, shape(after), [])


@VIEWS.pair("hlo.reshape", "hlo.reshape")
def reshape_twice(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reshape(reshape(x)) -> reshape(x)"
    return rewriter.reshape(inner.operands[0], shape(op.result))


@VIEWS.pair("hlo.reshape", "hlo.broadcast", where="no group of dimensions is mapped in part")
def reshape_broadcast(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reshape(broadcast(x)) -> broadcast(reshape(x))"
    return reshaped_broadcast(
        rewriter, inner.operands[0], i64s(inner, "dimensions"), shape(inner.result), shape(op.result)
    )


# --- transpose -------------------------------------------------------------------------------------------------------


@VIEWS.rule("hlo.transpose")
def transpose_to_reshape(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "transpose(x) that only moves dimensions of size 1 -> reshape(x); the identity -> x"
    x = op.operands[0]
    sizes = shape(x)
    moved = [dimension for dimension in i64s(op, "permutation") if sizes[dimension] != 1]
    return rewriter.reshape(x, shape(op.result)) if moved == sorted(moved) else None


@VIEWS.pair("hlo.transpose", "hlo.transpose")
def transpose_twice(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "transpose(transpose(x)) -> transpose(x)"
    first = i64s(inner, "permutation")
    return rewriter.transpose(inner.operands[0], [first[dimension] for dimension in i64s(op, "permutation")])


@VIEWS.pair("hlo.transpose", "hlo.broadcast")
def transpose_broadcast(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "transpose(broadcast(x)) -> broadcast(transpose(x))"
    permutation, mapped = i64s(op, "permutation"), i64s(inner, "dimensions")
    places = [permutation.index(dimension) for dimension in mapped]
    order = sorted(range(len(places)), key=places.__getitem__)
    return rewriter.broadcast(rewriter.transpose(inner.operands[0], order), shape(op.result), sorted(places))


@VIEWS.pair("hlo.transpose", "hlo.reshape", where="the reshape only adds or drops dimensions of size 1")
def transpose_reshape(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "transpose(reshape(x)) -> reshape(transpose(x))"
    x, middle = inner.operands[0], shape(inner.result)
    sizes = shape(x)
    if not is_degenerate(sizes, middle):
        return None
    rank_among_long = {dimension: k for k, dimension in enumerate(d for d, size in enumerate(middle) if size != 1)}
    own = [dimension for dimension, size in enumerate(sizes) if size != 1]
    order = [own[rank_among_long[dimension]] for dimension in i64s(op, "permutation") if dimension in rank_among_long]
    ones = [dimension for dimension, size in enumerate(sizes) if size == 1]
    return rewriter.reshape(rewriter.transpose(x, [*ones, *order]), shape(op.result))


# --- broadcast -------------------------------------------------------------------------------------------------------


@VIEWS.rule("hlo.broadcast")
def broadcast_to_reshape(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "broadcast(x) that repeats nothing -> reshape(x), or x"
    x = op.operands[0]
    before, after = x.type, op.result.type
    if before == after:
        return x
    if not before.rank or num_elements(before) != num_elements(after) or num_elements(before) == 0:
        return None
    return rewriter.reshape(x, shape(after))


@VIEWS.pair("hlo.broadcast", "hlo.broadcast")
def broadcast_twice(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "broadcast(broadcast(x)) -> broadcast(x)"
    outer = i64s(op, "dimensions")
    return rewriter.broadcast(inner.operands[0], shape(op.result), [outer[d] for d in i64s(inner, "dimensions")])


@VIEWS.pair("hlo.broadcast", "hlo.reshape", where="the reshape only added dimensions of size 1")
def broadcast_reshape(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "broadcast(reshape(x)) -> broadcast(x)"
    x, middle = inner.operands[0], shape(inner.result)
    if 1 in shape(x) or not is_degenerate(shape(x), middle):
        return None
    kept = [target for target, size in zip(i64s(op, "dimensions"), middle, strict=True) if size != 1]
    return rewriter.broadcast(x, shape(op.result), kept)
