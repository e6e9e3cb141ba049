"""Matrix products and convolutions. Precision and algorithm attributes ask for at least some accuracy: every kernel
gives the most."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build, infer
from stablehlo_py.dialect.types import element_type, i64, is_complex, is_float, is_integer, rank, shape
from stablehlo_py.legalize.indexing import constant_operand, static_result
from stablehlo_py.legalize.rules import Unsupported, optional_i64s, optional_pairs, rule
from stablehlo_py.mlir import ir
from stablehlo_py.mlir import stablehlo as attributes


def dot(
    lhs: ir.Value,
    rhs: ir.Value,
    element: ir.Type,
    batch: tuple[Sequence[int], Sequence[int]],
    contract: tuple[Sequence[int], Sequence[int]],
) -> ir.Value:
    """`hlo.dot` with its inferred shape: batch, free dimensions of lhs, free dimensions of rhs."""
    sizes = infer.dot_shape(shape(lhs), shape(rhs), batch, contract)
    return build.value(
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
    """The dimension numbers become attributes of their own. Spec, section dot_general (C21): operands and result are
    all integers (or booleans), floats or complex numbers."""
    elements = [element_type(value) for value in (*op.operands, *op.results)]
    if len({kind for kind in (is_integer, is_float, is_complex) for each in elements if kind(each)}) > 1:
        raise Unsupported("mixes kinds of numbers", "convert the operands to one kind first")
    numbers = attributes.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return build.value(
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
    return build.value(
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
