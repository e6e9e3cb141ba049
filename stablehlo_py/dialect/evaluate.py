"""hlo ops evaluated on NumPy arrays: what constant folding computes with, and what tests compare against.

Arithmetic is done in the op's own element type: integers wrap around, f32 is rounded to f32 after every operation,
shifts past the width give 0 or the sign, x / 0 is -1 and x % 0 is x for integers (as XLA defines it: the StableHLO spec
leaves it open). The small floats compute in f32 and round once, as kernels do, which is exact for one add, multiply,
divide or square root; reductions of those of eight bits and less round only the result. Ops that move elements live in
`evaluate_structural`; whole functions, loops included, are run by `interpret`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import ml_dtypes
import numpy as np

from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.evaluate_structural import STRUCTURAL, combine
from stablehlo_py.dialect.formats import Specials
from stablehlo_py.dialect.rounding import cast, codes, format_of, from_codes, is_byte_float, widened
from stablehlo_py.dialect.types import element_type, i64, shape, text, user_location
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

Array = np.ndarray


def is_float_dtype(dtype: np.dtype) -> bool:
    """True for real floating-point dtypes, the ml_dtypes included (NumPy calls those void)."""
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


def is_integer_dtype(dtype: np.dtype) -> bool:
    """True for integer dtypes, int4 and its like included; False for bool."""
    return dtype.kind in "iu" or (dtype.kind == "V" and "int" in dtype.name)


def integer_info(dtype: np.dtype) -> tuple[int, int, int]:
    """(bits, minimum, maximum) of an integer dtype."""
    info = ml_dtypes.iinfo(dtype)
    return info.bits, int(info.min), int(info.max)


def _native(x: Array) -> Array:
    # NumPy lacks bit operations, division and comparison chains on the sub-byte integers: do them in a byte, the cast
    # back wraps.
    if x.dtype.kind == "V" and "int" in x.dtype.name:
        return x.astype(np.uint8 if x.dtype.name.startswith("u") else np.int8)
    return x


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _divide(x: Array, y: Array) -> Array:
    if not is_integer_dtype(x.dtype):
        return x / y
    dtype, x, y = x.dtype, _native(x), _native(y)
    zero = y == 0
    divisor = np.where(zero | (y == -1 if x.dtype.kind == "i" else zero), np.ones_like(y), y)
    quotient = x // divisor
    if x.dtype.kind == "i":
        # Floor division rounds down, the spec rounds to zero.
        quotient = quotient + ((quotient * divisor != x) & ((x < 0) != (divisor < 0)))
        quotient = np.where(y == -1, np.negative(x), quotient)
    return np.where(zero, np.array(-1).astype(x.dtype), quotient).astype(dtype)


def _remainder(x: Array, y: Array) -> Array:
    if not is_integer_dtype(x.dtype):
        return np.fmod(x, y)
    dtype, x, y = x.dtype, _native(x), _native(y)
    special = (y == 0) | (y == -1 if x.dtype.kind == "i" else False)
    remainder = np.fmod(x, np.where(special, np.ones_like(y), y))
    return np.where(y == 0, x, remainder).astype(dtype)


def _integer_power(x: Array, y: Array) -> Array:
    dtype, x, y = x.dtype, _native(x), _native(y)
    result, base, exponent = np.ones_like(x), x.copy(), np.maximum(y, 0)
    while exponent.any():
        result = np.where(exponent & 1, result * base, result)
        base, exponent = base * base, exponent >> 1
    # A negative exponent is 1 / x ** -y, rounded to zero.
    reciprocal = np.where(x == 1, 1, np.where(x == -1, np.where(y & 1, -1, 1), 0)) if x.dtype.kind == "i" else result
    return np.where(y < 0, reciprocal, result).astype(dtype)


def _power(x: Array, y: Array) -> Array:
    return _integer_power(x, y) if is_integer_dtype(x.dtype) else np.power(x, y)


def _maximum(x: Array, y: Array) -> Array:
    if x.dtype.kind == "b":
        return x | y
    larger = np.maximum(x, y)
    if is_float_dtype(x.dtype):
        # IEEE 754-2019 maximum: +0 is above -0 (NumPy returns either), a NaN wins.
        larger = np.where((x == 0) & (y == 0), x + y, larger)
    return larger


def _minimum(x: Array, y: Array) -> Array:
    if x.dtype.kind == "b":
        return x & y
    smaller = np.minimum(x, y)
    if is_float_dtype(x.dtype):
        smaller = np.where((x == 0) & (y == 0), -((-x) + (-y)), smaller)
    return smaller


def _sign(x: Array) -> Array:
    if is_integer_dtype(x.dtype):
        return np.sign(_native(x)).astype(x.dtype)
    if x.dtype.kind == "c":
        return np.where(x == 0, x * 0, x / np.abs(x))
    return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones_like(x), x))


def _round_nearest_afz(x: Array) -> Array:
    # Not floor(x + 0.5): that rounds 0.49999997f up.
    truncated = np.trunc(x)
    step = np.where(np.abs(x - truncated) >= np.array(0.5, x.dtype), np.copysign(np.ones_like(x), x), np.zeros_like(x))
    return np.copysign(truncated + step, x)


# --- bits ------------------------------------------------------------------------------------------------------------


def _shift_left(x: Array, y: Array) -> Array:
    (bits, width), (amount, _) = codes(x), codes(y)
    shifted = bits << np.minimum(amount, np.uint64(63))
    return from_codes(np.where(amount >= width, np.uint64(0), shifted), x.dtype)


def _shift_right_logical(x: Array, y: Array) -> Array:
    (bits, width), (amount, _) = codes(x), codes(y)
    shifted = bits >> np.minimum(amount, np.uint64(63))
    return from_codes(np.where(amount >= width, np.uint64(0), shifted), x.dtype)


def _shift_right_arithmetic(x: Array, y: Array) -> Array:
    (bits, width), (amount, _) = codes(x), codes(y)
    # Bits above the width are dropped again below, so an unsigned operand of the same width shifts its sign bit in too.
    signed = (bits << np.uint64(64 - width)).view(np.int64) >> np.int64(64 - width)
    shifted = signed >> np.minimum(amount, np.uint64(width - 1)).astype(np.int64)
    return from_codes(shifted.view(np.uint64), x.dtype)


def _count_leading_zeros(x: Array) -> Array:
    bits, width = codes(x)
    count = np.zeros(x.shape, np.int64)
    for position in range(width):
        count = np.where(bits >> np.uint64(position) == 0, count + 1, count)
    return count.astype(x.dtype)


def _popcnt(x: Array) -> Array:
    bits, _ = codes(x)
    return sum(((bits >> np.uint64(i)) & np.uint64(1) for i in range(64)), np.zeros(x.shape, np.uint64)).astype(x.dtype)


def _logical(function: Callable[..., Array]) -> Callable[..., Array]:
    def apply(*operands: Array) -> Array:
        return function(*(_native(operand) for operand in operands)).astype(operands[0].dtype)

    return apply


def _select(pred: Array, on_true: Array, on_false: Array) -> Array:
    return np.where(pred, on_true, on_false)


def _through_f64(function: Callable[[float], float]) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        flat = [function(float(element)) for element in x.reshape(-1)]
        return np.array(flat, np.float64).astype(x.dtype).reshape(x.shape)

    return apply


def _special(name: str) -> Callable[..., Array]:
    def apply(*arrays: Array) -> Array:
        from scipy import special  # takes a tenth of a second, and folding does not evaluate these

        return getattr(special, name)(*(array.astype(np.float64) for array in arrays)).astype(arrays[0].dtype)

    return apply


def _complex(real: Array, imag: Array) -> Array:
    result = np.empty(real.shape, np.complex64 if real.dtype == np.float32 else np.complex128)
    result.real, result.imag = real, imag
    return result


ELEMENTWISE: dict[str, Callable[..., Array]] = {
    "hlo.abs": lambda x: x if x.dtype.kind == "u" else np.abs(x),
    "hlo.add": lambda x, y: x + y,
    "hlo.and": _logical(np.bitwise_and),
    "hlo.atan2": np.arctan2,
    "hlo.cbrt": np.cbrt,
    "hlo.ceil": np.ceil,
    "hlo.complex": _complex,
    "hlo.cosine": np.cos,
    "hlo.count_leading_zeros": _count_leading_zeros,
    "hlo.divide": _divide,
    "hlo.acos": np.arccos,
    "hlo.acosh": np.arccosh,
    "hlo.asin": np.arcsin,
    "hlo.asinh": np.arcsinh,
    "hlo.atanh": np.arctanh,
    "hlo.bessel_i1e": _special("i1e"),
    "hlo.cosh": np.cosh,
    "hlo.digamma": _special("psi"),
    "hlo.erf_inv": _special("erfinv"),
    "hlo.erfc": _through_f64(math.erfc),
    "hlo.lgamma": _special("gammaln"),
    "hlo.sinh": np.sinh,
    "hlo.erf": _through_f64(math.erf),
    "hlo.exponential": np.exp,
    "hlo.exponential_minus_one": np.expm1,
    "hlo.floor": np.floor,
    "hlo.imag": lambda x: x.imag if x.dtype.kind == "c" else np.zeros_like(x),
    "hlo.is_finite": np.isfinite,
    "hlo.log": np.log,
    "hlo.log_plus_one": np.log1p,
    "hlo.logistic": lambda x: (
        1 / (1 + np.exp(-x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)))
    ).astype(x.dtype),
    "hlo.maximum": _maximum,
    "hlo.minimum": _minimum,
    "hlo.multiply": lambda x, y: x * y,
    "hlo.negate": np.negative,
    "hlo.not": _logical(np.bitwise_not),
    "hlo.or": _logical(np.bitwise_or),
    "hlo.popcnt": _popcnt,
    "hlo.power": _power,
    "hlo.real": lambda x: x.real if x.dtype.kind == "c" else x,
    "hlo.remainder": _remainder,
    "hlo.round_nearest_afz": _round_nearest_afz,
    "hlo.round_nearest_even": np.rint,
    "hlo.rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "hlo.select": _select,
    "hlo.shift_left": _shift_left,
    "hlo.shift_right_arithmetic": _shift_right_arithmetic,
    "hlo.shift_right_logical": _shift_right_logical,
    "hlo.sign": _sign,
    "hlo.sine": np.sin,
    "hlo.sqrt": np.sqrt,
    "hlo.subtract": lambda x, y: x - y,
    "hlo.tan": np.tan,
    "hlo.tanh": np.tanh,
    "hlo.xor": _logical(np.bitwise_xor),
    "hlo.zeta": _special("zeta"),
}


# --- ops with attributes or another element type ---------------------------------------------------------------------


def total_order_key(x: Array) -> Array:
    """Signed integers that compare as the floats do in total order: -NaN < -inf < ... < -0 < +0 < ... < NaN. The only
    NaN of the FNUZ types is a positive one."""
    of = format_of(x.dtype)
    assert of is not None
    bits, width = codes(x)
    if of.specials is Specials.SCALE:
        return bits.astype(np.int64)
    sign = np.uint64(1 << (width - 1))
    negative, magnitude = bits & sign != 0, (bits & (sign - np.uint64(1))).view(np.int64)
    key = np.where(negative, ~magnitude, magnitude)
    return np.where(bits == sign, np.int64(sign), key) if of.specials is Specials.FNUZ else key


_COMPARISONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def compare(direction: str, x: Array, y: Array, total_order: bool = False) -> Array:
    """Elementwise comparison by `direction` (EQ NE LT LE GT GE)."""
    if total_order and is_float_dtype(x.dtype):
        x, y = total_order_key(x), total_order_key(y)
    return _COMPARISONS[direction](_native(widened(x)), _native(widened(y)))


def convert(x: Array, dtype: np.dtype) -> Array:
    """Conversion of elements: to integers rounds to zero, saturates, and makes NaN 0; integers to integers wrap; to
    floats rounds once."""
    if x.dtype == dtype:
        return x
    x = widened(x)
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if dtype.kind == "b":
        return _native(x) != 0
    if not (is_float_dtype(x.dtype) and is_integer_dtype(dtype)):
        return cast(_native(x), dtype)
    bits, low, high = integer_info(dtype)
    limit = 2.0 ** (bits if low == 0 else bits - 1)
    truncated = np.trunc(x.astype(np.float64))
    inside = (truncated >= low) & (truncated < limit)
    native = np.where(inside, truncated, 0.0).astype(np.int64 if low < 0 else np.uint64)
    native = np.where(
        truncated >= limit, np.array(high, native.dtype), np.where(truncated < low, np.array(low, native.dtype), native)
    )
    return native.astype(dtype)


def reduce_precision(x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """Rounds to nearest even in a format of fewer bits; overflow gives infinity (or what the type has in its place),
    values below the normal range give zero."""
    of = format_of(x.dtype)
    assert of is not None
    bits, width = codes(x)
    sign = bits & np.uint64(1 << (width - 1) if of.specials is not Specials.SCALE else 0)
    magnitude = bits ^ sign
    dropped = of.mantissa_bits - mantissa_bits
    if dropped > 0:
        last = np.uint64(1 << dropped)
        odd = (magnitude >> np.uint64(dropped)) & np.uint64(1)
        magnitude = (magnitude + odd + (last >> np.uint64(1)) - np.uint64(1)) & ~(last - np.uint64(1))
    overflows = magnitude > np.uint64(of.largest_code)
    if exponent_bits < of.exponent_bits:
        reach = (1 << (exponent_bits - 1)) - 1
        exponent = magnitude >> np.uint64(of.mantissa_bits)
        overflows |= exponent > np.uint64(of.bias + reach)
        underflows = exponent <= np.uint64(of.bias - reach)
    else:
        underflows = np.zeros_like(overflows)
    reduced = np.asarray(from_codes(magnitude | sign, x.dtype))
    for where, number in ((underflows, 0.0), (overflows, np.inf)):
        reduced = np.where(where, cast(np.copysign(np.float32(number), np.where(sign != 0, -1, 1)), x.dtype), reduced)
    # A format without mantissa bits has no NaN.
    nan = x if mantissa_bits else cast(np.copysign(np.float32(np.inf), np.where(sign != 0, -1, 1)), x.dtype)
    return np.where(np.isnan(widened(x)), nan, reduced)


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


_TYPED: dict[str, Callable[..., Array]] = {
    "hlo.compare": lambda op, x, y: compare(text(op, "direction"), x, y, "total_order" in op.attributes),
    "hlo.convert": lambda op, x: convert(x, numpy_dtype(element_type(op.result))),
    "hlo.bitcast_convert": _bitcast_convert,
    "hlo.reduce_precision": lambda op, x: reduce_precision(x, i64(op, "exponent_bits"), i64(op, "mantissa_bits")),
    "hlo.reduce": lambda op, x, init: _reduce(op, x, init),
}


def _reduce(op: ir.Operation, x: Array, init: Array) -> Array:
    name, dimensions = f"hlo.{text(op, 'kind')}", tuple(op.attributes["dimensions"])
    return cast(combine(partial(elementwise, name), widened(x), widened(init), dimensions), x.dtype)


def can_evaluate(name: str) -> bool:
    """True when `evaluate_op` knows the op."""
    return name in ELEMENTWISE or name in _TYPED or name in STRUCTURAL


def elementwise(name: str, *operands: Array) -> Array:
    """An op of `ELEMENTWISE`. Floats of eight bits and less are computed in f32 and rounded once; sub-byte integers
    wrap (ml_dtypes has gaps there: maximum of int4 is int8, minus uint4 is negative)."""
    function, dtype = ELEMENTWISE[name], operands[0].dtype
    if not is_byte_float(dtype):
        result = function(*operands)
        return result.astype(np.int8).astype(dtype) if dtype.kind == "V" and is_integer_dtype(dtype) else result
    result = function(*(widened(operand) for operand in operands))
    return cast(result, dtype) if result.dtype == np.float32 else result


def evaluate_op(op: ir.Operation, operands: Sequence[Array]) -> list[Array]:
    """The results of one hlo op (or `stablehlo.concatenate`) on arrays of its operands' shapes and dtypes.

    Results may be views of operands. Raises UnsupportedError for ops without an evaluation here.
    """
    name = op.name
    with np.errstate(all="ignore"):
        if name in ELEMENTWISE:
            result = elementwise(name, *operands)
        elif function := _TYPED.get(name) or STRUCTURAL.get(name):
            result = function(op, *operands)
        else:
            raise UnsupportedError(f"{name} cannot be interpreted", location=user_location(op.location), op=name)
    return [np.asarray(result)]
