"""Products of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.ops.factors import Builder, Kind, others
from stablehlo_py.dialect.ops.record import Array, Shape, Shapes, op
from stablehlo_py.dialect.ops.shape import pad_array, window_positions
from stablehlo_py.dialect.rounding import cast
from stablehlo_py.dialect.types import element_type, i64, i64s, is_complex, is_float, is_integer, rank, shape, symints
from stablehlo_py.dialect.verify import Conditions, require, require_dimensions
from stablehlo_py.dialect.window import spatial_windows, window_shape
from stablehlo_py.mlir import ir


def _one_kind(op: ir.OpView) -> None:
    elements = [element_type(value) for value in (*op.operands, *op.results)]
    kinds = [sum(belongs(each) for each in elements) for belongs in (is_integer, is_float, is_complex)]
    require(len(elements) in kinds, "needs operands and results that are all integers, all floats or all complex")


def _wide(x: Array) -> Array:
    # Contractions of floats are summed in f64 (c128): a reference, not what any target computes bit for bit.
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x.astype(np.float64) if x.dtype.kind == "f" or "float" in x.dtype.name else x.astype(np.int64)


def _check_dot(op: ir.OpView) -> None:
    """dot."""
    _one_kind(op)
    batch, contract = _dot_numbers(op)
    for side, name in enumerate(("lhs", "rhs")):
        dimensions = batch[side] + contract[side]
        require_dimensions(dimensions, rank(op.operands[side]), f"{name}_batch and {name}_contract")
    agree = all(len(left) == len(right) for left, right in (batch, contract))
    require(agree, "lhs and rhs need as many dimensions each")


def dot_shape(lhs: Shape, rhs: Shape, batch: Sequence[Sequence[int]], contract: Sequence[Sequence[int]]) -> Shape:
    """Batch dimensions, free dimensions of lhs, free dimensions of rhs."""
    free = (x[i] for k, x in enumerate((lhs, rhs)) for i in others(len(x), batch[k], contract[k]))
    return [*(lhs[i] for i in batch[0]), *free]


def _dot_shape(c: Conditions, op: ir.Operation, lhs: Shape, rhs: Shape) -> Shapes:
    batch, contract = _dot_numbers(op)
    for left, right in (*zip(*batch, strict=True), *zip(*contract, strict=True)):
        c.unite(lhs[left], rhs[right])
    return [dot_shape(lhs, rhs, batch, contract)]


def _dot_numbers(op: ir.Operation) -> list[list[tuple[int, ...]]]:
    """Batch dimensions and contracting ones, each of lhs and of rhs."""
    return [[i64s(op, f"{side}_{role}") for side in ("lhs", "rhs")] for role in ("batch", "contract")]


def _dot(op: ir.Operation, lhs: Array, rhs: Array) -> Array:
    def matrices(x: Array, batch: Sequence[int], contract: Sequence[int], contract_last: bool) -> Array:
        free = [d for d in range(x.ndim) if d not in batch and d not in contract]
        order = [*batch, *free, *contract] if contract_last else [*batch, *contract, *free]
        b, f, c = ([x.shape[d] for d in dims] for dims in (batch, free, contract))
        middle = (np.prod(f, dtype=int), np.prod(c, dtype=int))
        return x.transpose(order).reshape(np.prod(b, dtype=int), *(middle if contract_last else middle[::-1]))

    left = matrices(_wide(lhs), i64s(op, "lhs_batch"), i64s(op, "lhs_contract"), True)
    right = matrices(_wide(rhs), i64s(op, "rhs_batch"), i64s(op, "rhs_contract"), False)
    return cast(np.matmul(left, right).reshape(shape(op.result)), numpy_dtype(element_type(op.result)))


def _dot_factors(b: Builder, op: ir.Operation) -> None:
    batch, contract = _dot_numbers(op)
    result = 0
    for left, right in zip(*batch, strict=True):
        b.add(b.shapes[0][left], {0: left, 1: right}, {0: result})
        result += 1
    for side in (0, 1):
        for dimension in others(len(b.shapes[side]), batch[side], contract[side]):
            b.add(b.shapes[side][dimension], {side: dimension}, {0: result})
            result += 1
    for left, right in zip(*contract, strict=True):
        b.add(b.shapes[0][left], {0: left, 1: right}, kind=Kind.REDUCED)
    b.combiner = "add"


op(
    "dot(lhs: any, rhs: any) {lhs_batch, rhs_batch, lhs_contract, rhs_contract} -> (result: any)",
    "General dot product. Result dimensions: batch, free of lhs, free of rhs, each in operand order. Operands and"
    " result are all integers, all floats or all complex.",
    checks=(_check_dot,),
    value=_dot,
    shapes=_dot_shape,
    factors=_dot_factors,
    numbers={"lhs_batch": 0, "rhs_batch": 1, "lhs_contract": 0, "rhs_contract": 1},
)


_DIMENSIONS = ("input_dims", "kernel_dims", "output_dims")
_WINDOW = ("strides", "padding", "lhs_dilation", "rhs_dilation")


def _check_convolution(op: ir.OpView) -> None:
    """convolution."""
    _one_kind(op)
    rank_ = rank(op.operands[0])
    one_rank = rank(op.operands[1]) == rank(op.results[0]) == rank_ >= 2
    require(one_rank, "lhs, rhs and result need one rank, at least 2")
    for name in _DIMENSIONS:
        require(sorted(i64s(op, name)) == list(range(rank_)), f"{name} must hold every dimension once")
    for name in (*_WINDOW, "reversal"):
        each = symints(op, name)
        require(len(each) == (rank_ - 2) * (1 + (name == "padding")), f"{name} has the wrong number of entries")
        require(name in ("padding", "reversal") or all(entry > 0 for entry in each), f"{name} must be positive")
    groups = min(i64(op, "feature_groups"), i64(op, "batch_groups"))
    require(groups == 1, "feature_groups or batch_groups must be 1, both positive")


def _convolution_shape(c: Conditions, op: ir.Operation, lhs: Shape, rhs: Shape) -> Shapes:
    inputs, kernel, outputs = (i64s(op, name) for name in _DIMENSIONS)
    batch, features = lhs[inputs[0]], rhs[kernel[1]]
    feature_groups, batch_groups = i64(op, "feature_groups"), i64(op, "batch_groups")
    c.unite(lhs[inputs[1]], rhs[kernel[0]] * feature_groups)
    for size, groups in ((batch, batch_groups), (features, batch_groups), (features, feature_groups)):
        c.require_equal(size, groups * (size // groups))
    window = (symints(op, name) for name in _WINDOW)
    spatial = window_shape([lhs[i] for i in inputs[2:]], [rhs[i] for i in kernel[2:]], *window)
    sizes = dict(zip(outputs, (batch // batch_groups, features, *spatial), strict=True))
    return [[sizes[dimension] for dimension in range(len(outputs))]]


def _convolution(op: ir.Operation, lhs: Array, rhs: Array) -> Array:
    """Sum over kernel positions of strided views of the padded, dilated input."""
    input_dims, kernel_dims, output_dims = (i64s(op, name) for name in _DIMENSIONS)
    x, kernel = _wide(lhs).transpose(input_dims), _wide(rhs).transpose(kernel_dims)
    sizes = [shape(op.result)[d] for d in output_dims]
    if 0 in sizes:  # padding may even crop more than there is
        return np.zeros(shape(op.result), numpy_dtype(element_type(op.result)))
    padding, strides, dilation = symints(op, "padding"), symints(op, "strides"), i64s(op, "rhs_dilation")
    low, high = [0, 0, *padding[0::2]], [0, 0, *padding[1::2]]
    x = pad_array(x, np.zeros((), x.dtype), low, high, [0, 0, *(d - 1 for d in i64s(op, "lhs_dilation"))])
    kernel = np.flip(kernel, tuple(i + 2 for i, flipped in enumerate(i64s(op, "reversal")) if flipped))
    groups, batch_groups = i64(op, "feature_groups"), i64(op, "batch_groups")
    result = np.zeros(sizes, x.dtype)
    out_features, count = sizes[1], max(groups, batch_groups)
    per_output, per_input, per_batch = out_features // count, x.shape[1] // groups, x.shape[0] // batch_groups
    for position, view in window_positions(x, kernel.shape[2:], dilation, strides, sizes[2:]):
        for group in range(count):
            features = slice(group * per_input, (group + 1) * per_input) if groups > 1 else slice(None)
            batches = slice(group * per_batch, (group + 1) * per_batch) if batch_groups > 1 else slice(None)
            outputs = slice(group * per_output, (group + 1) * per_output)
            place: tuple[slice | int, ...] = (slice(None), outputs, *position)
            weights = kernel[place]
            result[:, outputs] += np.moveaxis(np.tensordot(view[batches, features], weights, (1, 0)), -1, 1)
    return cast(result.transpose(np.argsort(output_dims)), numpy_dtype(element_type(op.result)))


def _convolution_factors(b: Builder, op: ir.Operation) -> None:
    inputs, kernel, outputs = (i64s(op, name) for name in _DIMENSIONS)
    sizes, weights = b.shapes
    features, batches = i64(op, "feature_groups"), i64(op, "batch_groups")
    for name, count, place in (("feature_groups", features, inputs[1]), ("batch_groups", batches, inputs[0])):
        if count != 1:
            number = b.add(count, {0: place, 1: kernel[1]}, {0: outputs[1]})
            b.attribute(name, 1, 0, number)
    b.add(sizes[inputs[0]] // batches, {0: inputs[0]}, {0: outputs[0]})
    b.add(weights[kernel[1]] // (features * batches), {1: kernel[1]}, {0: outputs[1]})
    b.add(weights[kernel[0]], {0: inputs[1], 1: kernel[0]}, kind=Kind.REDUCED)
    for window in spatial_windows(op):
        kind = Kind.PARALLEL if window.trivial else Kind.WINDOWED
        b.add(b.result_shapes[0][window.output], {0: window.input}, {0: window.output}, kind)
    b.combiner = "add"


op(
    "convolution(lhs: any, rhs: any) {strides, padding, lhs_dilation, rhs_dilation, reversal, input_dims, "
    "kernel_dims, output_dims, feature_groups, batch_groups} -> (result: any)",
    "Convolution. `padding` is low, high per spatial dimension; `reversal` 0/1 per spatial dimension. The "
    "`*_dims` arrays name dimensions: input (batch, feature, spatial...), kernel (input feature, output feature, "
    "spatial...), output (batch, feature, spatial...).",
    checks=(_check_convolution,),
    value=_convolution,
    shapes=_convolution_shape,
    factors=_convolution_factors,
)
