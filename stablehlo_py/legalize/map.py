"""`map`: a body on scalars, done on whole tensors where it is elementwise, else element by element in a loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.scalar_regions import not_elementwise, on_tensors
from stablehlo_py.dialect.types import num_elements, shape
from stablehlo_py.legalize.regions import choose_in_branches
from stablehlo_py.legalize.rules import block_of, rule
from stablehlo_py.mlir import ir


@rule("stablehlo.map")
def map_(op: ir.OpView) -> Sequence[ir.Value]:
    """Whole tensors, or a loop where the body holds more than elementwise ops."""
    block = block_of(op)
    choose_in_branches(block)
    if not_elementwise(block) is None:
        return on_tensors(block, list(op.operands), shape(op.results[0]))
    return _in_a_loop(op, block)


def _in_a_loop(op: ir.OpView, block: ir.Block) -> Sequence[ir.Value]:
    """`for i: result[i] = body(x[i], ...)` over flattened tensors."""
    type_ = op.results[0].type
    count = num_elements(type_)
    if not count:
        return [build.splat(0, type_)]
    operands = [build.reshape(operand, [count]) for operand in op.operands]
    index = ir.IntegerType.get_signless(64)
    zero, one, end = (build.constant(np.array(number), index) for number in (0, 1, count))
    start = build.splat(0, build.tensor([count], type_.element_type))
    loop = build.op("scf.while", [zero.type, start.type], [zero, start], regions=2)
    condition, step = (region.blocks.append(zero.type, start.type) for region in loop.regions)
    with ir.InsertionPoint(condition):
        below = build.compare(condition.arguments[0], end, "LT")
        go_on = build.op("tensor.extract", [below.type.element_type], [below]).result
        build.op("scf.condition", [], [go_on, *condition.arguments])
    with ir.InsertionPoint(step):
        i, so_far = step.arguments
        for argument, operand in zip(block.arguments, operands, strict=True):
            element = build.made("dynamic_slice", operand, i, sizes=[1])
            argument.replace_all_uses_with(build.reshape(element, []))
        *body, last = list(block.operations)
        for inner in body:
            step.append(inner)
    with ir.InsertionPoint(step):
        result = build.reshape(last.operands[0], [1])
        written = build.like("dynamic_update_slice", so_far, result, i)
        build.op("scf.yield", [], [build.like("add", i, one), written])
    return [build.reshape(loop.results[1], shape(type_))]
