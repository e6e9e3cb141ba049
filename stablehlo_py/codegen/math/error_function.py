"""The error function and its complement. Coefficients are minimax fits (see exponential.py).

erf x = x + x p(x^2) for small x. f32: 1 - q(|x| - b)^2 for others, with q a polynomial for the root of erfc, which
takes fewer terms than erfc. What rounds q weighs twice q, and rounds it little next to b, where q is largest.
f64: erfc x = e^(-x^2) r(t) / (1 + 2x) with t = (x - 3) / (x + 3), which takes the half line to a short interval (after
Schonfelder, "Chebyshev expansions for the error and related functions", 1978). erfc of f32 is the same with other
constants: there r is nearly constant, so that it does not matter how it is rounded.
"""

from __future__ import annotations

from stablehlo_py.codegen.builder import F32, F64, Function, Value
from stablehlo_py.codegen.math.basics import (
    BIAS,
    absolute,
    at_most,
    const,
    estrin,
    fast_two_sum,
    muladd,
    polynomial,
    signed,
    two_product,
)
from stablehlo_py.codegen.math.exponential import exp_double, exp_sum, scaled

# (erf x - x) / x in x^2 below: relative error of erf 2^-30.0 and 2^-56.3.
_SMALL = {F32: 0.955322265625, F64: 1.0}  # f32: the root of erfc is nearly an f32 there
_NEAR = {F32: 0.6875, F64: 0.8125}  # for erfc, which falls below 1/4 soon after: what 1 - erf cancels counts more
_ERF = {
    F32: (
        8.0028927186504e-05,
        -0.0008050819160416722,
        0.005192460957914591,
        -0.026855740696191788,
        0.11283625662326813,
        -0.3761262893676758,
        0.12837916612625122,
    ),
    F64: (
        5.945262640753955e-11,
        -1.1365666624567702e-09,
        1.465788005199366e-08,
        -1.6350025260055095e-07,
        1.6460972821184672e-06,
        -1.4925593507190661e-05,
        0.00012055331036913794,
        -0.0008548326978742633,
        0.005223977624780875,
        -0.026866170645072896,
        0.11283791670954857,
        -0.3761263890318375,
        0.1283791670955126,
    ),
}
# sqrt(erfc x) in x - 0.955322265625 up to 3.9375, from where on erf rounds to 1: error of erfc 2^-26.5 close to the
# begin, 2^-25.8 from x = 1.3 on.
_ONE = {F32: 3.9375, F64: 6.0}
_ROOT_ERFC = (
    -1.562446414027363e-05,
    0.00014414737233892083,
    -0.0001942418166436255,
    -0.0023665186017751694,
    0.01049996167421341,
    -0.006613507401198149,
    -0.04561387747526169,
    0.06867509335279465,
    0.16941620409488678,
    -0.5388528108596802,
    0.42034024000167847,
)
# erfc(x) e^(x^2) (1 + 2 x) in t on 0.8125 <= x <= 27.5: relative error 2^-59.8. The last coefficient is a sum.
_CENTER = 3.0
_SCALED_ERFC = (
    -1.9633995726884683e-08,
    3.111557810248677e-08,
    1.1574428604600878e-07,
    -1.3753533497572064e-07,
    -6.28425428975748e-07,
    3.5790100178136177e-07,
    3.47792014536053e-06,
    -7.330575696737346e-07,
    -2.0102157145347877e-05,
    4.950121380054964e-06,
    0.00012509964954014025,
    -0.00010515994016798939,
    -0.0007798323087176005,
    0.0018886903769478772,
    0.002529391819001031,
    -0.02377051491987893,
    0.06830802734383497,
    -0.11927366341526724,
    0.1296451587027642,
    -0.047562294353451266,
    -0.1356211061245812,
)
_SCALED_ERFC_LAST = (1.2530080582697296, 4.5418073316512263e-17)
# erfc(x) e^(x^2) / w - 1 in w - 0.28125, w = 0.65234375 / (x + 0.625), on 0.6875 <= x <= 10.06: error of erfc 2^-28.4.
_W_TOP, _W_SHIFT, _W_CENTER = 0.65234375, 0.625, 0.28125
_W_SERIES = (
    -176.71990966796875,
    30.161985397338867,
    43.68935775756836,
    -24.64995765686035,
    4.50117826461792,
    3.3669233322143555,
    -3.8225390911102295,
    1.4844930171966553,
    0.535263180732727,
    -1.0815826654434204,
    0.3316067159175873,
    0.03973228856921196,
)
_W_SLOPE = 1.55  # d/dw (erfc(x) e^(x^2)) / 0.65234375, to a fifth


def erf(f: Function, x: Value) -> Value:
    """Error function."""
    element = x.type.element
    size = at_most(f, absolute(f, x), _ONE[element])
    square = f.fmul(size, size)
    series = estrin if element is F32 else polynomial
    small = muladd(f, series(f, square, _ERF[element]), size, size)
    large = _one_minus_erfc(f, size) if element is F32 else f.fsub(const(f, x, 1.0), _far(f, size))
    return signed(f, f.select(f.cmp("olt", size, const(f, x, _SMALL[element])), small, large), x)


def _one_minus_erfc(f: Function, x: Value) -> Value:
    """1 - erfc x for f32 x from 0.955322265625 to 3.9375. The difference is exact."""
    beyond, (*rest, first) = f.fsub(x, const(f, x, _SMALL[F32])), _ROOT_ERFC
    root = muladd(f, estrin(f, beyond, rest), beyond, const(f, x, first))
    return muladd(f, f.fneg(root), root, const(f, x, 1.0))


def _far(f: Function, x: Value) -> Value:
    """erfc x for f64 x from 13/16 on."""
    one = const(f, x, 1.0)
    center = const(f, x, _CENTER)
    t = f.fdiv(f.fsub(x, center), f.fadd(x, center))
    last, last_rest = (const(f, x, part) for part in _SCALED_ERFC_LAST)
    top, top_rest = fast_two_sum(f, last, f.fma(polynomial(f, t, _SCALED_ERFC), t, last_rest))
    bottom, bottom_rest = fast_two_sum(f, f.fadd(x, x), one)
    inverse = f.fdiv(one, bottom)
    factor = f.fmul(top, inverse)
    minus = f.fneg(factor)
    remainder = f.fadd(f.fma(minus, bottom_rest, f.fma(minus, bottom, top)), top_rest)
    factor_rest = f.fmul(remainder, inverse)
    square, lost = two_product(f, x, x)
    y, rest, n = exp_double(f, f.fneg(square), f.fneg(lost))
    return scaled(f, f.fma(y, factor, f.fma(y, factor_rest, f.fmul(rest, factor))), n)


def _complement(f: Function, x: Value) -> Value:
    """erfc x for f32 x from 11/16 to 11: e^(-x^2) w (1 + s(w)), w = 0.65234375 / (x + 0.625). Each factor is a sum
    whose second part is so small that it may be rounded."""
    square, square_rest = two_product(f, x, x)
    y, tail, scale = exp_sum(f, f.fneg(square), f.fneg(square_rest), BIAS[F32] + 64)
    # Exact for larger x, too: the shift is a multiple of the last place of the sum.
    bottom, bottom_rest = fast_two_sum(f, const(f, x, _W_SHIFT), x)
    w = f.fdiv(const(f, x, _W_TOP), bottom)
    minus = f.fneg(w)
    residual = f.fma(minus, bottom_rest, f.fma(minus, bottom, const(f, x, _W_TOP)))
    series = polynomial(f, f.fsub(w, const(f, x, _W_CENTER)), _W_SERIES)
    rest = f.fmul(w, muladd(f, residual, const(f, x, _W_SLOPE), series))
    product = muladd(f, y, w, muladd(f, y, rest, f.fmul(tail, f.fadd(w, rest))))
    return f.fmul(f.fmul(product, scale), const(f, x, 2.0**-64))


def erfc(f: Function, x: Value) -> Value:
    """1 - erf(x), accurate where that cancels."""
    element = x.type.element
    one = const(f, x, 1.0)
    size = at_most(f, absolute(f, x), 11.0 if element is F32 else 30.0)
    far = _complement(f, size) if element is F32 else _far(f, size)
    far = f.select(f.cmp("olt", x, const(f, x, 0.0)), f.fsub(const(f, x, 2.0), far), far)
    series = polynomial(f, f.fmul(size, size), _ERF[element])
    minus = f.fneg(x)
    near, near_rest = fast_two_sum(f, one, minus)
    near = f.fadd(near, f.fma(minus, series, near_rest))
    return f.select(f.cmp("olt", size, const(f, x, _NEAR[element])), near, far)
