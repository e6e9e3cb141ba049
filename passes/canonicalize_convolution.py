"""Convolutions in the forms that kernels have: dots where they are dots, padding and groups in one spelling.

    %0 = hlo.pad %x, %zero {low = [0, 1, 1, 0], high = [0, 1, 1, 0]}
    %1 = hlo.convolution %0, %w {padding = [0, 0, 0, 0]}
        ==>  %1 = hlo.convolution %x, %w {padding = [1, 1, 1, 1]}

    %1 = hlo.convolution %x, %w   (1x1 window, no padding)
        ==>  %1 = hlo.dot %x, reshape(%w)

- A window of one element with channels last is a dot, after a strided slice if it has strides; a window that covers the
  whole input is one.
- Batch groups become feature groups: the batch's groups move into the feature dimension. Kernels need not know batch
  groups.
- Strides, dilations and reversals along dimensions of size 1, where they mean nothing, are 1 and 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import i64, i64s, shape, symints
from stablehlo_py.mlir import ir
from stablehlo_py.passes.canonicalize_dot import DotNumbers, make_dot, product_empty
from stablehlo_py.passes.shape_rules.slices import slice_edges
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RulePass, RuleSet

CONVOLUTION = RuleSet("canonicalize-convolution")
_NUMBERS = ("input_dims", "kernel_dims", "output_dims")


@dataclass(frozen=True)
class CanonicalizeConvolution(RulePass):
    """Turns convolutions into dots where they are dots, folds padding into them, and removes batch groups."""

    name: ClassVar[str] = "canonicalize-convolution"
    table: ClassVar[RuleSet] = CONVOLUTION


def _spatial_sizes(op: ir.Operation) -> tuple[list[IntLike], list[IntLike], list[IntLike]]:
    """Spatial sizes of input, kernel and output, in the order of their spatial dimensions."""
    values = zip((*op.operands, op.result), _NUMBERS, strict=True)
    lists = ([shape(value)[dimension] for dimension in i64s(op, name)[2:]] for value, name in values)
    inputs, kernel, outputs = lists
    return inputs, kernel, outputs


def _is_plain(op: ir.Operation) -> bool:
    """No padding, no groups, no dilation of the input."""
    return (
        not any(symints(op, "padding"))
        and set(i64s(op, "lhs_dilation")) <= {1}
        and i64(op, "feature_groups") == 1
        and i64(op, "batch_groups") == 1
    )


CONVOLUTION.rule("hlo.convolution", name="convolution-empty")(product_empty)


@CONVOLUTION.rule("hlo.convolution", where="dimensions of size 1")
def convolution_size_one(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "strides, dilations and reversals of dimensions of size 1 -> 1, 1, 0"
    inputs, kernel, outputs = _spatial_sizes(op)
    identities = (
        ("strides", outputs, 1),
        ("lhs_dilation", inputs, 1),
        ("rhs_dilation", kernel, 1),
        ("reversal", kernel, 0),
    )
    changes = {}
    for name, sizes, identity in identities:
        old = symints(op, name)
        new = [identity if size == 1 else value for value, size in zip(old, sizes, strict=True)]
        if new != list(old):
            changes[name] = new
    return rewriter.again(op, op.operands, attributes=changes) if changes else None


@CONVOLUTION.pair(
    "hlo.convolution", "hlo.pad", where="zeros, on spatial dimensions, of an input that is not dilated yet"
)
def convolution_pad(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "convolution(pad(x, 0)) -> convolution(x) with padding"
    if splat(inner.operands[1]) != 0 or not set(i64s(op, "lhs_dilation")) <= {1}:
        return None
    low, high, interior = (symints(inner, name) for name in ("low", "high", "interior"))
    batch, feature, *spatial = i64s(op, "input_dims")
    if any(edges[dimension] for edges in (low, high, interior) for dimension in (batch, feature)):
        return None
    padding = list(symints(op, "padding"))
    for k, dimension in enumerate(spatial):
        # Cropping first and padding then is not one amount.
        if min(low[dimension], high[dimension], padding[2 * k], padding[2 * k + 1]) < 0:
            return None
        padding[2 * k] += low[dimension]
        padding[2 * k + 1] += high[dimension]
    changes = {"padding": padding, "lhs_dilation": [interior[dimension] + 1 for dimension in spatial]}
    return rewriter.again(op, [inner.operands[0], op.operands[1]], attributes=changes)


@CONVOLUTION.rule("hlo.convolution")
def convolution_batch_groups(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "batch groups -> feature groups"
    groups = i64(op, "batch_groups")
    if groups == 1:
        return None
    lhs, rhs = op.operands
    batch, feature, *_ = i64s(op, "input_dims")
    sizes = shape(lhs)
    # [g * n, ..., c] -> [g, n, ..., c] -> [n, ..., g, c] -> [n, ..., g * c]; `moved` numbers dimensions after the first
    # step.
    split = rewriter.reshape(lhs, [*sizes[:batch], groups, sizes[batch] // groups, *sizes[batch + 1 :]])
    moved = [dimension for dimension in range(len(sizes) + 1) if dimension != batch]
    moved.insert(moved.index(feature + (feature > batch)), batch)
    merged = list(sizes)
    merged[batch], merged[feature] = sizes[batch] // groups, groups * sizes[feature]
    regrouped = rewriter.reshape(rewriter.transpose(split, moved), merged)
    return rewriter.again(op, [regrouped, rhs], attributes={"feature_groups": groups, "batch_groups": 1})


# --- dots ------------------------------------------------------------------------------------------------------------


@CONVOLUTION.rule(
    "hlo.convolution", where="window of one element, no padding or groups; the result's order is that of a dot"
)
def convolution_pointwise(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "1x1 convolution -> dot"
    lhs, rhs = op.operands
    _, kernel, outputs = _spatial_sizes(op)
    if any(size != 1 for size in kernel) or not _is_plain(op):
        return None
    input_dims, kernel_dims, output_dims = (i64s(op, name) for name in _NUMBERS)
    weights = _squeezed_kernel(rewriter, rhs, kernel_dims)
    edges: list[tuple[IntLike, IntLike, IntLike]] = [(0, size, 1) for size in shape(lhs)]
    for dimension, stride, count in zip(input_dims[2:], symints(op, "strides"), outputs, strict=True):
        edges[dimension] = (0, (count - 1) * stride + 1, stride)
    # Dimensions of the result in the order a dot makes: those of the input without its features, then the output
    # features.
    kept = sorted((dimension, k) for k, dimension in enumerate(input_dims) if k != 1)
    order = [output_dims[k] for _, k in kept]
    input_contract = 0 if kernel_dims[0] < kernel_dims[1] else 1
    if [*order, output_dims[1]] == list(range(len(order) + 1)):
        numbers = DotNumbers([], [], [input_dims[1]], [input_contract])
        return make_dot(rewriter, op, slice_edges(rewriter, lhs, edges), weights, numbers)
    # Features first and one image: the weights come left.
    image = [dimension for dimension in order if dimension != output_dims[0]]
    if shape(lhs)[input_dims[0]] != 1 or [output_dims[1], *image] != [
        d for d in range(len(order) + 1) if d != output_dims[0]
    ]:
        return None
    taken = slice_edges(rewriter, lhs, edges)
    sizes = [size for dimension, size in enumerate(shape(taken)) if dimension != input_dims[0]]
    squeezed = rewriter.reshape(taken, sizes)
    feature = input_dims[1] - (input_dims[1] > input_dims[0])
    product = make_dot(rewriter, op, weights, squeezed, DotNumbers([], [], [input_contract], [feature]))
    return rewriter.reshape(product, shape(op.result))


def _squeezed_kernel(rewriter: Rewriter, kernel: ir.Value, kernel_dims: Sequence[int]) -> ir.Value:
    """The kernel without its spatial dimensions of size 1; input and output features stay in their order."""
    first, second = sorted(kernel_dims[:2])
    return rewriter.reshape(kernel, [shape(kernel)[first], shape(kernel)[second]])


@CONVOLUTION.rule("hlo.convolution", where="one output position, no padding, groups, dilation or reversal")
def convolution_whole_input(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "convolution whose window is the input -> dot"
    lhs, rhs = op.operands
    inputs, kernel, _ = _spatial_sizes(op)
    if inputs != kernel or not _is_plain(op) or any(i64s(op, "reversal")) or set(i64s(op, "rhs_dilation")) > {1}:
        return None
    input_dims, kernel_dims, output_dims = (i64s(op, name) for name in _NUMBERS)
    # In the order of the input's dimensions, so that adjacent ones can be merged.
    pairs = sorted((input_dims[k], kernel_dims[0 if k == 1 else k]) for k in range(1, len(input_dims)))
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    if output_dims[0] < output_dims[1]:
        product = make_dot(rewriter, op, lhs, rhs, DotNumbers([], [], left, right))
    else:
        product = make_dot(rewriter, op, rhs, lhs, DotNumbers([], [], right, left))
    return rewriter.reshape(product, shape(op.result))
