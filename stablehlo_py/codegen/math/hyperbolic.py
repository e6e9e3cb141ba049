"""sinh, cosh and the inverse hyperbolic functions, which are logarithms of sums whose rounding errors are made good."""

from __future__ import annotations

import math

from stablehlo_py.codegen.builder import F32, F64, Function, Value
from stablehlo_py.codegen.math.basics import (
    BIAS,
    MANTISSA,
    Double,
    absolute,
    at_most,
    bits,
    const,
    copysign,
    fast_two_sum,
    integer,
    muladd,
    polynomial,
    two_product,
    two_sum,
)
from stablehlo_py.codegen.math.exponential import LN2, exp_double, power_of_two, reduced, scaled
from stablehlo_py.codegen.math.logarithm import log1p_double

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
    """log1p(x + x^2 / (1 + sqrt(1 + x^2))), what square, root and quotient lose made good; log(2 x) for large x."""
    size, one, zero = absolute(f, x), const(f, x, 1.0), const(f, x, 0.0)
    square, rest = two_product(f, size, size)
    under, lost = two_sum(f, one, square)
    root, root_rest = _root(f, under, f.fadd(lost, rest))
    bottom, lost = fast_two_sum(f, root, one)
    ratio = f.fdiv(square, bottom)
    minus = f.fneg(ratio)
    left = muladd(f, minus, f.fadd(lost, root_rest), f.fadd(f.fma(minus, bottom, square), rest))
    far = f.cmp("ogt", size, const(f, x, _FAR[x.type.element]))
    ratio, ratio_rest = (f.select(far, zero, part) for part in (ratio, f.fdiv(left, bottom)))
    total, lost = fast_two_sum(f, size, ratio)
    return copysign(f, log1p_double(f, total, f.fadd(lost, ratio_rest), doubled=far), x)


def _root(f: Function, x: Value, rest: Value) -> Double:
    """The square root of x + rest, for x > 0, and what it loses."""
    root = f.intrinsic("sqrt", x)
    return root, f.fdiv(f.fadd(f.fma(f.fneg(root), root, x), rest), f.fadd(root, root))


def acosh(f: Function, x: Value) -> Value:
    """log1p(t + sqrt(2 t + t^2)) with t = x - 1, what square and root lose made good; log(2 x) for large x."""
    one, zero = const(f, x, 1.0), const(f, x, 0.0)
    t = f.fsub(x, one)
    square, rest = two_product(f, t, t)
    under, lost = two_sum(f, f.fadd(t, t), square)
    root, root_rest = _root(f, under, f.fadd(lost, rest))
    far = f.cmp("ogt", x, const(f, x, _FAR[x.type.element]))
    high = f.select(far, x, root)
    low = f.select(far, zero, t)
    total = f.fadd(high, low)
    larger = f.cmp("ogt", high, low)
    lost = f.fadd(f.fsub(f.select(larger, high, low), total), f.select(larger, low, high))
    is_exact = f.binary("or", far, f.cmp("oeq", root, zero))
    result = log1p_double(f, total, f.fadd(lost, f.select(is_exact, zero, root_rest)), doubled=far)
    return f.select(f.cmp("olt", x, one), const(f, x, math.nan), result)


def atanh(f: Function, x: Value) -> Value:
    """log1p(2 x / (1 - x)) / 2, the rounding errors of the quotient made good."""
    size, one = absolute(f, x), const(f, x, 1.0)
    twice = f.fadd(size, size)
    bottom, bottom_rest = fast_two_sum(f, one, f.fneg(size))
    ratio = f.fdiv(twice, bottom)
    minus = f.fneg(ratio)
    lost = f.fdiv(f.fma(minus, bottom_rest, f.fma(minus, bottom, twice)), bottom)
    return copysign(f, f.fmul(log1p_double(f, ratio, lost), const(f, x, 0.5)), x)
