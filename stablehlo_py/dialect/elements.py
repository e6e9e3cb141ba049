"""NumPy's arithmetic on arrays of elements, with the dialect's semantics: what the records of elementwise ops evaluate.

Arithmetic is done in the op's own element type: integers wrap around, f32 is rounded to f32 after every operation,
shifts past the width give 0 or the sign, x / 0 is -1 and x % 0 is x for integers (as XLA defines it: the StableHLO spec
leaves it open). `evaluate` widens the small floats around these functions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stablehlo_py.dialect.formats import Specials
from stablehlo_py.dialect.rounding import (
    cast,
    codes,
    format_of,
    from_codes,
    integer_info,
    is_byte_float,
    is_float_dtype,
    is_integer_dtype,
    widened,
)

Array = np.ndarray


def _native(x: Array) -> Array:
    # NumPy lacks bit operations, division and comparison chains on the sub-byte integers: do them in a byte, the cast
    # back wraps.
    if x.dtype.kind == "V" and "int" in x.dtype.name:
        return x.astype(np.uint8 if x.dtype.name.startswith("u") else np.int8)
    return x


# --- arithmetic ------------------------------------------------------------------------------------------------------


def divide(x: Array, y: Array) -> Array:
    """Quotient; of integers rounded to zero, -1 for a zero divisor."""
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


def remainder(x: Array, y: Array) -> Array:
    """Remainder with the dividend's sign; of integers the dividend for a zero divisor."""
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


def power(x: Array, y: Array) -> Array:
    """x to the y; of integers 0, 1 or -1 for negative y."""
    return _integer_power(x, y) if is_integer_dtype(x.dtype) else np.power(x, y)


def maximum(x: Array, y: Array) -> Array:
    """Greater one; NaN if one is NaN, +0 above -0; or of booleans."""
    if x.dtype.kind == "b":
        return x | y
    larger = np.maximum(x, y)
    if is_float_dtype(x.dtype):
        # IEEE 754-2019 maximum: +0 is above -0 (NumPy returns either), a NaN wins.
        larger = np.where((x == 0) & (y == 0), x + y, larger)
    return larger


def minimum(x: Array, y: Array) -> Array:
    """Smaller one; NaN if one is NaN, -0 below +0; and of booleans."""
    if x.dtype.kind == "b":
        return x & y
    smaller = np.minimum(x, y)
    if is_float_dtype(x.dtype):
        smaller = np.where((x == 0) & (y == 0), -((-x) + (-y)), smaller)
    return smaller


def sign(x: Array) -> Array:
    """-1, 0 or 1; zeros and NaNs stay."""
    if is_integer_dtype(x.dtype):
        return np.sign(_native(x)).astype(x.dtype)
    if x.dtype.kind == "c":
        return np.where(x == 0, x * 0, x / np.abs(x))
    return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones_like(x), x))


def round_nearest_afz(x: Array) -> Array:
    """Nearest whole number, halves away from zero."""
    # Not floor(x + 0.5): that rounds 0.49999997f up.
    truncated = np.trunc(x)
    step = np.where(np.abs(x - truncated) >= np.array(0.5, x.dtype), np.copysign(np.ones_like(x), x), np.zeros_like(x))
    return np.copysign(truncated + step, x)


# --- bits ------------------------------------------------------------------------------------------------------------


def logical_shift(shift: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A shift by which zeros enter; zero from the width on."""

    def apply(x: Array, y: Array) -> Array:
        (bits, width), (amount, _) = codes(x), codes(y)
        shifted = shift(bits, np.minimum(amount, np.uint64(63)))
        return from_codes(np.where(amount >= width, np.uint64(0), shifted), x.dtype)

    return apply


def shift_right_arithmetic(x: Array, y: Array) -> Array:
    """The sign bit enters, also of unsigned integers."""
    (bits, width), (amount, _) = codes(x), codes(y)
    # Bits above the width are dropped again below, so an unsigned operand of the same width shifts its sign bit in too.
    signed = (bits << np.uint64(64 - width)).view(np.int64) >> np.int64(64 - width)
    shifted = signed >> np.minimum(amount, np.uint64(width - 1)).astype(np.int64)
    return from_codes(shifted.view(np.uint64), x.dtype)


def count_leading_zeros(x: Array) -> Array:
    """Zero bits before the first one."""
    bits, width = codes(x)
    count = np.zeros(x.shape, np.int64)
    for position in range(width):
        count = np.where(bits >> np.uint64(position) == 0, count + 1, count)
    return count.astype(x.dtype)


def popcnt(x: Array) -> Array:
    """One bits."""
    bits, _ = codes(x)
    return sum(((bits >> np.uint64(i)) & np.uint64(1) for i in range(64)), np.zeros(x.shape, np.uint64)).astype(x.dtype)


def logical(function: Callable[..., Array]) -> Callable[..., Array]:
    """NumPy's bitwise function on integers of any width, and on booleans."""

    def apply(*operands: Array) -> Array:
        return function(*(_native(operand) for operand in operands)).astype(operands[0].dtype)

    return apply


def through_f64(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of Python floats, element by element."""

    def apply(x: Array) -> Array:
        flat = [function(float(element)) for element in x.reshape(-1)]
        return np.array(flat, np.float64).astype(x.dtype).reshape(x.shape)

    return apply


def special(name: str) -> Callable[..., Array]:
    """SciPy's special function of that name, computed in f64."""

    def apply(*arrays: Array) -> Array:
        from scipy import special  # takes a tenth of a second, and folding does not evaluate these

        return getattr(special, name)(*(array.astype(np.float64) for array in arrays)).astype(arrays[0].dtype)

    return apply


def logistic(x: Array) -> Array:
    """1 / (1 + e^-x), in the widest type."""
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    return (1 / (1 + np.exp(-x.astype(wide)))).astype(x.dtype)


def complex_(real: Array, imag: Array) -> Array:
    """Complex numbers of their parts."""
    result = np.empty(real.shape, np.complex64 if real.dtype == np.float32 else np.complex128)
    result.real, result.imag = real, imag
    return result


def for_all_types(function: Callable[..., Array]) -> Callable[..., Array]:
    """An elementwise function for the types that NumPy has gaps in: floats of eight bits and less are computed in f32
    and rounded once; sub-byte integers wrap (of ml_dtypes', maximum of int4 is int8, minus uint4 is negative)."""

    def apply(*operands: Array) -> Array:
        dtype = operands[0].dtype
        if not is_byte_float(dtype):
            result = function(*operands)
            return result.astype(np.int8).astype(dtype) if dtype.kind == "V" and is_integer_dtype(dtype) else result
        result = function(*(widened(operand) for operand in operands))
        return cast(result, dtype) if result.dtype == np.float32 else result

    return apply


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
