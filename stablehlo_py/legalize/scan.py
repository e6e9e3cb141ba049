"""`chlo.scan`, and loops over the slices of tensors as it is one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.edit import inline_block
from stablehlo_py.dialect.types import flag, rank, shape
from stablehlo_py.legalize.rules import block_of, dimension_of, rule
from stablehlo_py.mlir import ir


@rule("chlo.scan")
def scan(op: ir.OpView) -> Sequence[ir.Value]:
    """A loop over the slices of the inputs along `dimension`: the body makes slices of the outputs and new carries."""
    inputs, inits = _segments(op.operands, op.attributes["operandSegmentSizes"])
    outputs, _ = _segments(op.results, op.attributes["resultSegmentSizes"])
    dimension = dimension_of(op, "dimension", rank((inputs or outputs)[0]))
    reverse = flag(op, "is_reverse")
    types = [output.type for output in outputs]
    return list(loop_over_slices(block_of(op), inputs, inits, types, dimension, reverse).results)[1:]


def _segments(values: Sequence[ir.Value], sizes: Sequence[int]) -> tuple[list[ir.Value], list[ir.Value]]:
    first = next(iter(sizes))
    return list(values)[:first], list(values)[first:]


def loop_over_slices(
    body: ir.Block,
    inputs: Sequence[ir.Value],
    inits: Sequence[ir.Value],
    outputs: Sequence[ir.RankedTensorType],
    dimension: int = 0,
    reverse: bool = False,
) -> ir.Operation:
    """A `stablehlo.while` over the slices of the inputs along a dimension. The ops of `body`, which takes slices and
    carries and returns slices of the outputs and new carries, move into it. Its results: a counter, outputs, carries.
    """
    count = shape((*(each.type for each in inputs), *outputs)[0])[dimension]
    index = ir.IntegerType.get_signless(64)
    zero, one, end, last = (build.constant(np.array(number), index) for number in (0, 1, count, count - 1))
    carried = [zero, *(build.splat(0, output) for output in outputs), *inits]
    types = [value.type for value in carried]
    loop = build.op("stablehlo.while", types, carried, regions=2)
    condition, step = (region.blocks.append(*types) for region in loop.regions)
    with ir.InsertionPoint(condition):
        build.op("stablehlo.return", [], [build.compare(condition.arguments[0], end, "LT")])
    i, *rest = step.arguments
    so_far, carries = rest[: len(outputs)], rest[len(outputs) :]
    with ir.InsertionPoint(step):
        place = build.like("subtract", last, i) if reverse else i
        slices = [_slice(each, place, zero, dimension) for each in inputs]
    returned = inline_block(body, [*slices, *carries], step)
    with ir.InsertionPoint(step):
        written = [
            _write(whole, value, place, zero, dimension)
            for whole, value in zip(so_far, returned[: len(outputs)], strict=True)
        ]
        build.op("stablehlo.return", [], [build.like("add", i, one), *written, *returned[len(outputs) :]])
    return loop


def _slice(operand: ir.Value, place: ir.Value, zero: ir.Value, dimension: int) -> ir.Value:
    sizes = [1 if d == dimension else size for d, size in enumerate(shape(operand))]
    starts = [place if d == dimension else zero for d in range(len(sizes))]
    one = build.made("dynamic_slice", operand, *starts, sizes=sizes)
    return build.reshape(one, sizes[:dimension] + sizes[dimension + 1 :])


def _write(whole: ir.Value, value: ir.Value, place: ir.Value, zero: ir.Value, dimension: int) -> ir.Value:
    sizes = [1 if d == dimension else size for d, size in enumerate(shape(whole))]
    starts = [place if d == dimension else zero for d in range(len(sizes))]
    return build.like("dynamic_update_slice", whole, build.reshape(value, sizes), *starts)
