"""The functions whose accuracy is measured, and how accurate each has to be: one table, read by shlo-accuracy and by
test/codegen/test_accuracy.py.

A function has two references: one for all arguments, and one in mpmath for the worst of them, which decides. The first
is a wider NumPy type for whole arrays: f64 for types up to f32, for f64 the x87's or the system's long double; or Arb,
where NumPy has no such function of long doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
from flint import arb
from scipy import special

from stablehlo_py.accuracy import balls
from stablehlo_py.accuracy.balls import Ball
from stablehlo_py.accuracy.compiled import Compiled
from stablehlo_py.accuracy.hard_arguments import HARD_ARGUMENTS

Wide = Callable[..., np.ndarray]
Exact = Callable[..., Any]

#: Half an ulp is correctly rounded. f16 and bf16 are computed in f32 and rounded once, so ties may go the other way.
NARROW = 0.502
USUAL: Mapping[str, float] = {"f32": 1.0, "f64": 2.0, "f16": NARROW, "bf16": NARROW}
HARD: Mapping[str, float] = {**USUAL, "f32": 2.0}
CORRECT: Mapping[str, float] = {"f32": 0.5, "f64": 0.5, "f16": 0.5, "bf16": 0.5}


@dataclass(frozen=True)
class MathFunction:
    """A function of one or two real arguments.

    Attributes:
        name: of the StableHLO or CHLO op, and of the row in the table.
        wide: the reference on arrays of f64 or long double.
        exact: the reference on mpmath numbers; called for finite arguments only; None where `wide` is exact.
        targets: the largest error allowed, in ulps, by element type.
        arb: the reference for f64 in ball arithmetic (balls.py), where `wide` is no better in long double.
        usual: where half of the f64 samples lie: most of the real line is where these functions are 0, 1 or infinite.
        near: points whose neighbours are sampled densely: zeros, branch points, seams of algorithms.
        missed: by element type, why the target is not met. An entry goes when it is.
        specials: special numbers are arguments, too. If not, the function's values there are a matter of convention.
        pairs: for two arguments: (random generator, count, f64 or f32) -> the arguments.
    """

    name: str
    wide: Wide
    exact: Exact | None
    targets: Mapping[str, float] = field(default_factory=lambda: USUAL)
    arb: Ball | None = None
    usual: tuple[float, float] = (-10.0, 10.0)
    near: tuple[float, ...] = ()
    missed: Mapping[str, str] = field(default_factory=dict)
    specials: bool = True
    pairs: Callable[[np.random.Generator, int, np.dtype], Sequence[np.ndarray]] | None = None

    @property
    def arity(self) -> int:
        return 1 if self.pairs is None else 2

    @property
    def hard(self) -> tuple[float, ...]:
        """Arguments in f64 that are hard to round or to reduce."""
        return HARD_ARGUMENTS.get(self.name, ())

    def compiled(self, element: str, cpu: str | None = None) -> Compiled:
        """The op for an element type, and a CPU as in `Options`."""
        return Compiled(self.name, element, arity=self.arity, cpu=cpu)


# --- references that NumPy and SciPy lack ----------------------------------------------------------------------------


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _odd(function: Wide) -> Wide:
    """SciPy has +0 at -0."""
    return lambda x: np.copysign(function(x), x)


def _erf_inv(x: np.ndarray) -> np.ndarray:
    # Outside of its domain SciPy's takes microseconds, and half of all bit patterns are outside.
    inside = np.abs(x) <= 1
    return np.where(inside, np.copysign(special.erfinv(np.where(inside, x, 0)), x), np.nan)


def _log_gamma(x: np.ndarray) -> np.ndarray:
    return np.where(np.isinf(x), np.inf, special.gammaln(x))


def _exact_log_gamma(x: Any) -> Any:
    return mpmath.inf if x <= 0 and x == mpmath.floor(x) else mpmath.re(mpmath.loggamma(x))


def _digamma(x: np.ndarray) -> np.ndarray:
    # SciPy has -inf at +0 and inf at -0; there is no limit from both sides, and XLA has NaN at every pole.
    return np.where((x <= 0) & (x == np.floor(x)), np.nan, special.psi(x))


def _exact_erfc(x: Any) -> Any:
    return mpmath.erfc(x) if x < 1000 else mpmath.mpf(0)  # it overflows on the way; erfc(1000) is 2^-1,442,700


def _exact_i1e(x: Any) -> Any:
    if abs(x) < 200:
        return mpmath.besseli(1, x) * mpmath.exp(-abs(x))
    # Hankel's expansion, whose terms fall to e^-2x: mpmath would work with the digits of e^x.
    y, total, term, k = abs(x), mpmath.mpf(0), mpmath.mpf(1), 0
    while abs(term) > mpmath.eps:
        total += term
        k += 1
        term *= ((2 * k - 1) ** 2 - 4) / (8 * k * y)
    return mpmath.sign(x) * total / mpmath.sqrt(2 * mpmath.pi * y)


def _exact_cbrt(x: Any) -> Any:
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


def _exact_zeta(s: Any, q: Any) -> Any:
    with mpmath.extraprec(400):  # its error is absolute
        return mpmath.zeta(s, q)


# --- samples of two arguments ----------------------------------------------------------------------------------------


def _log_uniform(rng: np.random.Generator, count: int, low: float, high: float) -> np.ndarray:
    return np.exp2(rng.uniform(low, high, count))


def _signs(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.choice([-1.0, 1.0], count)


def _power_pairs(rng: np.random.Generator, count: int, dtype: np.dtype) -> Sequence[np.ndarray]:
    """Bases of every size with exponents that keep the result in range; bases near 1; small integers and halves."""
    info = ml_dtypes.finfo(dtype)
    lowest, highest = float(info.minexp) - info.nmant - 1, float(info.maxexp)
    third = count // 3
    base = _log_uniform(rng, third, lowest, highest)
    with np.errstate(divide="ignore"):
        exponent = rng.uniform(lowest - 2, highest + 1, third) / np.log2(base)
    near = 1 + _signs(rng, third) * _log_uniform(rng, third, -info.nmant - 1.0, -1.0)
    steep = rng.uniform(lowest - 2, highest + 1, third) / np.log2(near)
    rest = count - 2 * third
    small = _signs(rng, rest) * rng.integers(1, 60, rest) / rng.choice([1.0, 2.0, 3.0], rest)
    whole = rng.integers(-40, 41, rest) / rng.choice([1.0, 2.0], rest)
    whole = np.where(small < 0, np.round(whole), whole)
    pairs = np.concatenate([base, near, small]), np.concatenate([exponent, steep, whole])
    return [np.nan_to_num(side, posinf=1.0, neginf=-1.0).astype(dtype) for side in pairs]


def _angle_pairs(rng: np.random.Generator, count: int, dtype: np.dtype) -> Sequence[np.ndarray]:
    """Points of all sizes and directions, and points near the axes and the diagonals."""
    info = ml_dtypes.finfo(dtype)
    half = count // 2
    sizes = [_log_uniform(rng, half, info.minexp + 1.0, info.maxexp - 1.0) for _ in range(2)]
    direction = rng.uniform(-np.pi, np.pi, count - half)
    size = _log_uniform(rng, count - half, -20, 20)
    y = np.concatenate([sizes[0] * _signs(rng, half), size * np.sin(direction)])
    x = np.concatenate([sizes[1] * _signs(rng, half), size * np.cos(direction)])
    return [y.astype(dtype), x.astype(dtype)]


def _remainder_pairs(rng: np.random.Generator, count: int, dtype: np.dtype) -> Sequence[np.ndarray]:
    """Dividends up to 2^80 times the divisor."""
    divisor = _signs(rng, count) * _log_uniform(rng, count, -30, 30)
    quotient = _signs(rng, count) * _log_uniform(rng, count, -4, 80)
    quotient = np.where(rng.random(count) < 0.2, np.round(quotient), quotient)
    return [(divisor * quotient).astype(dtype), divisor.astype(dtype)]


def _zeta_pairs(rng: np.random.Generator, count: int, dtype: np.dtype) -> Sequence[np.ndarray]:
    """Exponents from the pole at 1 to 33, and offsets from 1/64 to 128."""
    exponent = (1 + _log_uniform(rng, count, -10, 5)).astype(dtype)
    return [np.where(exponent > 1, exponent, exponent + exponent), _log_uniform(rng, count, -6, 7).astype(dtype)]


def _polygamma_pairs(rng: np.random.Generator, count: int, dtype: np.dtype) -> Sequence[np.ndarray]:
    """Orders up to 8 (f16 overflows past them), at 1/4 to 128."""
    return [rng.integers(0, 9, count).astype(dtype), _log_uniform(rng, count, -2, 7).astype(dtype)]


# --- the table -------------------------------------------------------------------------------------------------------

_PI = float(np.pi)
# The first on the left, of -2.457 and -0.504 on: those of lgamma come in pairs around the poles.
_LGAMMA_ZEROS = (
    -2.4570247382208006,
    -2.7476826467274127,
    -3.14358088834998,
    -3.955294284858598,
    -4.039361839740537,
    -4.991544640560048,
    -5.0082181683225935,
)
_DIGAMMA_ZEROS = (
    1.4616321449683623,
    -0.5040830082644554,
    -1.5734984731623904,
    -2.610720868444145,
    -3.635293366436901,
    -10.708740838254145,
    -20.745616863607526,
    -128.81740469563522,
    -5000.88752197957,
    -1000000.9288278671,
)
FUNCTIONS: dict[str, MathFunction] = {
    function.name: function
    for function in (
        MathFunction("exponential", np.exp, mpmath.exp, usual=(-750, 715)),
        MathFunction("exponential_minus_one", np.expm1, mpmath.expm1, usual=(-45, 715), near=(0.35, -0.35, 0.7, -0.7)),
        MathFunction("log", np.log, mpmath.log, usual=(0, 4), near=(1.0, 0.7071, 1.4142)),
        MathFunction("log_plus_one", np.log1p, mpmath.log1p, usual=(-1, 3), near=(-1.0,)),
        MathFunction("logistic", _logistic, lambda x: 1 / (1 + mpmath.exp(-x)), usual=(-40, 40), near=(-709.0, -745.0)),
        MathFunction("tanh", np.tanh, mpmath.tanh, usual=(-22, 22), near=(0.5, 0.6, 1.0)),
        MathFunction("sine", np.sin, mpmath.sin, usual=(-100, 100), near=(_PI, _PI / 2, 2 * _PI)),
        MathFunction("cosine", np.cos, mpmath.cos, usual=(-100, 100), near=(_PI / 2, 1.5 * _PI)),
        MathFunction("tan", np.tan, mpmath.tan, usual=(-100, 100), near=(_PI / 2, _PI, _PI / 4)),
        MathFunction("sqrt", np.sqrt, mpmath.sqrt, CORRECT, usual=(0, 100)),
        MathFunction("rsqrt", lambda x: 1 / np.sqrt(x), lambda x: 1 / mpmath.sqrt(x), usual=(0, 9)),
        MathFunction("cbrt", np.cbrt, _exact_cbrt, usual=(-100, 100)),
        MathFunction("erf", special.erf, mpmath.erf, arb=arb.erf, usual=(-6, 6), near=(0.84375, 1.0)),
        MathFunction("erfc", special.erfc, _exact_erfc, arb=arb.erfc, usual=(-6, 27.3), near=(0.5, 1.0)),
        MathFunction("erf_inv", _erf_inv, mpmath.erfinv, arb=balls.erf_inv, usual=(-1, 1), near=(0.6875, -0.6875)),
        MathFunction("asin", np.arcsin, mpmath.asin, usual=(-1, 1), near=(0.5, -0.5)),
        MathFunction("acos", np.arccos, mpmath.acos, usual=(-1, 1), near=(0.5, -0.5)),
        MathFunction("atan", np.arctan, mpmath.atan, near=(0.4142, 2.4142)),
        MathFunction("sinh", np.sinh, mpmath.sinh, usual=(-715, 715), near=(0.3, 2.0, 20.0)),
        MathFunction("cosh", np.cosh, mpmath.cosh, usual=(-715, 715), near=(0.3, 2.0, 20.0)),
        MathFunction("asinh", np.arcsinh, mpmath.asinh, usual=(-100, 100), near=(0.5, -0.5)),
        MathFunction("acosh", np.arccosh, mpmath.acosh, usual=(1, 100), near=(1.5, 2.0)),
        MathFunction("atanh", np.arctanh, mpmath.atanh, usual=(-1, 1), near=(0.3, 0.5)),
        MathFunction(
            "lgamma",
            _log_gamma,
            _exact_log_gamma,
            HARD,
            arb=balls.log_gamma,
            usual=(-25, 25),
            near=(2.0, 3.0, 20.0, -20.0, *_LGAMMA_ZEROS),
        ),
        MathFunction(
            "digamma",
            _digamma,
            mpmath.digamma,
            HARD,
            arb=arb.digamma,
            usual=(-25, 25),
            near=(20.0, -20.0, *_DIGAMMA_ZEROS),
        ),
        MathFunction(
            "bessel_i1e", _odd(special.i1e), _exact_i1e, HARD, arb=balls.bessel_i1e, usual=(-30, 30), near=(3.0, 8.0)
        ),
        MathFunction("zeta", special.zeta, _exact_zeta, HARD, arb=arb.zeta, specials=False, pairs=_zeta_pairs),
        MathFunction(
            "polygamma",
            special.polygamma,
            lambda n, x: mpmath.polygamma(int(n), x),
            HARD,
            arb=balls.polygamma,
            specials=False,
            pairs=_polygamma_pairs,
        ),
        MathFunction("power", np.power, mpmath.power, HARD, pairs=_power_pairs),
        MathFunction("atan2", np.arctan2, mpmath.atan2, pairs=_angle_pairs),
        MathFunction("remainder", np.fmod, None, CORRECT, pairs=_remainder_pairs),
    )
}
