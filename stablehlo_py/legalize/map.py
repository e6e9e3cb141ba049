"""`map`: a body on scalars, done on whole tensors where it is elementwise, else element by element in a loop."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.scalar_regions import not_elementwise, on_tensors
from stablehlo_py.dialect.types import num_elements, shape
from stablehlo_py.legalize.control_flow import while_
from stablehlo_py.legalize.regions import choose_in_branches
from stablehlo_py.legalize.rules import block_of, by_rule, rule
from stablehlo_py.legalize.scan import loop_over_slices
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
    loop = loop_over_slices(block, operands, [], [build.tensor([count], type_.element_type)])
    return [build.reshape(by_rule(while_, loop.opview)[1], shape(type_))]
