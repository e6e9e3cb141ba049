"""Custom calls whose results have dynamic shapes: their shapes, and the operands that say them.

JAX gives any call of dynamic results `indices_of_shape_operands`, the operands (the last ones) that hold the results'
shapes; `infer-symbolic-shapes` drops them. Targets "stablehlo.dynamic_*" are ops whose attributes are operands
(dialect/forms.py).
"""

from __future__ import annotations

from stablehlo_py.dialect.call_signatures import SHAPE_OPERANDS, shape_operands
from stablehlo_py.dialect.edit import replace_op
from stablehlo_py.dialect.forms import name_of
from stablehlo_py.dialect.ops.record import Shapes
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.passes.symbolic.shapes import RULES, Scope, declared

# Custom calls that hand on their operand.
_ANNOTATIONS = frozenset(("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"))


def last_shape_operands(op: ir.Operation) -> tuple[int, ...]:
    """Operands that hold the shapes of the results, and go.

    Raises:
        UnsupportedError: they are not the last ones.
    """
    found = shape_operands(op)
    if sorted(found) != list(range(len(op.operands) - len(found), len(op.operands))):
        raise UnsupportedError(f"has {SHAPE_OPERANDS} that are not those of its last operands", op=op.name)
    return found


def without_shape_operands(op: ir.Operation) -> None:
    """Replace a call by one without the operands that hold shapes."""
    kept = list(op.operands)[: -len(shape_operands(op))]
    attributes = {name: op.attributes[name] for name in op.attributes if name != SHAPE_OPERANDS}
    if "operand_layouts" in attributes:
        attributes["operand_layouts"] = ir.ArrayAttr.get(list(attributes["operand_layouts"])[: len(kept)])
    with op.location, ir.InsertionPoint(op):
        call = ir.Operation.create(op.name, [result.type for result in op.results], kept, attributes)
    replace_op(op, call.results)


@RULES.rule("custom_call")
def _custom_call(scope: Scope, op: ir.Operation) -> Shapes:
    if name_of(op) in _ANNOTATIONS:
        return [scope.shape(op.operands[0])]
    indices = last_shape_operands(op)
    if not indices:
        return declared(scope, op)
    if len(indices) != len(op.results):
        raise UnsupportedError(f"has {len(op.results)} results and shapes of {len(indices)}", op=op.name)
    return [scope.elements(op.operands[index]) for index in indices]
