"""Elementary functions of f32 and f64 of any number of lanes, expanded into builder operations.

docs/accuracy.md has their measured errors. No function is left to a library: all backends share these expansions.
"""

from stablehlo_py.codegen.math.basics import absolute, any_lane, muladd
from stablehlo_py.codegen.math.bessel import bessel_i1e
from stablehlo_py.codegen.math.error_function import erf, erfc
from stablehlo_py.codegen.math.exponential import exp, expm1, logistic, tanh
from stablehlo_py.codegen.math.gamma import digamma, lgamma
from stablehlo_py.codegen.math.hyperbolic import acosh, asinh, atanh, cosh, sinh
from stablehlo_py.codegen.math.inverse_error import erf_inv
from stablehlo_py.codegen.math.inverse_trigonometric import acos, asin, atan2
from stablehlo_py.codegen.math.logarithm import log, log1p
from stablehlo_py.codegen.math.powers import cbrt, power, remainder, rsqrt, sqrt
from stablehlo_py.codegen.math.trigonometric import cos, sin, tan
from stablehlo_py.codegen.math.zeta import zeta

__all__ = [
    "absolute",
    "acos",
    "acosh",
    "any_lane",
    "asin",
    "asinh",
    "atan2",
    "atanh",
    "bessel_i1e",
    "cbrt",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "expm1",
    "lgamma",
    "log",
    "log1p",
    "logistic",
    "muladd",
    "power",
    "remainder",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "zeta",
]
