"""Rules on dynamic slices, updates and gathers whose indices are known, and on scatters of one window."""

from __future__ import annotations

import math

from stablehlo_py.dialect.attributes import WHOLE_WINDOWS
from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.ops.indexing import clamp_start
from stablehlo_py.dialect.scalar_regions import not_elementwise, on_tensors
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.types import i64, i64s, num_elements, shape, symints
from stablehlo_py.mlir import ir, stablehlo
from stablehlo_py.passes._matchers import constant_array, integer_bounds, is_scalar_broadcast, repeated_step
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet, defining

INDEX = RuleSet("index")


@INDEX.rule("hlo.dynamic_slice")
def dynamic_slice_constant(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dynamic_slice(x, constants) -> slice(x), of everything -> x"
    x, *starts = op.operands
    sizes, full = symints(op, "sizes"), shape(x)
    if sizes == full:
        return x
    begins = []
    for start, size, total in zip(starts, sizes, full, strict=True):
        c = 0 if size == total else splat(start)
        if c is None:
            return None
        begins.append(clamp_start(int(c), size, total))  # type: ignore[arg-type]
    limits = [begin + size for begin, size in zip(begins, sizes, strict=True)]
    return rewriter.slice(x, begins, limits, [1] * len(sizes))


@INDEX.rule("hlo.dynamic_slice", "hlo.gather", needs="hlo.broadcast", where="c is a scalar")
def index_of_splat(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dynamic_slice(broadcast(c)), gather(broadcast(c)) -> broadcast(c)"
    x = op.operands[0]
    if not is_scalar_broadcast(x):
        return None
    return rewriter.broadcast(x.owner.operands[0], shape(op.result), [])


@INDEX.rule("hlo.dynamic_update_slice")
def update_everything(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dynamic_update_slice(x, y of x's shape) -> y"
    x, y = op.operands[0], op.operands[1]
    return y if x.type == y.type else None


@INDEX.rule("hlo.dynamic_update_slice")
def update_nothing(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dynamic_update_slice(x, y without elements) -> x, dynamic_update_slice(x, dynamic_slice(x, i), i) -> x"
    x, y, *starts = op.operands
    if 0 in shape(y):
        return x
    inner = defining(y, "hlo.dynamic_slice")
    return x if inner is not None and list(inner.operands) == [x, *starts] else None


@INDEX.pair("hlo.dynamic_update_slice", "hlo.dynamic_update_slice", where="the same place and shape")
def update_twice(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dynamic_update_slice(dynamic_update_slice(x, y, i), z, i) -> dynamic_update_slice(x, z, i)"
    _, z, *starts = op.operands
    source, y, *others = inner.operands
    return rewriter.like("dynamic_update_slice", source, z, *starts) if y.type == z.type and others == starts else None


@INDEX.pair("hlo.dynamic_slice", "hlo.dynamic_update_slice", where="the same place and shape")
def slice_of_update(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dynamic_slice(dynamic_update_slice(x, y, i), i) -> y"
    _, y, *others = inner.operands
    return y if y.type == op.result.type and others == list(op.operands)[1:] else None


# --- gather ----------------------------------------------------------------------------------------------------------


def _is_simple_gather(op: ir.Operation) -> bool:
    return not i64s(op, "operand_batching_dims")


@INDEX.rule("hlo.gather", where="all batch dimensions have size 1")
def gather_one(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "gather of a single slice -> reshape(dynamic_slice(x))"
    x, indices = op.operands
    if not _is_simple_gather(op):
        return None
    vector_dim, index_map = i64(op, "index_vector_dim"), i64s(op, "start_index_map")
    index_sizes = shape(indices)
    if any(size != 1 for dimension, size in enumerate(index_sizes) if dimension != vector_dim):
        return None
    element = indices.type.element_type
    flat = rewriter.reshape(indices, [len(index_map)])
    zero = None
    starts = []
    for dimension in range(x.type.rank):
        if dimension in index_map:
            k = index_map.index(dimension)
            starts.append(rewriter.reshape(rewriter.slice(flat, [k], [k + 1], [1]), []))
        else:
            zero = zero if zero is not None else rewriter.splat(0, tensor([], element))
            starts.append(zero)
    return rewriter.reshape(
        rewriter.made("dynamic_slice", x, *starts, sizes=symints(op, "slice_sizes")), shape(op.result)
    )


@INDEX.rule(
    "hlo.gather", where="indices are an increasing arithmetic progression along one dimension, each k times, in range"
)
def gather_sequence(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "gather(x, [a, a + s, a + 2 s ...]) -> reshape(broadcast(transpose(slice(x))))"
    x, indices = op.operands
    index_map, collapsed = i64s(op, "start_index_map"), i64s(op, "collapsed_slice_dims")
    if not _is_simple_gather(op) or len(index_map) != 1 or index_map[0] not in collapsed:
        return None
    dimension, count = index_map[0], _one_long_dimension(op, indices)
    progression = None if count is None else repeated_step(_unsqueezed(indices))
    if progression is None or count is None:
        return None
    first, step, times = progression
    total, count = count, count // times
    if step < 1 or first < 0 or first + (count - 1) * step >= shape(x)[dimension]:
        return None
    start, limit, strides = [0] * x.type.rank, list(symints(op, "slice_sizes")), [1] * x.type.rank
    start[dimension], limit[dimension], strides[dimension] = first, first + (count - 1) * step + 1, step
    taken = rewriter.slice(x, start, limit, strides)
    # Result order: batch dimensions (one of them `count` long, in place of the indexed one) among the offset
    # dimensions.
    offset_dims = i64s(op, "offset_dims")
    window = [d for d in range(x.type.rank) if d not in collapsed]
    batch = [d for d in range(len(shape(op.result))) if d not in offset_dims]
    sizes = list(shape(op.result))
    place = next(d for d in batch if sizes[d] == total)
    others = [d for d in collapsed if d != dimension]
    order = [
        dimension if d == place else window[offset_dims.index(d)]
        for d in range(op.result.type.rank)
        if d == place or d in offset_dims
    ]
    sizes[place] = count
    taken = rewriter.reshape(rewriter.transpose(taken, [*others, *order]), sizes)
    if times > 1:
        sizes.insert(place + 1, times)
        taken = rewriter.broadcast(taken, sizes, [d for d in range(len(sizes)) if d != place + 1])
    return rewriter.reshape(taken, shape(op.result))


def _one_long_dimension(op: ir.Operation, indices: ir.Value) -> IntLike | None:
    """Size of the only batch dimension longer than 1, if the index vector has one entry."""
    vector_dim = i64(op, "index_vector_dim")
    sizes = [size for dimension, size in enumerate(shape(indices)) if dimension != vector_dim and size != 1]
    return sizes[0] if len(sizes) == 1 and sizes[0] > 1 else None


def _unsqueezed(value: ir.Value) -> ir.Value:
    """The value below reshapes that only add or drop dimensions of size 1."""
    while value.type.rank != 1:
        inner = defining(value, "hlo.reshape")
        if inner is None:
            break
        value = inner.operands[0]
    return value


# --- scatter ---------------------------------------------------------------------------------------------------------


@INDEX.rule("stablehlo.scatter", where="the window is in bounds, or counts as a whole or not at all")
def scatter_one(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "scatter of one window -> dynamic_update_slice(x, body(dynamic_slice(x), window)), of x out of bounds"
    count, block = len(op.results), op.regions[0].blocks[0]
    operands, indices, updates = list(op.operands)[:count], op.operands[count], list(op.operands)[count + 1 :]
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    full, sizes, window_dims = shape(operands[0]), shape(updates[0]), list(numbers.update_window_dims)
    single = all(size == 1 for dimension, size in enumerate(sizes) if dimension not in window_dims)
    if not single or not_elementwise(block) is not None:
        return None
    absent = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    of_window = iter(window_dims)
    window = [1 if dimension in absent else sizes[next(of_window)] for dimension in range(len(full))]
    moved = list(numbers.scattered_dims_to_operand_dims)
    last = [full[dimension] - window[dimension] for dimension in moved]
    if WHOLE_WINDOWS not in op.attributes and any(window[dimension] != 1 for dimension in moved):
        known = constant_array(indices, len(moved))
        if known is None or not all(0 <= at <= most for at, most in zip(known.reshape(-1), last, strict=True)):
            return None
    flat, index = rewriter.reshape(indices, [len(moved)]), tensor([], indices.type.element_type)
    starts = [rewriter.splat(0, index)] * len(full)
    inside = rewriter.splat(True, tensor([], ir.IntegerType.get_signless(1)))
    for number, (dimension, most) in enumerate(zip(moved, last, strict=True)):
        start = starts[dimension] = rewriter.reshape(rewriter.slice(flat, [number], [number + 1], [1]), [])
        low, high = integer_bounds(start)
        for bound, direction in ((0, "GE"),) * (low < 0) + ((most, "LE"),) * (most < high):
            inside = rewriter.like("and", inside, rewriter.compare(start, rewriter.splat(bound, index), direction))
    whole = window == list(full)
    old = [x if whole else rewriter.made("dynamic_slice", x, *starts, sizes=window) for x in operands]
    with rewriter.insertion_point, rewriter.location:
        new = on_tensors(block, [*old, *(rewriter.reshape(update, window) for update in updates)], window)
    is_inside = rewriter.broadcast(inside, window, [])
    new = [rewriter.value("select", b.type, is_inside, a, b) for a, b in zip(new, old, strict=True)]
    pairs = zip(operands, new, strict=True)
    return new if whole else [rewriter.like("dynamic_update_slice", x, a, *starts) for x, a in pairs]


@INDEX.rule("stablehlo.scatter", where="x is a splat, and every dimension of it but one is a batch dimension")
def scatter_each(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "scatter of one element for each batch -> select(iota == index, body(x, update), x)"
    count, block = len(op.results), op.regions[0].blocks[0]
    operands, indices, updates = list(op.operands)[:count], op.operands[count], list(op.operands)[count + 1 :]
    numbers, full = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"]), shape(operands[0])
    kept, moved = list(numbers.input_batching_dims), list(numbers.scattered_dims_to_operand_dims)
    if not kept or len(kept) + 1 != len(full) or len(moved) != 1 or list(numbers.update_window_dims):
        return None
    pairs, batches = list(numbers.scatter_indices_batching_dims), [full[dimension] for dimension in kept]
    if kept != sorted(kept) or pairs != sorted(pairs) or num_elements(updates[0]) != math.prod(batches):
        return None
    places, index = full[moved[0]], indices.type.element_type
    if not is_known(places) or places > 1 << (index.width - 1) or not_elementwise(block) is not None:
        return None
    if any(not is_scalar_broadcast(x) and splat(x) is None for x in operands):
        return None
    place = rewriter.value("iota", tensor(full, index), dimension=moved[0])
    hit = rewriter.compare(place, rewriter.broadcast(rewriter.reshape(indices, batches), full, kept), "EQ")
    new = [rewriter.broadcast(rewriter.reshape(update, batches), full, kept) for update in updates]
    with rewriter.insertion_point, rewriter.location:
        new = on_tensors(block, [*operands, *new], full)
    return [rewriter.value("select", b.type, hit, b, a) for a, b in zip(operands, new, strict=True)]
