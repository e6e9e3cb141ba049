"""Rules on conversions of the element type."""

from __future__ import annotations

import numpy as np

from stablehlo_py.dialect.constants import numpy_dtype, splat
from stablehlo_py.dialect.elements import compare
from stablehlo_py.dialect.formats import FORMATS
from stablehlo_py.dialect.rounding import format_of, integer_info, is_integer_dtype
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import i64, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet

CONVERT = RuleSet("convert")


def is_lossless(source: np.dtype, target: np.dtype) -> bool:
    """True when every value of `source` (NaN, infinities and -0 included) is a value of `target`."""
    if source == target:
        return True
    one, two = format_of(source), format_of(target)
    if source.kind == "b":
        return target.kind != "b" and (two is None or two.holds_integers(0, 1))
    if is_integer_dtype(source):
        _, low, high = integer_info(source)
        if is_integer_dtype(target):
            _, target_low, target_high = integer_info(target)
            return target_low <= low and high <= target_high
        if target.kind == "c":
            return is_lossless(source, np.dtype(np.float32 if target.itemsize == 8 else np.float64))
        return two is not None and two.holds_integers(low, high)
    if one is not None and two is not None:
        return two.holds(one)
    return source == np.complex64 and target == np.complex128


@CONVERT.rule("hlo.convert", "hlo.bitcast_convert")
def convert_same(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "convert(x), bitcast_convert(x) to x's own type -> x"
    x = op.operands[0]
    return x if x.type == op.result.type else None


@CONVERT.pair(
    "hlo.convert",
    "hlo.convert",
    where="the first conversion loses nothing; floats to integers saturate, integers to integers wrap",
)
def convert_twice(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "convert(convert(x)) -> convert(x)"
    x = inner.operands[0]
    one, two, three = (numpy_dtype(value.type.element_type) for value in (x, inner.result, op.result))
    if not is_lossless(one, two):
        return None
    if is_integer_dtype(one) and is_integer_dtype(three) and not is_integer_dtype(two) and not is_lossless(one, three):
        return None
    return x if x.type == op.result.type else rewriter.value("convert", op.result.type, x)


@CONVERT.pair("hlo.convert", "hlo.iota", where="every index fits both types exactly")
def convert_iota(op: ir.Operation, iota: ir.Operation, rewriter: Rewriter) -> Replacement:
    "convert(iota) -> iota"
    dimension = i64(iota, "dimension")
    last = shape(op.result)[dimension] - 1
    types = (iota.result.type.element_type, op.result.type.element_type)
    if not all(_holds(numpy_dtype(element), last) for element in types):
        return None
    return rewriter.value("iota", op.result.type, dimension=dimension)


def _holds(dtype: np.dtype, last: IntLike) -> bool:
    if is_integer_dtype(dtype):
        return last <= integer_info(dtype)[2]
    of = format_of(dtype)
    return of is not None and of.holds_integers(0, int(last))


@CONVERT.pair("hlo.bitcast_convert", "hlo.bitcast_convert", where="no width changes")
def bitcast_twice(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "bitcast_convert(bitcast_convert(x)) -> bitcast_convert(x)"
    x = inner.operands[0]
    if not shape(x) == shape(inner.result) == shape(op.result):
        return None
    return x if x.type == op.result.type else rewriter.value("bitcast_convert", op.result.type, x)


@CONVERT.rule("hlo.reduce_precision", where="the format asked for holds every value of x's")
def reduce_precision_wide(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "reduce_precision(x) to x's own format or a wider one -> x"
    x = op.operands[0]
    own = FORMATS[str(x.type.element_type)]
    wide = i64(op, "exponent_bits") >= own.exponent_bits and i64(op, "mantissa_bits") >= own.mantissa_bits
    return x if wide else None


@CONVERT.pair("hlo.compare", "hlo.convert", where="x is i1; c is 0 or 1")
def compare_converted_bool(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "convert(x) != 0 -> x, convert(x) == 0 -> not x, and the like with 1, < and >"
    x, c = inner.operands[0], splat(op.operands[1])
    if x.type != op.result.type or "total_order" in op.attributes or c not in (0, 1):
        return None
    of_false, of_true = compare(text(op, "direction"), np.array([0, 1]), np.array([c, c]))
    if of_false == of_true:
        return None
    return x if of_true else rewriter.like("not", x)
