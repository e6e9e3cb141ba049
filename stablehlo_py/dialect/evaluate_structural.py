"""Evaluation of the hlo ops that move, gather or contract elements; see `evaluate`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from stablehlo_py.dialect.constants import constant_value, numpy_dtype
from stablehlo_py.dialect.rounding import cast
from stablehlo_py.dialect.types import element_type, i64, i64s, shape
from stablehlo_py.mlir import ir

Array = np.ndarray


def broadcast_array(x: Array, sizes: Sequence[int], dimensions: Sequence[int]) -> Array:
    """Operand dimension i becomes result dimension `dimensions[i]`; the result is a view."""
    placed = [1] * len(sizes)
    for size, dimension in zip(x.shape, dimensions, strict=True):
        placed[dimension] = size
    return np.broadcast_to(x.reshape(placed), sizes)


def pad_array(x: Array, value: Array, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Array:
    """Pads with a scalar; negative edges crop after interior padding, as the spec says."""
    spread = [size + max(size - 1, 0) * inner for size, inner in zip(x.shape, interior, strict=True)]
    dilated = np.full(spread, value, x.dtype)
    dilated[tuple(slice(None, None, inner + 1) for inner in interior)] = x
    result = np.full([a + size + b for a, size, b in zip(low, spread, high, strict=True)], value, x.dtype)
    target, source = [], []
    for a, size, total in zip(low, spread, result.shape, strict=True):
        begin, end = max(a, 0), min(a + size, total)
        target.append(slice(begin, max(begin, end)))
        source.append(slice(begin - a, max(begin, end) - a))
    result[tuple(target)] = dilated[tuple(source)]
    return result


def clamp_start(start: int, size: int, full: int) -> int:
    """The start of a dynamic slice of `size` out of `full`, moved so that it fits."""
    return max(0, min(start, full - size))


def combine(function: Callable[[Array, Array], Array], x: Array, init: Array, dimensions: Sequence[int]) -> Array:
    """Reduction by an elementwise function, in row-major order, starting from `init`."""
    kept = [dimension for dimension in range(x.ndim) if dimension not in dimensions]
    sizes = [x.shape[dimension] for dimension in kept]
    flat = x.transpose([*kept, *dimensions]).reshape(*sizes, -1) if x.size else np.zeros([*sizes, 0], x.dtype)
    result = np.full(sizes, init, x.dtype)
    for position in range(flat.shape[-1]):
        result = function(result, flat[..., position])
    return np.asarray(result)


def _pad(op: ir.Operation, x: Array, value: Array) -> Array:
    return pad_array(x, value, i64s(op, "low"), i64s(op, "high"), i64s(op, "interior"))


def _slice(op: ir.Operation, x: Array) -> Array:
    edges = zip(i64s(op, "start"), i64s(op, "limit"), i64s(op, "strides"), strict=True)
    return x[tuple(slice(low, high, step) for low, high, step in edges)]


def _iota(op: ir.Operation) -> Array:
    sizes, dimension = shape(op.result), i64(op, "dimension")
    numbers = cast(np.arange(sizes[dimension]), numpy_dtype(element_type(op.result)))
    return broadcast_array(numbers, sizes, [dimension])


def _dynamic_slice(op: ir.Operation, x: Array, *starts: Array) -> Array:
    sizes = i64s(op, "sizes")
    begins = [clamp_start(int(start), size, full) for start, size, full in zip(starts, sizes, x.shape, strict=True)]
    return x[tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))]


def _dynamic_update_slice(op: ir.Operation, x: Array, update: Array, *starts: Array) -> Array:
    begins = [
        clamp_start(int(start), size, full) for start, size, full in zip(starts, update.shape, x.shape, strict=True)
    ]
    result = np.array(x)
    result[tuple(slice(begin, begin + size) for begin, size in zip(begins, update.shape, strict=True))] = update
    return result


def _gather(op: ir.Operation, x: Array, indices: Array) -> Array:
    """Spec section `gather`, for all result elements at once: one index array per operand dimension."""
    offset_dims, index_vector_dim = i64s(op, "offset_dims"), i64(op, "index_vector_dim")
    sizes = i64s(op, "slice_sizes")
    result_shape = shape(op.result)
    grids = np.indices(result_shape, sparse=True) if result_shape else []
    batch_grids = [grids[d] for d in range(len(result_shape)) if d not in offset_dims]

    def start(component: int) -> Array:
        place = list(batch_grids)
        if index_vector_dim < indices.ndim:
            place.insert(index_vector_dim, np.array(component))
        return indices[tuple(place)].astype(np.int64)

    batching, start_batching = i64s(op, "operand_batching_dims"), i64s(op, "start_indices_batching_dims")
    removed = (*i64s(op, "collapsed_slice_dims"), *batching)
    window = [d for d in range(x.ndim) if d not in removed]
    place: list[Array] = []
    for dimension in range(x.ndim):
        index = np.zeros((), np.int64)
        if dimension in i64s(op, "start_index_map"):
            component = i64s(op, "start_index_map").index(dimension)
            index = np.clip(start(component), 0, x.shape[dimension] - sizes[dimension])
        if dimension in batching:
            other = start_batching[batching.index(dimension)]
            index = index + batch_grids[other - (1 if other > index_vector_dim else 0)]
        if dimension in window:
            index = index + grids[offset_dims[window.index(dimension)]]
        place.append(index)
    return np.broadcast_to(x[tuple(place)], result_shape)


def _wide(x: Array) -> Array:
    # Contractions of floats are summed in f64 (c128): a reference, not what any target computes bit for bit.
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x.astype(np.float64) if x.dtype.kind == "f" or "float" in x.dtype.name else x.astype(np.int64)


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


def _convolution(op: ir.Operation, lhs: Array, rhs: Array) -> Array:
    """Sum over kernel positions of strided views of the padded, dilated input."""
    input_dims, kernel_dims, output_dims = i64s(op, "input_dims"), i64s(op, "kernel_dims"), i64s(op, "output_dims")
    x, kernel = _wide(lhs).transpose(input_dims), _wide(rhs).transpose(kernel_dims)
    spatial = x.ndim - 2
    padding, strides, dilation = i64s(op, "padding"), i64s(op, "strides"), i64s(op, "rhs_dilation")
    low, high = [0, 0, *padding[0::2]], [0, 0, *padding[1::2]]
    x = pad_array(x, np.zeros((), x.dtype), low, high, [0, 0, *(d - 1 for d in i64s(op, "lhs_dilation"))])
    kernel = np.flip(kernel, tuple(i + 2 for i, flipped in enumerate(i64s(op, "reversal")) if flipped))
    groups, batch_groups = i64(op, "feature_groups"), i64(op, "batch_groups")
    sizes = [shape(op.result)[d] for d in output_dims]
    result = np.zeros(sizes, x.dtype)
    out_features, count = sizes[1], max(groups, batch_groups)
    per_output, per_input, per_batch = out_features // count, x.shape[1] // groups, x.shape[0] // batch_groups
    for position in itertools.product(*(range(kernel.shape[i + 2]) for i in range(spatial))):
        begins = [p * d for p, d in zip(position, dilation, strict=True)]
        window = [slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(begins, sizes[2:], strides, strict=True)]
        view = x[(slice(None), slice(None), *window)]
        for group in range(count):
            features = slice(group * per_input, (group + 1) * per_input) if groups > 1 else slice(None)
            batches = slice(group * per_batch, (group + 1) * per_batch) if batch_groups > 1 else slice(None)
            outputs = slice(group * per_output, (group + 1) * per_output)
            place: tuple[slice | int, ...] = (slice(None), outputs, *position)
            weights = kernel[place]
            result[:, outputs] += np.moveaxis(np.tensordot(view[batches, features], weights, (1, 0)), -1, 1)
    return cast(result.transpose(np.argsort(output_dims)), numpy_dtype(element_type(op.result)))


def _concatenate(op: ir.Operation, *operands: Array) -> Array:
    return np.concatenate(operands, i64(op, "dimension"))


STRUCTURAL: dict[str, Callable[..., Array]] = {
    "hlo.broadcast": lambda op, x: broadcast_array(x, shape(op.result), i64s(op, "dimensions")),
    "hlo.constant": constant_value,
    "hlo.convolution": _convolution,
    "hlo.copy": lambda _, x: x,
    "hlo.dot": _dot,
    "hlo.dynamic_slice": _dynamic_slice,
    "hlo.dynamic_update_slice": _dynamic_update_slice,
    "hlo.gather": _gather,
    "hlo.iota": _iota,
    "hlo.pad": _pad,
    "hlo.reshape": lambda op, x: x.reshape(shape(op.result)),
    "hlo.reverse": lambda op, x: np.flip(x, i64s(op, "dimensions")),
    "hlo.slice": _slice,
    "hlo.transpose": lambda op, x: x.transpose(i64s(op, "permutation")),
    "stablehlo.concatenate": _concatenate,
}
