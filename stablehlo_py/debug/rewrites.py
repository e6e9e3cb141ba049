"""Modules rewritten for the reference interpreter: the same computation, without what it gets wrong.

It ends its process on convolutions in most layouts (input [0, f, b], say): operands and result are transposed around
the op instead. It compares floats in their total order as in the partial one: integers that are ordered like them are
compared instead (the specification's `totalOrder` is that of IEEE-754). Ops of older exporters it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.mlir import ir, run_upstream, stablehlo


def rewrite_for_reference(module: ir.Module) -> None:
    """Rewrite a module in place."""
    names: set[str] = set()
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        names.add(op.name)
        if op.name in _REWRITES:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if names & _OLD and "stablehlo.map" not in names:  # which the pass takes for old, and cannot rewrite
        found.clear()
        run_upstream(module, "func.func(stablehlo-legalize-deprecated-ops)")
        module.operation.walk(visit)
    for op in found:
        _REWRITES[op.name](op)


def _convolution(op: ir.Operation) -> None:
    """[b, 0, 1, ..., f] x [0, 1, ..., i, o] -> [b, 0, 1, ..., f] between transposes."""
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    lhs = [numbers.input_batch_dimension, *numbers.input_spatial_dimensions, numbers.input_feature_dimension]
    rhs = [
        *numbers.kernel_spatial_dimensions,
        numbers.kernel_input_feature_dimension,
        numbers.kernel_output_feature_dimension,
    ]
    out = [numbers.output_batch_dimension, *numbers.output_spatial_dimensions, numbers.output_feature_dimension]
    rank = len(lhs)
    if lhs == rhs == out == list(range(rank)):
        return
    spatial = list(range(1, rank - 1))
    kernel = list(range(rank - 2))
    canonical = stablehlo.ConvDimensionNumbers.get(
        0, rank - 1, spatial, rank - 2, rank - 1, kernel, 0, rank - 1, spatial, ctx=op.context
    )
    point = ir.InsertionPoint(op)
    operands = [_transposed(op.operands[0], lhs, point), _transposed(op.operands[1], rhs, point)]
    attributes = {name: op.attributes[name] for name in op.attributes} | {"dimension_numbers": canonical}
    result = op.results[0]
    type_ = ir.RankedTensorType.get([result.type.shape[axis] for axis in out], result.type.element_type)
    made = ir.Operation.create(op.name, [type_], operands, attributes, ip=point).result
    result.replace_all_uses_with(_transposed(made, [out.index(axis) for axis in range(rank)], point))
    op.erase()


def _transposed(value: ir.Value, permutation: Sequence[int], point: ir.InsertionPoint) -> ir.Value:
    return _create("transpose", point, [value], {"permutation": ir.DenseI64ArrayAttr.get(list(permutation))})


def _compare(op: ir.Operation) -> None:
    """Floats in their total order, as integers."""
    if "compare_type" not in op.attributes or "TOTALORDER" not in str(op.attributes["compare_type"]):
        return
    point = ir.InsertionPoint(op)
    keys = [_ordered_bits(operand, point) for operand in op.operands]
    attributes = {"comparison_direction": op.attributes["comparison_direction"]}
    op.results[0].replace_all_uses_with(_create("compare", point, keys, attributes))
    op.erase()


def _ordered_bits(value: ir.Value, point: ir.InsertionPoint) -> ir.Value:
    """Signed integers in the order of the floats: the bits, all but the sign turned round for negative ones."""
    width = value.type.element_type.width
    integer = ir.IntegerType.get_signless(width)
    type_ = ir.RankedTensorType.get(value.type.shape, integer)
    bits = ir.Operation.create("stablehlo.bitcast_convert", [type_], [value], ip=point).result

    def number(content: int) -> ir.Value:
        splat = ir.DenseElementsAttr.get_splat(type_, ir.IntegerAttr.get(integer, content))
        return ir.Operation.create("stablehlo.constant", [type_], attributes={"value": splat}, ip=point).result

    less = ir.Attribute.parse("#stablehlo<comparison_direction LT>")
    negative = _create("compare", point, [bits, number(0)], {"comparison_direction": less})
    turned = _create("xor", point, [bits, number(2 ** (width - 1) - 1)])
    return _create("select", point, [negative, turned, bits])


def _real_dynamic_slice(op: ir.Operation) -> None:
    """A slice, where its bounds are constants; the interpreter does not know the dynamic one."""
    makers = [bound.owner for bound in list(op.operands)[1:]]
    if not all(not isinstance(maker, ir.Block) and maker.name == "stablehlo.constant" for maker in makers):
        return
    names = ("start_indices", "limit_indices", "strides")
    attributes = {
        name: ir.DenseI64ArrayAttr.get(constant_value(maker).tolist())
        for name, maker in zip(names, makers, strict=True)
    }
    op.results[0].replace_all_uses_with(_create("slice", ir.InsertionPoint(op), [op.operands[0]], attributes))
    op.erase()


def _create(
    name: str,
    point: ir.InsertionPoint,
    operands: Sequence[ir.Value],
    attributes: Mapping[str, ir.Attribute] | None = None,
) -> ir.Value:
    return ir.Operation.create(
        f"stablehlo.{name}", operands=list(operands), attributes=dict(attributes or {}), infer_type=True, ip=point
    ).result


# Ops that only older exporters write; upstream has a pass for them.
_OLD = frozenset(f"stablehlo.{name}" for name in ("broadcast", "dot", "einsum", "unary_einsum"))
_REWRITES: dict[str, Callable[[ir.Operation], None]] = {
    "stablehlo.convolution": _convolution,
    "stablehlo.compare": _compare,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
}
