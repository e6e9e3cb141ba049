"""Ops with a function of scalars in a region: reductions, windows, sorting, scatter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import ml_dtypes
import numpy as np

from stablehlo_py.debug.generate.contractions import moderate
from stablehlo_py.debug.generate.draft import DYNAMIC, Draft, letter, require, sizes, small
from stablehlo_py.debug.generate.families import Made, family
from stablehlo_py.debug.generate.shapes import padding
from stablehlo_py.debug.ops import create, order
from stablehlo_py.dialect.build import AttributeValue
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.window import window_shape
from stablehlo_py.mlir import ir

# Commutative and associative (up to rounding): the order is not specified. Combiner -> classes of types.
COMBINERS = {
    "add": "sufc", "multiply": "suf", "maximum": "suf", "minimum": "suf", "and": "bsu", "or": "bsu", "xor": "bsu",
}  # fmt: skip
# By class of types, what bodies compute in.
PROMOTIONS = {"s": ("i16", "i32", "i64"), "u": ("ui16", "ui32", "ui64"), "f": ("bf16", "f32", "f64")}
Body = Callable[[list[ir.Value], ir.InsertionPoint], list[ir.Value]]


def combiner(d: Draft, value: ir.Value) -> str:
    """A combiner for the value's type. Raises NothingFits where there is none."""
    return d.one_of([name for name, letters in COMBINERS.items() if letter(value) in letters])


def initial(d: Draft, name: str, element: ir.Type) -> ir.Value:
    """The initial value that changes nothing. How often it is combined is left to the implementation (the
    specification's `reduce`)."""
    dtype = numpy_dtype(element)
    if name in ("maximum", "minimum"):
        if dtype.kind in "iub" or "int" in dtype.name:
            info = ml_dtypes.iinfo(dtype)
            extreme: float = int(info.min if name == "maximum" else info.max)
        else:
            extreme = -np.inf if name == "maximum" else np.inf
        return d.constant(np.asarray(extreme), element)
    if name == "and":
        return d.constant(np.asarray(-1), element)
    return d.constant(np.asarray(int(name == "multiply")), element)


def body(op: ir.Operation, number: int, types: Sequence[ir.Type], make: Body) -> None:
    """Fill a region: a block of scalar arguments, ops, and their return."""
    block = op.regions[number].blocks.append(*types)
    values = make(list(block.arguments), ir.InsertionPoint(block))
    ir.Operation.create("stablehlo.return", operands=values, ip=ir.InsertionPoint(block))


def combining(
    d: Draft,
    name: str,
    operands: Sequence[ir.Value],
    types: Sequence[ir.Type],
    attributes: Mapping[str, AttributeValue],
    combiner: str,
) -> list[ir.Value]:
    """The results of an op that combines the elements of each of them by an op, in their type."""
    made = d.make(name, operands, types, attributes, regions=1)
    body(made, 0, [d.tensor([], type_.element_type) for type_ in types] * 2, each([combiner] * len(types)))
    return list(made.results)


def scalar_type(value: ir.Value) -> ir.Type:
    """tensor<element>."""
    return ir.RankedTensorType.get([], value.type.element_type)


def orderable(d: Draft, x: ir.Value) -> tuple[ir.Value, bool]:
    """A value whose elements the comparisons of `order` can order: without NaN, or in the total order."""
    if letter(x) != "f":
        return x, False
    total = d.chance(0.05)
    return (x if total else moderate(d, x)), total


def computed_in(d: Draft, x: ir.Value) -> ir.Type:
    """The element type that a body computes in: that of the operand, now and then another one that the specification
    allows for it (`is_promotable`)."""
    own = x.type.element_type
    if letter(x) not in "suf" or not d.chance(0.15):
        return own
    bits = own.width
    wider = [each for each in map(ir.Type.parse, PROMOTIONS[letter(x)]) if each.width > bits]
    return d.one_of(wider) if wider else own


@family(5)
def reduce(d: Draft) -> Made:
    """One operand, a simple combiner."""
    x = d.value("bsufc", low=1)
    name = combiner(d, x)
    axes = d.axes(x)
    kept = [size for axis, size in enumerate(sizes(x)) if axis not in axes]
    element = computed_in(d, x)
    init = initial(d, name, x.type.element_type)
    return combining(d, "reduce", [x, init], [d.tensor(kept, element)], {"dimensions": axes}, name)


@family(2)
def reduce_pairs(d: Draft) -> Made:
    """The largest (smallest) element and its place, as argmax is written."""
    x = d.value("suf", low=1)
    x, total = orderable(d, x)
    axis = d.whole(0, len(sizes(x)))
    places = d.iota(sizes(x), axis)
    kept = [size for number, size in enumerate(sizes(x)) if number != axis]
    direction = d.one_of(("GT", "LT"))
    worst = initial(d, "maximum" if direction == "GT" else "minimum", x.type.element_type)
    inits = [worst, d.constant(np.iinfo(np.int32).max, d.i32)]
    types = [d.tensor(kept, x.type.element_type), d.tensor(kept, d.i32)]
    made = d.make("reduce", [x, places, *inits], types, {"dimensions": [axis]}, regions=1)

    def choose(arguments: list[ir.Value], point: ir.InsertionPoint) -> list[ir.Value]:
        a, i, b, j = arguments
        better = create("compare", point, a, b, **order(direction, total))
        same = create("compare", point, a, b, **order("EQ", total))
        earlier = create("compare", point, i, j, **order("LT"))
        tie = create("and", point, same, earlier)
        first = create("or", point, better, tie)
        return [create("select", point, first, a, b), create("select", point, first, i, j)]

    body(made, 0, [scalar_type(x), d.tensor([], d.i32)] * 2, choose)
    return list(made.results)


@family(1)
def reduce_several(d: Draft) -> Made:
    """Two operands, combined each by itself: of one shape, not of one type."""
    x = d.value("sufc", low=1)
    y = d.like(x, d.element() if d.chance(0.5) else None)
    names = [combiner(d, value) for value in (x, y)]
    axes = d.axes(x)
    kept = [size for axis, size in enumerate(sizes(x)) if axis not in axes]
    inits = [initial(d, name, value.type.element_type) for name, value in zip(names, (x, y), strict=True)]
    types = [d.tensor(kept, value.type.element_type) for value in (x, y)]
    made = d.make("reduce", [x, y, *inits], types, {"dimensions": axes}, regions=1)
    body(made, 0, [scalar_type(x), scalar_type(y)] * 2, each(names))
    return list(made.results)


def each(names: Sequence[str]) -> Body:
    """The body that combines every operand by an op of its own."""
    count = len(names)

    def make(arguments: list[ir.Value], point: ir.InsertionPoint) -> list[ir.Value]:
        return [create(name, point, arguments[i], arguments[count + i]) for i, name in enumerate(names)]

    return make


@family(3)
def reduce_window(d: Draft) -> Made:
    """Windows with strides, dilations and padding; cumulative sums among them."""
    x = d.value("bsuf", low=1)
    name = combiner(d, x)
    require(0 not in sizes(x))
    rank = len(sizes(x))
    if d.chance(0.3):  # a cumulative reduction
        axis = d.whole(0, rank)
        window = [size if number == axis else 1 for number, size in enumerate(sizes(x))]
        edges = [(size - 1, 0) for size in window]
        strides = dilations = base = [1] * rank
    else:
        window = [d.whole(1, min(4, size + 1) + 1) for size in sizes(x)]
        edges = [(d.whole(0, 3), d.whole(0, 3)) for _ in window]
        strides, dilations, base = ([(1, 1, 2)[d.whole(0, 3)] for _ in window] for _ in range(3))
    shape = [*map(int, window_shape(sizes(x), window, strides, [*chain(*edges)], base, dilations))]
    attributes = {
        "window_dimensions": window,
        "window_strides": strides,
        "base_dilations": base,
        "window_dilations": dilations,
        "padding": padding(edges),
    }
    values = [x, d.like(x)] if d.chance(0.2) else [x]
    inits, element = [initial(d, name, x.type.element_type) for _ in values], computed_in(d, x)
    types = [d.tensor(shape, element) for _ in values]
    results = combining(d, "reduce_window", [*values, *inits], types, attributes, name)
    small(results[0])
    return results


@family(1)
def select_and_scatter(d: Draft) -> Made:
    """The gradient of a maximum over windows that do not overlap."""
    x = d.value("suf", low=1)
    require(0 not in sizes(x))
    x, total = orderable(d, x)
    window = [d.whole(1, min(3, size) + 1) for size in sizes(x)]
    shape = [size // w for size, w in zip(sizes(x), window, strict=True)]
    source = d.fresh(shape, x.type.element_type)
    init = d.constant(np.asarray(0), x.type.element_type)
    attributes = {"window_dimensions": window, "window_strides": window, "padding": padding([(0, 0)] * len(window))}
    element = computed_in(d, x)
    made = d.make("select_and_scatter", [x, source, init], [d.tensor(sizes(x), element)], attributes, regions=2)
    body(made, 0, [scalar_type(x)] * 2, lambda a, point: [create("compare", point, *a, **order("GE", total))])
    body(made, 1, [d.tensor([], element)] * 2, each(["add"]))
    return made.result


@family(2)
def sort(d: Draft) -> Made:
    """One or two values, stably, by the first."""
    x = d.value("bsuf", low=1)
    x, total = orderable(d, x)
    values = [x, d.like(x)] if d.chance(0.4) else [x]
    if d.chance(0.3) and DYNAMIC not in sizes(x):
        values.append(d.iota(sizes(x), len(sizes(x)) - 1))
    attributes = {"dimension": d.whole(0, len(sizes(x))), "is_stable": True}
    made = d.make("sort", values, [value.type for value in values], attributes, regions=1)
    direction = d.one_of(("LT", "GT"))
    types = [scalar_type(value) for value in values for _ in range(2)]
    body(made, 0, types, lambda a, point: [create("compare", point, a[0], a[1], **order(direction, total))])
    return list(made.results)


@family(1)
def map_(d: Draft) -> Made:
    """A function of scalars on every element."""
    x = d.value("suf")
    y = d.like(x)
    made = d.make("map", [x, y], [x.type], {"dimensions": list(range(len(sizes(x))))}, regions=1)
    names = ("add", "multiply", "maximum", "subtract")
    first, second = d.one_of(names), d.one_of(names)
    body(made, 0, [scalar_type(x)] * 2, lambda a, point: [create(second, point, create(first, point, *a), a[0])])
    return made.result


@family(3)
def gather(d: Draft) -> Made:
    """Slices at given places: along one dimension, or at points of two."""
    x = d.value("bsufc8", low=1)
    require(0 not in sizes(x))
    rank = len(sizes(x))
    count = 1 if rank == 1 or d.chance(0.6) else 2
    axes = sorted(int(axis) for axis in d.random.choice(rank, count, replace=False))
    batch = [d.whole(1, 6) for _ in range(d.whole(0, 3))]
    indices = d.indices([*batch, count], max(sizes(x)[axis] for axis in axes))
    collapse = d.chance(0.7)
    slices = [
        1 if axis in axes and collapse else d.whole(1, size + 1) if d.chance(0.3) else size
        for axis, size in enumerate(sizes(x))
    ]
    offsets = rank - count if collapse else rank
    numbers = (
        f"#stablehlo.gather<offset_dims = {list(range(len(batch), len(batch) + offsets))}, "
        f"collapsed_slice_dims = {axes if collapse else []}, start_index_map = {axes}, index_vector_dim = {len(batch)}>"
    )
    return small(d.op("gather", x, indices, dimension_numbers=numbers, slice_sizes=slices, indices_are_sorted=False))


@family(3)
def scatter(d: Draft) -> Made:
    """Updates at given places, combined; some places are met twice, some are out of bounds."""
    x = d.value("bsuf", low=1)
    name = combiner(d, x)
    require(0 not in sizes(x))
    rank = len(sizes(x))
    axis = d.whole(0, rank)
    batch = [d.whole(1, 6) for _ in range(d.whole(0, 3))]
    indices = d.indices([*batch, 1], sizes(x)[axis])
    window = [size for number, size in enumerate(sizes(x)) if number != axis]
    updates = d.fresh([*batch, *window], x.type.element_type)
    numbers = (
        f"#stablehlo.scatter<update_window_dims = {list(range(len(batch), len(batch) + rank - 1))}, "
        f"inserted_window_dims = [{axis}], scatter_dims_to_operand_dims = [{axis}], index_vector_dim = {len(batch)}>"
    )
    attributes = {"scatter_dimension_numbers": numbers, "indices_are_sorted": False, "unique_indices": False}
    if d.chance(0.2):  # two operands, each with its updates
        other, others = d.like(x), d.fresh(sizes(updates), x.type.element_type)
        return combining(d, "scatter", [x, other, indices, updates, others], [x.type] * 2, attributes, name)
    element = computed_in(d, x)
    return combining(d, "scatter", [x, indices, updates], [d.tensor(sizes(x), element)], attributes, name)


@family(1)
def gather_batched(d: Draft) -> Made:
    """One place in each batch (batching dimensions): what `take_along_axis` becomes."""
    x = d.value("bsufc8", low=2)
    require(0 not in sizes(x))
    batch, axis = (int(number) for number in d.random.permutation(len(sizes(x)))[:2])
    count = d.whole(1, 5)
    indices = d.indices([sizes(x)[batch], count, 1], sizes(x)[axis])
    kept = [number for number in range(len(sizes(x))) if number not in (batch, axis)]
    numbers = (
        f"#stablehlo.gather<offset_dims = {list(range(2, 2 + len(kept)))}, collapsed_slice_dims = [{axis}], "
        f"operand_batching_dims = [{batch}], start_indices_batching_dims = [0], start_index_map = [{axis}], "
        "index_vector_dim = 2>"
    )
    slices = [1 if number in (batch, axis) else size for number, size in enumerate(sizes(x))]
    return small(d.op("gather", x, indices, dimension_numbers=numbers, slice_sizes=slices, indices_are_sorted=False))


@family(1)
def scatter_batched(d: Draft) -> Made:
    """One update to each batch, at places of its own."""
    x = d.value("bsuf", low=2)
    name = combiner(d, x)
    require(0 not in sizes(x))
    batch, axis = (int(number) for number in d.random.permutation(len(sizes(x)))[:2])
    count = d.whole(1, 4)
    indices = d.indices([sizes(x)[batch], count, 1], sizes(x)[axis])
    kept = [size for number, size in enumerate(sizes(x)) if number not in (batch, axis)]
    updates = d.fresh([sizes(x)[batch], count, *kept], x.type.element_type)
    numbers = (
        f"#stablehlo.scatter<update_window_dims = {list(range(2, 2 + len(kept)))}, inserted_window_dims = [{axis}], "
        f"input_batching_dims = [{batch}], scatter_indices_batching_dims = [0], "
        f"scatter_dims_to_operand_dims = [{axis}], index_vector_dim = 2>"
    )
    attributes = {"scatter_dimension_numbers": numbers, "indices_are_sorted": False, "unique_indices": False}
    element = computed_in(d, x)
    return combining(d, "scatter", [x, indices, updates], [d.tensor(sizes(x), element)], attributes, name)
