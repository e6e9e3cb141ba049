"""Matrix products and convolutions. Precision and algorithm attributes ask for at least some accuracy: every kernel
gives the most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stablehlo_py.dialect import build, infer
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.types import element_type, i64, is_bool, rank, shape, text
from stablehlo_py.legalize.indexing import constant_operand
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
    """The dimension numbers become attributes of their own."""
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
    return build.value(
        "convolution",
        op.results[0].type,
        op.operands[0],
        op.operands[1],
        strides=optional_i64s(op, "window_strides", ones),
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
    return _convolution(op, constant_operand(op.operands[2], "paddings").reshape(-1).tolist())


# --- einsum: an old op, expanded into sums, one product and a transpose ----------------------------------------------


def _sum_out(operand: ir.Value, labels: str, keep: set[str]) -> tuple[ir.Value, str]:
    """Sum over the dimensions whose label is not in `keep`."""
    away = [i for i, label in enumerate(labels) if label not in keep]
    if not away:
        return operand, labels
    element = element_type(operand)
    kept = [size for i, size in enumerate(shape(operand)) if i not in away]
    zero = build.constant(np.zeros((), numpy_dtype(element)), element)
    kind = "or" if is_bool(element) else "add"
    summed = build.value("reduce", build.tensor(kept, element), operand, zero, kind=kind, dimensions=away)
    return summed, "".join(label for label in labels if label in keep)


def _equation(op: ir.OpView, inputs: int) -> tuple[list[str], str]:
    equation = text(op, "einsum_config").replace(" ", "")
    sources, _, target = equation.partition("->")
    labels = sources.split(",")
    repeated = any(len(set(each)) != len(each) for each in [*labels, target])
    if len(labels) != inputs or "." in equation or repeated or not set(target) <= set(sources):
        raise Unsupported(f"has the equation {equation!r}", "write it with labels that differ within one operand")
    return labels, target


@rule("stablehlo.einsum")
def einsum(op: ir.OpView) -> ir.Value:
    """Labels in both operands and the result are batch dimensions, in both operands only are contracted."""
    (left, right), target = _equation(op, 2)
    lhs, left = _sum_out(op.operands[0], left, set(right) | set(target))
    rhs, right = _sum_out(op.operands[1], right, set(left) | set(target))
    batch = [label for label in left if label in right and label in target]
    contract = [label for label in left if label in right and label not in target]
    free = [label for label in left if label not in right] + [label for label in right if label not in left]
    dimensions = [([side.index(label) for label in group]) for group in (batch, contract) for side in (left, right)]
    product = dot(lhs, rhs, element_type(op.results[0]), (dimensions[0], dimensions[1]), (dimensions[2], dimensions[3]))
    order = batch + free
    return build.transpose(product, [order.index(label) for label in target])


@rule("stablehlo.unary_einsum")
def unary_einsum(op: ir.OpView) -> ir.Value:
    """A sum over the labels that go away, then a transpose."""
    (labels,), target = _equation(op, 1)
    summed, labels = _sum_out(op.operands[0], labels, set(target))
    return build.transpose(summed, [labels.index(label) for label in target])
