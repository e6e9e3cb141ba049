"""Ops that move elements."""

from __future__ import annotations

import math

from stablehlo_py.debug.generate.draft import MAX_ELEMENTS, Draft, require, sizes, small
from stablehlo_py.debug.generate.families import Made, family
from stablehlo_py.mlir import ir

ANY = "bsufc8e"


def padding(pairs: list[tuple[int, int]]) -> ir.Attribute:
    """A `padding` attribute: low and high for each window dimension."""
    if not pairs:
        return ir.Attribute.parse("dense<> : tensor<0x2xi64>")
    return ir.Attribute.parse(f"dense<{[list(pair) for pair in pairs]}> : tensor<{len(pairs)}x2xi64>")


@family(4)
def broadcast(d: Draft) -> Made:
    """Dimensions are added, or expanded from 1, in order or not."""
    x = d.value(ANY, high=3)
    rank = len(sizes(x)) + d.whole(0, 3)
    where = [int(axis) for axis in d.random.permutation(rank)[: len(sizes(x))]]
    if d.chance(0.8):
        where.sort()
    shape = d.shape(rank)
    for size, axis in zip(sizes(x), where, strict=True):
        shape[axis] = size if size != 1 or d.chance(0.5) else shape[axis]
    require(math.prod(shape) <= MAX_ELEMENTS)
    return d.broadcast(x, shape, where)


@family(4)
def reshape(d: Draft) -> Made:
    """Dimensions are split, merged, or made of size 1."""
    x = d.value(ANY)
    shape, way = sizes(x), d.whole(0, 4)
    if way == 0 or not shape:
        shape.insert(d.whole(0, len(shape) + 1), 1)
    elif way == 1:
        axis = d.whole(0, len(shape))
        factors = [factor for factor in range(1, shape[axis] + 1) if shape[axis] % factor == 0] or [1]
        factor = d.one_of(factors)
        shape[axis : axis + 1] = [factor, shape[axis] // factor]
    elif way == 2 and len(shape) > 1:
        axis = d.whole(0, len(shape) - 1)
        shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    else:
        shape = [math.prod(shape)]
    return d.op("reshape", x, results=[d.tensor(shape, x.type.element_type)])


@family(4)
def transpose(d: Draft) -> Made:
    """Any permutation."""
    x = d.value(ANY)
    return d.op("transpose", x, permutation=[int(axis) for axis in d.random.permutation(len(sizes(x)))])


@family(4)
def slice_(d: Draft) -> Made:
    """A part, with strides; it may be empty."""
    x = d.value(ANY, low=1)
    start = [d.whole(0, size + 1) if d.chance(0.4) else 0 for size in sizes(x)]
    limit = [d.whole(low, size + 1) if d.chance(0.5) else size for low, size in zip(start, sizes(x), strict=True)]
    if not d.chance(0.1):  # mostly not empty
        start = [min(low, max(0, size - 1)) for low, size in zip(start, sizes(x), strict=True)]
        limit = [max(high, min(low + 1, size)) for low, high, size in zip(start, limit, sizes(x), strict=True)]
    strides = [(1, 1, 2, 3)[d.whole(0, 4)] for _ in start]
    return d.op("slice", x, start_indices=start, limit_indices=limit, strides=strides)


@family(3)
def pad(d: Draft) -> Made:
    """Edges and gaps, also negative edges."""
    x = d.value(ANY, low=1)
    low, high = ([(0, 0, 1, 2, -1)[d.whole(0, 5)] for _ in sizes(x)] for _ in range(2))
    interior = [(0, 0, 0, 1, 2)[d.whole(0, 5)] for _ in sizes(x)]
    value = d.fresh((), x.type.element_type)
    return small(d.op("pad", x, value, edge_padding_low=low, edge_padding_high=high, interior_padding=interior))


@family(3)
def concatenate(d: Draft) -> Made:
    """Several values along a dimension, the same one twice perhaps."""
    x = d.value(ANY, low=1)
    axis = d.whole(0, len(sizes(x)))
    parts = [x]
    for _ in range(d.whole(0, 3)):
        shape = sizes(x)
        shape[axis] = d.whole(0, 4)
        found = d.pick(
            lambda y: (
                y.type.element_type == x.type.element_type
                and len(sizes(y)) == len(sizes(x))
                and all(a == b for i, (a, b) in enumerate(zip(sizes(x), sizes(y), strict=True)) if i != axis)
            )
        )
        parts.append(found if found is not None and d.chance(0.7) else d.fresh(shape, x.type.element_type))
    return small(d.op("concatenate", *parts, dimension=axis))


@family(2)
def reverse(d: Draft) -> Made:
    """Some dimensions backwards."""
    x = d.value(ANY, low=1)
    return d.op("reverse", x, dimensions=d.axes(x))


@family(3)
def dynamic_slice(d: Draft) -> Made:
    """A part at a place known when it runs, perhaps out of bounds."""
    x = d.value(ANY, low=1)
    starts = _starts(d, x)
    return d.op("dynamic_slice", x, *starts, slice_sizes=[d.whole(min(1, size), size + 1) for size in sizes(x)])


@family(3)
def dynamic_update_slice(d: Draft) -> Made:
    """A part overwritten, at a place known when it runs."""
    x = d.value(ANY, low=1)
    update = d.fresh([d.whole(min(1, size), size + 1) for size in sizes(x)], x.type.element_type)
    return d.op("dynamic_update_slice", x, update, *_starts(d, x))


def _starts(d: Draft, x: ir.Value) -> list[ir.Value]:
    first = d.indices((), max(sizes(x)))
    same = [d.indices((), max(sizes(x))) for _ in sizes(x)[1:]]
    return [first, *(each if each.type == first.type else first for each in same)]


@family(0.7)
def optimization_barrier(d: Draft) -> Made:
    """Values that passes must not look through."""
    values = d.values(ANY)
    made = d.make("optimization_barrier", values, [value.type for value in values], {})
    return list(made.results)
