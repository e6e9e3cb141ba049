"""The inverse of the error function. Coefficients are by tools/minimax.py.

Up to 11/16, x times a polynomial in x^2. Beyond, s = sqrt(-log(1 - |x|)) times one in (s - c) / (s + c): 1 - |x| is
exact, so that nothing is lost close to 1. (Giles, "Approximating the erfinv function", 2010, takes the logarithm of
1 - x^2, and three polynomials.)
"""

from __future__ import annotations

import math

from stablehlo_py.codegen.builder import F32, F64, Function, Value
from stablehlo_py.codegen.math.basics import absolute, const, copysign, muladd, polynomial, two_product
from stablehlo_py.codegen.math.powers import log_double

_SEAM = 0.6875  # the other formula, which rounds more often, has its larger errors below
_HALF_ROOT_PI = {F32: (0.8862269520759583, -2.66232e-08), F64: (0.886226925452758, -3.8332932499128993e-17)}
# (erfinv(x) / x - sqrt(pi)/2) / x^2 in x^2 on |x| <= 11/16: relative error of erfinv 2^-30.7 and 2^-58.4.
_CENTER = {
    F32: (
        0.3860228955745697,
        -0.49217334389686584,
        0.38743436336517334,
        -0.0890265554189682,
        0.0811626985669136,
        0.061075419187545776,
        0.08683823049068451,
        0.12754593789577484,
        0.2320137917995453,
    ),
    F64: (
        3.323090326390262,
        -12.304542222876536,
        21.793161311136068,
        -23.9249030377889,
        18.20084198106957,
        -10.057056024803257,
        4.215111102952416,
        -1.3158385259845593,
        0.35071465087082776,
        -0.0371482344787849,
        0.037029671304085646,
        0.03068816550392669,
        0.03654856181626225,
        0.04283176166581134,
        0.05173149000156052,
        0.06495961199320857,
        0.08655212933712027,
        0.12755617530478813,
        0.2320136665346569,
    ),
}
# erfinv(1 - e^(-s^2)) / s in (s - c) / (s + c), down to e^(-s^2) = 2^-24 and 2^-53: relative error 2^-26.6 and 2^-55.6.
_TAIL_CENTER = 1.4375
_TAIL_FIRST = {F32: (0.7513712048530579, -2.3172821883576944e-08), F64: (0.7513711816367447, -1.6144096607232346e-17)}
_TAIL = {
    F32: (
        -0.034112825989723206,
        0.06263472884893417,
        -0.015157606452703476,
        -0.07653062045574188,
        0.10606791079044342,
        -0.016543736681342125,
        -0.13747313618659973,
        0.18886300921440125,
        -0.006377880927175283,
        -0.3941853642463684,
        0.5694743394851685,
    ),
    F64: (
        -0.001150613436966233,
        0.0020519433365968087,
        -0.0021623407504438937,
        0.009465780069324145,
        -0.025991565348374164,
        0.031151283526295346,
        -0.0064636479807437955,
        -0.03156477604928765,
        0.0427852060455023,
        -0.009467753045668876,
        -0.03998063493278423,
        0.05413506647347845,
        -0.011269308003281443,
        -0.05331740159113657,
        0.07216359785277858,
        -0.013647936922753567,
        -0.07797507624075724,
        0.1060799208034496,
        -0.016454710786145233,
        -0.13747762199503802,
        0.18886057385898122,
        -0.006377761564446006,
        -0.39418533465793165,
        0.5694743191448821,
    ),
}


def erf_inv(f: Function, x: Value) -> Value:
    """Inverse error function; infinite at -1 and 1, NaN beyond."""
    element = x.type.element
    size, one = absolute(f, x), const(f, x, 1.0)
    square = f.fmul(x, x)
    slope, slope_rest = (const(f, x, part) for part in _HALF_ROOT_PI[element])
    small = f.fma(size, slope, f.fmul(size, muladd(f, square, polynomial(f, square, _CENTER[element]), slope_rest)))
    large = _tail(f, f.fsub(one, size))
    large = f.select(f.cmp("oeq", size, one), const(f, x, math.inf), large)
    large = f.select(f.cmp("ule", size, one), large, const(f, x, math.nan))
    return copysign(f, f.select(f.cmp("ole", size, const(f, x, _SEAM)), small, large), x)


def _tail(f: Function, rest: Value) -> Value:
    """erfinv(1 - rest), as s a0 + s (a1 t + ...); what rounding s and its product with a0 lost is added."""
    element = rest.type.element
    first, first_rest = (const(f, rest, part) for part in _TAIL_FIRST[element])
    log, log_rest = log_double(f, rest)
    square = f.fneg(log)
    s = f.intrinsic("sqrt", square)
    s_rest = f.fdiv(f.fsub(f.fma(f.fneg(s), s, square), log_rest), f.fadd(s, s))
    center = const(f, rest, _TAIL_CENTER)
    t = f.fdiv(f.fsub(s, center), f.fadd(s, center))
    product, lost = two_product(f, s, first)
    correction = f.fadd(s_rest, lost)  # the derivative by s is 0.9 to 1.05
    w = muladd(f, polynomial(f, t, _TAIL[element]), t, first_rest)
    return f.fadd(product, muladd(f, s, w, correction))
