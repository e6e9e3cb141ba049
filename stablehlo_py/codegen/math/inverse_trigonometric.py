"""The arc functions: atan2, asin, acos. Their polynomials are minimax fits (see exponential.py)."""

from __future__ import annotations

import math

from stablehlo_py.codegen.builder import F32, F64, Function, Value
from stablehlo_py.codegen.math.basics import (
    absolute,
    at_most,
    bits,
    const,
    copysign,
    fast_two_sum,
    half_inverse,
    muladd,
    negative,
    polynomial,
    two_product,
    where_rare,
)

# (atan t - t) / t^3 in t^2 on |t| <= 1: relative error of atan 2^-28.5 and 2^-58.3.
_ATAN = {
    F32: (
        -0.0017824459355324507,
        0.010867469012737274,
        -0.031095458194613457,
        0.0578804649412632,
        -0.08399279415607452,
        0.10950877517461777,
        -0.14264015853405,
        0.1999852955341339,
        -0.33333298563957214,
    ),
    F64: (
        -8.711345287707533e-06,
        0.00010444410444437712,
        -0.0005955376357157589,
        0.002159068344166654,
        -0.005626874266466931,
        0.011338008575077434,
        -0.018635670005205315,
        0.026169012764488075,
        -0.03279629568048628,
        0.03821538020544091,
        -0.04286594748042756,
        0.047449874808493005,
        -0.05259448314255117,
        0.05881718859669059,
        -0.06666584118283637,
        0.07692299756514186,
        -0.09090908551034746,
        0.11111111086670637,
        -0.1428571428504497,
        0.19999999999990617,
        -0.33333333333333287,
    ),
}
# pi/4 in two parts.
_QUARTER_PI = {F32: (0.785398006439209, 1.5695823663008923e-07), F64: (0.7853981633974483, 3.061616997868383e-17)}
# Sizes of the larger coordinate whose reciprocal is a normal number, and whose products are.
_LEAST, _MOST = {F32: 2.0**-62, F64: 2.0**-500}, {F32: 2.0**64, F64: 2.0**512}


def atan2(f: Function, y: Value, x: Value) -> Value:
    """Angle of the point (x, y)."""
    one = const(f, x, 1.0)
    if x.ref == one.ref:
        return _atan(f, y)
    element = x.type.element
    across, along = absolute(f, y), absolute(f, x)
    steep = f.cmp("ogt", across, along)
    small, large = f.select(steep, along, across), f.select(steep, across, along)

    def scaled() -> list[Value]:
        zero, infinity = const(f, x, 0.0), const(f, x, math.inf)
        factor = f.select(f.cmp("ogt", large, one), const(f, x, 2 / _MOST[element]), const(f, x, 1 / _LEAST[element]))
        infinite = f.cmp("oeq", large, infinity)
        both = f.select(f.cmp("oeq", small, infinity), one, zero)
        bottom = f.select(f.binary("or", infinite, f.cmp("oeq", large, zero)), one, f.fmul(large, factor))
        return [f.select(infinite, both, f.fmul(small, factor)), bottom]

    least, most = (bits(f, const(f, x, end[element])) for end in (_LEAST, _MOST))
    rare = f.cmp("uge", f.binary("sub", bits(f, large), least), f.binary("sub", most, least))
    small, large = where_rare(f, rare, scaled, [small, large])
    inverse = f.fdiv(one, large)
    t = f.fmul(small, inverse)
    low = f.fmul(f.fma(f.fneg(t), large, small), inverse)
    angle = copysign(f, _angle(f, t, low, steep, negative(f, x)), y)
    return f.select(f.cmp("uno", x, y), f.fadd(x, y), angle)


def _atan(f: Function, y: Value) -> Value:
    """Arc tangent: the angle of the point (1, y)."""
    size, one = absolute(f, y), const(f, y, 1.0)
    steep = f.cmp("ogt", size, one)
    large = at_most(f, size, 2.0**100)  # larger numbers have the same result, and some no normal reciprocal
    inverse = f.fdiv(one, large)
    lost = f.fmul(f.fma(f.fneg(inverse), large, one), inverse)
    low = f.select(steep, lost, const(f, y, 0.0))
    return copysign(f, _angle(f, f.select(steep, inverse, size), low, steep, None), y)


def _angle(f: Function, t: Value, low: Value, steep: Value, left: Value | None) -> Value:
    """The angle of a point above or on the axis of x, where t + low is the size of its smaller coordinate by that of
    the larger one, steep (i1) says that y is the larger one, and left (i1) that x is negative; None: it never is.

    It is a multiple of pi/2 plus or minus atan(t). What the sum loses in rounding is added to the small terms."""
    element = t.type.element
    square, zero = f.fmul(t, t), const(f, t, 0.0)
    low = muladd(f, f.fmul(low, square), const(f, t, -0.5), low)  # times the derivative, but for a twelfth
    product, lost = two_product(f, polynomial(f, square, _ATAN[element]), square)
    tail = muladd(f, product, t, muladd(f, lost, t, low))
    half, whole = ([const(f, t, n * part) for part in _QUARTER_PI[element]] for n in (2, 4))
    flat = [zero, zero]  # what the angle is where t is 0
    down = steep  # the angle falls as t grows
    if left is not None:
        flat = [f.select(left, part, zero) for part in whole]
        down = f.binary("xor", steep, left)
    base, rest = (f.select(steep, up, level) for up, level in zip(half, flat, strict=True))
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
    lost = f.fmul(f.fma(f.fneg(root), root, square), half_inverse(f, root))  # of the square root's rounding
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
