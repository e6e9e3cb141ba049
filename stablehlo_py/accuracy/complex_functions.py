"""Largest errors of the functions of complex numbers, against mpmath at every sample.

Each sample counts twice: by the error of either part in units in its own last place, and by the distance to the exact
number in units of the last place of its larger part. The second is what the tolerances of JAX's tests speak of, and has
a target; the first is larger where one part cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import mpmath
import numpy as np

from stablehlo_py.accuracy.formats import FORMATS, Format, exact_ulp, exact_ulps
from stablehlo_py.accuracy.measure import Measurement, digest_of
from stablehlo_py.api import compile
from stablehlo_py.options import Options
from stablehlo_py.runtime.executable import Executable

Exact = Callable[..., Any]
#: The format of the parts, by element type.
PARTS = {"c64": "f32", "c128": "f64"}
_CHUNK = 1 << 12
#: JAX's tests allow 1e-6 and 1e-15: 8.4 and 4.5 ulps.
USUAL: Mapping[str, float] = {"c64": 4.0, "c128": 4.5}


@dataclass(frozen=True)
class ComplexFunction:
    """A function of one or two complex arguments.

    Attributes:
        name: of the row in the table.
        op: the StableHLO or CHLO op.
        exact: the function on mpmath numbers; its value is complex or real.
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
    op: str
    exact: Exact
    target: Mapping[str, float] = field(default_factory=lambda: USUAL)
    span: float | None = None
    usual: float = 10.0
    near: tuple[complex, ...] = (0, 1, -1, 1j, -1j)
    cut: bool = False
    arity: int = 1
    real: bool = False
    missed: Mapping[str, str] = field(default_factory=dict)


def _cbrt(z: Any) -> Any:
    return mpmath.mpc(0) if z == 0 else mpmath.exp(mpmath.log(z) / 3)


def _sign(z: Any) -> Any:
    return z if z == 0 else z / abs(z)


COMPLEX_FUNCTIONS: dict[str, ComplexFunction] = {
    function.name: function
    for function in (
        ComplexFunction("abs", "stablehlo.abs", abs, real=True),
        ComplexFunction("sign", "stablehlo.sign", _sign),
        ComplexFunction("sqrt", "stablehlo.sqrt", mpmath.sqrt, cut=True),
        ComplexFunction("rsqrt", "stablehlo.rsqrt", lambda z: 1 / mpmath.sqrt(z), cut=True),
        ComplexFunction("cbrt", "stablehlo.cbrt", _cbrt, cut=True),
        ComplexFunction("exponential", "stablehlo.exponential", mpmath.exp, usual=100),
        ComplexFunction("exponential_minus_one", "stablehlo.exponential_minus_one", lambda z: mpmath.exp(z) - 1),
        ComplexFunction("log", "stablehlo.log", mpmath.log, cut=True),
        ComplexFunction("log_plus_one", "stablehlo.log_plus_one", lambda z: mpmath.log(1 + z), cut=True),
        ComplexFunction("logistic", "stablehlo.logistic", lambda z: 1 / (1 + mpmath.exp(-z)), usual=100),
        ComplexFunction("sine", "stablehlo.sine", mpmath.sin, usual=100),
        ComplexFunction("cosine", "stablehlo.cosine", mpmath.cos, usual=100),
        ComplexFunction("tan", "stablehlo.tan", mpmath.tan, near=(0, np.pi / 2, 3 * np.pi / 2, np.pi)),
        ComplexFunction("tanh", "stablehlo.tanh", mpmath.tanh, near=(0, 0.5j * np.pi, 1.5j * np.pi, 1j * np.pi)),
        ComplexFunction("sinh", "chlo.sinh", mpmath.sinh, usual=100),
        ComplexFunction("cosh", "chlo.cosh", mpmath.cosh, usual=100),
        ComplexFunction("asin", "chlo.asin", mpmath.asin, cut=True),
        ComplexFunction("acos", "chlo.acos", mpmath.acos, cut=True),
        ComplexFunction("atan", "chlo.atan", mpmath.atan, cut=True),
        ComplexFunction("asinh", "chlo.asinh", mpmath.asinh, cut=True),
        ComplexFunction("acosh", "chlo.acosh", mpmath.acosh, cut=True),
        ComplexFunction("atanh", "chlo.atanh", mpmath.atanh, cut=True),
        ComplexFunction("divide", "stablehlo.divide", lambda a, b: a / b, arity=2),
        ComplexFunction(
            "power",
            "stablehlo.power",
            lambda a, b: mpmath.exp(b * mpmath.log(a)),
            span=4,
            cut=True,
            arity=2,
            missed={"c128": "an ulp of the exponent, rhs log(lhs), is that of the result times the exponent's size"},
        ),
    )
}


def _numbers(rng: np.random.Generator, count: int, function: ComplexFunction, of: Format) -> np.ndarray:
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


class CompiledComplex:
    """A function compiled for whole chunks."""

    def __init__(self, function: ComplexFunction, of: Format) -> None:
        tensor = f"tensor<{_CHUNK}xcomplex<{of.name}>>"
        result = f"tensor<{_CHUNK}x{of.name}>" if function.real else tensor
        names = [f"%a{number}" for number in range(function.arity)]
        text = f"""func.func @main({", ".join(f"{name}: {tensor}" for name in names)}) -> {result} {{
          %0 = "{function.op}"({", ".join(names)}) : ({", ".join([tensor] * function.arity)}) -> {result}
          return %0 : {result}
        }}"""
        run = compile(text, options=Options(threads=1, cache_dir=None))
        assert isinstance(run, Executable)
        self._run = run
        self.digest = digest_of(run)

    def __call__(self, *arguments: np.ndarray) -> np.ndarray:
        """The function on arrays of at most _CHUNK elements."""
        count = arguments[0].size
        padded = [np.concatenate([one, np.ones(_CHUNK - count, one.dtype)]) for one in arguments]
        return self._run(*padded)[0][:count]


def _exact(function: ComplexFunction, arguments: tuple[complex, ...], of: Format) -> Any:
    """The function in mpmath, which knows no signed zeros: where branch cuts lie on the axes, a zero part stands for a
    tiny positive number. With bits enough for sums of an argument's squares and 1 to be exact."""
    parts = [part for z in arguments for part in (z.real, z.imag)]
    tiny = 4 * (of.greatest + of.precision) if function.cut else 0
    spread = max(abs(math.frexp(part)[1]) if part else tiny for part in parts)
    with mpmath.workprec(64 + 2 * of.precision + 2 * spread):
        least = mpmath.ldexp(1, -tiny) if tiny else 0
        return function.exact(*(mpmath.mpc(z.real or least, z.imag or least) for z in arguments))


def _errors(result: complex, exact: Any, of: Format) -> tuple[float, float]:
    """(distance, largest error of a part), in ulps; infinite if a part is NaN."""
    parts = [(result.real, mpmath.re(exact)), (result.imag, mpmath.im(exact))]
    if np.isnan(result):
        return np.inf, np.inf
    errors = [exact_ulps(ours, right, of) for ours, right in parts]
    units = [exact_ulp(right, of) for _, right in parts]
    first, second = (float(error * unit / max(units)) for error, unit in zip(errors, units, strict=True))
    return math.hypot(first, second), max(errors)


def measure_complex(
    function: ComplexFunction, element: str, *, count: int, compiled: CompiledComplex | None = None
) -> Measurement:
    """Measure a function in an element type at so many samples."""
    of = FORMATS[PARTS[element]]
    compiled = compiled or CompiledComplex(function, of)
    worst: dict[str, tuple[float, tuple[str, ...]]] = {"distance": (0.0, ("-",)), "part": (0.0, ("-",))}
    inputs = 0
    for start in range(0, count, _CHUNK):
        rng = np.random.default_rng(start)
        size = min(_CHUNK, count - start)
        arguments = [_numbers(rng, size, function, of) for _ in range(function.arity)]
        if function.arity == 1:
            arguments[0] = arguments[0][~np.isin(arguments[0], function.near)]  # there may be poles
        results = compiled(*arguments).astype(np.complex128)
        for row, result in zip(zip(*(one.tolist() for one in arguments), strict=True), results.tolist(), strict=True):
            errors = _errors(result, _exact(function, row, of), of)
            for measure, error in zip(worst, errors, strict=True):
                if error > worst[measure][0]:
                    worst[measure] = error, tuple(f"({z.real.hex()}, {z.imag.hex()})" for z in row)
        inputs += len(results)
    distance, where = worst["distance"]
    part, part_where = worst["part"]
    target = function.target[element]
    return Measurement(function.name, element, compiled.digest, 0, inputs, distance, where, target, part, part_where)
