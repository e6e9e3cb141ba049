"""StableHLO ops that the tools make: rewrites for oracles, errors of rounding, regions of random programs.

Every function takes the insertion point; the location comes from the surrounding `with`.
"""

from __future__ import annotations

import numpy as np

from stablehlo_py.dialect.constants import from_numpy, numpy_dtype
from stablehlo_py.mlir import ir


def create(name: str, point: ir.InsertionPoint, *operands: ir.Value, **attributes: ir.Attribute) -> ir.Value:
    """The result of `stablehlo.<name>`, whose type MLIR infers. Raises MLIRError where the specification does not allow
    the op."""
    full = f"stablehlo.{name}"
    return ir.Operation.create(full, operands=list(operands), attributes=attributes, infer_type=True, ip=point).result


def typed(
    name: str, type_: ir.Type, point: ir.InsertionPoint, *operands: ir.Value, **attributes: ir.Attribute
) -> ir.Value:
    """The result of `stablehlo.<name>`, of a type that MLIR does not infer."""
    return ir.Operation.create(f"stablehlo.{name}", [type_], list(operands), attributes, ip=point).result


def constant(array: np.ndarray | float, element: ir.Type, point: ir.InsertionPoint) -> ir.Value:
    """A constant of the array's shape; its numbers become elements of that type, which is not complex."""
    array = np.asarray(array).astype(numpy_dtype(element))
    type_ = ir.RankedTensorType.get(list(array.shape), element)
    return typed("constant", type_, point, value=from_numpy(array, element))


def order(direction: str, total: bool = False) -> dict[str, ir.Attribute]:
    """Attributes of a comparison, `total` for the total order of floats."""
    attributes = {"comparison_direction": ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>")}
    if total:
        attributes["compare_type"] = ir.Attribute.parse("#stablehlo<comparison_type TOTALORDER>")
    return attributes


def compared(direction: str, left: ir.Value, right: ir.Value, point: ir.InsertionPoint) -> ir.Value:
    """A comparison: EQ, NE, LT, LE, GT or GE."""
    return create("compare", point, left, right, **order(direction))


def zeros(type_: ir.RankedTensorType, point: ir.InsertionPoint) -> ir.Value:
    """Zeros of a type, which may be complex."""
    if isinstance(type_.element_type, ir.ComplexType):
        part = zeros(ir.RankedTensorType.get(type_.shape, type_.element_type.element_type), point)
        return create("complex", point, part, part)
    return constant(np.zeros(type_.shape), type_.element_type, point)
