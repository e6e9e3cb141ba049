"""Ops that read or write a part of a tensor: at fixed places, at a place known at run time, at many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stablehlo_py.dialect.ops.factors import Builder, Kind, others
from stablehlo_py.dialect.ops.record import FIRST, Array, Shape, Shapes, Work, always, op
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import element_type, i64, i64s, is_integer, rank, shape, static_shape, symints
from stablehlo_py.dialect.verify import (
    Check,
    Conditions,
    alike,
    entry_per_dimension,
    require,
    require_dimensions,
    same_elements,
)
from stablehlo_py.mlir import ir

_EDGES = ("start", "limit", "strides")


def _slice_shape(c: Conditions, op: ir.Operation, x: Shape) -> Shapes:
    edges = list(zip(*(symints(op, name) for name in _EDGES), strict=True))
    for (start, limit, stride), size in zip(edges, x, strict=True):
        for low, high in ((0, start), (start, limit), (limit, size), (1, stride)):
            c.require_at_most(low, high)
    return [[slice_size(*edge) for edge in edges]]


def slice_size(start: IntLike, limit: IntLike, stride: IntLike) -> IntLike:
    """How many elements `start + i * stride < limit` there are."""
    return -(-(limit - start) // stride)


def _slice(op: ir.Operation, x: Array) -> Array:
    return x[tuple(slice(*edge) for edge in zip(*(symints(op, name) for name in _EDGES), strict=True))]


def _slice_factors(b: Builder, op: ir.Operation) -> None:
    is_dynamic = op.operation.name == "hlo.dynamic_slice"
    for dimension, (size, part) in enumerate(zip(b.shapes[0], b.result_shapes[0], strict=True)):
        if size == part:
            number = b.add(size, {0: dimension}, {0: dimension})
            b.attribute("sizes" if is_dynamic else "limit", len(b.shapes[0]), dimension, number)
        elif not is_dynamic:
            b.add(part, {0: dimension}, {0: dimension}, Kind.WINDOWED)


op(
    "slice(operand: any) {start, limit, strides} -> (result: any)",
    "Elements `start + i * strides < limit` of every dimension.",
    checks=(same_elements, entry_per_dimension(*_EDGES)),
    work=Work.INDICES,
    picks=FIRST,
    value=_slice,
    exact=always,
    shapes=_slice_shape,
    factors=_slice_factors,
)


def _starts(first: int) -> Check:
    """Operands from this one on are start indices."""

    def check(op: ir.OpView) -> None:
        starts = list(op.operands)[first:]
        require(len(starts) == rank(op.operands[0]), "needs one start index per dimension")
        scalars = all(rank(start) == 0 and is_integer(element_type(start)) for start in starts)
        require(scalars, "start indices must be integer scalars")

    return check


def clamp_start(start: int, size: IntLike, full: IntLike) -> IntLike:
    """The start of a dynamic slice of `size` out of `full`, moved so that it fits."""
    return max(0, min(start, full - size))


def _window(starts: Sequence[Array], sizes: Sequence[IntLike], full: Sequence[IntLike]) -> tuple[slice, ...]:
    """The place of a dynamic slice."""
    begins = [clamp_start(int(start), *each) for start, *each in zip(starts, sizes, full, strict=True)]
    return tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))


def _dynamic_slice_shape(c: Conditions, op: ir.Operation, x: Shape, *starts: Shape) -> Shapes:
    c.require_within(symints(op, "sizes"), x)
    return [symints(op, "sizes")]


op(
    "dynamic_slice(operand: any, start_indices...: U) {sizes} -> (result: any)",
    "A slice of static `sizes` at scalar start indices, clamped so that it fits.",
    checks=(same_elements, _starts(1)),
    work=Work.MOVES,
    picks=FIRST,
    value=lambda op, x, *starts: x[_window(starts, symints(op, "sizes"), x.shape)],
    exact=always,
    shapes=_dynamic_slice_shape,
    factors=_slice_factors,
)


def _dynamic_update_slice_shape(c: Conditions, op: ir.Operation, x: Shape, update: Shape, *starts: Shape) -> Shapes:
    c.require_within(update, x)
    return [x]


def _dynamic_update_slice(op: ir.Operation, x: Array, update: Array, *starts: Array) -> Array:
    result = np.array(x)
    result[_window(starts, update.shape, x.shape)] = update
    return result


def _dynamic_update_slice_factors(b: Builder, op: ir.Operation) -> None:
    for dimension, (size, part) in enumerate(zip(b.shapes[0], b.shapes[1], strict=True)):
        if size == part:
            b.add(size, {0: dimension, 1: dimension}, {0: dimension})
        else:
            b.add(size, {0: dimension}, {0: dimension}, Kind.REPLICATED)


op(
    "dynamic_update_slice(operand: T, update: any, start_indices...: U) -> (result: T)",
    "`operand` with `update` written at scalar start indices, clamped so that it fits.",
    checks=(alike("operand", "update"), _starts(2)),
    work=Work.UPDATES,
    picks=slice(0, 2),
    value=_dynamic_update_slice,
    exact=always,
    shapes=_dynamic_update_slice_shape,
    factors=_dynamic_update_slice_factors,
)


def _check_gather(op: ir.OpView) -> None:
    """gather: spec, section gather, constraints C1 to C22."""
    operand, indices = op.operands
    source, places = shape(operand), shape(indices)
    collapsed, batching = i64s(op, "collapsed_slice_dims"), i64s(op, "operand_batching_dims")
    index_batching, index_map = i64s(op, "start_indices_batching_dims"), i64s(op, "start_index_map")
    sizes, vector = symints(op, "slice_sizes"), i64(op, "index_vector_dim")
    require(is_integer(element_type(indices)), "start_indices must be integers")
    require(0 <= vector <= len(places), "index_vector_dim is outside the rank of start_indices")
    require(len(sizes) == len(source), "slice_sizes needs one entry per operand dimension")
    require_dimensions((*collapsed, *batching), len(source), "collapsed_slice_dims and operand_batching_dims")
    require_dimensions((*index_map, *batching), len(source), "start_index_map and operand_batching_dims")
    require_dimensions(index_batching, len(places), "start_indices_batching_dims")
    require(
        len(batching) == len(index_batching), "needs as many batching dimensions of the operand as of start_indices"
    )
    require(all(sizes[i] <= 1 for i in (*collapsed, *batching)), "slice_sizes of dimensions that go away must be 1")
    components = places[vector] if vector < len(places) else 1
    require(len(index_map) == components, f"start_index_map needs {components} entries")


def _gather_shape(c: Conditions, op: ir.Operation, x: Shape, indices: Shape) -> Shapes:
    sizes, offset_dims = symints(op, "slice_sizes"), i64s(op, "offset_dims")
    c.require_within(sizes, x)
    batch = others(len(indices), [i64(op, "index_vector_dim")])
    window = others(len(sizes), i64s(op, "collapsed_slice_dims"), i64s(op, "operand_batching_dims"))
    batches, windows = (indices[i] for i in batch), (sizes[i] for i in window)
    return [[next(windows if i in offset_dims else batches) for i in range(len(batch) + len(window))]]


def _gather(op: ir.Operation, x: Array, indices: Array) -> Array:
    """Spec section `gather`, for all result elements at once: one index array per operand dimension."""
    offset_dims, sizes = i64s(op, "offset_dims"), symints(op, "slice_sizes")
    result_shape = static_shape(op.result)
    grids = np.indices(result_shape, sparse=True) if result_shape else []
    batching = i64s(op, "operand_batching_dims")
    batched = dict(zip(batching, i64s(op, "start_indices_batching_dims"), strict=True))
    places = [grids[d] for d in others(len(result_shape), offset_dims)]
    starts = slice_starts(indices, i64(op, "index_vector_dim"), places, i64s(op, "start_index_map"), batched)
    window = dict(zip(others(x.ndim, i64s(op, "collapsed_slice_dims"), batching), offset_dims, strict=True))
    place: list[Array] = []
    for dimension, size in enumerate(x.shape):
        index = np.clip(starts.get(dimension, 0), 0, size - sizes[dimension])
        place.append(index + grids[window[dimension]] if dimension in window else index)
    return np.broadcast_to(x[tuple(place)], result_shape)


def slice_starts(
    indices: Array, vector: int, places: Sequence[Array], components: Sequence[int], batched: Mapping[int, int]
) -> dict[int, Array]:
    """Where the slices of a gather, or the windows of a scatter, start: numbers along each dimension of the operand
    that the indices say anything of.

    Args:
        vector: the dimension of `indices` that holds the components of an index; their number where there is none.
        places: for all other dimensions of `indices` the place of the slice, as of `np.indices`.
        components: which dimension each component is for.
        batched: batching dimensions of the operand, and those of `indices` that run with them.
    """
    starts = {dimension: places[other - (other > vector)] for dimension, other in batched.items()}
    for component, dimension in enumerate(components):
        place = list(places)
        if vector < indices.ndim:
            place.insert(vector, np.array(component))
        starts[dimension] = indices[tuple(place)].astype(np.int64)
    return starts


def _gather_factors(b: Builder, op: ir.Operation) -> None:
    (sizes, places), window, vector = b.shapes, symints(op, "slice_sizes"), i64(op, "index_vector_dim")
    offsets, batching = i64s(op, "offset_dims"), i64s(op, "operand_batching_dims")
    batched = dict(zip(i64s(op, "start_indices_batching_dims"), batching, strict=True))
    rank = len(b.result_shapes[0])
    for result, index in zip(others(rank, offsets), others(len(places), [vector]), strict=True):
        b.add(places[index], {1: index} | ({0: batched[index]} if index in batched else {}), {0: result})
    for result, source in zip(offsets, others(len(sizes), i64s(op, "collapsed_slice_dims"), batching), strict=True):
        if window[source] == sizes[source]:  # the start is clamped to 0
            b.attribute("slice_sizes", len(sizes), source, b.add(sizes[source], {0: source}, {0: result}))


op(
    "gather(operand: any, start_indices: any) {offset_dims, collapsed_slice_dims, operand_batching_dims, "
    "start_indices_batching_dims, start_index_map, index_vector_dim, slice_sizes} -> (result: any)",
    "Slices of `slice_sizes` at computed places; dimension numbers as in the StableHLO spec, section gather.",
    checks=(same_elements, _check_gather),
    work=Work.MOVES,
    random_access=True,
    picks=FIRST,
    value=_gather,
    exact=always,
    shapes=_gather_shape,
    factors=_gather_factors,
)
