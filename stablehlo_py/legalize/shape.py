"""Constants, iota, broadcasts and ops that move elements to static places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import SHARDING
from stablehlo_py.dialect.constants import constant_value, numpy_dtype
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import element_type, i64s, num_elements, rank, shape, symints
from stablehlo_py.legalize.rules import Unsupported, as_dimension, dimension_of, rule
from stablehlo_py.mlir import ir


@rule("stablehlo.constant")
def constant(op: ir.OpView) -> ir.Value:
    """A splat becomes a scalar constant and its broadcast; complex values become interleaved parts."""
    type_ = op.results[0].type
    element = type_.element_type
    if isinstance(element, ir.ComplexType):
        value = constant_value(op)
        if value.size > 1 and not any(value.strides):
            return build.broadcast(build.constant(value[(0,) * value.ndim], element), value.shape, [])
        return build.constant(value, element)
    attribute = op.attributes["value"]
    if attribute.type != type_:  # a quantized constant stores other elements than its type says
        raise Unsupported(f"has the quantized type {type_}", "run the pass legalize-quantized first")
    if type_.rank and isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat and num_elements(type_) > 0:
        value = constant_value(op)
        return build.broadcast(build.constant(value[(0,) * value.ndim], element), value.shape, [])
    return build.value("constant", type_, value=attribute)


@rule("stablehlo.iota")
def iota(op: ir.OpView) -> ir.Value:
    """`iota_dimension` becomes `dimension`."""
    type_ = op.results[0].type
    return build.value("iota", type_, dimension=dimension_of(op, "iota_dimension", type_.rank))


def broadcast_in_dim(operand: ir.Value, sizes: tuple[IntLike, ...], dimensions: tuple[int, ...]) -> ir.Value:
    """StableHLO's broadcast_in_dim in normal form: a transpose where the mapped dimensions do not increase, a reshape
    that takes away the dimensions of size 1 that expand, an `hlo.broadcast`; each only where needed. Raises Unsupported
    where the shapes do not fit, which upstream's verifiers of CHLO ops and dynamic ops do not look at."""
    if len(dimensions) != rank(operand) or len(set(dimensions)) != len(dimensions):
        raise Unsupported(f"broadcasts {rank(operand)} dimensions along {list(dimensions)}", "name one for each, once")
    for size, dimension in zip(shape(operand), dimensions, strict=True):
        if size not in (1, sizes[as_dimension(dimension, "broadcast_dimensions", len(sizes))]):
            raise Unsupported(
                f"broadcasts a dimension of size {size} to one of size {sizes[dimension]}", "use equal sizes, or size 1"
            )
    if not dimensions:
        return build.broadcast(operand, sizes, [])
    order = sorted(range(len(dimensions)), key=lambda i: dimensions[i])
    operand = build.transpose(operand, order)
    dimensions = tuple(dimensions[i] for i in order)
    source = shape(operand)
    kept = [i for i, dimension in enumerate(dimensions) if source[i] == sizes[dimension]]
    operand = reshaped(operand, [source[i] for i in kept])
    return build.broadcast(operand, sizes, [dimensions[i] for i in kept])


def reshaped(operand: ir.Value, sizes: Sequence[IntLike]) -> ir.Value:
    """A reshape of the operand, or of what it is a reshape of, unless that says how it is sharded."""
    owner = operand.owner
    if shape(operand) == tuple(sizes):
        return operand
    if not isinstance(owner, ir.Block) and owner.name == "hlo.reshape" and SHARDING not in owner.attributes:
        operand = owner.operands[0]
    return build.reshape(operand, sizes)


@rule("stablehlo.broadcast_in_dim")
def broadcast_in_dim_op(op: ir.OpView) -> ir.Value:
    """See `broadcast_in_dim`."""
    return broadcast_in_dim(op.operands[0], shape(op.results[0]), i64s(op, "broadcast_dimensions"))


@rule("stablehlo.broadcast")
def broadcast(op: ir.OpView) -> ir.Value:
    """The old broadcast, which adds leading dimensions."""
    new = len(symints(op, "broadcast_sizes"))
    return build.broadcast(op.operands[0], shape(op.results[0]), range(new, new + rank(op.operands[0])))


@rule("stablehlo.reshape")
def reshape(op: ir.OpView) -> ir.Value:
    """Nothing where the shape stays."""
    return reshaped(op.operands[0], shape(op.results[0]))


@rule("stablehlo.transpose")
def transpose(op: ir.OpView) -> ir.Value:
    """Nothing for the identity."""
    return build.transpose(op.operands[0], i64s(op, "permutation"))


@rule("stablehlo.reverse")
def reverse(op: ir.OpView) -> ir.Value:
    """Nothing where no dimension is reversed."""
    if not i64s(op, "dimensions"):
        return op.operands[0]
    return build.like("reverse", op.operands[0], dimensions=op.attributes["dimensions"])


@rule("stablehlo.concatenate")
def concatenate(op: ir.OpView) -> ir.Value | None:
    """Kept; of one operand it is the operand."""
    return op.operands[0] if len(op.operands) == 1 else None


@rule("stablehlo.get_dimension_size")
def get_dimension_size(op: ir.OpView) -> ir.Value:
    """Shapes are static: a constant."""
    element = element_type(op.results[0])
    sizes = shape(op.operands[0])
    size, dtype = sizes[dimension_of(op, "dimension", len(sizes))], numpy_dtype(element)
    if size > np.iinfo(dtype).max:
        raise Unsupported(f"gives the size {size} as {element}", "use smaller shapes")
    return build.constant(np.array(size, dtype), element)
