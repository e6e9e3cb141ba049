"""The natural logarithm, and that of 1 + x.

x = 2^e m with m between sqrt(1/2) and sqrt(2). f32: a polynomial in m - 1 (Cephes, Moshier, netlib.org/cephes, single);
f64: one in the square of s = (m - 1) / (m + 1) (FDLIBM, Sun Microsystems, netlib.org/fdlibm).
"""

from __future__ import annotations

import math

from stablehlo_py.codegen.builder import F32, F64, Function, Value
from stablehlo_py.codegen.math.basics import (
    BIAS,
    MANTISSA,
    TINY,
    bits,
    const,
    copysign,
    integer,
    muladd,
    polynomial,
    where_rare,
)
from stablehlo_py.codegen.math.exponential import LN2

_LOG = {
    F32: (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    ),
    F64: (
        1.479819860511658591e-01,
        1.531383769920937332e-01,
        1.818357216161805012e-01,
        2.222219843214978396e-01,
        2.857142874366239149e-01,
        3.999999999940941908e-01,
        6.666666666666735130e-01,
    ),
}
_SQRT_HALF_BITS = {F32: 0x3F3504F3, F64: 0x3FE6A09E667F3BCD}


def split(f: Function, x: Value, least: int = 0) -> tuple[Value, Value]:
    """x = 2^e m with m in [sqrt(1/2), sqrt(2)), or from the number with the bits `least` to twice that: (m, e as an
    integer), for positive normal x."""
    element, raw = x.type.element, bits(f, x)
    exponent = integer(f, integer(f, raw, "sub", least or _SQRT_HALF_BITS[element]), "ashr", MANTISSA[element])
    shifted = integer(f, exponent, "shl", MANTISSA[element])
    return f.bitcast(f.binary("sub", raw, shifted), x.type), exponent


def normalized(f: Function, x: Value, least: int = 0) -> tuple[Value, Value]:
    """(m, e as a float) as `split`, for all positive finite x: denormal numbers are scaled up first."""
    element = x.type.element
    steps = MANTISSA[element]
    tiny = f.cmp("olt", x, const(f, x, TINY[element]))
    m, exponent = split(f, f.select(tiny, f.fmul(x, const(f, x, 2.0**steps)), x), least)
    e = f.cast("sitofp", exponent, element)
    return m, f.fsub(e, f.select(tiny, const(f, x, float(steps)), const(f, x, 0.0)))


def log(f: Function, x: Value) -> Value:
    """Natural logarithm."""
    usual = _log_usual(f, x)

    def slow() -> list[Value]:
        m, e = normalized(f, x)
        return [_ended(f, x, _sum(f, f.fsub(m, const(f, x, 1.0)), e))]

    return where_rare(f, is_unusual(f, x), slow, [usual])[0]


def log_of_normal(f: Function, x: Value) -> Value:
    """The same of what is no denormal number."""
    usual = _log_usual(f, x)
    return where_rare(f, is_unusual(f, x), lambda: [_ended(f, x, usual)], [usual])[0]


def _log_usual(f: Function, x: Value) -> Value:
    """Of a positive normal number."""
    m, exponent = split(f, x)
    return _sum(f, f.fsub(m, const(f, x, 1.0)), f.cast("sitofp", exponent, x.type.element))


def _ended(f: Function, x: Value, log: Value) -> Value:
    """The logarithm of x, which is `log` where x is a positive number."""
    ended = f.select(f.cmp("oeq", x, const(f, x, math.inf)), x, log)
    ended = f.select(f.cmp("oeq", x, const(f, x, 0.0)), const(f, x, -math.inf), ended)
    return f.select(f.cmp("oge", x, const(f, x, 0.0)), ended, const(f, x, math.nan))


def is_unusual(f: Function, x: Value) -> Value:
    """Whether x is not a positive normal number: subnormal, zero, negative, infinite or NaN."""
    raw, mantissa = bits(f, x), MANTISSA[x.type.element]
    numbers = 2 * BIAS[x.type.element] << mantissa  # from the least normal number to infinity
    return f.cmp("uge", integer(f, raw, "sub", 1 << mantissa), f.const(numbers, raw.type))


def _sum(f: Function, r: Value, e: Value, low: Value | None = None) -> Value:
    """e log 2 + log(1 + r + low), where `low` is at most an ulp of r."""
    high, small = LN2[r.type.element]
    coefficients = _LOG[r.type.element]
    if r.type.element is F32:
        square = f.fmul(r, r)
        y = f.fmul(f.fmul(polynomial(f, r, coefficients), square), r)
        y = muladd(f, e, const(f, r, small), y)
        if low is not None:
            y = f.fadd(y, low)
        y = muladd(f, square, const(f, r, -0.5), y)
        return muladd(f, e, const(f, r, high), f.fadd(r, y))
    s = f.fdiv(r, f.fadd(r, const(f, r, 2.0)))
    square = f.fmul(s, s)
    half = f.fmul(f.fmul(r, r), const(f, r, 0.5))
    inner = f.fmul(s, f.fadd(half, f.fmul(polynomial(f, square, coefficients), square)))
    inner = muladd(f, e, const(f, r, small), inner)
    if low is not None:
        inner = f.fadd(inner, low)
    return muladd(f, e, const(f, r, high), f.fsub(r, f.fsub(half, inner)))


def log1p(f: Function, x: Value) -> Value:
    """log(1 + x), accurate near 0."""
    return copysign(f, log1p_double(f, x), x)  # -0, and the infinity at -1


def log1p_double(f: Function, x: Value, low: Value | None = None, doubled: Value | None = None) -> Value:
    """log(1 + x + low), but for the sign of a zero, where `low` is at most an ulp of x: what the sum loses in rounding
    enters the reduced argument. Twice the argument of the logarithm where `doubled` (i1) holds."""
    one = const(f, x, 1.0)
    u = f.fadd(one, x)
    lost = f.fsub(x, f.fsub(u, one))
    return log_of_sum(f, u, lost if low is None else f.fadd(lost, low), doubled)


def log_of_sum(f: Function, u: Value, lost: Value, doubled: Value | None = None) -> Value:
    """log(u + lost), where the second is at most some ulps of the first, or of 1; twice the argument where `doubled`
    (i1) holds."""
    element, one = u.type.element, const(f, u, 1.0)
    m, exponent = split(f, u)
    inverse = f.binary("sub", f.const(BIAS[element], exponent.type), exponent)
    inverse = f.intrinsic("smax", inverse, f.const(0, exponent.type))  # nothing is lost in sums that large
    scale = f.bitcast(integer(f, inverse, "shl", MANTISSA[element]), u.type)  # 2^-e
    base, lost = f.fsub(m, one), f.fmul(lost, scale)
    r = f.fadd(base, lost)
    e = f.cast("sitofp", exponent, element)
    if doubled is not None:
        e = f.fadd(e, f.select(doubled, one, const(f, u, 0.0)))
    result = _sum(f, r, e, f.fsub(lost, f.fsub(r, base)))

    return where_rare(f, is_unusual(f, u), lambda: [_ended(f, u, result)], [result])[0]
