"""Modules rewritten for the reference interpreter: the same computation, without what it gets wrong.

It ends its process on convolutions in most layouts (input [0, f, b], say): operands and result are transposed around
the op instead; and on products of nothing, which are zero. It compares floats in their total order as in the partial
one: integers that are ordered like them are compared instead (the specification's `totalOrder` is that of IEEE-754).
Ops of older exporters and CHLO it does not know: upstream expands them. Bodies that compute in another type than that
of the operands it ends its process on: operands are converted (`promotions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from stablehlo_py.debug.ops import compared, constant, create, typed, zeros
from stablehlo_py.debug.promotions import PROMOTING, convert_operands
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.types import operations
from stablehlo_py.mlir import ir, run_upstream, stablehlo

# Gives what takes the place of an op with one result; None where the op stays, or is replaced already.
Rewrite = Callable[[ir.Operation], "ir.Value | None"]


def rewrite_for_reference(module: ir.Module) -> None:
    """Rewrite a module in place, which may hold CHLO."""
    _rewrite(module, _BEFORE_EXPANSION)
    # The pass for ops of older exporters takes `map` for one, which it cannot rewrite.
    expansions = "chlo-legalize-to-stablehlo,stablehlo-legalize-deprecated-ops{fail-on-unused=false}"
    run_upstream(module, f"func.func({expansions})")
    _rewrite(module, _REWRITES)


def _rewrite(module: ir.Module, rewrites: Mapping[str, Rewrite]) -> None:
    for op in operations(module.operation):
        replacement = rewrites[op.name](op) if op.name in rewrites else None
        if replacement is not None:
            op.results[0].replace_all_uses_with(replacement)
            op.erase()


def _dot_general(op: ir.Operation) -> ir.Value | None:
    """Zeros, where an operand or the result of a product has no elements."""
    empty = any(0 in value.type.shape for value in (*op.operands, *op.results))
    return zeros(op.results[0].type, ir.InsertionPoint(op)) if empty else None


def _convolution(op: ir.Operation) -> ir.Value | None:
    """[b, 0, 1, ..., f] x [0, 1, ..., i, o] -> [b, 0, 1, ..., f] between transposes."""
    nothing = _dot_general(op)
    if nothing is not None:
        return nothing
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
        return None
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
    return _transposed(made, [out.index(axis) for axis in range(rank)], point)


def _transposed(value: ir.Value, permutation: Sequence[int], point: ir.InsertionPoint) -> ir.Value:
    return create("transpose", point, value, permutation=ir.DenseI64ArrayAttr.get(list(permutation)))


def _compare(op: ir.Operation) -> ir.Value | None:
    """Floats in their total order, as integers."""
    if "compare_type" not in op.attributes or "TOTALORDER" not in str(op.attributes["compare_type"]):
        return None
    point = ir.InsertionPoint(op)
    keys = [_ordered_bits(operand, point) for operand in op.operands]
    return create("compare", point, *keys, comparison_direction=op.attributes["comparison_direction"])


def _ordered_bits(value: ir.Value, point: ir.InsertionPoint) -> ir.Value:
    """Signed integers in the order of the floats: the bits, all but the sign turned round for negative ones."""
    width, sizes = value.type.element_type.width, value.type.shape
    integer = ir.IntegerType.get_signless(width)
    bits = typed("bitcast_convert", ir.RankedTensorType.get(sizes, integer), point, value)
    negative = compared("LT", bits, constant(np.zeros(sizes), integer, point), point)
    turned = create("xor", point, bits, constant(np.full(sizes, 2 ** (width - 1) - 1), integer, point))
    return create("select", point, negative, turned, bits)


def _real_dynamic_slice(op: ir.Operation) -> ir.Value | None:
    """A slice, where its bounds are constants; the interpreter does not know the dynamic one."""
    makers = [bound.owner for bound in list(op.operands)[1:]]
    if not all(not isinstance(maker, ir.Block) and maker.name == "stablehlo.constant" for maker in makers):
        return None
    names = ("start_indices", "limit_indices", "strides")
    attributes = {
        name: ir.DenseI64ArrayAttr.get(constant_value(maker).tolist())
        for name, maker in zip(names, makers, strict=True)
    }
    return create("slice", ir.InsertionPoint(op), op.operands[0], **attributes)


def _broadcast_select(op: ir.Operation) -> ir.Value:
    """Operands in the result's shape; upstream's expansion asks for shapes at run time."""
    type_, point = op.results[0].type, ir.InsertionPoint(op)
    operands = []
    for operand in op.operands:
        sizes, own = list(type_.shape), operand.type
        kept = [axis for axis, size in enumerate(own.shape, len(sizes) - own.rank) if size == sizes[axis]]
        if len(kept) < own.rank:
            flat = ir.RankedTensorType.get([sizes[axis] for axis in kept], own.element_type)
            operand = typed("reshape", flat, point, operand)
        wide = ir.RankedTensorType.get(sizes, own.element_type)
        dimensions = ir.DenseI64ArrayAttr.get(kept)
        operands.append(typed("broadcast_in_dim", wide, point, operand, broadcast_dimensions=dimensions))
    return create("select", point, *operands)


def _annotation(op: ir.Operation) -> None:
    """A custom call that says where a value lies, or how: the value itself."""
    same = [operand.type for operand in op.operands] == [result.type for result in op.results]
    if op.attributes["call_target_name"].value in _ANNOTATIONS and same:
        for result, operand in zip(op.results, op.operands, strict=True):
            result.replace_all_uses_with(operand)
        op.erase()


def _round(op: ir.Operation) -> ir.Value | None:
    """In f32, where the interpreter gives zero or NaN for any number of some types of 8 bits and less."""
    type_ = op.results[0].type
    if type_.element_type.width > 8:
        return None
    point = ir.InsertionPoint(op)
    single = ir.RankedTensorType.get(type_.shape, ir.F32Type.get())
    rounded = create(op.name.removeprefix("stablehlo."), point, typed("convert", single, point, op.operands[0]))
    return typed("convert", type_, point, rounded)


def _convert(op: ir.Operation) -> ir.Value | None:
    """f8E8M0FNU has powers of two, neither signs nor zero: NaN for what is not positive, where the interpreter drops
    signs, and gives the least number for zero (docs/types.md); and its NaN is NaN, where the interpreter makes infinity
    of it."""
    operand, result = op.operands[0], op.results[0]
    types = [str(value.type.element_type) for value in (operand, result)]
    scale = [name == "f8E8M0FNU" for name in types]
    if (
        scale[0] == scale[1]
        or types[0] == "i1"
        or types[0].startswith("complex")
        or not types[1].startswith(("f", "bf"))
    ):
        return None
    point = ir.InsertionPoint(op)
    if scale[1]:
        is_number = compared("GT", operand, zeros(operand.type, point), point)
    else:
        byte = ir.IntegerType.get_unsigned(8)
        code = typed("bitcast_convert", ir.RankedTensorType.get(operand.type.shape, byte), point, operand)
        is_number = compared("LT", code, constant(np.full(operand.type.shape, 255), byte, point), point)
    nan = constant(np.full(result.type.shape, np.nan), result.type.element_type, point)
    return create("select", point, is_number, op.clone(ip=point).result, nan)


_ANNOTATIONS = (
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "LayoutConstraint",
    "annotate_device_placement",
)
_BEFORE_EXPANSION: dict[str, Rewrite] = {
    "chlo.broadcast_select": _broadcast_select,
    "stablehlo.custom_call": _annotation,
}
_REWRITES: dict[str, Rewrite] = dict.fromkeys(PROMOTING, convert_operands) | {
    "stablehlo.ceil": _round,
    "stablehlo.compare": _compare,
    "stablehlo.convert": _convert,
    "stablehlo.convolution": _convolution,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.floor": _round,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
    "stablehlo.round_nearest_afz": _round,
    "stablehlo.round_nearest_even": _round,
}
