"""Functions of numbers of 16 bits and less, in f32, where those of f32 do more than the result can show.

Arguments have at most 11 significant bits, and a result is rounded to as many: a relative error of 2^-20 moves what it
is rounded to in one of a thousand cases, by an ulp that was a near tie (0.501 ulp). All functions of f16 and bf16 are
measured at every argument (docs/accuracy.md). Coefficients: tools/minimax.py, `narrow_...`.
"""

from __future__ import annotations

from collections.abc import Callable

from stablehlo_py.codegen.builder import F32, Function, Value
from stablehlo_py.codegen.math.basics import BIAS, absolute, at_least, at_most, const, copysign_bits, muladd, polynomial
from stablehlo_py.codegen.math.exponential import power_of_two, reduced
from stablehlo_py.codegen.math.inverse_error import erf_inv
from stablehlo_py.codegen.math.logarithm import log1p

# tanh x / x up to 4.6 and erf x / x up to 2.65, in x^2; what is greater rounds to 1. Upper and lower polynomial.
_TANH_END = 4.6
_TANH = (
    (5.201646672503557e-06, 0.0025099655613303185, 0.12548331916332245, 0.9999998807907104),
    (0.000169264487340115, 0.022116644307971, 0.4588155746459961, 1.0),
)
_ERF_END = 2.65
_ERF = (
    (
        8.686931323609315e-06,
        0.0003035342087969184,
        0.03873798996210098,
        0.13387231528759003,
        1.128379464149475,
    ),
    (0.007267738226801157, 0.08495358377695084, 0.45198267698287964, 1.0),
)
# erfc x e^(x^2) on x >= 0; past the end it rounds to 0.
_ERFC_END = 10.0
_ERFC = (
    (0.03549407795071602, 0.2418852597475052, 0.7579473257064819, 1.2632815837860107, 1.0),
    (
        0.062911257147789,
        0.4287465512752533,
        1.374581217765808,
        2.4566335678100586,
        2.3916616439819336,
        1.0,
    ),
)
# I1(x) e^-x / x on 0 <= x <= 8, and sqrt(x) I1(x) e^-x in 1/x from there on.
_BESSEL_END = 8.0
_BESSEL_NEAR = (
    (
        -4.060723767906893e-06,
        0.00035659881541505456,
        0.006666828412562609,
        0.042909491807222366,
        0.09094654023647308,
        0.5000000596046448,
    ),
    (
        0.005639264360070229,
        0.043023731559515,
        0.2092467099428177,
        0.6426501274108887,
        1.1818996667861938,
        1.0,
    ),
)
_BESSEL_FAR = (
    -0.13412296772003174,
    -0.03007923625409603,
    -0.04731421917676926,
    -0.14959345757961273,
    0.3989422619342804,
)
# (e^r - 1) / r on |r| <= log(2)/2.
_GROWTH = (
    0.008333324454724789,
    0.04187512397766113,
    0.1666693538427353,
    0.49999377131462097,
    0.9999999403953552,
)


def _quotient(f: Function, x: Value, sides: tuple[tuple[float, ...], tuple[float, ...]]) -> tuple[Value, Value]:
    return polynomial(f, x, sides[0]), polynomial(f, x, sides[1])


def _odd_ratio(f: Function, x: Value, sides: tuple[Value, Value]) -> Value:
    """x times the quotient, with the sign of x; the lower side is 1 for the smallest x and at most some hundreds. By a
    machine's estimate of the reciprocal it is rounded as by a division, which has branches for ranges that are not met
    here: one step of Newton's iteration, and one for the quotient (P. Markstein, "Computation of elementary functions
    on the IBM RISC System/6000 processor", 1990)."""
    top, bottom = f.fmul(x, sides[0]), sides[1]
    if not f.emit.estimate_reciprocal or x.type != F32:
        return f.fdiv(top, bottom)
    estimate, minus = f.target_intrinsic(f.emit.estimate_reciprocal, bottom, result=F32), f.fneg(bottom)
    reciprocal = f.fma(estimate, f.fma(minus, estimate, const(f, x, 1.0)), estimate)
    found = f.fmul(top, reciprocal)
    return copysign_bits(f, f.fma(f.fma(minus, found, top), reciprocal, found), x)


def _parts(f: Function, x: Value, shift: int) -> tuple[Value, Value]:
    """(q, s): e^x 2^shift = s + s q with s a power of two, which the caller keeps a normal number."""
    n, _, r = reduced(f, x, BIAS[F32] + shift)
    return f.fmul(polynomial(f, r, _GROWTH), r), power_of_two(f, n, x)


def tanh(f: Function, x: Value) -> Value:
    """Hyperbolic tangent: one quotient."""
    x = at_least(f, at_most(f, x, _TANH_END), -_TANH_END)
    return _odd_ratio(f, x, _quotient(f, f.fmul(x, x), _TANH))


def erf(f: Function, x: Value) -> Value:
    """Error function: one quotient."""
    x = at_least(f, at_most(f, x, _ERF_END), -_ERF_END)
    return _odd_ratio(f, x, _quotient(f, f.fmul(x, x), _ERF))


def erfc(f: Function, x: Value) -> Value:
    """1 - erf(x): e^(-x^2), whose argument is exact, times a quotient."""
    size = at_most(f, absolute(f, x), _ERFC_END)
    q, scale = _parts(f, f.fneg(f.fmul(size, size)), 64)
    top, bottom = _quotient(f, size, _ERFC)
    far = f.fmul(f.fdiv(f.fmul(muladd(f, scale, q, scale), top), bottom), const(f, x, 2.0**-64))
    return f.select(f.cmp("olt", x, const(f, x, 0.0)), f.fsub(const(f, x, 2.0), far), far)


def logistic(f: Function, x: Value) -> Value:
    """1 / (1 + e^-x), all of it times 2^-8: e^-x may be beyond f32 where the result is a bf16."""
    least = const(f, x, 2.0**-8)
    q, scale = _parts(f, f.fneg(at_least(f, at_most(f, x, 60.0), -93.0)), -8)
    return f.fdiv(least, f.fadd(least, muladd(f, scale, q, scale)))


def cosh(f: Function, x: Value) -> Value:
    """Hyperbolic cosine; a quarter of e^|x| is in range wherever the result is."""
    q, scale = _parts(f, at_most(f, absolute(f, x), 89.7), -2)
    quarter = muladd(f, scale, q, scale)
    return f.fadd(f.fadd(quarter, quarter), f.fdiv(const(f, x, 0.125), quarter))


def sinh(f: Function, x: Value) -> Value:
    """Hyperbolic sine: g (1 + 1 / (1 + 2g)) for g = (e^|x| - 1) / 2."""
    q, scale = _parts(f, at_most(f, absolute(f, x), 89.7), -2)
    half = muladd(f, scale, q, f.fsub(scale, const(f, x, 0.25)))
    g, one = f.fadd(half, half), const(f, x, 1.0)
    return copysign_bits(f, f.fmul(g, f.fadd(one, f.fdiv(one, f.fadd(one, f.fadd(g, g))))), x)


def bessel_i1e(f: Function, x: Value) -> Value:
    """e^-|x| I1(x)."""
    size = absolute(f, x)
    top, bottom = _quotient(f, size, _BESSEL_NEAR)
    inverse = f.fdiv(const(f, x, 1.0), size)
    far = f.fmul(polynomial(f, inverse, _BESSEL_FAR), f.intrinsic("sqrt", inverse))
    near = f.fdiv(f.fmul(size, top), bottom)
    return copysign_bits(f, f.select(f.cmp("ole", size, const(f, x, _BESSEL_END)), near, far), x)


def _signed(function: Callable[[Function, Value], Value]) -> Callable[[Function, Value], Value]:
    """A function of f32 that has its argument's sign. LLVM would take that from where the argument comes from, and
    round it to f16 by way of a library where that is an f64."""
    return lambda f, x: copysign_bits(f, function(f, x), x)


#: By the name of the hlo op.
FUNCTIONS: dict[str, Callable[[Function, Value], Value]] = {
    "bessel_i1e": bessel_i1e,
    "cosh": cosh,
    "erf": erf,
    "erf_inv": _signed(erf_inv),
    "erfc": erfc,
    "log_plus_one": _signed(log1p),
    "logistic": logistic,
    "sinh": sinh,
    "tanh": tanh,
}
