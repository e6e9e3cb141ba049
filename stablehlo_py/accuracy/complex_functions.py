"""Largest errors of the functions of complex numbers, against Arb at every sample and mpmath at the worst.

Each sample counts twice: by the error of either part in units in its own last place, and by the distance to the exact
number in units of the last place of its larger part. The second is what the tolerances of JAX's tests speak of, and has
a target; the first is larger where one part cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import mpmath
import numpy as np
from flint import acb, arb

from stablehlo_py.accuracy.balls import Ball, exact_values
from stablehlo_py.accuracy.compiled import CHUNK, Compiled
from stablehlo_py.accuracy.formats import FORMATS, Format, error_and_unit, exact_ulp, exact_ulps
from stablehlo_py.accuracy.measure import Measurement, Worst

Exact = Callable[..., Any]
#: The format of the parts, by element type.
PARTS = {"c64": "f32", "c128": "f64"}
RECHECKED = 1_000  # of the worst cases, so many are computed again in mpmath
#: JAX's tests allow 1e-6 and 1e-15: 8.4 and 4.5 ulps.
USUAL: Mapping[str, float] = {"c64": 4.0, "c128": 4.5}


@dataclass(frozen=True)
class ComplexFunction:
    """A function of one or two complex arguments.

    Attributes:
        name: of the StableHLO or CHLO op, and of the row in the table.
        arb: the function on acb numbers; its value is complex or real.
        exact: the function on mpmath numbers.
        target: the largest error allowed by the second measure, by element type.
        span: parts of the third of all sizes are from 2^-span to 2^span; of every size if None.
        usual: parts of a third of the samples are up to so large.
        near: points whose neighbours are sampled.
        cut: it has branch cuts on the axes.
        arity: how many arguments.
        real: whether results are real numbers.
        missed: by element type, why the target is not met. An entry goes when it is.
    """

    name: str
    arb: Ball
    exact: Exact
    target: Mapping[str, float] = field(default_factory=lambda: USUAL)
    span: float | None = None
    usual: float = 10.0
    near: tuple[complex, ...] = (0, 1, -1, 1j, -1j)
    cut: bool = False
    arity: int = 1
    real: bool = False
    missed: Mapping[str, str] = field(default_factory=dict)

    def compiled(self, element: str, cpu: str | None = None) -> Compiled:
        """The op for an element type of PARTS, and a CPU as in `Options`."""
        part = PARTS[element]
        return Compiled(self.name, f"complex<{part}>", part if self.real else None, self.arity, cpu)


def _cbrt(z: Any) -> Any:
    return mpmath.mpc(0) if z == 0 else mpmath.exp(mpmath.log(z) / 3)


def _sign(z: Any) -> Any:
    return z if z == 0 else z / abs(z)


def _power(z: acb, exponent: acb) -> acb:
    return (exponent * z.log()).exp()


COMPLEX_FUNCTIONS: dict[str, ComplexFunction] = {
    function.name: function
    for function in (
        ComplexFunction("abs", abs, abs, real=True),
        ComplexFunction("sign", acb.sgn, _sign),
        ComplexFunction("sqrt", acb.sqrt, mpmath.sqrt, cut=True),
        ComplexFunction("rsqrt", acb.rsqrt, lambda z: 1 / mpmath.sqrt(z), cut=True),
        ComplexFunction("cbrt", lambda z: z.root(3), _cbrt, cut=True),
        ComplexFunction("exponential", acb.exp, mpmath.exp, usual=100),
        ComplexFunction("exponential_minus_one", acb.expm1, lambda z: mpmath.exp(z) - 1),
        ComplexFunction("log", acb.log, mpmath.log, cut=True),
        ComplexFunction("log_plus_one", acb.log1p, lambda z: mpmath.log(1 + z), cut=True),
        ComplexFunction("logistic", lambda z: 1 / (1 + (-z).exp()), lambda z: 1 / (1 + mpmath.exp(-z)), usual=100),
        ComplexFunction("sine", acb.sin, mpmath.sin, usual=100),
        ComplexFunction("cosine", acb.cos, mpmath.cos, usual=100),
        ComplexFunction("tan", acb.tan, mpmath.tan, near=(0, np.pi / 2, 3 * np.pi / 2, np.pi)),
        ComplexFunction("tanh", acb.tanh, mpmath.tanh, near=(0, 0.5j * np.pi, 1.5j * np.pi, 1j * np.pi)),
        ComplexFunction("sinh", acb.sinh, mpmath.sinh, usual=100),
        ComplexFunction("cosh", acb.cosh, mpmath.cosh, usual=100),
        ComplexFunction("asin", acb.asin, mpmath.asin, cut=True),
        ComplexFunction("acos", acb.acos, mpmath.acos, cut=True),
        ComplexFunction("atan", acb.atan, mpmath.atan, cut=True),
        ComplexFunction("asinh", acb.asinh, mpmath.asinh, cut=True),
        ComplexFunction("acosh", acb.acosh, mpmath.acosh, cut=True),
        ComplexFunction("atanh", acb.atanh, mpmath.atanh, cut=True),
        ComplexFunction("divide", acb.__truediv__, lambda a, b: a / b, arity=2),
        ComplexFunction("power", _power, lambda a, b: mpmath.exp(b * mpmath.log(a)), span=4, cut=True, arity=2),
    )
}


def numbers(rng: np.random.Generator, count: int, function: ComplexFunction, of: Format) -> np.ndarray:
    """A third with parts of all sizes, a third of usual size, a third near special points; one part in ten is zero or
    the other one."""
    third = count // 3

    def any_size(size: int) -> np.ndarray:
        low, high = of.least - of.precision + 1.0, of.greatest + 0.999
        if function.span is not None:
            low, high = -function.span, function.span
        exponents = rng.uniform(low, high, size)
        return np.exp2(exponents) * rng.choice([-1.0, 1.0], size)

    def near(parts: np.ndarray) -> np.ndarray:
        away = np.exp2(rng.uniform(-of.precision - 4.0, 0.0, parts.size)) * rng.choice([-1.0, 1.0], parts.size)
        return parts + away

    points = rng.choice(np.array(function.near, complex), count - 2 * third)
    usual = [rng.uniform(-function.usual, function.usual, third) for _ in range(2)]
    real = np.concatenate([any_size(third), usual[0], near(points.real)])
    imaginary = np.concatenate([any_size(third), usual[1], near(points.imag)])
    kind = rng.integers(0, 30, count)
    real, imaginary = np.where(kind == 0, 0.0, real), np.where(kind == 1, 0.0, imaginary)
    real, imaginary = np.where(kind == 2, imaginary, real), np.where(kind == 3, -real, imaginary)
    bound = float(np.finfo(of.dtype).max)
    result = np.empty(count, np.result_type(of.dtype, np.complex64))
    result.real, result.imag = np.clip(real, -bound, bound), np.clip(imaginary, -bound, bound)
    return result


def _least(function: ComplexFunction, of: Format) -> int:
    """mpmath and Arb know no signed zeros: where branch cuts lie on the axes, a zero part stands for the tiny positive
    number of this exponent; 0 where zeros stand for themselves."""
    return -4 * (of.greatest + of.precision) if function.cut else 0


def exact_value(function: ComplexFunction, arguments: tuple[complex, ...], of: Format) -> Any:
    """The function in mpmath, with bits enough for sums of an argument's squares and 1 to be exact, and for what is
    left of the difference of two logarithms (mpmath's atan and atanh)."""
    parts = [part for z in arguments for part in (z.real, z.imag)]
    tiny = _least(function, of)
    spread = max(abs(math.frexp(part)[1] if part else tiny) for part in parts)
    with mpmath.workprec(64 + 2 * of.precision + 4 * spread):
        least = mpmath.ldexp(1, tiny) if tiny else 0
        return function.exact(*(mpmath.mpc(z.real or least, z.imag or least) for z in arguments))


def exact_parts(function: ComplexFunction, arguments: Sequence[np.ndarray], of: Format) -> np.ndarray:
    """The function in Arb, as long doubles of shape (arguments, 2)."""
    tiny = _least(function, of)
    least = arb((1, tiny)) if tiny else 0
    columns = [[acb(z.real or least, z.imag or least) for z in argument.tolist()] for argument in arguments]
    return exact_values(function.arb, zip(*columns, strict=True), parts=2)


def _all_errors(results: np.ndarray, exact: np.ndarray, of: Format) -> tuple[np.ndarray, np.ndarray]:
    """(distances, largest errors of a part), in ulps; infinite where a part is NaN."""
    error, unit = error_and_unit(np.stack([results.real, results.imag], 1), exact, of)
    distance = np.hypot(*(error / unit.max(1, keepdims=True)).T)
    undefined = np.isnan(results)
    return np.where(undefined, np.inf, distance), np.where(undefined, np.inf, (error / unit).max(1))


def _errors(result: complex, exact: Any, of: Format) -> tuple[float, float]:
    """The same of one result, of which no part is NaN, and an mpmath number."""
    parts = [(result.real, mpmath.re(exact)), (result.imag, mpmath.im(exact))]
    errors = [exact_ulps(ours, right, of) for ours, right in parts]
    units = [exact_ulp(right, of) for _, right in parts]
    first, second = (float(error * unit / max(units)) for error, unit in zip(errors, units, strict=True))
    return math.hypot(first, second), max(errors)


def _recheck(
    function: ComplexFunction, of: Format, compiled: Compiled, worst: Worst, measure: int
) -> tuple[float, tuple[str, ...]]:
    """The largest of the worst errors by mpmath, and its arguments."""
    worst.cut()
    results = compiled(*worst.arguments).astype(np.complex128).tolist()
    largest, where = 0.0, ("-",) * function.arity
    rows = zip(*(argument.tolist() for argument in worst.arguments), strict=True)
    for row, result, error in zip(rows, results, worst.errors.tolist(), strict=True):
        if math.isfinite(error):
            error = _errors(result, exact_value(function, row, of), of)[measure]
        if error > largest:
            largest, where = error, tuple(f"({z.real.hex()}, {z.imag.hex()})" for z in row)
    return largest, where


def measure_complex(
    function: ComplexFunction,
    element: str,
    *,
    count: int,
    compiled: Compiled | None = None,
    rechecked: int = RECHECKED,
) -> Measurement:
    """Measure a function in an element type at so many samples; so many of the worst are computed again in mpmath."""
    of = FORMATS[PARTS[element]]
    compiled = compiled or function.compiled(element)
    measures = Worst(keep=rechecked), Worst(keep=rechecked)
    inputs = 0
    for start in range(0, count, CHUNK):
        rng = np.random.default_rng(start)
        size = min(CHUNK, count - start)
        arguments = [numbers(rng, size, function, of) for _ in range(function.arity)]
        if function.arity == 1:
            arguments[0] = arguments[0][~np.isin(arguments[0], function.near)]  # there may be poles
        results = compiled(*arguments)
        exact = exact_parts(function, arguments, of)
        for worst, errors in zip(measures, _all_errors(results, exact, of), strict=True):
            worst.add(errors, arguments)
        inputs += len(results)
    (distance, where), (part, part_where) = (
        _recheck(function, of, compiled, worst, measure) for measure, worst in enumerate(measures)
    )
    target = function.target[element]
    return Measurement(function.name, element, compiled.digest, 0, inputs, distance, where, target, part, part_where)
