"""The exponential function and its kin: exp, expm1, logistic, tanh, sinh, cosh.

x = n log 2 + r, |r| <= log(2)/2: e^x = 2^n e^r, with n by adding and subtracting a big number and r by Cody and Waite
("Software Manual for the Elementary Functions", 1980). Polynomials are minimax fits of the relative error (Remez's
algorithm in mpmath), each coefficient rounded to the type before those of higher powers are fitted anew.
"""

from __future__ import annotations

from stablehlo_py.codegen.builder import F32, F64, Function, Value
from stablehlo_py.codegen.math.basics import (
    BIAS,
    MAGIC,
    MANTISSA,
    Scheme,
    absolute,
    at_least,
    at_most,
    bits,
    const,
    estrin,
    fast_two_sum,
    integer,
    muladd,
    polynomial,
    scaled_at_once,
    scales,
    signed,
    where_rare,
)

_LOG2E = 1.4426950408889634
# The first part has so few bits that its product with n is exact.
LN2 = {F32: (0.693359375, -2.12194440e-4), F64: (6.93147180369123816490e-01, 1.90821492927058770002e-10)}
_LN2_FUSED = (0.693147182464599609375, -1.904654299957768e-09)  # of f32, for products that are not rounded

# (e^r - 1 - r) / r^2 on |r| <= log(2)/2: relative error of e^r 2^-28.2 and 2^-56.8.
_TAIL = {
    F32: (0.0013836713042110205, 0.008369140326976776, 0.041668105870485306, 0.16666516661643982, 0.4999999403953552),
    F64: (
        2.042321491655924e-09,
        2.5117607635362048e-08,
        2.7557930463349197e-07,
        2.7557221772391615e-06,
        2.4801587274807274e-05,
        0.00019841269906313645,
        0.0013888888888797827,
        0.008333333333313752,
        0.04166666666666683,
        0.16666666666666688,
        0.5,
    ),
}
# The same for expm1: one degree more in f32, 2^-31.2, as the sum with 2^n - 1 may cancel a bit.
_EXPM1_TAIL = {
    F32: (
        0.00017311116971541196,
        0.0013933416921645403,
        0.008337902836501598,
        0.041666481643915176,
        0.16666647791862488,
        0.5,
    ),
    F64: _TAIL[F64],
}
_DEGREE = {element: len(tail) + 1 for element, tail in _TAIL.items()}
_OVERFLOW = {F32: 89.0, F64: 712.0}
# exp_double's callers may multiply by something small before the result is scaled.
FAR_OVERFLOW = {F32: 170.0, F64: 1400.0}
# From here results are so far below the denormal numbers that the last product is an exact 0: one that rounds to a
# denormal number costs a hundred cycles on many CPUs, and softmax meets e^-inf all the time.
UNDERFLOW = {F32: -150.0, F64: -1200.0}
# e^x of all that is below has the factor 2^-254 or 2^-2046, of which `scaled` makes two zeros: a product that rounds to
# zero costs as much as one that rounds to a denormal number, and masked scores have nothing else.
_VANISHES = {F32: -176.0, F64: -1418.0}


def reduced(f: Function, x: Value, offset: int, halved: bool = False) -> tuple[Value, Value, Value]:
    """x = n log 2 + r: (bits whose low part is n + offset, n, r). Halved: 2 x = n log 2 + 2 r."""
    element = x.type.element
    factor = 2.0 if halved else 1.0
    magic = const(f, x, MAGIC[element] + offset)
    shifted = muladd(f, x, const(f, x, _LOG2E * factor), magic)
    n = f.fsub(shifted, magic)
    high, low = LN2[element]
    r = muladd(f, n, const(f, x, -high / factor), x)
    return bits(f, shifted), n, muladd(f, n, const(f, x, -low / factor), r)


def _lost(f: Function, x: Value, n: Value, r: Value) -> Value:
    """What rounding r lost: a multiple of the second part of log 2 was subtracted from an exact difference."""
    high, low = LN2[x.type.element]
    exact = muladd(f, n, const(f, x, -high), x)
    return muladd(f, n, const(f, x, -low), f.fsub(exact, r))


def _series(f: Function, r: Value, factor: float = 1.0, scheme: Scheme = polynomial) -> Value:
    """(e^(factor r) - 1) / r."""
    element = r.type.element
    degree = _DEGREE[element]
    coefficients = [c * factor ** (degree - place) for place, c in enumerate(_TAIL[element])]
    return muladd(f, scheme(f, r, coefficients), r, const(f, r, factor))


def power_of_two(f: Function, n: Value, like: Value) -> Value:
    """2^k where the low bits of n hold k + bias."""
    return f.bitcast(integer(f, n, "shl", MANTISSA[like.type.element]), like.type)


def scaled(f: Function, y: Value, n: Value) -> Value:
    """y 2^k where the low bits of n hold k + 2 bias: in two steps, as 2^k itself may overflow or underflow."""
    half = integer(f, n, "lshr", 1)
    return f.fmul(f.fmul(y, power_of_two(f, half, y)), power_of_two(f, f.binary("sub", n, half), y))


def scaled_near_one(f: Function, y: Value, n: Value) -> Value:
    """`scaled` of y from 1/2 to 2 and n as `reduced` gives it. The same bits by one instruction, where there is one: of
    the products in `scaled` only the last is rounded."""
    if not scales(f, y):
        return scaled(f, y, n)
    element = y.type.element
    return scaled_at_once(f, y, f.fsub(f.bitcast(n, y.type), const(f, y, MAGIC[element] + 2 * BIAS[element])))


def exp(f: Function, x: Value) -> Value:
    """e^x."""
    element = x.type.element
    x = at_least(f, at_most(f, x, _OVERFLOW[element]), _VANISHES[element])
    n, _, r = reduced(f, x, 2 * BIAS[element])
    return scaled_near_one(f, muladd(f, _series(f, r), r, const(f, x, 1.0)), n)


def exp_double(f: Function, x: Value, low: Value | None = None) -> tuple[Value, Value, Value]:
    """(y, rest, n): e^(x + low) = (y + rest) 2^k with the low bits of n holding k + 2 bias, for `scaled`. `low` is at
    most an ulp of x. The rest is what rounding y lost; what is left is the error of the series, a fifth of an ulp."""
    element = x.type.element
    x = at_least(f, at_most(f, x, FAR_OVERFLOW[element]), UNDERFLOW[element])
    n, multiple, r = reduced(f, x, 2 * BIAS[element])
    lost = _lost(f, x, multiple, r)
    if low is not None:
        lost = f.fadd(lost, low)
    series, one = _series(f, r), const(f, x, 1.0)
    y = muladd(f, series, r, one)
    rest = muladd(f, series, r, f.fsub(one, y))
    return y, muladd(f, lost, y, rest), n


def exp_sum(f: Function, x: Value, low: Value, offset: int) -> tuple[Value, Value, Value]:
    """(y, tail, s) for f32 x: e^(x + low) 2^(offset - bias) = (y + tail) s, with s a power of two that the caller keeps
    a normal number. The tail is less than 1/12, so that it may be rounded in what follows: the relative error of the
    sum of both is 2^-28, the series'."""
    shifted, n, _ = reduced(f, x, offset)
    high, rest = _LN2_FUSED
    r = f.fma(n, const(f, x, -high), x)  # exact: a multiple of the last place of x, and of 2^-24
    second = muladd(f, n, const(f, x, -rest), low)
    y, lost = fast_two_sum(f, const(f, x, 1.0), r)
    tail = muladd(f, f.fmul(r, r), polynomial(f, r, _TAIL[F32]), lost)
    return y, muladd(f, second, f.fadd(y, tail), tail), power_of_two(f, shifted, x)


def expm1(f: Function, x: Value) -> Value:
    """e^x - 1: 2^n (r + tail) + (2^n - 1), with the roundings of 2^n - 1 and of 2^n r added to it made good. Half of
    everything, since 2^n may overflow where the result does not."""
    element = x.type.element
    least, most = (-19.0, 89.0) if element is F32 else (-39.0, 710.0)
    y = at_least(f, at_most(f, x, most), least)
    n, multiple, r = reduced(f, y, BIAS[element] - 1)
    scale = power_of_two(f, n, x)
    tail = muladd(f, polynomial(f, r, _EXPM1_TAIL[element]), f.fmul(r, r), _lost(f, y, multiple, r))
    base = f.fsub(scale, const(f, x, 0.5))
    high = f.fma(scale, r, base)
    lost = f.fma(scale, r, f.fsub(base, high))
    lost = f.fadd(lost, f.fsub(f.fsub(scale, base), const(f, x, 0.5)))
    half = f.fadd(high, muladd(f, scale, tail, lost))
    # Halves of the least numbers lose a bit; they and zeros are their own result.
    return f.select(f.cmp("olt", absolute(f, x), const(f, x, 2.0**-60)), x, f.fadd(half, half))


def logistic(f: Function, x: Value) -> Value:
    """1 / (1 + e^-x): with e = e^-|x| it is q = e / (1 + e) for negative x and 1 - q for others. One step of Newton's
    makes good what rounding e, 1 + e and the quotient lost."""
    element = x.type.element
    one = const(f, x, 1.0)
    size = absolute(f, x)

    def lower(extra: int, size: Value) -> Value:
        """q for -size; e and q are scaled by 2^extra until the end."""
        n, _, r = reduced(f, f.fneg(size), BIAS[element] + extra)
        scale, back = power_of_two(f, n, x), const(f, x, 2.0**-extra)
        series = _series(f, r)
        y = muladd(f, series, r, one)
        rest = f.fmul(muladd(f, series, r, f.fsub(one, y)), scale)
        e = f.fmul(y, scale)
        q = f.fdiv(e, muladd(f, e, back, one) if extra else f.fadd(e, one))
        plain = f.fmul(q, back) if extra else q
        inverse = f.fsub(one, plain)  # 1 / (1 + e)
        residual = f.fma(f.fneg(plain), e, f.fsub(e, q))  # e - q (1 + e); the difference is exact, as e/2 <= q <= e
        q = muladd(f, muladd(f, rest, inverse, residual), inverse, q)
        return f.fmul(q, back) if extra else q

    # Scaled where e^2 may be a denormal number, so that nothing before the last product is one. With the most, 2^n is
    # zero, and so is everything: that product does not underflow.
    far, extra, most = (42.0, 64, 132.4) if element is F32 else (350.0, 128, 797.8)
    rare = f.cmp("ugt", size, const(f, x, far))
    q = where_rare(f, rare, lambda: [lower(extra, at_most(f, size, most))], [lower(0, size)])[0]
    return f.select(f.cmp("olt", x, const(f, x, 0.0)), q, f.fsub(one, q))


# (x - tanh x) / x^3 in x^2 for small x, a quotient: relative error of tanh 2^-31.3 and 2^-60.3.
_TANH_SMALL = {F32: 0.92, F64: 0.625}
_TANH = {
    F32: (
        (0.0776551216840744, 1.7624999284744263),
        (0.0831177830696106, 2.347964286804199, 5.287499904632568),
    ),
    F64: (
        (0.0006047325422995362, 0.06225898732252169, 1.0124999999999997),
        (0.0006270562600960643, 0.07073926812897857, 1.4017769619675189, 3.0375),
    ),
}
_TANH_ONE = {F32: 9.1, F64: 20.0}  # from here on tanh rounds to 1


def tanh(f: Function, x: Value) -> Value:
    """x less a quotient for small x, 1 - 2 / (e^2x + 1) for others: one division serves both."""
    element = x.type.element
    one, two = const(f, x, 1.0), const(f, x, 2.0)
    size = at_most(f, absolute(f, x), _TANH_ONE[element])
    n, _, r = reduced(f, size, BIAS[element], halved=True)
    scale = power_of_two(f, n, x)
    bottom = muladd(f, scale, f.fmul(_series(f, r, 2.0, estrin), r), f.fadd(scale, one))
    square = f.fmul(size, size)
    upper, lower = (polynomial(f, square, side) for side in _TANH[element])
    small = f.cmp("olt", size, const(f, x, _TANH_SMALL[element]))
    quotient = f.fdiv(f.select(small, f.fmul(square, upper), two), f.select(small, lower, bottom))
    outer = f.select(small, size, one)
    return signed(f, muladd(f, f.fneg(outer), quotient, outer), x)
