"""log |gamma| and digamma of f32, in f64 arithmetic. What that rounds is small even next to zeros: the least values
there, at numbers of f32, are some 2^-27.

lgamma: gamma(x) = gamma(z) z (z + 1) ... (x - 1) with z from 1 to 2, where log gamma(z) = (z - 1) (z - 2) p(z) is
accurate next to its zeros; Stirling's series from 8 on. One logarithm serves both. digamma: from 8 on the series, below
that of x + 8 less 1/x + 1/(x + 1) + ... + 1/(x + 7), which is one quotient. The reflection formulas take negative x to
positive ones (NIST Digital Library of Mathematical Functions, 5.5 and 5.11). Coefficients are by tools/minimax.py.
"""

from __future__ import annotations

import math

from stablehlo_py.codegen.builder import F32, F64, Function, Value
from stablehlo_py.codegen.math.basics import absolute, const, copysign, muladd, polynomial, where_rare
from stablehlo_py.codegen.math.logarithm import log_of_normal
from stablehlo_py.codegen.math.trigonometric import sin_of_pi

_FAR = 8  # from here on the series
# log gamma(z) / ((z - 1) (z - 2)) in z - 3/2 on 1 <= z <= 2: relative error 2^-53.6, which zeros left of 0 need.
_NEAR_CENTER = 1.5
_NEAR = (
    -1.857185565021024e-05,
    2.836279907216992e-05,
    -2.1435458346128904e-05,
    3.496396429637762e-05,
    -6.796341449172516e-05,
    0.00010772715477419104,
    -0.0001685646738487472,
    0.00027089207736190053,
    -0.0004380363162477773,
    0.0007115654589895797,
    -0.0011644112640382483,
    0.0019229132055532327,
    -0.003212074227120078,
    0.005446457958664281,
    -0.009425622444626766,
    0.016797098628938786,
    -0.031308487501056144,
    0.0629114010745821,
    -0.14595989591430591,
    0.4831289505409809,
)
# B(2k) / (2k (2k - 1)), and -B(2k) / 2k, of falling k.
_STIRLING = (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_DIGAMMA_SERIES = (-43867 / 14364, 3617 / 8160, -1 / 12, 691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12)


def lgamma(f: Function, x: Value) -> Value:
    """log |gamma(x)| for f32 x; infinity at its poles and at both infinities."""
    wide = f.cast("fpext", x, F64)
    y, infinity = absolute(f, wide), const(f, wide, math.inf)
    positive = _lgamma_positive(f, y)
    is_negative = f.cmp("olt", wide, const(f, wide, 0.0))

    def reflected() -> list[Value]:
        sine = sin_of_pi(f, f.fsub(y, f.intrinsic("roundeven", y)))
        ratio = f.fdiv(const(f, y, math.pi), f.fmul(y, sine))
        return [f.fsub(log_of_normal(f, ratio), positive)]

    (result,) = where_rare(f, is_negative, reflected, [positive])
    return f.cast("fptrunc", f.select(f.cmp("oeq", y, infinity), infinity, result), F32)


def _lgamma_positive(f: Function, y: Value) -> Value:
    """a log b + c for f64 y >= 0: a = y - 1/2, b = y with Stirling's series; -1 and y below 1; 1 and the product of the
    factors between."""
    one = const(f, y, 1.0)
    far, below = f.cmp("oge", y, const(f, y, float(_FAR))), f.cmp("olt", y, one)
    z = f.select(below, f.fadd(y, one), y)
    product = one
    for _ in range(_FAR - 2):
        above = f.cmp("ogt", z, const(f, y, 2.0))
        less = f.fsub(z, one)
        z, product = f.select(above, less, z), f.select(above, f.fmul(product, less), product)
    zeros = f.fmul(f.fsub(z, one), f.fsub(z, const(f, y, 2.0)))
    near = f.fmul(zeros, polynomial(f, f.fsub(z, const(f, y, _NEAR_CENTER)), _NEAR))
    inverse = f.fdiv(one, y)
    series = f.fmul(inverse, polynomial(f, f.fmul(inverse, inverse), _STIRLING))
    series = f.fsub(f.fadd(series, const(f, y, 0.5 * math.log(2 * math.pi))), y)
    factor = f.select(far, f.fsub(y, const(f, y, 0.5)), f.select(below, const(f, y, -1.0), one))
    argument = f.select(f.binary("or", far, below), y, product)
    return muladd(f, factor, log_of_normal(f, argument), f.select(far, series, near))


def digamma(f: Function, x: Value) -> Value:
    """The derivative of log gamma for f32 x; NaN at the poles, where there is no limit from both sides."""
    wide = f.cast("fpext", x, F64)
    y, zero = absolute(f, wide), const(f, wide, 0.0)
    log_w, rest = _digamma_positive(f, y)

    def reflected() -> list[Value]:
        """digamma(y) + 1/y + pi cot(pi y). Next to zeros the large terms cancel, and their sum is exact."""
        d = f.fsub(y, f.intrinsic("roundeven", y))
        cosine = sin_of_pi(f, f.fsub(const(f, y, 0.5), absolute(f, d)))
        cotangent = f.fdiv(f.fmul(cosine, const(f, y, math.pi)), sin_of_pi(f, d))
        small = f.fadd(rest, f.fdiv(const(f, y, 1.0), y))
        result = f.fadd(f.fadd(log_w, copysign(f, cotangent, d)), small)
        return [f.select(f.cmp("oeq", d, zero), const(f, y, math.nan), result)]

    (result,) = where_rare(f, f.cmp("ole", wide, zero), reflected, [f.fadd(log_w, rest)])
    return f.cast("fptrunc", result, F32)


def _digamma_positive(f: Function, y: Value) -> tuple[Value, Value]:
    """log w, and -1/(2 w) - 1/(12 w^2) + ... for f64 y >= 0, with w = y or y + 8, less the inverses between."""
    far = f.cmp("oge", y, const(f, y, float(_FAR)))
    w = f.select(far, y, f.fadd(y, const(f, y, float(_FAR))))
    top, bottom = const(f, y, 1.0), y
    for step in range(1, _FAR):
        factor = f.fadd(y, const(f, y, float(step)))
        top, bottom = muladd(f, top, factor, bottom), f.fmul(bottom, factor)
    inverses = f.select(far, const(f, y, 0.0), f.fdiv(top, bottom))
    inverse = f.fdiv(const(f, y, 1.0), w)
    square = f.fmul(inverse, inverse)
    series = muladd(f, square, polynomial(f, square, _DIGAMMA_SERIES), f.fmul(inverse, const(f, y, -0.5)))
    return log_of_normal(f, w), f.fsub(series, inverses)
