"""StableHLO ops that stay: they are variadic over mixed types, which cannot be defined from Python.

What their regions do is evaluated on arrays, one lane for every independent application: what an op combines one after
the other is a loop in Python, everything that lies side by side is one NumPy operation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stablehlo_py.dialect.attributes import WHOLE_WINDOWS
from stablehlo_py.dialect.ops.factors import Builder, Kind, at, common_but, others
from stablehlo_py.dialect.ops.indexing import slice_starts
from stablehlo_py.dialect.ops.record import ALL, Array, Effects, Shape, Shapes, Work, always
from stablehlo_py.dialect.ops.record import kept as kept_op
from stablehlo_py.dialect.ops.reduction import (
    REDUCTION_KINDS,
    Body,
    reduce_shape,
    reduce_window_shape,
    reduce_windows,
    reduced,
    reduction_factors,
    window_factors,
    windowed_dimensions,
    windows,
)
from stablehlo_py.dialect.types import i64, i64s
from stablehlo_py.dialect.verify import Conditions
from stablehlo_py.dialect.window import window_of, window_shape
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir, stablehlo

# A sort compares every pair of a row: more lanes than these take too long.
_MAX_PAIRS = 1 << 27


def _concatenate(op: ir.Operation, *operands: Array) -> Array:
    return np.concatenate(operands, i64(op, "dimension"))


def _reduce(op: ir.Operation, operands: list[Array], body: Callable[[int], Body]) -> list[Array]:
    return reduced(operands, i64s(op, "dimensions"), body(0))


def _select_and_scatter(op: ir.Operation, operands: list[Array], body: Callable[[int], Body]) -> list[Array]:
    x, source, init = operands
    select, combine = body(0), body(1)
    result = np.full(x.shape, init, x.dtype).reshape(-1)
    if not source.size:
        return [result.reshape(x.shape)]
    # Padding has the number -1, and is never chosen.
    numbers = windows(op, np.arange(x.size).reshape(x.shape), np.array(-1), source.shape)
    values = windows(op, x, np.zeros((), x.dtype), source.shape)
    best, chosen = values[0], numbers[0]
    for value, number in zip(values[1:], numbers[1:], strict=True):
        (keeps,) = select(best, value)
        takes = (number >= 0) & ((chosen < 0) | ~keeps)
        best, chosen = np.where(takes, value, best), np.where(takes, number, chosen)
    inside = chosen.reshape(-1) >= 0
    (result,) = _combined([result], chosen.reshape(-1)[inside], [source.reshape(-1)[inside]], combine)
    return [result.reshape(x.shape)]


def _scatter(op: ir.Operation, operands: list[Array], body: Callable[[int], Body]) -> list[Array]:
    """Spec section `scatter`: every element of the updates that lies inside, in row-major order; of windows that are
    inside as a whole where the op says so (`scatter_windows`)."""
    count = (len(operands) - 1) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    sizes = inputs[0].shape
    windows, batching = list(numbers.update_window_dims), list(numbers.input_batching_dims)
    free = others(len(sizes), numbers.inserted_window_dims, batching)
    window_of_dimension = dict(zip(free, windows, strict=True))
    grids: list[Array] = list(np.indices(updates[0].shape, sparse=True)) if updates[0].ndim else []
    scattered = [grids[d] for d in others(updates[0].ndim, windows)]
    batched = dict(zip(batching, numbers.scatter_indices_batching_dims, strict=True))
    components = list(numbers.scattered_dims_to_operand_dims)
    starts = slice_starts(indices, numbers.index_vector_dim, scattered, components, batched)
    place: Array = np.zeros((), np.int64)
    inside: Array = np.ones((), bool)
    for dimension, size in enumerate(sizes):
        at: Array = starts.get(dimension, np.zeros((), np.int64))
        if dimension in window_of_dimension:
            if WHOLE_WINDOWS in op.attributes:
                inside = inside & (at >= 0) & (at <= size - updates[0].shape[window_of_dimension[dimension]])
            at = at + grids[window_of_dimension[dimension]]
        inside = inside & (at >= 0) & (at < size)
        place = place * size + at
    chosen = np.broadcast_to(inside, updates[0].shape).reshape(-1)
    places = np.broadcast_to(place, updates[0].shape).reshape(-1)[chosen]
    flat = [np.array(x).reshape(-1) for x in inputs]
    results = _combined(flat, places, [update.reshape(-1)[chosen] for update in updates], body(0))
    return [result.reshape(sizes) for result in results]


def _combined(targets: list[Array], places: Array, updates: list[Array], combine: Body) -> list[Array]:
    """Updates combined into the targets at `places`, those of one place one after the other."""
    order = np.argsort(places, kind="stable")
    sorted_places = places[order]
    first = np.searchsorted(sorted_places, sorted_places, side="left")
    turn = np.arange(len(order)) - first  # how many updates of the same place come before
    for number in range(int(turn.max(initial=-1)) + 1):
        now = order[turn == number]
        at = places[now]
        combined = combine(*(target[at] for target in targets), *(update[now] for update in updates))
        for target, values in zip(targets, combined, strict=True):
            target[at] = values
    return targets


def _sort(op: ir.Operation, operands: list[Array], body: Callable[[int], Body]) -> list[Array]:
    """The place of an element is the number of those that come before it: a stable sort for any comparator."""
    dimension = _sorted(op) % max(1, operands[0].ndim)
    rows = [np.moveaxis(x, dimension, -1) for x in operands]
    length, before = rows[0].shape[-1], body(0)
    if rows[0].size * length > _MAX_PAIRS:
        raise UnsupportedError(f"a sort of rows of {length} elements is not evaluated in NumPy", op=op.name)
    pairs = [side for x in rows for side in (x[..., :, None], x[..., None, :])]
    shape_ = (*rows[0].shape, length)
    (less,) = before(*(np.broadcast_to(side, shape_) for side in pairs))  # less[..., i, j]: i comes before j
    equal = ~less & ~np.swapaxes(less, -1, -2)
    rank = less.sum(-2) + (equal & np.tri(length, length, -1, dtype=bool)).sum(-1)
    places = np.argsort(rank, -1, kind="stable")
    return [np.moveaxis(np.take_along_axis(x, places, -1), -1, dimension) for x in rows]


def _reduce_window(op: ir.Operation, operands: list[Array], body: Callable[[int], Body]) -> list[Array]:
    return reduce_windows(op, operands, body(0))


def _reduce_general_factors(b: Builder, op: ir.Operation) -> None:
    reduction_factors(b, op, len(b.results))


def _select_and_scatter_factors(b: Builder, op: ir.Operation) -> None:
    windowed = windowed_dimensions(op)
    for dimension, count in enumerate(b.shapes[1]):  # the source has an element for each window
        b.add(count, *b.everywhere(dimension), Kind.WINDOWED if dimension in windowed else Kind.PARALLEL)


def _scatter_factors(b: Builder, op: ir.Operation) -> None:
    count = len(b.results)
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    inputs, updates = range(count), range(count + 1, 2 * count + 1)
    sizes, places, parts = b.shapes[0], b.shapes[count], b.shapes[count + 1]
    windows, batching = list(numbers.update_window_dims), list(numbers.input_batching_dims)
    batched = dict(zip(numbers.scatter_indices_batching_dims, batching, strict=True))
    combiner = _body_op(op)
    b.combiner, b.initial = combiner, tuple(inputs)
    for update, index in zip(others(len(parts), windows), others(len(places), [numbers.index_vector_dim]), strict=True):
        operands = {count: index} | at(updates, update)
        if index in batched:
            both = at(inputs, batched[index])
            b.add(places[index], both | operands, both)
        elif combiner:
            b.add(places[index], operands, kind=Kind.REDUCED)
    for update, target in zip(windows, others(len(sizes), numbers.inserted_window_dims, batching), strict=True):
        if parts[update] == sizes[target] and target not in numbers.scattered_dims_to_operand_dims:
            both = at(inputs, target)
            b.add(sizes[target], both | at(updates, update), both)
    for dimension, size in enumerate(sizes):
        if not b.operands[0][dimension]:
            both = at(inputs, dimension)
            b.add(size, both, both, Kind.REPLICATED)


def _body_op(op: ir.Operation) -> str:
    """The one commutative op that a body of two arguments applies to them; "" for any other body."""
    block = op.regions[0].blocks[0]
    *ops, last = block.operations
    if len(ops) != 1 or len(block.arguments) != 2:
        return ""
    name = ops[0].operation.name.removeprefix("hlo.")
    whole = set(ops[0].operands) == set(block.arguments) and list(last.operands) == list(ops[0].results)
    return name if whole and name in REDUCTION_KINDS else ""


def _sorted(op: ir.Operation) -> int:
    """The dimension of a sort."""
    return i64(op, "dimension") if "dimension" in op.attributes else -1


def _concatenate_shape(c: Conditions, op: ir.Operation, *shapes: Shape) -> Shapes:
    dimension = i64(op, "dimension")
    sizes = list(c.united([[*x[:dimension], 0, *x[dimension + 1 :]] for x in shapes]))
    sizes[dimension] = sum(x[dimension] for x in shapes)
    return [sizes]


def _scatter_shape(c: Conditions, op: ir.Operation, *shapes: Shape) -> Shapes:
    """Specification, section scatter, constraints on the shape of updates."""
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    count = len(shapes) // 2
    x, indices, updates = c.united(shapes[:count]), shapes[count], c.united(shapes[count + 1 :])
    batching, windows = list(numbers.input_batching_dims), list(numbers.update_window_dims)
    for ours, theirs in zip(batching, numbers.scatter_indices_batching_dims, strict=True):
        c.require_equal(x[ours], indices[theirs])
    places, scattered = others(len(indices), [numbers.index_vector_dim]), others(len(updates), windows)
    for place, update in zip(places, scattered, strict=True):
        c.require_equal(indices[place], updates[update])
    free = others(len(x), numbers.inserted_window_dims, batching)
    c.require_within([updates[i] for i in windows], [x[i] for i in free])
    return [x] * count


def _select_and_scatter_shape(c: Conditions, op: ir.Operation, x: Shape, source: Shape, init: Shape) -> Shapes:
    """Specification, section select_and_scatter, C2: one element of source for every window of the operand."""
    window, ones = window_of(op), [1] * len(x)
    windows = window_shape(x, window["window"], window["strides"], window["padding"], ones, ones)
    for one, other in zip(windows, source, strict=True):
        c.require_equal(other, one)
    return [x]


def _side_by_side_factors(b: Builder, op: ir.Operation) -> None:
    scattered = i64(op, "scatter_dimension") if "scatter_dimension" in op.attributes else -1
    for tensor, sizes in enumerate(b.shapes):
        for dimension in others(len(sizes), [scattered]):
            b.add(sizes[dimension], {tensor: dimension}, {tensor: dimension})


def _with_regions(name: str, doc: str, **facts: object) -> None:
    kept_op(name, doc, effects=Effects.BY_REGIONS, **facts)


kept_op(
    "concatenate",
    "always",
    attributes=("dimension",),
    work=Work.MOVES,
    picks=ALL,
    value=_concatenate,
    exact=always,
    shapes=_concatenate_shape,
    factors=common_but(lambda op: [i64(op, "dimension")], Kind.WINDOWED),
)
_with_regions(
    "reduce",
    "operands combined together, or a combiner that is not one op",
    region_value=_reduce,
    shapes=reduce_shape,
    factors=_reduce_general_factors,
)
_with_regions(
    "reduce_window",
    "the same; a window that depends on dynamic dimensions is in `hlo.window`",
    region_value=_reduce_window,
    shapes=reduce_window_shape,
    factors=window_factors,
)
for _name in ("all_reduce", "reduce_scatter"):
    kept_op(
        _name,
        "a combiner that is not one op; groups are `flattened_ids`",
        effects=Effects.IMPURE,
        work=Work.OPAQUE,
        factors=_side_by_side_factors,
    )
_with_regions("sort", "always", region_value=_sort, factors=common_but(lambda op: [_sorted(op)], Kind.REPLICATED))
_with_regions("scatter", "always", region_value=_scatter, shapes=_scatter_shape, factors=_scatter_factors)
_with_regions(
    "select_and_scatter",
    "always",
    region_value=_select_and_scatter,
    shapes=_select_and_scatter_shape,
    factors=_select_and_scatter_factors,
)
kept_op(
    "custom_call",
    "targets that the backend knows",
    effects=Effects.CUSTOM_CALL,
    work=Work.OPAQUE,
    factors="its target says what it computes",
)
kept_op(
    "optimization_barrier",
    "always",
    work=Work.OPAQUE,
    picks=ALL,
    shapes=lambda c, op, *shapes: shapes,
    factors=_side_by_side_factors,
)
