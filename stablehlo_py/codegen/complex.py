"""Complex arithmetic on pairs (real, imaginary) of lanes. Formulas are the standard ones (Kahan's and Smith's, as in
C99 Annex G where it matters), arranged so that nothing overflows or underflows on the way to a result that is in range.
docs/accuracy.md has their errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from stablehlo_py.codegen import math as real_math
from stablehlo_py.codegen.builder import F32, F64, Function, Value
from stablehlo_py.codegen.math.basics import (
    BIAS,
    MANTISSA,
    Double,
    bits,
    const,
    fast_two_sum,
    integer,
    two_product,
    two_sum,
    where_rare,
)
from stablehlo_py.codegen.math.complex_logarithm import complex_log_double
from stablehlo_py.codegen.math.exponential import FAR_OVERFLOW, UNDERFLOW, exp_double, scaled
from stablehlo_py.codegen.math.trigonometric import cos_sin

Pair = tuple[Value, Value]


def add(f: Function, a: Pair, b: Pair) -> Pair:
    """a + b."""
    return f.fadd(a[0], b[0]), f.fadd(a[1], b[1])


def subtract(f: Function, a: Pair, b: Pair) -> Pair:
    """a - b."""
    return f.fsub(a[0], b[0]), f.fsub(a[1], b[1])


def _multiply(f: Function, a: Pair, b: Pair) -> Pair:
    # One product of each part is fused into the sum; which one is XLA:CPU's choice, so long products agree with it.
    # The minus is of a factor: for that of the product, Intel's compiler of OpenCL (2026.2) takes b of another thread
    # where b is from before a barrier in a loop (scans). The bits are the same.
    real = real_math.muladd(f, a[0], b[0], f.fmul(f.fneg(a[1]), b[1]))
    return real, real_math.muladd(f, a[1], b[0], f.fmul(a[0], b[1]))


def _divide(f: Function, a: Pair, b: Pair) -> Pair:
    if a[0].type.element is F32:
        return _narrow(f, _divide_in_double(f, _wide(f, a), _wide(f, b)))
    (a, a_back), (b, b_back) = _scale(f, a, root=2), _scale(f, b, root=2)
    factor = f.fdiv(a_back, b_back)
    real, imaginary = (f.fmul(f.fmul(part, factor), factor) for part in _smith(f, a, b))
    return real, imaginary


def _divide_in_double(f: Function, a: Pair, b: Pair) -> Pair:
    """a times the conjugate of b by |b|^2, for numbers of f32: f64 has range and bits to spare."""
    zero = const(f, a[0], 0.0)
    square = real_math.muladd(f, b[0], b[0], f.fmul(b[1], b[1]))
    real, imaginary = _multiply(f, a, (b[0], f.fneg(b[1])))
    null, endless = f.cmp("oeq", square, zero), f.cmp("oeq", square, const(f, square, math.inf))
    inverse = f.fdiv(const(f, square, 1.0), square)
    # Zero divides either part; infinity makes zeros of finite ones.
    real, imaginary = (
        f.fmul(f.select(f.binary("or", null, endless), part, product), inverse)
        for part, product in zip(a, (real, imaginary), strict=True)
    )
    return real, imaginary


def _wide(f: Function, a: Pair) -> Pair:
    return f.cast("fpext", a[0], F64), f.cast("fpext", a[1], F64)


def _narrow(f: Function, a: Pair) -> Pair:
    return f.cast("fptrunc", a[0], F32), f.cast("fptrunc", a[1], F32)


def _smith(f: Function, a: Pair, b: Pair) -> Pair:
    # Smith's algorithm: scale by the larger part of the divisor; swap instead of branching.
    x, y = real_math.absolute(f, b[0]), real_math.absolute(f, b[1])
    swap = f.cmp("olt", x, y)
    large, small = f.select(swap, b[1], b[0]), f.select(swap, b[0], b[1])
    ratio = f.fdiv(small, large)
    zero = const(f, x, 0.0)
    ratio = f.select(f.cmp("oeq", large, zero), zero, ratio)
    scale = f.fadd(large, f.fmul(small, ratio))
    p, q = f.select(swap, a[1], a[0]), f.select(swap, a[0], a[1])
    real = f.fdiv(f.fadd(p, f.fmul(q, ratio)), scale)
    imaginary = f.fdiv(f.fsub(q, f.fmul(p, ratio)), scale)
    return real, f.select(swap, f.fneg(imaginary), imaginary)


def divide(f: Function, a: Pair, b: Pair) -> Pair:
    """a / b; where one of them is infinite, or b zero, what C99 Annex G.5.1 says: an infinite quotient of an infinite
    dividend and by zero, zero by an infinite divisor."""
    real, imaginary = _divide(f, a, b)
    zero = const(f, real, 0.0)
    lost = f.binary("and", f.cmp("uno", real, real), f.cmp("uno", imaginary, imaginary))
    null = f.binary("and", f.cmp("oeq", b[0], zero), f.cmp("oeq", b[1], zero))

    def special() -> Pair:
        endless = f.intrinsic("copysign", const(f, real, math.inf), b[0])
        by_zero = (f.fmul(endless, part) for part in a)
        x, y = (
            f.select(null, quotient, other) for quotient, other in zip(by_zero, _divide_infinite(f, a, b), strict=True)
        )
        return x, y

    rare = f.binary("or", f.binary("or", lost, null), _is_infinite(f, b))
    real, imaginary = where_rare(f, rare, special, (real, imaginary))
    return real, imaginary


def _divide_infinite(f: Function, a: Pair, b: Pair) -> Pair:
    """The quotient where one of the two is infinite and the other finite, NaN elsewhere: the infinite one counts by its
    direction, parts of size 1 where they are infinite and 0 elsewhere."""
    infinity = const(f, a[0], math.inf)
    sizes = [real_math.absolute(f, part) for part in (*a, *b)]
    infinite = [f.cmp("oeq", size, infinity) for size in sizes]
    finite = [f.cmp("olt", size, infinity) for size in sizes]
    one, zero, nan = (const(f, a[0], number) for number in (1.0, 0.0, math.nan))

    def direction(part: Value, is_infinite: Value) -> Value:
        return f.intrinsic("copysign", f.select(is_infinite, one, zero), part)

    def products(a: Pair, b: Pair) -> Pair:
        return (
            f.fadd(f.fmul(a[0], b[0]), f.fmul(a[1], b[1])),
            f.fsub(f.fmul(a[1], b[0]), f.fmul(a[0], b[1])),
        )

    dividend = f.binary("or", infinite[0], infinite[1])
    divisor = f.binary("or", infinite[2], infinite[3])
    endless = f.binary("and", dividend, f.binary("and", finite[2], finite[3]))
    vanishing = f.binary("and", divisor, f.binary("and", finite[0], finite[1]))
    grown = products((direction(a[0], infinite[0]), direction(a[1], infinite[1])), b)
    shrunk = products(a, (direction(b[0], infinite[2]), direction(b[1], infinite[3])))
    real, imaginary = (
        f.select(endless, f.fmul(infinity, up), f.select(vanishing, f.fmul(zero, down), nan))
        for up, down in zip(grown, shrunk, strict=True)
    )
    return real, imaginary


_HALF_INVERSE = 0x7EF311C3 - (1 << 23)
_UP, _DOWN = 600, 516  # exponents of two, with whole halves and thirds


def _scale(f: Function, a: Pair, root: int = 1) -> tuple[Pair, Value]:
    """(a times a power of two, the root of the inverse of that power) for f64, so that squares of parts neither
    overflow nor lose bits."""
    x, y = real_math.absolute(f, a[0]), real_math.absolute(f, a[1])
    large = f.select(f.cmp("olt", x, y), y, x)
    one = const(f, x, 1.0)
    up, down = f.cmp("olt", large, const(f, x, 2.0**-500)), f.cmp("ogt", large, const(f, x, 2.0**500))
    scale = f.select(up, const(f, x, 2.0**_UP), f.select(down, const(f, x, 2.0**-_DOWN), one))
    back = f.select(up, const(f, x, 2.0 ** -(_UP // root)), f.select(down, const(f, x, 2.0 ** (_DOWN // root)), one))
    return (f.fmul(a[0], scale), f.fmul(a[1], scale)), back


def _is_infinite(f: Function, a: Pair) -> Value:
    infinity = const(f, a[0], math.inf)
    first, second = (f.cmp("oeq", real_math.absolute(f, part), infinity) for part in a)
    return f.binary("or", first, second)


def _or_infinity(f: Function, a: Pair, size: Value) -> Value:
    return f.select(_is_infinite(f, a), const(f, size, math.inf), size)


def _size(f: Function, a: Pair) -> Value:
    """|a| of parts whose squares are in range."""
    return f.intrinsic("sqrt", real_math.muladd(f, a[0], a[0], f.fmul(a[1], a[1])))


def _size_f32(f: Function, a: Pair) -> Value:
    """|a|: the root of the sum of squares, and what rounding squares, sum and root lost, divided by twice the root.
    A root of f64 takes four times as long, but where nothing is fused it saves more."""
    if f.emit.target is not None and not f.emit.target.fused:
        return _or_infinity(f, a, f.cast("fptrunc", _size(f, _wide(f, a)), F32))
    x, y = real_math.absolute(f, a[0]), real_math.absolute(f, a[1])
    swap = f.cmp("olt", x, y)
    large, small = f.select(swap, y, x), f.select(swap, x, y)
    one = 1 << MANTISSA[F32]

    def scaled() -> list[Value]:
        power = integer(f, bits(f, large), "and", 0xFF * one)
        power = f.intrinsic("smax", power, f.const(one, power.type))
        power = f.intrinsic("smin", power, f.const(253 * one, power.type))
        scale = f.bitcast(f.binary("sub", f.const(254 * one, power.type), power), x.type)
        size = f.fmul(_size_in_range(f, f.fmul(large, scale), f.fmul(small, scale)), f.bitcast(power, x.type))
        return [_or_infinity(f, a, size)]

    # From 2^-40 to 2^60 neither squares are out of range nor what rounding the larger one lost.
    low, high = 87 * one, 187 * one
    extreme = f.cmp("uge", integer(f, bits(f, large), "sub", low), f.const(high - low, bits(f, large).type))
    return where_rare(f, extreme, scaled, [_size_in_range(f, large, small)])[0]


def _size_in_range(f: Function, large: Value, small: Value) -> Value:
    """|a| of f32 parts whose squares, and what rounding these lost, are in range."""
    squares = [two_product(f, part, part) for part in (large, small)]
    total, lost = fast_two_sum(f, squares[0][0], squares[1][0])
    lost = f.fadd(lost, f.fadd(squares[0][1], squares[1][1]))
    root = f.intrinsic("sqrt", total)
    left = f.fadd(f.fma(f.fneg(root), root, total), lost)
    # 1 / (2 root) to a twentieth: bits are nearly a logarithm.
    half = bits(f, root)
    inverse = f.bitcast(f.binary("sub", f.const(_HALF_INVERSE, half.type), half), root.type)
    return real_math.muladd(f, left, inverse, root)


def absolute(f: Function, a: Pair) -> Value:
    """|a|, without overflow in between."""
    if a[0].type.element is F32:
        return _size_f32(f, a)
    scaled, back = _scale(f, a)
    return _or_infinity(f, a, f.fmul(_size(f, scaled), back))


def _sign(f: Function, a: Pair) -> Pair:
    scaled, _ = _scale(f, a)
    size = _size(f, scaled)
    null = f.cmp("oeq", size, const(f, size, 0.0))
    real, imaginary = (f.select(null, part, f.fdiv(by, size)) for part, by in zip(a, scaled, strict=True))
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


def _times_exp(
    f: Function, x: Value, factors: Sequence[Value], halved: bool = False, low: Value | None = None
) -> list[Value]:
    """e^(x + low) times each of the factors (or half of it), which may be small enough that the product does not
    overflow where e^x does. A factor of 0 gives 0, and x = -inf gives 0 for any: C's e^(-inf + i y)."""
    y, rest, n = exp_double(f, x, low)
    if halved:
        n = f.binary("sub", n, f.const(1, n.type))
    element = x.type.element
    beyond = f.select(
        f.cmp("ogt", x, const(f, x, FAR_OVERFLOW[element])), const(f, x, 2.0 ** BIAS[element]), const(f, x, 1.0)
    )
    below = f.cmp("olt", x, const(f, x, UNDERFLOW[element]))
    # Far down the product is multiplied by zero instead: NaN, of an angle that is none, stays.
    last = f.select(below, const(f, x, 0.0), beyond)
    products = [real_math.muladd(f, y, factor, f.fmul(rest, factor)) for factor in factors]
    products = [f.fmul(f.select(below, product, scaled(f, product, n)), last) for product in products]
    lost = f.cmp("oeq", x, const(f, x, -math.inf))
    return [f.select(lost, const(f, x, 0.0), product) for product in products]


def exp(f: Function, a: Pair, low: Pair | tuple[None, None] = (None, None)) -> Pair:
    """e^(a + low), where the parts of `low` are at most ulps of those of a, and the imaginary one at most 1/16."""
    real, imaginary = _times_exp(f, a[0], cos_sin(f, a[1], low[1]), low=low[0])
    # A real number stays one, NaN included.
    return real, f.select(f.cmp("oeq", a[1], const(f, a[1], 0.0)), a[1], imaginary)


def log(f: Function, a: Pair) -> Pair:
    """Principal logarithm."""
    return _log_size(f, a), _angle(f, a)


def _log_size(f: Function, a: Pair) -> Value:
    """log |a| (f64). Near |a| = 1 it is log1p of |a|^2 - 1, from exact squares."""
    x, y = real_math.absolute(f, a[0]), real_math.absolute(f, a[1])
    swap = f.cmp("olt", x, y)
    large, small = f.select(swap, y, x), f.select(swap, x, y)
    (square, lost), (other, other_lost) = two_product(f, large, large), two_product(f, small, small)
    excess = f.fadd(f.fadd(f.fsub(square, const(f, x, 1.0)), other), f.fadd(lost, other_lost))
    close = f.fmul(real_math.log1p(f, excess), const(f, x, 0.5))
    near = f.binary("and", f.cmp("ogt", large, const(f, x, 0.5)), f.cmp("olt", large, const(f, x, 2.0)))
    scaled, back = _scale(f, a)
    exponent = f.select(
        f.cmp("ogt", back, const(f, x, 1.0)),
        const(f, x, _DOWN * math.log(2)),
        f.select(f.cmp("olt", back, const(f, x, 1.0)), const(f, x, -_UP * math.log(2)), const(f, x, 0.0)),
    )
    far = f.fadd(real_math.log(f, _size(f, scaled)), exponent)
    far = f.select(_is_infinite(f, a), const(f, x, math.inf), far)
    return f.select(near, close, far)


def _log1p(f: Function, a: Pair) -> Pair:
    shifted = f.fadd(a[0], const(f, a[0], 1.0)), a[1]
    return _log1p_size(f, a), _angle(f, shifted)


def _log1p_size(f: Function, a: Pair) -> Value:
    """log |1 + a| (f64): log1p of |1 + a|^2 - 1 = 2 re + re^2 + im^2, summed with what each rounding loses."""
    x, y = a
    (square, lost), (other, other_lost) = two_product(f, x, x), two_product(f, y, y)
    total, first_lost = two_sum(f, f.fadd(x, x), other)
    total, second_lost = two_sum(f, total, square)
    rest = f.fadd(f.fadd(lost, other_lost), f.fadd(first_lost, second_lost))
    excess = f.fadd(total, rest)
    close = f.fmul(real_math.log1p(f, excess), const(f, x, 0.5))
    # Below, where |1 + a| < 1/2, 1 + re is exact.
    near = f.binary("and", f.cmp("ogt", excess, const(f, x, -0.75)), f.cmp("olt", excess, const(f, x, 3.0)))
    return f.select(near, close, _log_size(f, (f.fadd(x, const(f, x, 1.0)), y)))


def _expm1(f: Function, a: Pair) -> Pair:
    # e^x cos y - 1 = expm1(x) cos y - 2 sin(y/2)^2
    half = real_math.sin(f, f.fmul(a[1], const(f, a[1], 0.5)))
    cosine = real_math.cos(f, a[1])
    grown = f.fmul(real_math.expm1(f, a[0]), cosine)
    near = f.fsub(grown, f.fmul(const(f, half, 2.0), f.fmul(half, half)))
    real, imaginary = exp(f, a)
    # NaN for an angle that is none, as in NumPy, also where e^re is zero.
    imaginary = f.select(f.cmp("uno", cosine, cosine), cosine, imaginary)
    return f.select(f.cmp("ogt", a[0], const(f, a[0], 100.0)), real, near), imaginary


def sqrt(f: Function, a: Pair) -> Pair:
    """Principal square root."""
    root, _, _ = _root_and_size(f, a)
    infinity = const(f, a[0], math.inf)
    endless = f.cmp("oeq", real_math.absolute(f, a[1]), infinity)
    real, imaginary = (f.select(endless, infinity, part) for part in root)
    return real, f.intrinsic("copysign", imaginary, a[1])


def _root_and_size(f: Function, a: Pair) -> tuple[Pair, Value, Value]:
    """(square root of a, but for the sign of the imaginary part; |a| divided by a power of two; that power)."""
    zero = const(f, a[0], 0.0)
    (x, y), back = _scale(f, a, root=2)
    size = _size(f, (x, y))
    # sqrt((|a| + |re|) / 2) is the larger part.
    t = f.intrinsic("sqrt", f.fmul(f.fadd(size, real_math.absolute(f, x)), const(f, size, 0.5)))
    t = f.fmul(t, back)
    other = f.fdiv(real_math.absolute(f, a[1]), f.fadd(t, t))
    other = f.select(f.cmp("oeq", t, zero), zero, other)
    right = f.cmp("oge", x, zero)
    return (f.select(right, t, other), f.select(right, other, t)), size, f.fmul(back, back)


def _rsqrt(f: Function, a: Pair) -> Pair:
    # 1 / sqrt(a) is the conjugate of sqrt(a) by |a|.
    root, size, power = _root_and_size(f, a)
    zero, infinity = const(f, size, 0.0), const(f, size, math.inf)
    endless = _is_infinite(f, a)
    real, imaginary = (f.select(endless, zero, f.fdiv(f.fdiv(part, size), power)) for part in root)
    real = f.select(f.cmp("oeq", size, zero), infinity, real)
    return real, f.fneg(f.intrinsic("copysign", imaginary, a[1]))


def _hyperbolic_products(f: Function, x: Value, by_sinh: Value, by_cosh: Value) -> Pair:
    """(by_sinh sinh x, by_cosh cosh x), which overflow only where the products do."""
    near = f.fmul(by_sinh, real_math.sinh(f, x)), f.fmul(by_cosh, real_math.cosh(f, x))
    size = real_math.absolute(f, x)
    far = _times_exp(f, size, [f.intrinsic("copysign", by_sinh, f.fmul(by_sinh, x)), by_cosh], halved=True)
    is_far = f.cmp("ogt", size, const(f, x, 100.0))
    return f.select(is_far, far[0], near[0]), f.select(is_far, far[1], near[1])


def _sine(f: Function, a: Pair) -> Pair:
    imaginary, real = _hyperbolic_products(f, a[1], real_math.cos(f, a[0]), real_math.sin(f, a[0]))
    return real, imaginary


def _cosine(f: Function, a: Pair) -> Pair:
    imaginary, real = _hyperbolic_products(f, a[1], real_math.sin(f, a[0]), real_math.cos(f, a[0]))
    return real, f.fneg(imaginary)


def _sinh(f: Function, a: Pair) -> Pair:
    return _hyperbolic_products(f, a[0], real_math.cos(f, a[1]), real_math.sin(f, a[1]))


def _cosh(f: Function, a: Pair) -> Pair:
    imaginary, real = _hyperbolic_products(f, a[0], real_math.sin(f, a[1]), real_math.cos(f, a[1]))
    return real, imaginary


def tanh(f: Function, a: Pair) -> Pair:
    """tanh. Up to |re| = 1 Kahan's form: with t = tan(im), s = sinh(re): (s sqrt(1 + s^2) (1 + t^2) + i t) / (1 + (1 +
    t^2) s^2). Beyond, 1 - 2 / (1 + e^2a)."""
    one, zero = const(f, a[0], 1.0), const(f, a[0], 0.0)
    size = real_math.absolute(f, a[0])
    far = f.cmp("ogt", size, one)
    x = f.select(far, one, size)
    t, s, c = real_math.tan(f, a[1]), real_math.sinh(f, x), real_math.cosh(f, x)
    beta = real_math.muladd(f, t, t, one)
    below = real_math.muladd(f, beta, f.fmul(s, s), one)
    real, imaginary = f.fdiv(f.fmul(f.fmul(beta, c), s), below), f.fdiv(t, below)
    # At a pole of the tangent beta is infinite: the limits are c/s and 0.
    steep = f.cmp("oeq", beta, const(f, t, math.inf))
    real, imaginary = f.select(steep, f.fdiv(c, s), real), f.select(steep, zero, imaginary)
    minus_two = const(f, size, -2.0)
    cosine, sine = real_math.cos(f, a[1]), real_math.sin(f, a[1])
    twice_cosine = f.fma(f.fadd(cosine, cosine), cosine, f.fneg(one))
    twice_sine = f.fmul(f.fmul(minus_two, sine), cosine)
    small = _logistic_left(f, f.fmul(size, minus_two), cosine, (twice_cosine, twice_sine), a[0])
    real = f.select(far, real_math.muladd(f, minus_two, small[0], one), real)
    return f.intrinsic("copysign", real, a[0]), f.select(far, f.fmul(minus_two, small[1]), imaginary)


def _tan(f: Function, a: Pair) -> Pair:
    # tan z = -i tanh(i z)
    real, imaginary = tanh(f, (f.fneg(a[1]), a[0]))
    return imaginary, f.fneg(real)


def _logistic(f: Function, a: Pair) -> Pair:
    # On the right the real part is one minus that of the reflected number, on the left.
    x, one = a[0], const(f, a[0], 1.0)
    down = f.fneg(real_math.absolute(f, x))
    half_cosine = real_math.cos(f, f.fmul(a[1], const(f, x, 0.5)))
    real, imaginary = _logistic_left(f, down, half_cosine, cos_sin(f, a[1]), x)
    return f.select(f.cmp("olt", x, const(f, x, 0.0)), real, f.fsub(one, real)), imaginary


def _logistic_left(f: Function, x: Value, half_cosine: Value, circular: Pair, of: Value) -> Pair:
    """1 / (1 + e^-a) for re <= 0, of the real part, cos(im / 2), and cos(im) and sin(im). With p = e^re, m = 1 - p and
    c = cos(im / 2) it is p (2 c^2 - m + i sin(im)) / (m^2 + 4 p c^2): near the poles the denominator is no small
    difference. Far from them it is p (p + cos(im) + i sin(im)) / (1 + p (p + 2 cos(im))). Where `of`, whose size
    x comes from, is infinite, the result is 0 for any imaginary part, as in C99's ctanh."""
    cosine, sine = circular
    p, m = real_math.exp(f, x), f.fneg(real_math.expm1(f, x))
    two, square = const(f, x, 2.0), f.fmul(f.fadd(half_cosine, half_cosine), half_cosine)
    near = f.fsub(square, m), real_math.muladd(f, m, m, f.fmul(f.fmul(p, square), two))
    far = f.fadd(p, cosine), real_math.muladd(f, p, real_math.muladd(f, two, cosine, p), const(f, x, 1.0))
    is_far = f.cmp("olt", p, const(f, x, 0.25))
    top, below = (f.select(is_far, *pair) for pair in zip(far, near, strict=True))
    zero = const(f, x, 0.0)
    real, imaginary = (f.fdiv(f.fmul(p, part), below) for part in (top, sine))
    endless = f.cmp("oeq", real_math.absolute(f, of), const(f, x, math.inf))
    return f.select(endless, zero, real), f.select(endless, zero, imaginary)


# Low words of an exponent count up to here. Beyond, real parts make zero or infinity of everything, and an angle's low
# word would have to be reduced itself, where errors of the logarithm are 2^-30 already.
_REAL_BOUND, _ANGLE_BOUND = 2000.0, 2.0**50


def _power(f: Function, a: Pair, b: Pair) -> Pair:
    """a^b = e^(b log a). f32 by way of f64, which has the bits that the exponent needs; f64 with an exponent and a
    logarithm that are unevaluated sums of two numbers."""
    if a[0].type.element is F32:
        a, b = _wide(f, a), _wide(f, b)
        return _narrow(f, _power_or_one(f, a, b, exp(f, _multiply(f, b, log(f, a)))))
    return _power_or_one(f, a, b, exp(f, *_exponent(f, a, b)))


def _power_or_one(f: Function, a: Pair, b: Pair, power: Pair) -> Pair:
    """a^b, which is `power` but where a logarithm of zero makes NaN: a^0 is 1, and 0^b is 0 for positive real parts."""
    zero, one = const(f, a[0], 0.0), const(f, a[0], 1.0)
    null = f.binary("and", f.cmp("oeq", a[0], zero), f.cmp("oeq", a[1], zero))
    unit = f.binary("and", f.cmp("oeq", b[0], zero), f.cmp("oeq", b[1], zero))
    vanishes = f.binary("and", null, f.cmp("ogt", b[0], zero))
    real = f.select(unit, one, f.select(vanishes, zero, power[0]))
    return real, f.select(f.binary("or", unit, vanishes), zero, power[1])


def _exponent(f: Function, a: Pair, b: Pair) -> tuple[Pair, Pair]:
    """b log a (f64) in high and low words. An error of it is one of a^b times the exponent's size."""
    size, angle = complex_log_double(f, *a)
    real = _sum(f, _times(f, b[0], size), _times(f, f.fneg(b[1]), angle))
    imaginary = _sum(f, _times(f, b[0], angle), _times(f, b[1], size))
    # Where these are infinite, their low words are NaN, and where they are zero, its sign may be lost.
    plain = _multiply(f, b, (size[0], angle[0]))
    parts = []
    for (high, low), other, bound in zip((real, imaginary), plain, (_REAL_BOUND, _ANGLE_BOUND), strict=True):
        zero = const(f, high, 0.0)
        in_range = f.cmp("olt", real_math.absolute(f, high), const(f, high, bound))
        usual = f.binary("and", in_range, f.cmp("one", high, zero))
        parts.append((f.select(usual, high, other), f.select(usual, low, zero)))
    (x, x_low), (y, y_low) = parts
    return (x, y), (x_low, y_low)


def _times(f: Function, a: Value, b: Double) -> Double:
    """a b, whose second part may be more than half an ulp of the first."""
    product, rest = two_product(f, a, b[0])
    return product, f.fma(a, b[1], rest)


def _sum(f: Function, a: Double, b: Double) -> Double:
    """a + b, error about 2^-102 of the larger one."""
    total, lost = two_sum(f, a[0], b[0])
    return two_sum(f, total, f.fadd(lost, f.fadd(a[1], b[1])))


def _cbrt(f: Function, a: Pair) -> Pair:
    a, back = _scale(f, a, root=3)
    size = f.fmul(real_math.cbrt(f, _size(f, a)), back)
    angle = f.fmul(_angle(f, a), const(f, size, 1.0 / 3.0))
    imaginary = f.fmul(size, real_math.sin(f, angle))
    flat = f.cmp("oeq", angle, const(f, size, 0.0))  # keeps infinity * 0 out
    return f.fmul(size, real_math.cos(f, angle)), f.select(flat, a[1], imaginary)


def _atan2(f: Function, y: Pair, x: Pair) -> Pair:
    # -i log((x + i y) / sqrt(x^2 + y^2))
    top = f.fsub(x[0], y[1]), f.fadd(x[1], y[0])
    norm = sqrt(f, add(f, _multiply(f, x, x), _multiply(f, y, y)))
    real, imaginary = log(f, _divide(f, top, norm))
    return imaginary, f.fneg(real)


def _in_double(function: Callable[..., Pair]) -> Callable[..., Pair]:
    """The function on f32 pairs by way of f64: sums that cancel and squares that overflow in f32 have bits to spare."""

    def widened(f: Function, *operands: Pair) -> Pair:
        if operands[0][0].type.element is not F32:
            return function(f, *operands)
        return _narrow(f, function(f, *(_wide(f, operand) for operand in operands)))

    return widened


#: The real functions' counterparts, by the names of their ops.
FUNCTIONS: dict[str, Callable[..., Pair]] = {
    "add": add,
    "atan2": _in_double(_atan2),
    "cbrt": _in_double(_cbrt),
    "cosh": _in_double(_cosh),
    "cosine": _in_double(_cosine),
    "divide": divide,
    "exponential": exp,
    "exponential_minus_one": _in_double(_expm1),
    "log": _in_double(log),
    "log_plus_one": _in_double(_log1p),
    "logistic": _in_double(_logistic),
    "multiply": _multiply,
    "power": _power,
    "rsqrt": _in_double(_rsqrt),
    "sign": _in_double(_sign),
    "sine": _in_double(_sine),
    "sinh": _in_double(_sinh),
    "sqrt": _in_double(sqrt),
    "subtract": subtract,
    "tan": _in_double(_tan),
    "tanh": _in_double(tanh),
}
