"""Elementary functions for f32 and f64 of any number of lanes, expanded into builder operations.

Sources: f32 exp, log, sin, cos, atan from Cephes (Moshier, netlib.org/cephes, single); f64 log, sin, cos kernels from
FDLIBM (Sun Microsystems, netlib.org/fdlibm); f32 tanh and erf rational approximations from Eigen (MathFunctionsImpl.h).
Measured errors are in test/codegen/test_math.py. What has no short vector form (f64 erf, pow, atan2; arguments of sin
beyond the range reduction) calls libm lane by lane: correct comes before fast there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from stablehlo_py.codegen.builder import F32, F64, I32, I64, Function, ScalarType, Value, vector

_LOG2E = 1.4426950408889634
_MAGIC = {
    F32: 12582912.0,
    F64: 6755399441055744.0,
}  # 1.5 * 2^(mantissa bits): adding it rounds to an integer in the low bits
_MANTISSA = {F32: 23, F64: 52}
_BIAS = {F32: 127, F64: 1023}
_LN2 = {F32: (0.693359375, -2.12194440e-4), F64: (6.93147180369123816490e-01, 1.90821492927058770002e-10)}


def _k(f: Function, x: Value, number: float) -> Value:
    return f.const(number, x.type)


def _integer(x: Value) -> ScalarType:
    return I32 if x.type.element is F32 else I64


def _bits(f: Function, x: Value) -> Value:
    return f.bitcast(x, vector(x.type.lanes, _integer(x)))


def _poly(f: Function, x: Value, coefficients: Sequence[float]) -> Value:
    """Horner, highest power first."""
    result = _k(f, x, coefficients[0])
    for coefficient in coefficients[1:]:
        result = muladd(f, result, x, _k(f, x, coefficient))
    return result


def muladd(f: Function, a: Value, b: Value, c: Value) -> Value:
    """a * b + c, fused where the target has an instruction for it."""
    return f.intrinsic("fmuladd", a, b, c)


def absolute(f: Function, x: Value) -> Value:
    """|x|."""
    return f.intrinsic("fabs", x)


def _libm(f: Function, symbol: str, operands: Sequence[Value]) -> Value:
    result = f.call(symbol, operands, operands[0].type, external=True)
    assert result is not None
    return result


def lane_call(f: Function, name: str, *operands: Value) -> Value:
    """A libm function (its f64 name) lane by lane."""
    element, lanes = operands[0].type.element, operands[0].type.lanes
    symbol = name + "f" if element is F32 else name
    if lanes == 1:
        return _libm(f, symbol, operands)
    buffers = [f.alloca(lanes, element) for _ in operands]
    for buffer, operand in zip(buffers, operands, strict=True):
        f.store(operand, buffer)

    def one(lane: Value) -> None:
        result = _libm(f, symbol, [f.load(element, buffer, lane) for buffer in buffers])
        f.store(result, buffers[0], lane)

    f.loop(0, lanes, 1, one)
    return f.load(operands[0].type, buffers[0])


def any_lane(f: Function, condition: Value) -> Value:
    """i1: whether the condition holds in a lane."""
    return condition if condition.type.lanes == 1 else f.reduce_lanes("or", condition)


def _with_rare(f: Function, rare: Value, slow: Callable[[], Value], fast: Value) -> Value:
    """`fast`, and `slow()` in the lanes where the rare condition holds. A lane's bits do not depend on its neighbours:
    those may be padding, or other elements with another number of threads."""
    return f.if_(any_lane(f, rare), lambda: f.select(rare, slow(), fast), lambda: fast)[0]


# --- exponentials ----------------------------------------------------------------------------------------------------

_EXP = {
    F32: (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
    F64: tuple(1.0 / math.factorial(n) for n in range(13, 1, -1)),
}
_EXP_HIGH = {F32: 88.72283935546875, F64: 709.782712893384}
_EXP_LOW = {F32: -87.33654022216797, F64: -708.3964185322641}


def _reduce_exp(f: Function, x: Value) -> tuple[Value, Value, Value]:
    """x = n ln2 + r: (bits whose low part is n, r, r^2 p(r)) with exp(r) = 1 + r + r^2 p(r)."""
    element = x.type.element
    magic = _k(f, x, _MAGIC[element])
    shifted = muladd(f, x, _k(f, x, _LOG2E), magic)
    n = f.fsub(shifted, magic)
    high, low = _LN2[element]
    r = muladd(f, n, _k(f, x, -high), x)
    r = muladd(f, n, _k(f, x, -low), r)
    return _bits(f, shifted), r, f.fmul(_poly(f, r, _EXP[element]), f.fmul(r, r))


def exp(f: Function, x: Value) -> Value:
    """e^x; results below the smallest normal number are 0."""
    element = x.type.element
    n, r, tail = _reduce_exp(f, x)
    y = f.fadd(f.fadd(tail, r), _k(f, x, 1.0))
    # 2^n enters y's exponent by an integer addition; out of range it gives rubbish that the selects replace.
    scaled = f.binary("add", _bits(f, y), f.binary("shl", n, f.const(_MANTISSA[element], n.type)))
    result = f.bitcast(scaled, x.type)
    result = f.select(f.cmp("olt", x, _k(f, x, _EXP_LOW[element])), _k(f, x, 0.0), result)
    return f.select(f.cmp("ole", x, _k(f, x, _EXP_HIGH[element])), result, f.fadd(x, _k(f, x, math.inf)))


def expm1(f: Function, x: Value) -> Value:
    """e^x - 1, accurate near 0."""
    element = x.type.element
    n, r, tail = _reduce_exp(f, x)
    mantissa = f.const(_MANTISSA[element], n.type)
    half_power = f.binary(
        "add", f.binary("shl", n, mantissa), f.const((_BIAS[element] - 1) << _MANTISSA[element], n.type)
    )
    scale = f.bitcast(half_power, x.type)  # 2^(n-1): 2^n itself may overflow
    half = muladd(f, scale, f.fadd(tail, r), f.fsub(scale, _k(f, x, 0.5)))
    result = f.fadd(half, half)
    low = -18.0 if element is F32 else -40.0
    result = f.select(f.cmp("olt", x, _k(f, x, low)), _k(f, x, -1.0), result)
    result = f.select(f.cmp("olt", absolute(f, x), _k(f, x, 1e-30)), x, result)  # keeps -0 and denormals
    return f.select(f.cmp("ole", x, _k(f, x, _EXP_HIGH[element])), result, f.fadd(x, _k(f, x, math.inf)))


def logistic(f: Function, x: Value) -> Value:
    """1 / (1 + e^-x)."""
    one = _k(f, x, 1.0)
    return f.fdiv(one, f.fadd(one, exp(f, f.fneg(x))))


_TANH_P = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
_TANH_Q = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)


def tanh(f: Function, x: Value) -> Value:
    """Hyperbolic tangent."""
    if x.type.element is F32:
        bound = _k(f, x, 7.90531110763549805)
        y = _clamp(f, x, bound)
        z = f.fmul(y, y)
        ratio = f.fdiv(f.fmul(y, _poly(f, z, _TANH_P)), _poly(f, z, _TANH_Q))
        return f.select(f.cmp("olt", absolute(f, x), _k(f, x, 0.0004)), x, ratio)
    bound = _k(f, x, 22.0)
    y = _clamp(f, absolute(f, x), bound)
    e = expm1(f, f.fadd(y, y))
    return f.intrinsic("copysign", f.fdiv(e, f.fadd(e, _k(f, x, 2.0))), x)


def _clamp(f: Function, x: Value, bound: Value) -> Value:
    # Selects in this order keep NaN and are one instruction each.
    low = f.fneg(bound)
    y = f.select(f.cmp("ogt", x, bound), bound, x)
    return f.select(f.cmp("olt", y, low), low, y)


# --- logarithms ------------------------------------------------------------------------------------------------------

_LOG_F32 = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
_LOG_F64 = (
    1.479819860511658591e-01,
    1.531383769920937332e-01,
    1.818357216161805012e-01,
    2.222219843214978396e-01,
    2.857142874366239149e-01,
    3.999999999940941908e-01,
    6.666666666666735130e-01,
)


def log(f: Function, x: Value) -> Value:
    """Natural logarithm."""
    element, mantissa = x.type.element, _MANTISSA[x.type.element]
    tiny = f.cmp("olt", x, _k(f, x, 2.0 ** (1 - _BIAS[element])))  # denormals are scaled up
    m, exponent = _split(f, f.select(tiny, f.fmul(x, _k(f, x, 2.0**mantissa)), x))
    e = f.cast("sitofp", exponent, element)
    e = f.fsub(e, f.select(tiny, _k(f, x, float(mantissa)), _k(f, x, 0.0)))
    result = _LOG_CORE[element](f, f.fsub(m, _k(f, x, 1.0)), e)
    result = f.select(f.cmp("oeq", x, _k(f, x, math.inf)), x, result)
    result = f.select(f.cmp("oeq", x, _k(f, x, 0.0)), _k(f, x, -math.inf), result)
    return f.select(f.cmp("oge", x, _k(f, x, 0.0)), result, _k(f, x, math.nan))


def _split(f: Function, x: Value) -> tuple[Value, Value]:
    """x = 2^e m with m in [sqrt(1/2), sqrt(2)): (m, e as an integer), for positive normal x."""
    mantissa, bits = _MANTISSA[x.type.element], _bits(f, x)
    root = 0x3F3504F3 if x.type.element is F32 else 0x3FE6A09E667F3BCD
    exponent = f.binary("ashr", f.binary("sub", bits, f.const(root, bits.type)), f.const(mantissa, bits.type))
    shifted = f.binary("shl", exponent, f.const(mantissa, bits.type))
    return f.bitcast(f.binary("sub", bits, shifted), x.type), exponent


def _log_f32(f: Function, r: Value, e: Value) -> Value:
    """e log 2 + log(1 + r)."""
    z = f.fmul(r, r)
    high, low = _LN2[F32]
    y = f.fmul(f.fmul(_poly(f, r, _LOG_F32), z), r)
    y = muladd(f, e, _k(f, r, low), y)
    y = muladd(f, z, _k(f, r, -0.5), y)
    return muladd(f, e, _k(f, r, high), f.fadd(r, y))


def _log_f64(f: Function, r: Value, e: Value) -> Value:
    """e log 2 + log(1 + r)."""
    s = f.fdiv(r, f.fadd(r, _k(f, r, 2.0)))
    z = f.fmul(s, s)
    half = f.fmul(f.fmul(r, r), _k(f, r, 0.5))
    high, low = _LN2[F64]
    inner = f.fmul(s, f.fadd(half, f.fmul(_poly(f, z, _LOG_F64), z)))
    inner = muladd(f, e, _k(f, r, low), inner)
    return muladd(f, e, _k(f, r, high), f.fsub(r, f.fsub(half, inner)))


_LOG_CORE = {F32: _log_f32, F64: _log_f64}


def log1p(f: Function, x: Value) -> Value:
    """log(1 + x), accurate near 0: what the sum 1 + x loses in rounding enters the reduced argument."""
    element, one = x.type.element, _k(f, x, 1.0)
    u = f.fadd(one, x)
    lost = f.fsub(x, f.fsub(u, one))
    m, exponent = _split(f, u)
    inverse = f.binary("sub", f.const(_BIAS[element], exponent.type), exponent)
    inverse = f.intrinsic("smax", inverse, f.const(0, exponent.type))  # nothing is lost in sums that large
    scale = f.bitcast(f.binary("shl", inverse, f.const(_MANTISSA[element], exponent.type)), x.type)  # 2^-e
    r = muladd(f, lost, scale, f.fsub(m, one))
    result = _LOG_CORE[element](f, r, f.cast("sitofp", exponent, element))
    result = f.select(f.cmp("oeq", u, one), x, result)  # keeps -0
    result = f.select(f.cmp("oeq", x, _k(f, x, math.inf)), x, result)
    result = f.select(f.cmp("oeq", x, _k(f, x, -1.0)), _k(f, x, -math.inf), result)
    return f.select(f.cmp("oge", x, _k(f, x, -1.0)), result, _k(f, x, math.nan))


# --- trigonometry ----------------------------------------------------------------------------------------------------

_HALF_PI = {
    F32: (1.57079637050628662109375, -4.371138828673793e-8, -1.7151245100058819e-15),
    F64: (1.57079632679489655800e00, 6.12323399573676603587e-17, -1.49738490485918331e-33),
}
_SIN = {
    F32: (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1),
    F64: (
        1.58969099521155010221e-10,
        -2.50507602534068634195e-08,
        2.75573137070700676789e-06,
        -1.98412698298579493134e-04,
        8.33333333332248946124e-03,
        -1.66666666666666324348e-01,
    ),
}
_COS = {
    F32: (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2),
    F64: (
        -1.13596475577881948265e-11,
        2.08757232129817482790e-09,
        -2.75573143513906633035e-07,
        2.48015872894767294178e-05,
        -1.38888888888741095749e-03,
        4.16666666666666019037e-02,
    ),
}
_REDUCED = {F32: 30000.0, F64: 1.0e8}  # up to here the three-part reduction is exact enough


def _quadrant(f: Function, x: Value) -> tuple[Value, Value, Value]:
    """x = q pi/2 + r: (bits whose low part is q, sin r, cos r). Cody-Waite in three parts; each product is exact under
    fma.
    """
    element = x.type.element
    magic = _k(f, x, _MAGIC[element])
    shifted = f.fma(x, _k(f, x, 2.0 / math.pi), magic)
    n = f.fsub(shifted, magic)
    r = x
    for part in _HALF_PI[element]:
        r = f.fma(n, _k(f, x, -part), r)
    z = f.fmul(r, r)
    sine = muladd(f, f.fmul(_poly(f, z, _SIN[element]), z), r, r)
    cosine = muladd(f, z, _k(f, x, -0.5), f.fmul(_poly(f, z, _COS[element]), f.fmul(z, z)))
    return _bits(f, shifted), sine, f.fadd(cosine, _k(f, x, 1.0))


def _sine(f: Function, x: Value, shift: int) -> Value:
    q, sine, cosine = _quadrant(f, x)
    if shift:
        q = f.binary("add", q, f.const(1, q.type))
    odd = f.cmp("ne", f.binary("and", q, f.const(1, q.type)), f.const(0, q.type))
    chosen = f.select(odd, cosine, sine)
    width = q.type.bits
    sign = f.binary("shl", f.binary("and", q, f.const(2, q.type)), f.const(width - 2, q.type))
    return f.bitcast(f.binary("xor", _bits(f, chosen), sign), x.type)


def _beyond(f: Function, x: Value) -> Value:
    return f.cmp("ugt", absolute(f, x), _k(f, x, _REDUCED[x.type.element]))


def sin(f: Function, x: Value) -> Value:
    """Sine."""
    fast = _sine(f, x, 0)
    fast = f.select(f.cmp("oeq", x, _k(f, x, 0.0)), x, fast)
    return _with_rare(f, _beyond(f, x), lambda: lane_call(f, "sin", x), fast)


def cos(f: Function, x: Value) -> Value:
    """Cosine."""
    return _with_rare(f, _beyond(f, x), lambda: lane_call(f, "cos", x), _sine(f, x, 1))


def tan(f: Function, x: Value) -> Value:
    """Tangent."""
    q, sine, cosine = _quadrant(f, x)
    odd = f.cmp("ne", f.binary("and", q, f.const(1, q.type)), f.const(0, q.type))
    fast = f.fdiv(f.select(odd, f.fneg(cosine), sine), f.select(odd, sine, cosine))
    fast = f.select(f.cmp("oeq", x, _k(f, x, 0.0)), x, fast)
    return _with_rare(f, _beyond(f, x), lambda: lane_call(f, "tan", x), fast)


_ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)


def atan2(f: Function, y: Value, x: Value) -> Value:
    """Angle of the point (x, y)."""
    if x.type.element is F64:
        return lane_call(f, "atan2", y, x)
    across, along = absolute(f, y), absolute(f, x)
    steep = f.cmp("ogt", across, along)
    small, large = f.select(steep, along, across), f.select(steep, across, along)
    # One division: small/large itself, or reduced around pi/4.
    near = f.cmp("ogt", small, f.fmul(large, _k(f, x, 0.4142135623730950)))
    infinite = f.cmp("oeq", small, _k(f, x, math.inf))
    near = f.binary("or", near, infinite)
    top = f.select(near, f.fsub(small, large), small)
    bottom = f.select(near, f.fadd(small, large), large)
    zero = _k(f, x, 0.0)
    top = f.select(f.binary("or", infinite, f.cmp("oeq", large, zero)), zero, top)
    bottom = f.select(f.cmp("oeq", top, zero), _k(f, x, 1.0), bottom)
    t = f.fdiv(top, bottom)
    z = f.fmul(t, t)
    angle = muladd(f, f.fmul(_poly(f, z, _ATAN), z), t, t)
    angle = f.fadd(f.select(near, _k(f, x, math.pi / 4), zero), angle)
    angle = f.select(steep, f.fsub(_k(f, x, math.pi / 2), angle), angle)
    bits = _bits(f, x)
    negative = f.cmp("slt", bits, f.const(0, bits.type))
    angle = f.select(negative, f.fsub(_k(f, x, math.pi), angle), angle)
    return f.select(f.cmp("uno", x, y), f.fadd(x, y), f.intrinsic("copysign", angle, y))


# --- others ----------------------------------------------------------------------------------------------------------

_ERF_P = (0.00022905065861350646, 0.0034082910107109506, 0.050955695062380861, 0.18520832239976145, 1.128379143519084)
_ERF_Q = (
    -1.1791602954361697e-7,
    0.000023547966471313185,
    0.0010179625278914885,
    0.014070470171167667,
    0.11098505178285362,
    0.49746925110067538,
    1.0,
)


def erf(f: Function, x: Value) -> Value:
    """Error function."""
    if x.type.element is F64:
        return lane_call(f, "erf", x)
    y = _clamp(f, x, _k(f, x, 3.832506856900711))
    z = f.fmul(y, y)
    return f.fdiv(f.fmul(y, _poly(f, z, _ERF_P)), _poly(f, z, _ERF_Q))


def cbrt(f: Function, x: Value) -> Value:
    """Cube root."""
    return lane_call(f, "cbrt", x)


def sqrt(f: Function, x: Value) -> Value:
    """Square root."""
    return f.intrinsic("sqrt", x)


def rsqrt(f: Function, x: Value) -> Value:
    """1 / sqrt(x)."""
    return f.fdiv(_k(f, x, 1.0), sqrt(f, x))


def power(f: Function, x: Value, y: Value) -> Value:
    """x^y with C99's special cases. f32 goes through f64, where e^(y log x) has bits to spare."""
    if x.type.element is F64:
        return lane_call(f, "pow", x, y)
    base, exponent = f.cast("fpext", absolute(f, x), F64), f.cast("fpext", y, F64)
    magnitude = f.cast("fptrunc", exp(f, f.fmul(exponent, log(f, base))), F32)
    zero, one = _k(f, x, 0.0), _k(f, x, 1.0)
    whole = f.cmp("oeq", f.intrinsic("trunc", y), y)
    half = f.fmul(y, _k(f, x, 0.5))
    odd = f.binary("and", whole, f.cmp("one", f.intrinsic("trunc", half), half))
    bits = _bits(f, x)
    negative = f.cmp("slt", bits, f.const(0, bits.type))
    result = f.select(f.binary("and", odd, negative), f.fneg(magnitude), magnitude)
    endless = f.cmp("oeq", absolute(f, x), _k(f, x, math.inf))
    usable = f.binary("or", f.binary("or", whole, f.cmp("oge", x, zero)), endless)
    result = f.select(f.binary("or", usable, f.cmp("uno", x, y)), result, _k(f, x, math.nan))
    unit = f.binary("and", f.cmp("oeq", absolute(f, x), one), f.cmp("oeq", absolute(f, y), _k(f, x, math.inf)))
    unit = f.binary("or", unit, f.cmp("oeq", x, one))
    return f.select(f.binary("or", unit, f.cmp("oeq", y, zero)), one, result)


def remainder(f: Function, x: Value, y: Value) -> Value:
    """C's fmod: exact. x - trunc(x/y) y by fma, corrected by one step; huge quotients call libm."""
    element = x.type.element
    a, b = absolute(f, x), absolute(f, y)
    ratio = f.fdiv(a, b)
    q = f.intrinsic("trunc", ratio)
    r = f.fma(f.fneg(q), b, a)
    zero = _k(f, x, 0.0)
    r = f.select(f.cmp("olt", r, zero), f.fadd(r, b), r)
    r = f.select(f.cmp("oge", r, b), f.fsub(r, b), r)
    r = f.select(f.cmp("oeq", b, _k(f, x, math.inf)), a, r)
    fast = f.intrinsic("copysign", r, x)
    limit = 2.0**22 if element is F32 else 2.0**51
    return _with_rare(f, f.cmp("ugt", ratio, _k(f, x, limit)), lambda: lane_call(f, "fmod", x, y), fast)
