"""Reductions: `hlo.reduce` and `hlo.reduce_window` where the combiner is simple, else the StableHLO op with hlo ops
inside."""

from __future__ import annotations

import math

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.edit import inline_block
from stablehlo_py.dialect.types import element_type, i64s, shape
from stablehlo_py.dialect.window import window_of
from stablehlo_py.legalize.closures import closed, free_scalars
from stablehlo_py.legalize.indexing import scatter
from stablehlo_py.legalize.regions import combined, isolate, promote, simple_combiner, single_combiner
from stablehlo_py.legalize.rules import Results, block_of, by_rule, rule
from stablehlo_py.legalize.wide_combiners import widened
from stablehlo_py.mlir import ir

_WINDOW = ("window_dimensions", "window_strides", "padding")


@rule("stablehlo.reduce")
def reduce(op: ir.OpView) -> Results:
    """One `hlo.reduce` per operand when each is combined by itself, simply."""
    block = block_of(op)
    count = len(op.operands) // 2
    promote(op, enumerate(combined(op)))
    operands = list(op.operands)
    kinds = [simple_combiner(block, i, count + i, i) for i in range(count)]
    dimensions = i64s(op, "dimensions")
    if None in kinds:
        sizes = shape(operands[0])
        return closed(op, count, 2 * count) or widened(op, math.prod(sizes[each] for each in dimensions))
    results = []
    for kind, operand, init, result in zip(kinds, operands[:count], operands[count:], op.results, strict=True):
        if dimensions:
            results.append(build.value("reduce", result.type, operand, init, kind=kind, dimensions=dimensions))
        else:
            results.append(build.like(str(kind), operand, build.broadcast(init, shape(operand), [])))
    return results


@rule("stablehlo.reduce_window")
def reduce_window(op: ir.OpView) -> Results:
    """Absent attributes get their defaults."""
    promote(op, enumerate(combined(op)))
    kind = single_combiner(op)
    if kind is None:
        in_window = math.prod(i64s(op, "window_dimensions"))
        return closed(op, len(op.operands) // 2, len(op.operands)) or widened(op, in_window)
    return build.value("reduce_window", op.results[0].type, *op.operands, kind=kind, **window_of(op))


@rule("stablehlo.sort")
def sort(op: ir.OpView) -> Results:
    """Kept, with hlo ops in its region."""
    return closed(op, len(op.operands))


@rule("stablehlo.select_and_scatter")
def select_and_scatter(op: ir.OpView) -> Results:
    """Kept, with hlo ops in the regions; with scalars from outside, for which the op has no operands, two ops that
    have. `select` may take the operand in another type than `scatter` takes the source and the initial value."""
    chosen, added = combined(op, 0), combined(op, 1)
    promote(op, [(0, chosen[0]), (1, added[1]), (2, added[0])])
    if free_scalars(op):
        return _select_then_scatter(op)
    isolate(op)
    return None


def _select_then_scatter(op: ir.OpView) -> ir.Value:
    """The places that `select` chooses, by a reduction of windows, and a scatter to them (spec, section
    select_and_scatter). Places are those of the flat operand, -1 where a window has no element."""
    operand, source, init = op.operands
    sizes, windows, element = shape(operand), shape(source), element_type(operand)
    count, places = math.prod(sizes), math.prod(windows)
    index = ir.IntegerType.get_signless(64)
    nowhere = build.constant(np.array(-1), index)
    place = build.reshape(build.value("iota", build.tensor([count], index), dimension=0), sizes)
    no_value = build.splat(0, build.tensor([], element))
    types = [build.tensor(windows, each) for each in (element, index)]
    window = {name: op.attributes[name] for name in _WINDOW if name in op.attributes}
    chosen = build.op("stablehlo.reduce_window", types, [operand, place, no_value, nowhere], window, regions=1).opview
    _choose(block_of(op, 0), chosen.regions[0])
    where = by_rule(reduce_window, chosen)[1]
    numbers = "#stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
    flat = build.broadcast(init, [count], [])
    scattered = build.op(
        "stablehlo.scatter",
        [flat.type],
        [flat, build.reshape(where, [places, 1]), build.reshape(source, [places])],
        {"scatter_dimension_numbers": ir.Attribute.parse(numbers)},
        regions=1,
    ).opview
    block_of(op, 1).append_to(scattered.regions[0])
    return build.reshape(by_rule(scatter, scattered)[0], sizes)


def _choose(select: ir.Block, region: ir.Region) -> None:
    """The combiner of (best, its place) and (element, its place): an element outside of the operand is never chosen."""
    scalar = select.arguments[0].type
    index = build.tensor([], ir.IntegerType.get_signless(64))
    block = region.blocks.append(scalar, index, scalar, index)
    best, best_at, value, value_at = block.arguments
    (stays,) = inline_block(select, (best, value), block)
    with ir.InsertionPoint(block):
        zero = build.constant(np.array(0), index.element_type)
        is_inside, is_outside = (
            build.compare(at, zero, direction) for at, direction in ((best_at, "GE"), (value_at, "LT"))
        )
        stays = build.like("and", is_inside, build.like("or", stays, is_outside))
        pairs = ((best, value), (best_at, value_at))
        build.op("stablehlo.return", [], [build.value("select", a.type, stays, a, b) for a, b in pairs])
