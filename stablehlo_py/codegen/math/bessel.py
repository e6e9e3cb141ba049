"""The modified Bessel function of the first kind and order 1, exponentially scaled, in f64; f32 goes through it.

Three ranges: x p(x^2) e^-x, where p's coefficients are positive and nothing cancels; a polynomial around the middle of
the second range, in which the function hardly changes; and p(16/x - 1) / sqrt(x), like Hankel's expansion. Coefficients
are by tools/minimax.py.
"""

from __future__ import annotations

from stablehlo_py.codegen.builder import Function, Value
from stablehlo_py.codegen.math.basics import (
    absolute,
    at_least,
    const,
    copysign,
    polynomial,
    through_double,
    two_product,
    two_sum,
)
from stablehlo_py.codegen.math.exponential import exp_double, scaled
from stablehlo_py.codegen.math.powers import rsqrt

# I1(x) / x in x^2 on |x| <= 3: relative error 2^-57.
_NEAR_END = 3.0
_NEAR = (
    3.59881261159318e-21,
    1.4421713626105738e-18,
    5.215139189806274e-16,
    1.5017497814067486e-13,
    3.3639307838683296e-11,
    5.6514033506948515e-09,
    6.781684027869774e-07,
    5.425347222221457e-05,
    0.002604166666666669,
    0.0625,
)
_NEAR_FIRST = 0.5
# I1(x) e^-x in x - 5.5 on 3 <= x <= 8: 2^-55.3.
_MIDDLE = 5.5
_MIDDLE_END = 8.0
_BETWEEN = (
    -1.2031795384794086e-20,
    1.3988124369032634e-19,
    -1.1295355304471777e-18,
    1.1681193908395361e-17,
    -1.2160023831587527e-16,
    1.1490972380024945e-15,
    -1.0244075486870042e-14,
    8.67532760351284e-14,
    -6.930667064951249e-13,
    5.201320108377233e-12,
    -3.653374130167926e-11,
    2.3903752909917895e-10,
    -1.4480561910436547e-09,
    8.052443147743651e-09,
    -4.0527825733829434e-08,
    1.7938003981046158e-07,
    -6.45826617903583e-07,
    1.3010973933487934e-06,
    6.6071885800659454e-06,
    -0.0001209136959209803,
    0.0012418056450286272,
    -0.011890663365146001,
    0.15770100901675652,
)
# sqrt(x) I1(x) e^-x in 16/x - 1 on x >= 8: 2^-57.
_FAR_FIRST = (0.38939845902587233, -5.655601114581583e-18)
_FAR = (
    -1.3170377814841767e-11,
    6.512400381517023e-11,
    1.0087474568472106e-10,
    -4.882656815017734e-10,
    -3.6673860323560453e-10,
    1.717398409052466e-09,
    8.903286713633871e-10,
    -3.8436646123365354e-09,
    -1.8061892410093048e-09,
    6.289574282392425e-09,
    3.676300049269379e-09,
    -7.917916291531259e-09,
    -7.757652258308432e-09,
    5.986885389627444e-09,
    1.406994675838831e-08,
    6.731015800688128e-09,
    -8.434993829475554e-09,
    -2.3373322636722628e-08,
    -4.312827278973426e-08,
    -1.0001294564598746e-07,
    -3.4838563950323193e-07,
    -1.834910129347163e-06,
    -1.5038547198505399e-05,
    -0.00021923576383395938,
    -0.009749577193235756,
)


@through_double
def bessel_i1e(f: Function, x: Value) -> Value:
    """e^-|x| I1(x)."""
    size, zero = absolute(f, x), const(f, x, 0.0)
    is_near = f.cmp("ole", size, const(f, x, _NEAR_END))
    small = f.select(is_near, size, zero)
    y, y_rest, n = exp_double(f, f.fneg(small))
    square, square_rest = two_product(f, small, small)
    series = polynomial(f, square, _NEAR)
    tail, tail_rest = two_product(f, square, series)
    total, lost = two_sum(f, const(f, x, _NEAR_FIRST), tail)
    product, rest = two_product(f, small, total)
    rest = f.fma(small, f.fadd(lost, f.fma(square_rest, series, tail_rest)), rest)
    near = scaled(f, f.fma(y, product, f.fma(y, rest, f.fmul(y_rest, product))), n)
    middle = polynomial(f, f.fsub(size, const(f, x, _MIDDLE)), _BETWEEN)
    large = at_least(f, size, _MIDDLE_END)
    v = f.fsub(f.fdiv(const(f, x, 16.0), large), const(f, x, 1.0))
    first, first_rest = (const(f, x, part) for part in _FAR_FIRST)
    root = rsqrt(f, large)
    far = f.fma(root, first, f.fmul(root, f.fma(v, polynomial(f, v, _FAR), first_rest)))
    result = f.select(f.cmp("ole", size, const(f, x, _MIDDLE_END)), middle, far)
    return copysign(f, f.select(is_near, near, result), x)
