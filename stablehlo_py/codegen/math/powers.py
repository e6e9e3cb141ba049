"""Roots, powers and the remainder. Coefficients are by tools/minimax.py."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from stablehlo_py.codegen.builder import F32, F64, I32, Function, Value
from stablehlo_py.codegen.math.basics import (
    BIAS,
    MANTISSA,
    TINY,
    Double,
    absolute,
    bits,
    const,
    copysign,
    fast_two_sum,
    integer,
    muladd,
    multiply_doubles,
    negative,
    polynomial,
    two_product,
    where_rare,
)
from stablehlo_py.codegen.math.exponential import LN2, exp_double, scaled, scaled_near_one
from stablehlo_py.codegen.math.logarithm import is_unusual, normalized


def sqrt(f: Function, x: Value) -> Value:
    """Square root."""
    return f.intrinsic("sqrt", x)


# The bits of an estimate y of 1/sqrt(x) are this minus half of x's: one and a half times the bias, less a little for
# the mantissa, which keeps e = 1 - x y^2 within 0.0682.
_RSQRT_BITS = {F32: 0x5F3746DF, F64: 0x5FE6E8F0C7B537A9}
# ((1 - e)^(-1/2) - 1) / e: relative error of 1/sqrt(x) 2^-19.9 and 2^-30.1.
_RSQRT_STEP = {
    F32: (0.3137457072734833, 0.37605729699134827, 0.4999990463256836),
    F64: (
        0.2477093701550592,
        0.27490479463562745,
        0.31249662219457947,
        0.3749978864801714,
        0.5000000014840241,
    ),
}


def rsqrt(f: Function, x: Value) -> Value:
    """1 / sqrt(x): an estimate, a polynomial for what it is off, and a step of Newton's with an exact residual, y +
    y (1 - x y^2) / 2. Root and quotient take longer."""
    element, one = x.type.element, const(f, x, 1.0)

    def corrected(y: Value) -> Value:
        product, rest = two_product(f, x, y)
        error = f.fma(f.fneg(rest), y, f.fma(f.fneg(product), y, one))
        return f.fma(f.fmul(y, const(f, x, 0.5)), error, y)

    def slow() -> list[Value]:
        y = f.fdiv(one, sqrt(f, x))
        better = corrected(y)
        return [f.select(f.cmp("uno", better, better), y, better)]  # zeros, infinities, NaN

    raw = bits(f, x)
    y = f.bitcast(f.binary("sub", f.const(_RSQRT_BITS[element], raw.type), integer(f, raw, "lshr", 1)), x.type)
    error = f.fma(f.fneg(f.fmul(x, y)), y, one)
    y = muladd(f, f.fmul(y, error), polynomial(f, error, _RSQRT_STEP[element]), y)
    return where_rare(f, is_unusual(f, x), slow, [corrected(y)])[0]


# The bits of an estimate y of 1/cbrt(x) are this minus a third of x's: four thirds of the bias, less a little for the
# mantissa, which keeps e = 1 - x y^3 within 0.1023 (as in Kahan's estimate of the cube root).
_CBRT_BITS = {F32: 0x54A1F800, F64: 0x553EE8FF289DD796}
# ((1 - e)^(-1/3) - 1) / e: relative error of 1/cbrt(x) 2^-18.5 and 2^-32.3.
_CBRT_STEP = {
    F32: (0.17440693080425262, 0.2234800010919571, 0.33332979679107666),
    F64: (
        0.11294422006452427,
        0.126682495438163,
        0.14401978245860186,
        0.1728298257384774,
        0.2222222480892698,
        0.33333334583106455,
    ),
}


def cbrt(f: Function, x: Value) -> Value:
    """Cube root: an estimate of 1/cbrt(x), a polynomial for what it is off, and a step of Newton's on the root itself,
    which squares the error."""
    element, third = x.type.element, const(f, x, 1.0 / 3.0)
    size = absolute(f, x)

    def root_of(a: Value) -> Value:
        raw = bits(f, a)
        if element is F32:  # division by 3 takes longer
            estimate = f.fma(f.cast("sitofp", raw, F32), f.fneg(third), const(f, x, float(_CBRT_BITS[F32])))
            estimate = f.cast("fptosi", estimate, I32)
        else:
            estimate = f.binary("sub", f.const(_CBRT_BITS[F64], raw.type), integer(f, raw, "udiv", 3))
        y = f.bitcast(estimate, x.type)
        error = f.fma(f.fneg(f.fmul(f.fmul(y, y), y)), a, const(f, x, 1.0))
        y = muladd(f, f.fmul(y, error), polynomial(f, error, _CBRT_STEP[element]), y)
        square = f.fmul(y, y)
        root = f.fmul(square, a)
        residual = f.fma(f.fneg(f.fmul(root, root)), root, a)
        return muladd(f, residual, f.fmul(square, third), root)

    def slow() -> list[Value]:
        steps = 8 if element is F32 else 18  # denormal numbers are scaled by 2^(3 steps)
        tiny = f.fmul(root_of(f.fmul(size, const(f, x, 2.0 ** (3 * steps)))), const(f, x, 2.0**-steps))
        keeps = f.cmp("ueq", f.fmul(x, const(f, x, 0.5)), x)  # zeros, infinities, NaN
        return [f.select(keeps, size, tiny)]

    return copysign(f, where_rare(f, is_unusual(f, size), slow, [root_of(size)])[0], x)


# f64: log((1 + s) / (1 - s)) = 2 s (1 + s^2 (1/3 + s^2 q(s^2))) on |s| <= 3 - sqrt(8): relative error 2^-66, which is
# rounding in the terms after 1/3.
_ATANH = (
    0.055068985124488816,
    0.05211419167036195,
    0.05884338772035335,
    0.06666620159685228,
    0.0769230837767802,
    0.0909090908461466,
    0.11111111111145365,
    0.14285714285714188,
    0.2,
)
_THIRD = (0.3333333333333333, 1.850371707708594e-17)

# f32: where intervals of m end, numbers that take m to within 0.104 of 1, and minus their logarithms in two parts. m is
# from 0.941 to twice that. Products with sixteenths, and what they are off 1, are exact; so are sums of the first parts
# and multiples of that of log 2.
_LEAST_BITS = 0x3F70E560
_ENDS = (1.1034, 4 / 3, 1.6)
_SIXTEENTHS = (16 / 16, 13 / 16, 11 / 16, 9 / 16)
_LOGARITHMS = (0.0, 0.2076416015625, 0.37469482421875, 0.5753631591796875)
_LOGARITHMS_REST = (0.0, -2.236784212072962e-06, -1.3747772982242168e-06, 9.857238865151885e-07)
# (log(1 + r) - r + r^2/2) / r^3 on -0.1001 <= r <= 0.1035: relative error of the logarithm 2^-32.7.
_LOG_TAIL = (
    -0.1258256435394287,
    0.14506791532039642,
    -0.16667038202285767,
    0.19998687505722046,
    -0.2499999701976776,
    0.3333333432674408,
)


def _log_single(f: Function, x: Value) -> Double:
    """`log_double` of f32: without a division, and with three terms that are sums of two."""
    m, e = normalized(f, x, _LEAST_BITS)
    above = [f.cmp("oge", m, const(f, x, end)) for end in _ENDS]

    def of_interval(numbers: Sequence[float]) -> Value:
        result = const(f, x, numbers[0])
        for condition, number in zip(above, numbers[1:], strict=True):
            result = f.select(condition, const(f, x, number), result)
        return result

    r = f.fma(m, of_interval(_SIXTEENTHS), const(f, x, -1.0))
    square, square_rest = two_product(f, r, r)
    minus_half = const(f, x, -0.5)
    high, low = (const(f, x, part) for part in LN2[F32])
    tail = muladd(f, f.fmul(square, r), polynomial(f, r, _LOG_TAIL), muladd(f, e, low, of_interval(_LOGARITHMS_REST)))
    tail = muladd(f, square_rest, minus_half, tail)
    first, lost = fast_two_sum(f, muladd(f, e, high, of_interval(_LOGARITHMS)), r)
    second = f.fma(square, minus_half, first)
    lost = f.fadd(lost, f.fma(square, minus_half, f.fsub(first, second)))
    return fast_two_sum(f, second, f.fadd(lost, tail))


def log_double(f: Function, x: Value) -> Double:
    """log x of positive finite x, with some bits more than its type has: eight in f32, thirteen in f64."""
    if x.type.element is F32:
        return _log_single(f, x)
    m, e = normalized(f, x)
    one = const(f, x, 1.0)
    top = f.fsub(m, one)
    bottom, bottom_rest = fast_two_sum(f, one, m)  # exact for these m, the larger one too
    inverse = f.fdiv(one, bottom)
    s = f.fmul(top, inverse)
    minus_s = f.fneg(s)
    s_rest = f.fmul(f.fma(minus_s, bottom_rest, f.fma(minus_s, bottom, top)), inverse)
    square, square_rest = two_product(f, s, s)
    square_rest = f.fma(f.fadd(s, s), s_rest, square_rest)
    third, third_rest = (const(f, x, part) for part in _THIRD)
    inner, inner_rest = fast_two_sum(f, third, f.fmul(square, polynomial(f, square, _ATANH)))
    series = multiply_doubles(f, (square, square_rest), (inner, f.fadd(inner_rest, third_rest)))
    tail, tail_rest = multiply_doubles(f, (s, s_rest), series)
    high, low = (const(f, x, part) for part in LN2[F64])
    # e log 2 + 2 (s + tail); the rests are summed last.
    total, first = fast_two_sum(f, f.fmul(e, high), f.fadd(s, s))
    total, second = fast_two_sum(f, total, f.fadd(tail, tail))
    rest = f.fadd(f.fadd(first, second), f.fmul(f.fadd(s_rest, tail_rest), const(f, x, 2.0)))
    return fast_two_sum(f, total, f.fma(e, low, rest))


def _exponent(f: Function, x: Value, y: Value) -> Double:
    """y log x for positive finite x."""
    high, low = log_double(f, x)
    product = f.fmul(y, high)
    rest = f.fma(y, low, f.fma(y, high, f.fneg(product)))
    # Far outside the range products may be infinite, and the rest then is NaN.
    return product, f.select(f.cmp("olt", absolute(f, product), const(f, x, 2000.0)), rest, const(f, x, 0.0))


def power_double(f: Function, x: Value, y: Value) -> Double:
    """x^y for x from 0 to infinity as an unevaluated sum, whose second part is 0 where the first is 0 or infinite."""
    zero, infinity = const(f, x, 0.0), const(f, x, math.inf)
    product, rest = _exponent(f, x, y)
    product = f.select(f.cmp("oeq", x, infinity), f.fmul(y, infinity), product)
    product = f.select(f.cmp("oeq", x, zero), f.fmul(y, f.fneg(infinity)), product)
    grown, grown_rest, n = exp_double(f, product, rest)
    high, low = (scaled(f, part, n) for part in fast_two_sum(f, grown, grown_rest))
    usual = f.binary("and", f.cmp("ogt", high, zero), f.cmp("olt", high, infinity))
    return high, f.select(usual, low, zero)


def power(f: Function, x: Value, y: Value) -> Value:
    """x^y = e^(y log |x|) with C's special cases."""
    if y.constant == -2.5:
        return _power_of_minus_five_halves(f, x)
    size = absolute(f, x)
    grown, grown_rest, n = exp_double(f, *_exponent(f, size, y))
    magnitude = scaled_near_one(f, f.fadd(grown, grown_rest), n)
    # Usual are positive finite x and finite y, but for the largest: their bits are small numbers.
    largest = bits(f, const(f, x, sys.float_info.max if x.type.element is F64 else 2.0**128 - 2.0**104))
    unusual = f.intrinsic("umax", integer(f, bits(f, x), "sub", 1), bits(f, absolute(f, y)))
    rare = f.cmp("uge", unusual, largest)
    (result,) = where_rare(f, rare, lambda: [_special_power(f, x, y, magnitude)], [magnitude])
    return result


def _power_of_minus_five_halves(f: Function, x: Value) -> Value:
    """x^-2.5, what the gradient of x^-1.5 has: 1/sqrt(x) over x^2, the quotient made good by its residual with the
    exact square."""
    root, square = rsqrt(f, x), f.fmul(x, x)
    quotient = f.fdiv(root, square)
    rest = f.fma(f.fneg(quotient), square, root)
    rest = f.fma(f.fneg(quotient), f.fma(x, x, f.fneg(square)), rest)
    inverse = f.fmul(root, root)
    better = f.fma(rest, f.fmul(inverse, inverse), quotient)
    result = f.select(f.cmp("uno", better, better), quotient, better)  # zeros, infinities, what is too small or large
    infinite = f.cmp("oeq", x, const(f, x, -math.inf))
    return f.select(infinite, const(f, x, 0.0), absolute(f, result))


def _special_power(f: Function, x: Value, y: Value, magnitude: Value) -> Value:
    """x^y where x is not positive, or one of both not finite; `magnitude` is |x|^y but for x of 0 and infinities."""
    zero, one, infinity = const(f, x, 0.0), const(f, x, 1.0), const(f, x, math.inf)
    size = absolute(f, x)
    is_zero, is_infinite = f.cmp("oeq", x, zero), f.cmp("oeq", size, infinity)
    grows = f.binary("xor", f.cmp("ogt", y, zero), is_zero)
    magnitude = f.select(f.binary("or", is_zero, is_infinite), f.select(grows, infinity, zero), magnitude)

    whole = f.cmp("oeq", f.intrinsic("trunc", y), y)
    half = f.fmul(y, const(f, x, 0.5))
    odd = f.binary("and", whole, f.cmp("one", f.intrinsic("trunc", half), half))
    result = f.select(f.binary("and", odd, negative(f, x)), f.fneg(magnitude), magnitude)
    usable = f.binary("or", f.binary("or", whole, f.cmp("oge", x, zero)), is_infinite)
    result = f.select(usable, result, const(f, x, math.nan))
    result = f.select(f.cmp("uno", x, y), f.fadd(x, y), result)
    unit = f.binary("and", f.cmp("oeq", size, one), f.cmp("oeq", absolute(f, y), infinity))
    unit = f.binary("or", unit, f.cmp("oeq", x, one))
    return f.select(f.binary("or", unit, f.cmp("oeq", y, zero)), one, result)


# A quotient up to here is known but for one by a division, and its product with the divisor is exact under fma.
_QUOTIENT_BITS = {F32: 22, F64: 51}


def remainder(f: Function, x: Value, y: Value) -> Value:
    """C's fmod: exact. Large quotients by long division, some twenty (fifty) bits a step."""
    element = x.type.element
    a, b = absolute(f, x), absolute(f, y)
    ratio = f.fdiv(a, b)
    rare = f.cmp("ugt", ratio, const(f, x, 2.0 ** _QUOTIENT_BITS[element]))
    (r,) = where_rare(f, rare, lambda: [_long_division(f, a, b)], [_step(f, a, b)])
    r = f.select(f.cmp("oeq", b, const(f, x, math.inf)), f.fadd(a, f.fsub(a, a)), r)
    return copysign(f, r, x)


def _step(f: Function, a: Value, b: Value) -> Value:
    """a modulo b for quotients that a division finds but for one."""
    q = f.intrinsic("trunc", f.fdiv(a, b))
    r = f.fma(f.fneg(q), b, a)
    r = f.select(f.cmp("olt", r, const(f, a, 0.0)), f.fadd(r, b), r)
    return f.select(f.cmp("oge", r, b), f.fsub(r, b), r)


def _long_division(f: Function, a: Value, b: Value) -> Value:
    element = a.type.element
    mantissa, bias = MANTISSA[element], BIAS[element]
    gain = _QUOTIENT_BITS[element] - 4
    tiny = f.cmp("olt", b, const(f, a, TINY[element]))
    b_bits = bits(f, f.select(tiny, f.fmul(b, const(f, a, 2.0**mantissa)), b))
    zero = f.const(0, b_bits.type)
    b_exponent = integer(f, b_bits, "lshr", mantissa)
    b_exponent = f.binary("sub", b_exponent, f.select(tiny, f.const(mantissa, b_bits.type), zero))

    def power_of_two(n: Value) -> Value:
        return f.bitcast(integer(f, integer(f, n, "add", bias), "shl", mantissa), a.type)

    def body(_: Value, r: Value) -> Value:
        excess = f.binary("sub", integer(f, bits(f, r), "lshr", mantissa), b_exponent)
        excess = f.intrinsic("smax", integer(f, excess, "sub", gain), zero)
        # 2^excess itself may overflow; its halves may not. A quotient has up to four bits more for that.
        excess = f.intrinsic("smin", excess, f.const(2 * bias, excess.type))
        half = integer(f, excess, "lshr", 1)
        divisor = f.fmul(f.fmul(b, power_of_two(half)), power_of_two(f.binary("sub", excess, half)))
        return _step(f, r, divisor)

    exponents = 2 * bias + mantissa
    (r,) = f.loop(0, -(-exponents // gain) + 1, 1, body, [a])
    return _step(f, r, b)
