"""Ops that create tensors, and that give elements another place by their shape alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stablehlo_py.dialect.constants import constant_value, numpy_dtype
from stablehlo_py.dialect.index_map import reshape_pieces
from stablehlo_py.dialect.ops.factors import Builder, Kind, common_but
from stablehlo_py.dialect.ops.record import FIRST, Array, Rounds, Shape, Shapes, Work, always, op
from stablehlo_py.dialect.rounding import cast
from stablehlo_py.dialect.symint import IntLike, maximum
from stablehlo_py.dialect.types import (
    element_type,
    i64,
    i64s,
    is_bool,
    is_complex,
    is_integer,
    num_elements,
    rank,
    shape,
    symints,
)
from stablehlo_py.dialect.verify import (
    Conditions,
    Malformed,
    entry_per_dimension,
    require,
    require_dimensions,
    same_elements,
    scalar_like,
)
from stablehlo_py.mlir import ir


def _check_constant(op: ir.OpView) -> None:
    """constant: `value` has the result's type, of complex results the interleaved parts."""
    element, sizes = element_type(op.results[0]), shape(op.results[0])
    if is_complex(element):
        element, sizes = element.element_type, (*sizes, 2)
    try:
        value = op.attributes["value"].type
    except TypeError:
        raise Malformed(
            "holds complex elements; normal form is interleaved parts in a last dimension of size 2"
        ) from None
    require(
        shape(value) == sizes and element_type(value) == element,
        f"value must be of shape {sizes} and elements {element}",
    )


op(
    "constant() {value} -> (result: any)",
    "A constant; `value` is a dense or dense_resource elements attribute of the result's type. For a complex "
    "result it holds the interleaved parts: one more dimension, of size 2.",
    checks=(_check_constant,),
    work=Work.INDICES,
    value=constant_value,
    factors="its elements are data",
)


def _check_iota(op: ir.OpView) -> None:
    """iota."""
    require(0 <= i64(op, "dimension") < rank(op.results[0]), "dimension is outside the rank")
    require(not is_bool(element_type(op.results[0])), "elements must be numbers")


def _iota(op: ir.Operation) -> Array:
    sizes, dimension = shape(op.result), i64(op, "dimension")
    numbers = cast(np.arange(int(sizes[dimension])), numpy_dtype(element_type(op.result)))
    return broadcast_array(numbers, sizes, [dimension])


def _iota_factors(b: Builder, op: ir.Operation) -> None:
    for dimension, size in enumerate(b.result_shapes[0]):
        kind = Kind.REPLICATED if dimension == i64(op, "dimension") else Kind.PARALLEL
        b.add(size, {}, {0: dimension}, kind)


op(
    "iota() {dimension} -> (result: any)",
    "Index along `dimension`, as the result's element type.",
    checks=(_check_iota,),
    work=Work.INDICES,
    value=_iota,
    factors=_iota_factors,
)


def _check_size(op: ir.OpView) -> None:
    """size."""
    # Of any rank before legalization, which reads the operands of dynamic twins (paddings are a matrix).
    require(is_integer(element_type(op.results[0])), "must be integers")
    require(len(symints(op, "value")) == num_elements(op.results[0]), "value must have one entry per element")


op(
    "const_size() {value} -> (result: any)",
    "A constant that holds sizes: `value` is their text, one per element of the result, a scalar or a vector of "
    "integers (docs/dynamic-shapes.md).",
    checks=(_check_size,),
    work=Work.INDICES,
    factors="its elements are data",
)


def _check_broadcast(op: ir.OpView) -> None:
    """broadcast."""
    source, target, dimensions = shape(op.operands[0]), shape(op.results[0]), i64s(op, "dimensions")
    require(len(dimensions) == len(source), "needs one entry of dimensions per operand dimension")
    require(list(dimensions) == sorted(set(dimensions)), "dimensions must strictly increase (transpose first)")
    for size, dimension in zip(source, dimensions, strict=True):
        require(0 <= dimension < len(target), "dimensions has an entry outside the result's rank")
        require(size == target[dimension], f"result dimension {dimension} must have the operand's size {size}")


def broadcast_array(x: Array, sizes: Sequence[IntLike], dimensions: Sequence[int]) -> Array:
    """Operand dimension i becomes result dimension `dimensions[i]`; the result is a view."""
    placed = [1] * len(sizes)
    for size, dimension in zip(x.shape, dimensions, strict=True):
        placed[dimension] = size
    return np.broadcast_to(x.reshape(placed), tuple(map(int, sizes)))


def _broadcast(op: ir.Operation, x: Array) -> Array:
    return broadcast_array(x, shape(op.result), i64s(op, "dimensions"))


def _broadcast_factors(b: Builder, op: ir.Operation) -> None:
    source = {dimension: number for number, dimension in enumerate(i64s(op, "dimensions"))}
    for dimension, size in enumerate(b.result_shapes[0]):
        b.add(size, {0: source[dimension]} if dimension in source else {}, {0: dimension})


op(
    "broadcast(operand: any) {dimensions} -> (result: any)",
    "Operand dimension i becomes result dimension `dimensions[i]`, with the same size; the others repeat.",
    checks=(same_elements, _check_broadcast),
    work=Work.INDICES,
    picks=FIRST,
    value=_broadcast,
    factors=_broadcast_factors,
)


def _check_reshape(op: ir.OpView) -> None:
    """reshape."""
    require(num_elements(op.operands[0]) == num_elements(op.results[0]), "must keep the number of elements")


def _reshape_factors(b: Builder, op: ir.Operation) -> None:
    if 0 in b.shapes[0]:
        return
    for size, source, target in reshape_pieces(b.shapes[0], b.result_shapes[0]):
        operands = {} if source is None else {0: source}
        results = {} if target is None else {0: target}
        b.add(size, operands, results, Kind.PARALLEL if operands and results else Kind.REPLICATED)


op(
    "reshape(operand: any) -> (result: any)",
    "The same elements in row-major order under another shape.",
    checks=(same_elements, _check_reshape),
    work=Work.INDICES,
    picks=FIRST,
    value=lambda op, x: x.reshape(shape(op.result)),
    exact=always,
    factors=_reshape_factors,
)


def _check_transpose(op: ir.OpView) -> None:
    """transpose."""
    dimensions = list(range(rank(op.operands[0])))
    require(sorted(i64s(op, "permutation")) == dimensions, "permutation must hold every dimension once")


def _transpose_factors(b: Builder, op: ir.Operation) -> None:
    for dimension, source in enumerate(i64s(op, "permutation")):
        b.add(b.shapes[0][source], {0: source}, {0: dimension})


op(
    "transpose(operand: any) {permutation} -> (result: any)",
    "Result dimension i is operand dimension `permutation[i]`.",
    checks=(same_elements, _check_transpose),
    work=Work.MOVES,
    picks=FIRST,
    value=lambda op, x: x.transpose(i64s(op, "permutation")),
    exact=always,
    shapes=lambda c, op, x: [[x[dimension] for dimension in i64s(op, "permutation")]],
    factors=_transpose_factors,
)


_EDGES = ("low", "high", "interior")


def _pad_shape(c: Conditions, op: ir.Operation, x: Shape, value: Shape) -> Shapes:
    sizes = []
    for size, low, high, interior in zip(x, *(symints(op, name) for name in _EDGES), strict=True):
        c.require_at_most(0, interior)
        sizes.append(low + size + maximum(size - 1, 0) * interior + high)
    return [sizes]


def pad_array(
    x: Array, value: Array, low: Sequence[IntLike], high: Sequence[IntLike], interior: Sequence[IntLike]
) -> Array:
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


def window_positions(
    x: Array,
    window: Sequence[IntLike],
    dilations: Sequence[IntLike],
    strides: Sequence[IntLike],
    sizes: Sequence[IntLike],
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Every position in a window over the last dimensions, in row-major order, and the elements that stand there in all
    windows, of which there are `sizes`."""
    for position in itertools.product(*map(range, window)):
        begins = [at * dilation for at, dilation in zip(position, dilations, strict=True)]
        edges = zip(begins, sizes, strides, strict=True)
        place: tuple[Any, ...] = (..., *(slice(begin, begin + (n - 1) * s + 1, s) for begin, n, s in edges))
        yield position, x[place]


def _pad(op: ir.Operation, x: Array, value: Array) -> Array:
    return pad_array(x, value, *(symints(op, name) for name in _EDGES))


def _padded(op: ir.Operation) -> list[int]:
    """Dimensions along which there is padding."""
    edges = zip(*(symints(op, name) for name in _EDGES), strict=True)
    return [dimension for dimension, edge in enumerate(edges) if any(edge)]


op(
    "pad(operand: any, padding_value: any) {low, high, interior} -> (result: any)",
    "Pads with a scalar: `low` and `high` (may be negative: crops) edges and `interior` between elements.",
    checks=(same_elements, entry_per_dimension(*_EDGES), scalar_like(1, "padding_value")),
    work=Work.MOVES,
    picks=slice(0, 2),
    value=_pad,
    exact=always,
    shapes=_pad_shape,
    factors=common_but(_padded, Kind.WINDOWED),
)


def _check_reverse(op: ir.OpView) -> None:
    """reverse."""
    require_dimensions(i64s(op, "dimensions"), rank(op.operands[0]), "dimensions")


op(
    "reverse(operand: T) {dimensions} -> (result: T)",
    "Reverses the order of elements along `dimensions`.",
    checks=(_check_reverse,),
    work=Work.MOVES,
    picks=FIRST,
    value=lambda op, x: np.flip(x, i64s(op, "dimensions")),
    exact=always,
    factors=common_but(lambda op: i64s(op, "dimensions"), Kind.WINDOWED),
)


op(
    "copy(operand: T) -> (result: T)",
    "The same value in another place of memory; inserted by buffer assignment only.",
    elementwise=True,
    picks=FIRST,
    rounds=Rounds.NEVER,
    separate=True,
    value=lambda op, x: x,
)
