"""Matrix products and convolutions. Precision and algorithm attributes ask for at least some accuracy: every kernel
gives the most."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build, infer
from stablehlo_py.dialect.stablehlo import optional_i64s, optional_pairs
from stablehlo_py.dialect.types import element_type, i64, is_complex, is_float, is_integer, rank, shape
from stablehlo_py.legalize.indexing import constant_operand, static_result
from stablehlo_py.legalize.rules import Unsupported, rule
from stablehlo_py.mlir import ir
from stablehlo_py.mlir import stablehlo as attributes

_KINDS = (is_integer, is_float, is_complex)


def product(
    name: str, type_: ir.Type, lhs: ir.Value, rhs: ir.Value, **attributes: int | Sequence[int] | ir.Attribute
) -> ir.Value:
    """`hlo.dot` or `hlo.convolution`, whose operands and result are of one kind: integers, floats or complex numbers.

    The specification has no others (dot_general C21, convolution C26); XLA does, and JAX's `preferred_element_type`
    asks for them. As there, the product is one of the widest kind among the three, in f64 if one of them is that and
    else in f32, and the result is converted.
    """
    elements = [element_type(lhs), element_type(rhs), element_type(type_)]
    kinds = [next(rank for rank, belongs in enumerate(_KINDS) if belongs(each)) for each in elements]
    if len(set(kinds)) == 1:
        return build.value(name, type_, lhs, rhs, **attributes)
    parts = [each.element_type if is_complex(each) else each for each in elements]
    part = next((each for each in parts if isinstance(each, ir.F64Type)), ir.F32Type.get())
    wide = ir.ComplexType.get(part) if max(kinds) == _KINDS.index(is_complex) else part
    operands = [
        operand if kind == max(kinds) else build.value("convert", build.tensor(shape(operand), wide), operand)
        for operand, kind in zip((lhs, rhs), kinds, strict=False)
    ]
    if kinds[-1] == max(kinds):
        return build.value(name, type_, *operands, **attributes)
    return build.value("convert", type_, build.value(name, build.tensor(shape(type_), wide), *operands, **attributes))


def dot(
    lhs: ir.Value,
    rhs: ir.Value,
    element: ir.Type,
    batch: tuple[Sequence[int], Sequence[int]],
    contract: tuple[Sequence[int], Sequence[int]],
) -> ir.Value:
    """`hlo.dot` with its inferred shape: batch, free dimensions of lhs, free dimensions of rhs."""
    sizes = infer.dot_shape(shape(lhs), shape(rhs), batch, contract)
    return product(
        "dot",
        build.tensor(sizes, element),
        lhs,
        rhs,
        lhs_batch=batch[0],
        rhs_batch=batch[1],
        lhs_contract=contract[0],
        rhs_contract=contract[1],
    )


@rule("stablehlo.dot_general")
def dot_general(op: ir.OpView) -> ir.Value:
    """The dimension numbers become attributes of their own."""
    numbers = attributes.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return product(
        "dot",
        op.results[0].type,
        *op.operands,
        lhs_batch=numbers.lhs_batching_dimensions,
        rhs_batch=numbers.rhs_batching_dimensions,
        lhs_contract=numbers.lhs_contracting_dimensions,
        rhs_contract=numbers.rhs_contracting_dimensions,
    )


@rule("stablehlo.dot")
def old_dot(op: ir.OpView) -> ir.Value:
    """The product of vectors and matrices: the last dimension of lhs with the first of rhs."""
    lhs, rhs = op.operands
    return dot(lhs, rhs, element_type(op.results[0]), ((), ()), ((rank(lhs) - 1,), (0,)))


def _convolution(op: ir.OpView, padding: list[int]) -> ir.Value:
    numbers = attributes.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    spatial = len(numbers.input_spatial_dimensions)
    ones = [1] * spatial
    reversal = (
        [int(each) for each in op.attributes["window_reversal"]]
        if "window_reversal" in op.attributes
        else [0] * spatial
    )
    strides = optional_i64s(op, "window_strides", ones)
    if len(strides) != spatial:
        raise Unsupported(f"has {len(strides)} strides for {spatial} spatial dimensions", "give one for each")
    return product(
        "convolution",
        op.results[0].type,
        op.operands[0],
        op.operands[1],
        strides=strides,
        padding=padding,
        lhs_dilation=optional_i64s(op, "lhs_dilation", ones),
        rhs_dilation=optional_i64s(op, "rhs_dilation", ones),
        reversal=reversal,
        input_dims=[numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions],
        kernel_dims=[
            numbers.kernel_input_feature_dimension,
            numbers.kernel_output_feature_dimension,
            *numbers.kernel_spatial_dimensions,
        ],
        output_dims=[
            numbers.output_batch_dimension,
            numbers.output_feature_dimension,
            *numbers.output_spatial_dimensions,
        ],
        feature_groups=i64(op, "feature_group_count"),
        batch_groups=i64(op, "batch_group_count"),
    )


@rule("stablehlo.convolution")
def convolution(op: ir.OpView) -> ir.Value:
    """Absent attributes get their defaults, the dimension numbers become arrays."""
    return _convolution(op, optional_pairs(op, "padding", rank(op.operands[0]) - 2))


@rule("stablehlo.dynamic_conv")
def dynamic_conv(op: ir.OpView) -> ir.Value:
    """A convolution whose padding is a constant operand."""
    static_result(op)
    return _convolution(op, constant_operand(op.operands[2], "paddings").reshape(-1).tolist())
