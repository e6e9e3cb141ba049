"""Comparison, choice, conversion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stablehlo_py.dialect import elements
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.ops.elementwise import boolean_result
from stablehlo_py.dialect.ops.factors import Builder
from stablehlo_py.dialect.ops.record import Array, Rounds, Shape, Shapes, Work, always, of_reals, op
from stablehlo_py.dialect.rounding import codes, from_codes, integer_info, is_float_dtype
from stablehlo_py.dialect.types import element_type, i64, is_bool, is_complex, is_float, shape, text
from stablehlo_py.dialect.verify import Conditions, one_of, operand_elements, require
from stablehlo_py.mlir import ir, quant

#: Directions of comparisons, and what x op y is of y and x.
SWAPPED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}
COMPARISONS = tuple(SWAPPED)


def _check_comparison(op: ir.OpView) -> None:
    """compare."""
    element = element_type(op.operands[0])
    require(not is_complex(element) or text(op, "direction") in ("EQ", "NE"), "complex numbers have no order")
    require("total_order" not in op.attributes or is_float(element), "total_order is for floats")


def _check_selection(op: ir.OpView) -> None:
    """select."""
    require(is_bool(element_type(op.operands[0])), "pred elements must be i1")


def _bit_width(type_: ir.Type) -> int:
    """Bits of an element, of quantized ones as they are stored."""
    if isinstance(type_, quant.QuantizedType):
        type_ = type_.storage_type
    return 2 * _bit_width(type_.element_type) if is_complex(type_) else type_.width


def _bitcast_shape(c: Conditions, op: ir.Operation, x: Shape) -> Shapes:
    """bitcast_convert: the last dimension holds the ratio of the widths."""
    before, after = (_bit_width(element_type(value)) for value in (op.operands[0], op.results[0]))
    if before > after:
        return [(*x, before // after)]
    if before < after:
        c.unite(x[-1], after // before)
    return [x if before == after else x[:-1]]


def _check_precision(op: ir.OpView) -> None:
    """reduce_precision."""
    fits = i64(op, "exponent_bits") >= 1 and i64(op, "mantissa_bits") >= 0
    require(fits, "needs exponent_bits >= 1, mantissa_bits >= 0")


def _compare(op: ir.Operation, x: Array, y: Array) -> Array:
    return elements.compare(text(op, "direction"), x, y, "total_order" in op.attributes)


def _convert(op: ir.Operation, x: Array) -> Array:
    return elements.convert(x, numpy_dtype(element_type(op.result)))


def _conversion_is_exact(op: ir.Operation, operands: Sequence[Array]) -> bool:
    (x,), dtype = operands, numpy_dtype(element_type(op.result))
    if x.dtype.kind == "c" or dtype.kind == "c":
        return dtype.kind == "c" and x.dtype.kind in "cf"
    if dtype.kind == "b" or not is_float_dtype(dtype):
        if not is_float_dtype(x.dtype) or dtype.kind == "b":
            return True
        # Out of range, the spec leaves the result open.
        _, low, high = integer_info(dtype)
        wide = x.astype(np.float64)
        return bool(((wide > float(low) - 1) & (wide < float(high))).all())
    return True


def _bitcast_convert(op: ir.Operation, x: Array) -> Array:
    dtype, sizes = numpy_dtype(element_type(op.result)), shape(op.result)
    if x.dtype.kind == "c" or dtype.kind == "c":
        # ascontiguousarray makes rank 0 rank 1, which the reshape undoes.
        return np.ascontiguousarray(x).view(dtype).reshape(sizes)
    bits, source = codes(x)
    target = codes(np.zeros((), dtype))[1]
    if source > target:
        bits = bits[..., None] >> np.arange(0, source, target, dtype=np.uint64)
    elif source < target:
        bits = (bits << np.arange(0, target, source, dtype=np.uint64)).sum(-1, dtype=np.uint64)
    return from_codes(bits, dtype).reshape(sizes)


def _bits_are_exact(op: ir.Operation, operands: Sequence[Array]) -> bool:
    return operands[0].dtype.kind != "c" and not is_complex(element_type(op.result))


def _reduce_precision(op: ir.Operation, x: Array) -> Array:
    return elements.reduce_precision(x, i64(op, "exponent_bits"), i64(op, "mantissa_bits"))


op(
    "compare(lhs: T, rhs: T) {direction} -> (result: any)",
    "Elementwise comparison; `direction` EQ NE LT LE GT GE; optional `total_order` (unit) compares floats in "
    "total order.",
    checks=(boolean_result, one_of("direction", COMPARISONS), _check_comparison),
    elementwise=True,
    options=("total_order",),
    relational=True,
    rounds=Rounds.NEVER,
    value=_compare,
    exact=always,
)


op(
    "select(pred: any, on_true: T, on_false: T) -> (result: T)",
    "Elementwise choice: where `pred` (i1, same shape) holds `on_true`, else `on_false`.",
    checks=(_check_selection,),
    elementwise=True,
    function=elements.for_all_types(np.where),
    picks=slice(1, 3),
    relational=True,
    rounds=Rounds.NEVER,
    exact=always,
)


op(
    "convert(operand: any) -> (result: any)",
    "Elementwise conversion of the element type.",
    elementwise=True,
    value=_convert,
    exact=_conversion_is_exact,
)


def _bitcast_factors(b: Builder, op: ir.Operation) -> None:
    b.common(range(min(len(b.shapes[0]), len(b.result_shapes[0]))))


op(
    "bitcast_convert(operand: any) -> (result: any)",
    "Reinterprets bits; between widths the last dimension appears or goes away, as in StableHLO.",
    work=Work.ELEMENTS,
    rounds=Rounds.NEVER,
    value=_bitcast_convert,
    exact=_bits_are_exact,
    shapes=_bitcast_shape,
    factors=_bitcast_factors,
)


op(
    "reduce_precision(operand: T) {exponent_bits, mantissa_bits} -> (result: T)",
    "Rounds to a float format with `exponent_bits` and `mantissa_bits`, and back.",
    checks=(operand_elements("float"), _check_precision),
    elementwise=True,
    flops=3,
    value=_reduce_precision,
    exact=of_reals,
)
