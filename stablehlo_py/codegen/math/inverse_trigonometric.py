"""The arc functions: atan2, asin, acos. Their polynomials are minimax fits (see exponential.py)."""

from __future__ import annotations

import math

from stablehlo_py.codegen.builder import F32, F64, Function, Value
from stablehlo_py.codegen.math.basics import (
    absolute,
    at_most,
    const,
    copysign,
    fast_two_sum,
    muladd,
    negative,
    polynomial,
)

# (atan t - t) / t^3 in t^2 on |t| <= tan(pi/8): relative error of atan 2^-30.4 and 2^-58.
_ATAN = {
    F32: (-0.06087901070713997, 0.10598399490118027, -0.14244304597377777, 0.19998525083065033, -0.33333316445350647),
    F64: (
        0.01518881052113822,
        -0.033467615011159954,
        0.0450322751956768,
        -0.052183176574798186,
        0.058770070294425464,
        -0.06666225102853444,
        0.07692282635611224,
        -0.09090908138543577,
        0.11111111087995065,
        -0.14285714285384774,
        0.19999999999997642,
        -0.33333333333333326,
    ),
}
_TAN_EIGHTH = 0.41421356237309503  # tan(pi/8)
# pi/4 in two parts; the first has two bits to spare, so that three times it is exact.
_QUARTER_PI = {F32: (0.785398006439209, 1.5695823663008923e-07), F64: (0.7853981633974483, 3.061616997868383e-17)}


def atan2(f: Function, y: Value, x: Value) -> Value:
    """Angle of the point (x, y)."""
    one = const(f, x, 1.0)
    if x.ref == one.ref:
        return _atan(f, y)
    element = x.type.element
    across, along = absolute(f, y), absolute(f, x)
    steep = f.cmp("ogt", across, along)
    small, large = f.select(steep, along, across), f.select(steep, across, along)
    # Scaled so that 1/large and the products are normal numbers.
    huge, tiny = (2.0**64, 2.0**-62) if element is F32 else (2.0**512, 2.0**-500)
    factor = f.select(f.cmp("ogt", large, const(f, x, huge)), const(f, x, 2.0 / huge), one)
    factor = f.select(f.cmp("olt", large, const(f, x, tiny)), const(f, x, 1.0 / tiny), factor)
    small, large = f.fmul(small, factor), f.fmul(large, factor)
    infinite = f.cmp("oeq", large, const(f, x, math.inf))
    both = f.cmp("oeq", small, const(f, x, math.inf))
    zero = const(f, x, 0.0)
    small = f.select(infinite, f.select(both, one, zero), small)
    large = f.select(f.binary("or", infinite, f.cmp("oeq", large, zero)), one, large)
    angle = _angle(f, small, large, steep, negative(f, x))
    return f.select(f.cmp("uno", x, y), f.fadd(x, y), copysign(f, angle, y))


def _atan(f: Function, y: Value) -> Value:
    """Arc tangent: the angle of the point (1, y)."""
    size, one = absolute(f, y), const(f, y, 1.0)
    steep = f.cmp("ogt", size, one)
    # Larger numbers have the same result, and the reciprocals of some are no normal numbers.
    large = f.select(steep, at_most(f, size, 2.0**100), one)
    return copysign(f, _angle(f, f.select(steep, one, size), large, steep, None), y)


def _angle(f: Function, small: Value, large: Value, steep: Value, left: Value | None) -> Value:
    """The angle of a point above or on the axis of x whose coordinates have these sizes, where steep (i1) says that y
    is the larger one, and left (i1) that x is negative; None: it never is.

    It is a multiple of pi/4 plus or minus atan(t), |t| <= tan(pi/8). What the quotient and the sums lose in rounding is
    added to the small terms."""
    element = small.type.element
    zero, one = const(f, small, 0.0), const(f, small, 1.0)
    # t = small/large, or (small - large)/(small + large), the tangent of what the angle is off pi/4.
    near = f.cmp("ogt", small, f.fmul(large, const(f, small, _TAN_EIGHTH)))
    top, top_rest = fast_two_sum(f, f.fneg(f.select(near, large, zero)), small)
    bottom, bottom_rest = fast_two_sum(f, large, f.select(near, small, zero))
    inverse = f.fdiv(one, bottom)
    t = f.fmul(top, inverse)
    minus_t = f.fneg(t)
    low = f.fmul(f.fadd(f.fma(minus_t, bottom, top), f.fma(minus_t, bottom_rest, top_rest)), inverse)
    square = f.fmul(t, t)
    tail = muladd(f, f.fmul(polynomial(f, square, _ATAN[element]), square), t, low)
    quarter, half, whole = ([const(f, small, n * part) for part in _QUARTER_PI[element]] for n in (1, 2, 4))
    level = [zero, zero]  # of what the angle is where t is 0
    down = steep  # the angle falls as t grows
    if left is not None:
        level = [f.select(left, part, zero) for part in whole]
        down = f.binary("xor", steep, left)
        quarter = [
            f.select(left, const(f, small, 3 * part), one_quarter)
            for part, one_quarter in zip(_QUARTER_PI[element], quarter, strict=True)
        ]
    base, rest = (
        f.select(near, middle, f.select(steep, top_, flat))
        for middle, top_, flat in zip(quarter, half, level, strict=True)
    )
    t, tail = (f.select(down, f.fneg(part), part) for part in (t, tail))
    total, lost = fast_two_sum(f, base, t)
    return f.fadd(total, f.fadd(f.fadd(lost, rest), tail))


# (asin x - x) / x^3 in x^2 on |x| <= 1/2: relative error of asin 2^-27.6 and 2^-58.
_ASIN = {
    F32: (0.042158305644989014, 0.024184778332710266, 0.04546914994716644, 0.074953094124794, 0.16666752099990845),
    F64: (
        0.0326540223745259,
        -0.021038691112616102,
        0.0217347402793489,
        0.003695489332149355,
        0.010783062781572499,
        0.011398425709858509,
        0.01398087813690549,
        0.017351607372153008,
        0.02237221523654565,
        0.030381942699305775,
        0.04464285717478069,
        0.07499999999970632,
        0.1666666666666676,
    ),
}


def _arc_parts(f: Function, x: Value) -> tuple[Value, Value, Value]:
    """(near, t, tail) with asin(t') = t + tail, where t' is |x| if near (|x| <= 1/2), else sqrt((1 - |x|) / 2): the
    sine of half the angle whose cosine |x| is."""
    size, half = absolute(f, x), const(f, x, 0.5)
    near = f.cmp("ole", size, half)
    square = f.select(near, f.fmul(size, size), f.fmul(f.fsub(const(f, x, 1.0), size), half))
    root = f.intrinsic("sqrt", square)
    lost = f.fdiv(f.fma(f.fneg(root), root, square), f.fadd(root, root))  # of the square root's rounding
    lost = f.select(f.cmp("ogt", root, const(f, x, 0.0)), lost, const(f, x, 0.0))
    t = f.select(near, size, root)
    tail = f.fmul(f.fmul(polynomial(f, square, _ASIN[x.type.element]), square), t)
    return near, t, f.select(near, tail, f.fadd(tail, lost))


def asin(f: Function, x: Value) -> Value:
    """Arc sine: pi/2 minus twice the arc sine of sqrt((1 - |x|) / 2) for large |x|."""
    near, t, tail = _arc_parts(f, x)
    high, low = (const(f, x, 2 * part) for part in _QUARTER_PI[x.type.element])
    total, lost = fast_two_sum(f, high, f.fneg(f.fadd(t, t)))
    far = f.fadd(total, f.fadd(lost, f.fsub(low, f.fadd(tail, tail))))
    return copysign(f, f.select(near, f.fadd(t, tail), far), x)


def acos(f: Function, x: Value) -> Value:
    """Arc cosine: pi/2 - asin x, or twice the arc sine of sqrt((1 - |x|) / 2), or pi minus that."""
    near, t, tail = _arc_parts(f, x)
    left, zero = negative(f, x), const(f, x, 0.0)
    # base -+ factor (t + tail)
    base, rest = (
        f.select(near, const(f, x, 2 * part), f.select(left, const(f, x, 4 * part), zero))
        for part in _QUARTER_PI[x.type.element]
    )
    minus = f.binary("xor", near, left)
    factor = f.select(near, const(f, x, 1.0), const(f, x, 2.0))
    factor = f.select(minus, f.fneg(factor), factor)
    total, lost = fast_two_sum(f, base, f.fmul(factor, t))
    return f.fadd(total, f.fadd(lost, muladd(f, factor, tail, rest)))
