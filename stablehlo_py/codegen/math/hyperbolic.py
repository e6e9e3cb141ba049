"""sinh, cosh and the inverse hyperbolic functions, which are logarithms of sums whose rounding errors are made good."""

from __future__ import annotations

import math

from stablehlo_py.codegen.builder import F32, F64, Function, Value
from stablehlo_py.codegen.math.basics import (
    BIAS,
    MANTISSA,
    absolute,
    at_most,
    bits,
    const,
    copysign,
    fast_two_sum,
    half_inverse,
    integer,
    muladd,
    polynomial,
    where_rare,
)
from stablehlo_py.codegen.math.exponential import LN2, exp_double, power_of_two, reduced, scaled
from stablehlo_py.codegen.math.logarithm import log1p_double, log_of_sum

# (sinh x - x) / x^3 in x^2 on |x| <= 1: relative error of sinh 2^-56.7.
_SINH = (
    2.8482330018792457e-15,
    7.646482896407163e-13,
    1.6059050601244688e-10,
    2.5052108346509197e-08,
    2.755731922411629e-06,
    0.000198412698412696,
    0.008333333333333333,
    0.16666666666666666,
)
# (sinh r - r) / r^3 and (cosh r - 1) / r^2 in r^2 on |r| <= log(2)/2, f32: relative errors of sinh 2^-26.2, cosh 2^-33.
_SINH_NEAR = (0.008366534486413002, 0.1666654348373413)
_COSH_NEAR = (0.0013935451861470938, 0.041666459292173386, 0.5)
_MOST = 89.7  # sinh and cosh of f32 overflow before, and a quarter of them after
# (atanh s - s) / s^3 in s^2 on |s| <= 0.2005: relative error of atanh 2^-28.4 and 2^-66.8.
_ATANH = {
    F32: (0.15183179080486298, 0.19978800415992737, 0.333334743976593),
    F64: (
        0.059783538950228386,
        0.05851751387834926,
        0.06666392330481098,
        0.07692372431941182,
        0.09090906792965432,
        0.11111111149941844,
        0.14285714285377785,
        0.2000000000000136,
        0.3333333333333333,
    ),
}
# From here on 1 is lost in x, and x^2 may overflow.
_FAR = {F32: 2.0**30, F64: 1e20}


def _halves(f: Function, x: Value) -> tuple[Value, Value]:
    """e^x / 2 and e^-x / 2 for x >= 0; the first overflows only where sinh and cosh do."""
    y, rest, n = exp_double(f, x)
    half = scaled(f, f.fadd(y, rest), integer(f, n, "sub", 1))
    return half, f.fdiv(const(f, x, 0.25), half)


def _addition(f: Function, size: Value, odd: bool) -> Value:
    """sinh (odd) or cosh x for f32 x >= 0, by the addition theorem: with x = n log 2 + r they are

        (2^n - 2^-n)/2 cosh r + (2^n + 2^-n)/2 sinh r        (2^n + 2^-n)/2 cosh r + (2^n - 2^-n)/2 sinh r

    A half of that, until the end: 2^n may overflow where the result does not. The large parts are summed first, and
    what rounding sums lost is made good."""
    size = at_most(f, size, _MOST)
    shifted, n, r = reduced(f, size, BIAS[F32] - 2)
    grown = power_of_two(f, shifted, size)
    twice_bias = const(f, bits(f, grown), (2 * BIAS[F32] - 4) << MANTISSA[F32])
    # 2^(-n - 2), or 0 where that is not a normal number: it is lost in the sum.
    back = f.binary("sub", twice_bias, bits(f, grown))
    shrunk = f.bitcast(f.intrinsic("smax", back, const(f, back, 0)), size.type)
    if odd:
        shrunk = f.fneg(shrunk)
    # Half of what cosh r is multiplied by, and of what sinh r is.
    outer, outer_rest = fast_two_sum(f, grown, shrunk)
    inner = f.fsub(grown, shrunk)
    high, low = LN2[F32]
    first = muladd(f, n, const(f, n, -high), size)  # exact
    square = f.fmul(r, r)
    rest = muladd(f, f.fmul(square, r), polynomial(f, square, _SINH_NEAR), f.fmul(n, const(f, n, -low)))
    total = f.fma(inner, first, outer)
    lost = f.fadd(f.fma(inner, first, f.fsub(outer, total)), outer_rest)
    tail = muladd(f, outer, f.fmul(square, polynomial(f, square, _COSH_NEAR)), lost)
    half = f.fadd(total, muladd(f, inner, rest, tail))
    return f.fadd(half, half)


def sinh(f: Function, x: Value) -> Value:
    """Hyperbolic sine."""
    size = absolute(f, x)
    if x.type.element is F32:
        # Halves of the least numbers lose a bit; they are their own result.
        tiny = f.cmp("olt", size, const(f, x, 2.0**-60))
        return copysign(f, f.select(tiny, size, _addition(f, size, odd=True)), x)
    grown, shrunk = _halves(f, size)
    square = f.fmul(size, size)
    small = muladd(f, f.fmul(polynomial(f, square, _SINH), square), size, size)
    is_small = f.cmp("olt", size, const(f, x, 1.0))
    return copysign(f, f.select(is_small, small, f.fsub(grown, shrunk)), x)


def cosh(f: Function, x: Value) -> Value:
    """Hyperbolic cosine."""
    size = absolute(f, x)
    return _addition(f, size, odd=False) if x.type.element is F32 else f.fadd(*_halves(f, size))


def asinh(f: Function, x: Value) -> Value:
    """log(x + sqrt(1 + x^2)), what root and sum lose made good; log(2 x) for large x."""
    size, one, zero = absolute(f, x), const(f, x, 1.0), const(f, x, 0.0)
    under = f.fma(size, size, one)
    root = f.intrinsic("sqrt", under)
    left = f.fadd(f.fma(f.fneg(root), root, under), f.fma(size, size, f.fsub(one, under)))
    half = half_inverse(f, root)  # and a step of Newton's: a sixtieth of an ulp of the root counts
    half = f.fmul(half, f.fma(f.fmul(root, half), const(f, x, -2.0), const(f, x, 2.0)))
    rest = f.fmul(left, half)
    u, lost = fast_two_sum(f, root, size)
    far = f.cmp("ogt", size, const(f, x, _FAR[x.type.element]))
    u, lost = f.select(far, size, u), f.select(far, zero, f.fadd(lost, rest))
    return copysign(f, log_of_sum(f, u, lost, doubled=far), x)


def acosh(f: Function, x: Value) -> Value:
    """log1p(t + sqrt(2 t + t^2)) with t = x - 1, what root and sum lose made good; log(2 x) for large x."""
    one, zero = const(f, x, 1.0), const(f, x, 0.0)
    t = f.fsub(x, one)
    twice = f.fadd(t, t)
    root = f.intrinsic("sqrt", f.fma(t, t, twice))
    rest = f.fmul(f.fma(t, t, f.fma(f.fneg(root), root, twice)), half_inverse(f, root))
    total, lost = fast_two_sum(f, root, t)
    far = f.cmp("ogt", x, const(f, x, _FAR[x.type.element]))
    total, lost = f.select(far, x, total), f.select(far, zero, f.fadd(lost, rest))
    result = log1p_double(f, total, lost, doubled=far)
    return f.select(f.cmp("olt", x, one), const(f, x, math.nan), result)


def atanh(f: Function, x: Value) -> Value:
    """log((1 + x) / (1 - x)) / 2 = n log(2) / 2 + atanh(s), s = (1 + x - 2^n (1 - x)) / (1 + x + 2^n (1 - x)), where
    n is such that s is small; what sums and the quotient lose made good."""
    element = x.type.element
    size, one = absolute(f, x), const(f, x, 1.0)
    upper, upper_rest = fast_two_sum(f, one, size)
    lower, lower_rest = fast_two_sum(f, one, f.fneg(size))
    # Bits are logarithms, but for 0.09, in units of the last place of their exponents.
    ratio = f.binary("sub", bits(f, upper), bits(f, lower))
    n = integer(f, integer(f, ratio, "add", 1 << (MANTISSA[element] - 1)), "ashr", MANTISSA[element])
    minus_scale = f.fneg(power_of_two(f, integer(f, n, "add", BIAS[element]), x))
    top = f.fma(minus_scale, lower, upper)  # exact
    bottom = f.fma(f.fneg(minus_scale), lower, upper)
    bottom_rest = f.fma(minus_scale, lower, f.fsub(bottom, upper))
    top_rest = f.fma(minus_scale, lower_rest, upper_rest)
    bottom_rest = f.fsub(f.fma(f.fneg(minus_scale), lower_rest, upper_rest), bottom_rest)
    inverse = f.fdiv(one, bottom)
    s = f.fmul(top, inverse)
    minus = f.fneg(s)
    rest = f.fmul(f.fma(minus, bottom_rest, f.fadd(f.fma(minus, bottom, top), top_rest)), inverse)
    square = f.fmul(s, s)
    tail = muladd(f, f.fmul(polynomial(f, square, _ATANH[element]), square), s, rest)
    high, low = (const(f, x, part / 2) for part in LN2[element])
    e = f.cast("sitofp", n, element)
    total, lost = fast_two_sum(f, f.fmul(e, high), s)
    result = f.fadd(total, f.fadd(lost, muladd(f, e, low, tail)))

    def ends() -> list[Value]:
        return [f.select(f.cmp("oeq", size, one), const(f, x, math.inf), const(f, x, math.nan))]

    return copysign(f, where_rare(f, f.cmp("uge", size, one), ends, [result])[0], x)
