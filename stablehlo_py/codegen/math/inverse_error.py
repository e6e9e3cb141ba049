"""The inverse of the error function. Coefficients are by tools/minimax.py.

Up to 1/2, x times a polynomial in x^2. Beyond, s = sqrt(-log(1 - |x|)) times one in (s - c) / (s + c): the subtraction
is exact, so that nothing is lost close to 1. (Giles, "Approximating the erfinv function", 2010, takes the logarithm of
1 - x^2, and three polynomials.)
"""

from __future__ import annotations

import math

from stablehlo_py.codegen.builder import F32, F64, Function, Value
from stablehlo_py.codegen.math.basics import absolute, const, copysign, muladd, polynomial, two_product
from stablehlo_py.codegen.math.powers import log_double

_HALF_ROOT_PI = {F32: (0.8862269520759583, -2.66232e-08), F64: (0.886226925452758, -3.8332932499128993e-17)}
# (erfinv(x) / x - sqrt(pi)/2) / x^2 in x^2 on |x| <= 1/2: relative error of erfinv 2^-30 and 2^-57.9.
_CENTER = {
    F32: (
        0.09745121747255325,
        0.02997322753071785,
        0.06890248507261276,
        0.08620166778564453,
        0.1275702863931656,
        0.23201347887516022,
    ),
    F64: (
        0.11323815744936289,
        -0.07618894773894945,
        0.07349838092479001,
        0.008443015248240579,
        0.03158856969926591,
        0.031147346858493304,
        0.03652253097167342,
        0.0428326390194349,
        0.051731479867235766,
        0.0649596116016206,
        0.08655212935377937,
        0.12755617530456725,
        0.2320136665346578,
    ),
}
# erfinv(1 - e^(-s^2)) / s in (s - c) / (s + c), down to e^(-s^2) = 2^-24 and 2^-53: relative error 2^-27.3 and 2^-55.7.
_TAIL_CENTER = 1.25
_TAIL_FIRST = {F32: (0.7097285985946655, -1.431301743792801e-08), F64: (0.7097285845428166, 2.0283983266183805e-17)}
_TAIL = {
    F32: (
        0.03130555897951126,
        -0.06209155172109604,
        0.00500349048525095,
        0.09938391298055649,
        -0.10471495240926743,
        -0.05377674847841263,
        0.21078118681907654,
        -0.1150502860546112,
        -0.3397897481918335,
        0.6210733652114868,
    ),
    F64: (
        -0.021065507440113145,
        0.09617782539236049,
        -0.19131949827047245,
        0.21034345793707282,
        -0.13475872250253404,
        0.055676693676220336,
        -0.03522202733001245,
        0.03429280327163611,
        -0.0015792430604817907,
        -0.042945640746271246,
        0.040818974864683735,
        0.01568314527598433,
        -0.06211686770110676,
        0.03326876239860853,
        0.047666999247466126,
        -0.08307369299160607,
        0.010044768562731555,
        0.10039826804206099,
        -0.10521636506723088,
        -0.05377433931979539,
        0.2107960504812157,
        -0.11505083568666044,
        -0.33978991320896257,
        0.621073359049313,
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
    return copysign(f, f.select(f.cmp("ole", size, const(f, x, 0.5)), small, large), x)


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
    correction = muladd(f, s_rest, first, lost)
    w = muladd(f, polynomial(f, t, _TAIL[element]), t, first_rest)
    return f.fadd(product, muladd(f, s, w, correction))
