"""sinh, cosh and the inverse hyperbolic functions, in f64; f32 goes through it. They are rare in programs: one accurate
expansion each is worth more than a second, fast one."""

from __future__ import annotations

import math

from stablehlo_py.codegen.builder import Function, Value
from stablehlo_py.codegen.math.basics import (
    absolute,
    const,
    copysign,
    fast_two_sum,
    integer,
    muladd,
    polynomial,
    through_double,
)
from stablehlo_py.codegen.math.exponential import exp_double, scaled
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
_FAR = 1e20  # from here on 1 is lost in x, and x^2 may overflow


def _halves(f: Function, x: Value) -> tuple[Value, Value]:
    """e^x / 2 and e^-x / 2 for x >= 0; the first overflows only where sinh and cosh do."""
    y, rest, n = exp_double(f, x)
    half = scaled(f, f.fadd(y, rest), integer(f, n, "sub", 1))
    return half, f.fdiv(const(f, x, 0.25), half)


@through_double
def sinh(f: Function, x: Value) -> Value:
    """Hyperbolic sine."""
    size = absolute(f, x)
    grown, shrunk = _halves(f, size)
    square = f.fmul(size, size)
    small = muladd(f, f.fmul(polynomial(f, square, _SINH), square), size, size)
    is_small = f.cmp("olt", size, const(f, x, 1.0))
    return copysign(f, f.select(is_small, small, f.fsub(grown, shrunk)), x)


@through_double
def cosh(f: Function, x: Value) -> Value:
    """Hyperbolic cosine."""
    return f.fadd(*_halves(f, absolute(f, x)))


@through_double
def asinh(f: Function, x: Value) -> Value:
    """log1p(x + x^2 / (1 + sqrt(1 + x^2))); log(2 x) for large x."""
    size, one = absolute(f, x), const(f, x, 1.0)
    square = f.fmul(size, size)
    rest = f.fdiv(square, f.fadd(one, f.intrinsic("sqrt", f.fadd(one, square))))
    far = f.cmp("ogt", size, const(f, x, _FAR))
    total, lost = fast_two_sum(f, size, f.select(far, const(f, x, 0.0), rest))
    return copysign(f, log1p_double(f, total, lost, doubled=far), x)


@through_double
def acosh(f: Function, x: Value) -> Value:
    """log1p(t + sqrt(2 t + t^2)) with t = x - 1; log(2 x) for large x."""
    t = f.fsub(x, const(f, x, 1.0))
    root = f.intrinsic("sqrt", muladd(f, t, t, f.fadd(t, t)))
    far = f.cmp("ogt", x, const(f, x, _FAR))
    high = f.select(far, x, root)
    low = f.select(far, const(f, x, 0.0), t)
    total = f.fadd(high, low)
    larger = f.cmp("ogt", high, low)
    lost = f.fadd(f.fsub(f.select(larger, high, low), total), f.select(larger, low, high))
    result = log1p_double(f, total, lost, doubled=far)
    return f.select(f.cmp("olt", x, const(f, x, 1.0)), const(f, x, math.nan), result)


@through_double
def atanh(f: Function, x: Value) -> Value:
    """log1p(2 x / (1 - x)) / 2, the rounding errors of the quotient made good."""
    size, one = absolute(f, x), const(f, x, 1.0)
    twice = f.fadd(size, size)
    bottom, bottom_rest = fast_two_sum(f, one, f.fneg(size))
    ratio = f.fdiv(twice, bottom)
    minus = f.fneg(ratio)
    lost = f.fdiv(f.fma(minus, bottom_rest, f.fma(minus, bottom, twice)), bottom)
    return copysign(f, f.fmul(log1p_double(f, ratio, lost), const(f, x, 0.5)), x)
