"""Complex arithmetic on pairs (real, imaginary) of lanes. Formulas are the standard ones, arranged against overflow
(Kahan's and Smith's forms, as in C99 Annex G where it matters).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from stablehlo_py.codegen import math as real_math
from stablehlo_py.codegen.builder import F32, F64, Function, Value

Pair = tuple[Value, Value]


def _k(f: Function, like: Value, number: float) -> Value:
    return f.const(number, like.type)


def _add(f: Function, a: Pair, b: Pair) -> Pair:
    return f.fadd(a[0], b[0]), f.fadd(a[1], b[1])


def _subtract(f: Function, a: Pair, b: Pair) -> Pair:
    return f.fsub(a[0], b[0]), f.fsub(a[1], b[1])


def _multiply(f: Function, a: Pair, b: Pair) -> Pair:
    # One product of each part is fused into the sum; which one is XLA:CPU's choice, so long products agree with it.
    real = real_math.muladd(f, a[0], b[0], f.fneg(f.fmul(a[1], b[1])))
    return real, real_math.muladd(f, a[1], b[0], f.fmul(a[0], b[1]))


def _divide(f: Function, a: Pair, b: Pair) -> Pair:
    # Smith's algorithm: scale by the larger part of the divisor; swap instead of branching.
    x, y = real_math.absolute(f, b[0]), real_math.absolute(f, b[1])
    swap = f.cmp("olt", x, y)
    large, small = f.select(swap, b[1], b[0]), f.select(swap, b[0], b[1])
    ratio = f.fdiv(small, large)
    zero = _k(f, x, 0.0)
    ratio = f.select(f.cmp("oeq", large, zero), zero, ratio)
    scale = f.fadd(large, f.fmul(small, ratio))
    p, q = f.select(swap, a[1], a[0]), f.select(swap, a[0], a[1])
    real = f.fdiv(f.fadd(p, f.fmul(q, ratio)), scale)
    imaginary = f.fdiv(f.fsub(q, f.fmul(p, ratio)), scale)
    return real, f.select(swap, f.fneg(imaginary), imaginary)


def absolute(f: Function, a: Pair) -> Value:
    """|a|, without overflow in between."""
    x, y = real_math.absolute(f, a[0]), real_math.absolute(f, a[1])
    swap = f.cmp("olt", x, y)
    large, small = f.select(swap, y, x), f.select(swap, x, y)
    zero, one, infinity = _k(f, x, 0.0), _k(f, x, 1.0), _k(f, x, math.inf)
    ratio = f.fdiv(small, large)
    result = f.fmul(large, f.intrinsic("sqrt", real_math.muladd(f, ratio, ratio, one)))
    result = f.select(f.cmp("oeq", large, zero), large, result)
    endless = f.binary("or", f.cmp("oeq", x, infinity), f.cmp("oeq", y, infinity))
    return f.select(endless, infinity, result)


def sign(f: Function, a: Pair) -> Pair:
    """a / |a|, and 0 for 0."""
    size = absolute(f, a)
    zero = _k(f, size, 0.0)
    null = f.cmp("oeq", size, zero)
    real, imaginary = (f.select(null, part, f.fdiv(part, size)) for part in a)
    return real, imaginary


def extreme(f: Function, largest: bool, a: Pair, b: Pair) -> Pair:
    """Lexicographic maximum or minimum."""
    direction = "ogt" if largest else "olt"
    first = f.cmp(direction, a[0], b[0])
    tie = f.binary("and", f.cmp("oeq", a[0], b[0]), f.cmp(direction, a[1], b[1]))
    chosen = f.binary("or", first, tie)
    return f.select(chosen, a[0], b[0]), f.select(chosen, a[1], b[1])


def compare(f: Function, direction: str, a: Pair, b: Pair) -> Value:
    """EQ or NE (the orders are not defined on complex numbers)."""
    if direction == "EQ":
        return f.binary("and", f.cmp("oeq", a[0], b[0]), f.cmp("oeq", a[1], b[1]))
    return f.binary("or", f.cmp("une", a[0], b[0]), f.cmp("une", a[1], b[1]))


def _angle(f: Function, a: Pair) -> Value:
    return real_math.atan2(f, a[1], a[0])


def exp(f: Function, a: Pair) -> Pair:
    """e^a."""
    size = real_math.exp(f, a[0])
    flat = f.cmp("oeq", a[1], _k(f, size, 0.0))  # keeps inf * 0 out
    imaginary = f.select(flat, a[1], f.fmul(size, real_math.sin(f, a[1])))
    return f.select(flat, size, f.fmul(size, real_math.cos(f, a[1]))), imaginary


def log(f: Function, a: Pair) -> Pair:
    """Principal logarithm."""
    return _log_size(f, a), _angle(f, a)


def _square(f: Function, x: Value) -> Pair:
    """x^2 and what its rounding lost."""
    square = f.fmul(x, x)
    return square, f.fma(x, x, f.fneg(square))


def _sum(f: Function, a: Value, b: Value) -> Pair:
    """a + b and what its rounding lost (Knuth's two-sum)."""
    total = f.fadd(a, b)
    part = f.fsub(total, a)
    return total, f.fadd(f.fsub(a, f.fsub(total, part)), f.fsub(b, part))


def _log_size(f: Function, a: Pair) -> Value:
    """log |a| (f64). Near |a| = 1 it is log1p of |a|^2 - 1, from exact squares."""
    x, y = real_math.absolute(f, a[0]), real_math.absolute(f, a[1])
    swap = f.cmp("olt", x, y)
    large, small = f.select(swap, y, x), f.select(swap, x, y)
    (square, lost), (other, other_lost) = _square(f, large), _square(f, small)
    excess = f.fadd(f.fadd(f.fsub(square, _k(f, x, 1.0)), other), f.fadd(lost, other_lost))
    close = f.fmul(real_math.log1p(f, excess), _k(f, x, 0.5))
    near = f.binary("and", f.cmp("ogt", large, _k(f, x, 0.5)), f.cmp("olt", large, _k(f, x, 2.0)))
    return f.select(near, close, real_math.log(f, absolute(f, a)))


def _log1p(f: Function, a: Pair) -> Pair:
    shifted = f.fadd(a[0], _k(f, a[0], 1.0)), a[1]
    return _log1p_size(f, a), _angle(f, shifted)


def _log1p_size(f: Function, a: Pair) -> Value:
    """log |1 + a| (f64): log1p of |1 + a|^2 - 1 = 2 re + re^2 + im^2, summed with what each rounding loses."""
    x, y = a
    (square, lost), (other, other_lost) = _square(f, x), _square(f, y)
    total, first_lost = _sum(f, f.fadd(x, x), other)
    total, second_lost = _sum(f, total, square)
    rest = f.fadd(f.fadd(lost, other_lost), f.fadd(first_lost, second_lost))
    excess = f.fadd(total, rest)
    close = f.fmul(real_math.log1p(f, excess), _k(f, x, 0.5))
    near = f.binary("and", f.cmp("ogt", excess, _k(f, x, -0.5)), f.cmp("olt", excess, _k(f, x, 3.0)))
    return f.select(near, close, _log_size(f, (f.fadd(x, _k(f, x, 1.0)), y)))


def _expm1(f: Function, a: Pair) -> Pair:
    # e^x cos y - 1 = expm1(x) cos y - 2 sin(y/2)^2
    half = real_math.sin(f, f.fmul(a[1], _k(f, a[1], 0.5)))
    grown = f.fmul(real_math.expm1(f, a[0]), real_math.cos(f, a[1]))
    return f.fsub(grown, f.fmul(_k(f, half, 2.0), f.fmul(half, half))), exp(f, a)[1]


def sqrt(f: Function, a: Pair) -> Pair:
    """Principal square root."""
    half, zero = _k(f, a[0], 0.5), _k(f, a[0], 0.0)
    size = absolute(f, a)
    # sqrt((|a| + |re|) / 2), halved before the sum so that it does not overflow.
    t = f.intrinsic("sqrt", f.fadd(f.fmul(size, half), f.fmul(real_math.absolute(f, a[0]), half)))
    other = f.fdiv(f.fmul(real_math.absolute(f, a[1]), half), t)
    other = f.select(f.cmp("oeq", t, zero), zero, other)
    right = f.cmp("oge", a[0], zero)
    real, imaginary = f.select(right, t, other), f.select(right, other, t)
    endless = f.cmp("oeq", real_math.absolute(f, a[1]), _k(f, size, math.inf))
    real = f.select(endless, _k(f, size, math.inf), real)
    imaginary = f.select(endless, _k(f, size, math.inf), imaginary)
    return real, f.intrinsic("copysign", imaginary, a[1])


def _rsqrt(f: Function, a: Pair) -> Pair:
    root = sqrt(f, a)
    return _divide(f, (_k(f, root[0], 1.0), _k(f, root[0], 0.0)), root)


def _sinh_cosh(f: Function, x: Value) -> tuple[Value, Value]:
    half = _k(f, x, 0.5)
    up, down = real_math.expm1(f, x), real_math.expm1(f, f.fneg(x))
    return f.fmul(half, f.fsub(up, down)), f.fadd(f.fmul(half, f.fadd(up, down)), _k(f, x, 1.0))


def _sine(f: Function, a: Pair) -> Pair:
    sinh, cosh = _sinh_cosh(f, a[1])
    return f.fmul(real_math.sin(f, a[0]), cosh), f.fmul(real_math.cos(f, a[0]), sinh)


def _cosine(f: Function, a: Pair) -> Pair:
    sinh, cosh = _sinh_cosh(f, a[1])
    return f.fmul(real_math.cos(f, a[0]), cosh), f.fneg(f.fmul(real_math.sin(f, a[0]), sinh))


def tanh(f: Function, a: Pair) -> Pair:
    """tanh, Kahan's form: with t = tan(im), s = sinh(re): (s sqrt(1 + s^2) (1 + t^2) + i t) / (1 + (1 + t^2) s^2)."""
    one = _k(f, a[0], 1.0)
    bound = _k(f, a[0], 20.0)
    x = f.select(f.cmp("ogt", a[0], bound), bound, a[0])
    x = f.select(f.cmp("olt", x, f.fneg(bound)), f.fneg(bound), x)
    t, (s, c) = real_math.tan(f, a[1]), _sinh_cosh(f, x)
    beta = real_math.muladd(f, t, t, one)
    below = real_math.muladd(f, beta, f.fmul(s, s), one)
    real, imaginary = f.fdiv(f.fmul(f.fmul(beta, c), s), below), f.fdiv(t, below)
    # At a pole of the tangent beta is huge or infinite: the limits are c/s and 1/(t s^2).
    steep = f.cmp("oeq", beta, _k(f, t, math.inf))
    real, imaginary = f.select(steep, f.fdiv(c, s), real), f.select(steep, _k(f, t, 0.0), imaginary)
    # Far out the real part is 1 and the imaginary part 2 sin(2 im) e^(-2 |re|) = 4 t / (1 + t^2) e^(-2 |re|).
    size = real_math.absolute(f, a[0])
    fading = real_math.exp(f, f.fmul(size, _k(f, size, -2.0)))
    small = f.fmul(f.fmul(f.select(steep, _k(f, t, 0.0), f.fdiv(t, beta)), _k(f, t, 4.0)), fading)
    far = f.cmp("oge", size, bound)
    return f.select(far, f.intrinsic("copysign", one, a[0]), real), f.select(far, small, imaginary)


def _tan(f: Function, a: Pair) -> Pair:
    # tan z = -i tanh(i z)
    real, imaginary = tanh(f, (f.fneg(a[1]), a[0]))
    return imaginary, f.fneg(real)


def _logistic(f: Function, a: Pair) -> Pair:
    one, zero = _k(f, a[0], 1.0), _k(f, a[0], 0.0)
    grown = exp(f, (f.fneg(a[0]), f.fneg(a[1])))
    return _divide(f, (one, zero), (f.fadd(one, grown[0]), grown[1]))


def _power(f: Function, a: Pair, b: Pair) -> Pair:
    zero, one = _k(f, a[0], 0.0), _k(f, a[0], 1.0)
    result = exp(f, _multiply(f, b, log(f, a)))
    null = f.binary("and", f.cmp("oeq", a[0], zero), f.cmp("oeq", a[1], zero))
    unit = f.binary("and", f.cmp("oeq", b[0], zero), f.cmp("oeq", b[1], zero))
    vanishes = f.binary("and", null, f.cmp("ogt", b[0], zero))
    real = f.select(unit, one, f.select(vanishes, zero, result[0]))
    return real, f.select(f.binary("or", unit, vanishes), zero, result[1])


def _cbrt(f: Function, a: Pair) -> Pair:
    third = _k(f, a[0], 1.0 / 3.0)
    return _power(f, a, (third, _k(f, a[0], 0.0)))


def _atan2(f: Function, y: Pair, x: Pair) -> Pair:
    # -i log((x + i y) / sqrt(x^2 + y^2))
    top = f.fsub(x[0], y[1]), f.fadd(x[1], y[0])
    norm = sqrt(f, _add(f, _multiply(f, x, x), _multiply(f, y, y)))
    real, imaginary = log(f, _divide(f, top, norm))
    return imaginary, f.fneg(real)


def _in_double(function: Callable[..., Pair]) -> Callable[..., Pair]:
    """The function on f32 pairs by way of f64: sums that cancel and squares that overflow in f32 have bits to spare."""

    def widened(f: Function, *operands: Pair) -> Pair:
        if operands[0][0].type.element is not F32:
            return function(f, *operands)
        real, imaginary = function(f, *((f.cast("fpext", a, F64), f.cast("fpext", b, F64)) for a, b in operands))
        return f.cast("fptrunc", real, F32), f.cast("fptrunc", imaginary, F32)

    return widened


BINARY: dict[str, Callable[[Function, Pair, Pair], Pair]] = {
    "add": _add,
    "atan2": _in_double(_atan2),
    "divide": _divide,
    "multiply": _multiply,
    "power": _in_double(_power),
    "subtract": _subtract,
}
UNARY: dict[str, Callable[[Function, Pair], Pair]] = {
    "cbrt": _in_double(_cbrt),
    "cosine": _in_double(_cosine),
    "exponential": exp,
    "exponential_minus_one": _in_double(_expm1),
    "log": _in_double(log),
    "log_plus_one": _in_double(_log1p),
    "logistic": _in_double(_logistic),
    "rsqrt": _in_double(_rsqrt),
    "sine": _in_double(_sine),
    "sqrt": _in_double(sqrt),
    "tan": _in_double(_tan),
    "tanh": _in_double(tanh),
}
