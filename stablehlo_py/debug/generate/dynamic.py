"""The dynamic twins of static ops, with sizes that are constants: what exporters leave where they knew better."""

from __future__ import annotations

import math

import numpy as np

from stablehlo_py.debug.generate.draft import MAX_ELEMENTS, Draft, require, sizes
from stablehlo_py.debug.generate.families import Made, family
from stablehlo_py.debug.generate.shapes import ANY
from stablehlo_py.mlir import ir


def numbers(d: Draft, values: list[int]) -> ir.Value:
    """A constant of sizes, i32 or i64."""
    return d.constant(np.asarray(values), ir.IntegerType.get_signless(d.one_of((32, 64))))


@family(0.4)
def get_dimension_size(d: Draft) -> Made:
    """The size of a dimension, as a value."""
    x = d.value(ANY, low=1)
    return d.op("get_dimension_size", x, dimension=d.whole(0, len(sizes(x))))


@family(0.5)
def dynamic_reshape(d: Draft) -> Made:
    """Flat, or with a dimension more."""
    x = d.value(ANY)
    shape = [math.prod(sizes(x))] if d.chance(0.5) else [1, *sizes(x)]
    return d.op("dynamic_reshape", x, numbers(d, shape), results=[d.tensor(shape, x.type.element_type)])


@family(0.5)
def dynamic_broadcast_in_dim(d: Draft) -> Made:
    """Dimensions in front, dimensions of size 1 expanded."""
    x = d.value(ANY, high=3)
    added = d.shape(d.whole(0, 3))
    shape = [*added, *(d.whole(1, 5) if size == 1 and d.chance(0.5) else size for size in sizes(x))]
    require(math.prod(shape) <= MAX_ELEMENTS)
    return d.op(
        "dynamic_broadcast_in_dim",
        x,
        numbers(d, shape),
        results=[d.tensor(shape, x.type.element_type)],
        broadcast_dimensions=list(range(len(added), len(shape))),
    )


@family(0.3)
def dynamic_iota(d: Draft) -> Made:
    """Counting along a dimension."""
    shape = d.shape(d.whole(1, 4))
    element = ir.Type.parse(d.one_of(("i32", "f32", "i8", "ui16")))
    return d.op(
        "dynamic_iota", numbers(d, shape), results=[d.tensor(shape, element)], iota_dimension=d.whole(0, len(shape))
    )


@family(0.4)
def dynamic_pad(d: Draft) -> Made:
    """Edges and gaps."""
    x = d.value(ANY, low=1)
    low, high, interior = ([d.whole(0, 3) for _ in sizes(x)] for _ in range(3))
    shape = [
        size + a + b + max(0, size - 1) * gap for size, a, b, gap in zip(sizes(x), low, high, interior, strict=True)
    ]
    require(math.prod(shape) <= MAX_ELEMENTS)
    element = x.type.element_type
    edges = [d.constant(np.asarray(each), ir.IntegerType.get_signless(64)) for each in (low, high, interior)]
    return d.op("dynamic_pad", x, d.fresh((), element), *edges, results=[d.tensor(shape, element)])


@family(0.4)
def real_dynamic_slice(d: Draft) -> Made:
    """A part, with strides."""
    x = d.value(ANY, low=1)
    require(0 not in sizes(x))
    start = [d.whole(0, size) for size in sizes(x)]
    limit = [d.whole(low + 1, size + 1) for low, size in zip(start, sizes(x), strict=True)]
    strides = [d.whole(1, 3) for _ in start]
    shape = [-(-(high - low) // step) for low, high, step in zip(start, limit, strides, strict=True)]
    operands = [d.constant(np.asarray(each), ir.IntegerType.get_signless(64)) for each in (start, limit, strides)]
    return d.op("real_dynamic_slice", x, *operands, results=[d.tensor(shape, x.type.element_type)])


@family(0.4)
def dynamic_gather(d: Draft) -> Made:
    """Slices along one dimension, at given places."""
    x = d.value(ANY, low=1)
    require(0 not in sizes(x))
    axis = d.whole(0, len(sizes(x)))
    count = d.whole(1, 6)
    kept = [size for number, size in enumerate(sizes(x)) if number != axis]
    dimension_numbers = (
        f"#stablehlo.gather<offset_dims = {list(range(1, len(kept) + 1))}, collapsed_slice_dims = [{axis}], "
        f"start_index_map = [{axis}], index_vector_dim = 1>"
    )
    slices = [1 if number == axis else size for number, size in enumerate(sizes(x))]
    indices = d.indices([count, 1], sizes(x)[axis])
    sizes_of_slices = d.constant(np.asarray(slices), indices.type.element_type)
    require(indices.type.element_type.width >= 32)
    return d.op(
        "dynamic_gather",
        x,
        indices,
        sizes_of_slices,
        results=[d.tensor([count, *kept], x.type.element_type)],
        dimension_numbers=dimension_numbers,
        indices_are_sorted=False,
    )


@family(0.2)
def dynamic_conv(d: Draft) -> Made:
    """A convolution over one dimension whose padding is an operand."""
    element = ir.Type.parse(d.one_of(("f32", "f64", "i32")))
    batch, inputs, outputs, image, kernel = (d.whole(1, 4) for _ in range(5))
    low, high = d.whole(0, 3), d.whole(0, 3)
    extent = image + low + high - kernel + 1
    require(extent >= 1)
    edges = d.constant(np.asarray([[low, high]]), ir.IntegerType.get_signless(64))
    return d.op(
        "dynamic_conv",
        d.fresh([batch, image, inputs], element),
        d.fresh([kernel, inputs, outputs], element),
        edges,
        results=[d.tensor([batch, extent, outputs], element)],
        dimension_numbers="#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>",
        feature_group_count=1,
        batch_group_count=1,
    )
