"""Minimax polynomials for the elementary functions of codegen/math/.

    python tools/minimax.py                    # the names of the fits
    python tools/minimax.py erf_inv_tail_f64   # coefficients, highest power first, and the error they leave

A fit minimizes the largest weighted error over an interval by Remez's exchange algorithm, on a grid of Chebyshev points
and in multiple precision. On an interval that starts at zero, coefficients are rounded to the type one after the other,
from the lowest power up; after each rounding the rest is fitted anew, so that later coefficients make up for it. On
others, where powers vanish within, all are rounded at once. So are those of quotients of two polynomials, which are
found by solving for both at once, with the last step's denominator in the weights (Cody, Fraser and Hart, "Rational
Chebyshev approximation using linear equations", 1968).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
from mpmath import mpf

Real = Callable[[Any], Any]
PRECISION = 240  # bits to compute with: differences of nearly equal numbers are divided by powers of small ones
GRID = 40  # grid points for each coefficient


@dataclass(frozen=True)
class Fit:
    """A polynomial p with p(x) ~ target(x) on an interval.

    Attributes:
        weight: the error is weight(x) * (p(x) - target(x)).
        interval: least and greatest x.
        degree: of p.
        below: p is a quotient of two polynomials, and this the degree of the lower one.
        first: what the lower one begins with, but for rounding. The roundings of all its coefficients, and of those of
            the upper one, depend on it.
        bits: the precision of the type of the coefficients.
        doubled: so many coefficients, of the lowest powers, are unevaluated sums of two numbers of the type.
    """

    target: Real
    weight: Real
    interval: tuple[Any, Any]
    degree: int
    bits: int
    doubled: int = 0
    below: int = 0
    first: float = 1.0


def _grid(fit: Fit) -> list[Any]:
    low, high = map(mpf, fit.interval)
    count = GRID * (fit.degree + fit.below + 2)
    return [(low + high) / 2 - (high - low) / 2 * mpmath.cospi(mpf(k) / (count - 1)) for k in range(count)]


def _remez(xs: Sequence[Any], values: Sequence[Any], weights: Sequence[Any], lowest: int, degree: int) -> list[Any]:
    """Coefficients of the powers from `lowest` to `degree` with the least maximum of |weight (value - p(x))|."""
    powers = range(lowest, degree + 1)
    size = len(powers) + 1
    chosen = [round(k * (len(xs) - 1) / (size - 1)) for k in range(size)]
    # Chebyshev points are dense at the ends already: equal steps in their index are Chebyshev points.
    coefficients: list[Any] = []
    for _ in range(40):
        rows = [[xs[i] ** power for power in powers] + [(-1) ** k / weights[i]] for k, i in enumerate(chosen)]
        *coefficients, level = mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix([values[i] for i in chosen]))
        ascending = list(reversed(coefficients))
        errors = [
            weight * (value - x**lowest * mpmath.polyval(ascending, x))
            for x, value, weight in zip(xs, values, weights, strict=True)
        ]
        peaks = _peaks(errors, size)
        if len(peaks) < size or max(map(abs, errors)) <= abs(level) * mpf(1.01):
            break
        chosen = peaks
    return coefficients


def _peaks(errors: Sequence[Any], size: int) -> list[int]:
    """Where the largest error of each run of errors of one sign is; of more than `size` runs, the largest in a row."""
    peaks: list[int] = []
    for i, error in enumerate(errors):
        if peaks and (error > 0) == (errors[peaks[-1]] > 0):
            if abs(error) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    while len(peaks) > size:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks


def _quotient(
    xs: Sequence[Any], values: Sequence[Any], weights: Sequence[Any], degree: int, below: int
) -> tuple[list[Any], list[Any]]:
    """Coefficients of the upper and the lower polynomial, lowest power first, with the least maximum of
    |weight (value - upper(x) / lower(x))|."""
    size = degree + below + 2
    chosen = [round(k * (len(xs) - 1) / (size - 1)) for k in range(size)]
    lower, denominators = [mpf(1)], [mpf(1)] * len(xs)
    upper: list[Any] = []
    for _ in range(60):
        rows = [
            [xs[i] ** power for power in range(degree + 1)]
            + [-values[i] * xs[i] ** power for power in range(1, below + 1)]
            + [(-1) ** k * denominators[i] / weights[i]]
            for k, i in enumerate(chosen)
        ]
        *found, level = mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix([values[i] for i in chosen]))
        upper, lower = found[: degree + 1], [mpf(1), *found[degree + 1 :]]
        denominators = [mpmath.polyval(lower[::-1], x) for x in xs]
        errors = [
            weight * (value - mpmath.polyval(upper[::-1], x) / bottom)
            for x, value, weight, bottom in zip(xs, values, weights, denominators, strict=True)
        ]
        peaks = _peaks(errors, size)
        if max(map(abs, errors)) <= abs(level) * mpf(1.01):
            break
        if len(peaks) == size:  # else the denominator is still far off
            chosen = peaks
    return upper, lower


def _rounded(number: Any, bits: int) -> Any:
    with mpmath.workprec(bits):
        return +number


def solve(name: str) -> tuple[list[float | tuple[float, float]], Any]:
    """(coefficients, highest power first, those of the lower polynomial last; the largest weighted error)."""
    with mpmath.workprec(PRECISION):
        fit = FITS[name]()
        xs = [x for x in _grid(fit) if x != 0]
        targets, weights = [fit.target(x) for x in xs], [fit.weight(x) for x in xs]
        if fit.below:
            sides = [
                [float(_rounded(number * fit.first, fit.bits)) for number in reversed(side)]
                for side in _quotient(xs, targets, weights, fit.degree, fit.below)
            ]
            upper, lower = ([mpmath.polyval(side, x) for x in xs] for side in sides)
            error = max(
                abs(weight * (value - top / bottom))
                for value, weight, top, bottom in zip(targets, weights, upper, lower, strict=True)
            )
            return [*sides[0], *sides[1]], error
        left = list(targets)
        found: list[float | tuple[float, float]] = []
        best: list[Any] = []
        for power in range(fit.degree + 1):
            if power == 0 or fit.interval[0] == 0:
                best = _remez(xs, left, weights, power, fit.degree)
            head, *best = best
            coefficient = _rounded(head, fit.bits)
            if power < fit.doubled:
                rest = _rounded(head - coefficient, fit.bits)
                found.append((float(coefficient), float(rest)))
                coefficient += rest
            else:
                found.append(float(coefficient))
            left = [value - coefficient * x**power for x, value in zip(xs, left, strict=True)]
        error = max(abs(weight * value) for weight, value in zip(weights, left, strict=True))
        return found[::-1], error


# --- the inverse of the error function (inverse_error.py) ------------------------------------------------------------


def _erf_inv_ratio(x: Any) -> Any:
    return mpmath.erfinv(x) / x


def _erf_inv_center(bits: int, degree: int) -> Fit:
    """(erfinv(x) / x - sqrt(pi)/2) / x^2 in t = x^2 up to x = 11/16; relative error of erfinv."""

    def ratio(t: Any) -> Any:
        return _erf_inv_ratio(mpmath.sqrt(t))

    slope = mpmath.sqrt(mpmath.pi) / 2
    return Fit(lambda t: (ratio(t) - slope) / t, lambda t: t / ratio(t), (0, mpf(0.6875) ** 2), degree, bits)


def _erf_inv_tail(bits: int, degree: int, center: float, least: int) -> Fit:
    """erfinv(1 - e^(-s^2)) / s in (s - center) / (s + center), for e^(-s^2) from 1/2 down to 2^least; relative
    error of erfinv."""

    def ratio(t: Any) -> Any:
        s = center * (1 + t) / (1 - t)
        return mpmath.erfinv(1 - mpmath.exp(-s * s)) / s

    ends = [mpmath.sqrt(-power * mpmath.log(2)) for power in (-1, least)]
    low, high = ((s - center) / (s + center) for s in ends)
    return Fit(ratio, lambda t: 1 / ratio(t), (low, high), degree, bits, doubled=1)


# --- the complement of the error function (error_function.py) --------------------------------------------------------


def _scaled_erfc() -> Fit:
    """erfc(x) e^(x^2) (1 + 2x) in t = (x - 3) / (x + 3), for x from 13/16 to 27.5; relative error."""

    def value(t: Any) -> Any:
        x = 3 * (1 + t) / (1 - t)
        return mpmath.erfc(x) * mpmath.exp(x * x) * (1 + 2 * x)

    low, high = ((x - 3) / (x + 3) for x in (mpf(0.8125), mpf(27.5)))
    return Fit(value, lambda t: 1 / value(t), (low, high), 21, 53, doubled=1)


def _scaled_erfc_f32() -> Fit:
    """erfc(x) e^(x^2) / w - 1 in w - 9/32 with w = 0.65234375 / (x + 5/8), for x from 11/16 to 10.06; relative error of
    erfc."""

    def ratio(v: Any) -> Any:
        w = v + mpf(9) / 32
        x = mpf(0.65234375) / w - mpf(0.625)
        return mpmath.erfc(x) * mpmath.exp(x * x) / w

    low, high = (mpf(0.65234375) / (mpf(x) + mpf(0.625)) - mpf(9) / 32 for x in ("10.06", "0.6875"))
    return Fit(lambda v: ratio(v) - 1, lambda v: 1 / ratio(v), (low, high), 11, 24)


def _root_erfc() -> Fit:
    """sqrt(erfc x) in t = x - 0.955322265625, for x up to 63/16; error of erfc, which may be more past 1.3, where what
    rounds the root counts less."""
    begin = mpf(0.955322265625)

    def root(t: Any) -> Any:
        return mpmath.sqrt(mpmath.erfc(begin + t))

    return Fit(root, lambda t: root(t) * (2 if t < 0.35 else 1.2), (0, mpf(63) / 16 - begin), 10, 24)


# --- Bessel's function (bessel.py) -----------------------------------------------------------------------------------


def _i1(x: Any) -> Any:
    return mpmath.besseli(1, x)


def _bessel_near(t: Any) -> Any:
    """I1(x) / x in t = x^2."""
    return _i1(mpmath.sqrt(t)) / mpmath.sqrt(t)


def _bessel_middle(v: Any) -> Any:
    """I1(x) e^-x in v = x - 5.5."""
    return _i1(v + 5.5) * mpmath.exp(-v - 5.5)


def _bessel_far(v: Any) -> Any:
    """sqrt(x) I1(x) e^-x in v = 16/x - 1."""
    x = 16 / (v + 1)
    return _i1(x) * mpmath.exp(-x) * mpmath.sqrt(x)


def _bessel_below(v: Any) -> Any:
    """I1(x) e^-x / (x w^2) in v = x - 2.5 with w = 1.2265625 / (x + 1.75)."""
    x = v + mpf(2.5)
    return _i1(x) * mpmath.exp(-x) / x * ((x + mpf(1.75)) / mpf(1.2265625)) ** 2


def _bessel_above(u: Any) -> Any:
    """I1(x) e^-x / v in u = v^2 with v = 0.3876953125 / sqrt(x)."""
    x = mpf(0.3876953125) ** 2 / u
    return _i1(x) * mpmath.exp(-x) / mpmath.sqrt(u)


def _excess(function: Real, low: Any, high: Any, degree: int) -> Fit:
    """The function less 1 in f32, relative error of the function."""
    return Fit(lambda x: function(x) - 1, lambda x: 1 / function(x), (low, high), degree, 24)


def _relative(function: Real, low: Any, high: Any, degree: int, doubled: int = 0) -> Fit:
    """The function itself in f64, relative error."""
    return Fit(function, lambda x: 1 / function(x), (low, high), degree, 53, doubled)


# --- the gamma function (gamma.py, gamma_f32.py) ---------------------------------------------------------------------


def _reciprocal_gamma(d: Any) -> Any:
    """(1/gamma(1 + d) - 1) / d."""
    return (mpmath.rgamma(1 + d) - 1) / d


def _lgamma_near(v: Any) -> Any:
    """log gamma(z) / ((z - 1) (z - 2)) in v = z - 3/2."""
    return mpmath.loggamma(v + 1.5) / ((v + 0.5) * (v - 0.5))


def _reciprocal_gamma_slope(d: Any) -> Any:
    """The derivative of 1/gamma(1 + d)."""
    return -mpmath.digamma(1 + d) * mpmath.rgamma(1 + d)


# --- hyperbolic functions (exponential.py, hyperbolic.py) ------------------------------------------------------------


def _tanh_small(greatest: float, degree: int, below: int, bits: int, first: float) -> Fit:
    """(x - tanh x) / x^3 in t = x^2, relative error of tanh."""

    def ratio(t: Any) -> Any:
        return mpmath.tanh(mpmath.sqrt(t)) / mpmath.sqrt(t)

    end = mpf(greatest) ** 2
    return Fit(lambda t: (1 - ratio(t)) / t, lambda t: t / ratio(t), (0, end), degree, bits, below=below, first=first)


_LOG2_HALF_SQUARED = mpf("0.3467") ** 2  # of what is left of an argument less multiples of log 2


def _sinh_near() -> Fit:
    """(sinh r - r) / r^3 in t = r^2, relative error of sinh."""

    def ratio(t: Any) -> Any:
        return mpmath.sinh(mpmath.sqrt(t)) / mpmath.sqrt(t)

    return Fit(lambda t: (ratio(t) - 1) / t, lambda t: t / ratio(t), (0, _LOG2_HALF_SQUARED), 1, 24)


def _cosh_near() -> Fit:
    """(cosh r - 1) / r^2 in t = r^2, relative error of cosh."""

    def value(t: Any) -> Any:
        return mpmath.cosh(mpmath.sqrt(t))

    return Fit(lambda t: (value(t) - 1) / t, lambda t: t / value(t), (0, _LOG2_HALF_SQUARED), 2, 24)


# --- arc functions (inverse_trigonometric.py, hyperbolic.py) ----------------------------------------------------------


def _arc(function: Real, greatest: Any, degree: int, bits: int) -> Fit:
    """(function(x) - x) / x^3 in t = x^2, relative error of the function."""

    def ratio(t: Any) -> Any:
        return function(mpmath.sqrt(t)) / mpmath.sqrt(t)

    return Fit(lambda t: (ratio(t) - 1) / t, lambda t: t / ratio(t), (0, mpf(greatest) ** 2), degree, bits)


# --- roots (powers.py) ------------------------------------------------------------------------------------------------


def _inverse_root(root: int, greatest: str, degree: int, bits: int) -> Fit:
    """((1 - e)^(-1/root) - 1) / e, relative error of (1 - e)^(-1/root)."""

    def value(e: Any) -> Any:
        return 1 / mpmath.root(1 - e, root)

    return Fit(lambda e: (value(e) - 1) / e, lambda e: abs(e) / value(e), (f"-{greatest}", greatest), degree, bits)


# --- the logarithm of f32 as a sum of two (powers.py) -----------------------------------------------------------------


def _log_tail(r: Any) -> Any:
    """(log(1 + r) - r + r^2/2) / r^3."""
    return (mpmath.log1p(r) - r + r * r / 2) / r**3


# --- functions of f16 and bf16 (narrow.py) ---------------------------------------------------------------------------


def _odd_quotient(function: Real, greatest: float, degree: int, below: int) -> Fit:
    """function(x) / x in t = x^2, relative error."""

    def ratio(t: Any) -> Any:
        return function(mpmath.sqrt(t)) / mpmath.sqrt(t)

    return Fit(ratio, lambda t: 1 / ratio(t), (0, mpf(greatest) ** 2), degree, 24, below=below)


def _quotient_of(function: Real, low: Any, high: Any, degree: int, below: int) -> Fit:
    """The function itself in f32, relative error."""
    return Fit(function, lambda x: 1 / function(x), (low, high), degree, 24, below=below)


def _bessel_infinity(v: Any) -> Any:
    """I1(x) e^-x sqrt(x) in v = 1/x."""
    return _i1(1 / v) * mpmath.exp(-1 / v) / mpmath.sqrt(v)


def _growth(r: Any) -> Any:
    """(e^r - 1) / r."""
    return mpmath.expm1(r) / r


def _one(x: Any) -> Any:
    return mpf(1)


FITS: dict[str, Callable[[], Fit]] = {
    "erf_inv_center_f32": lambda: _erf_inv_center(24, 8),
    "erf_inv_center_f64": lambda: _erf_inv_center(53, 18),
    "erf_inv_tail_f32": lambda: _erf_inv_tail(24, 11, 1.4375, -24),
    "erf_inv_tail_f64": lambda: _erf_inv_tail(53, 24, 1.4375, -53),
    "root_erfc_f32": _root_erfc,
    "scaled_erfc": _scaled_erfc,
    "scaled_erfc_f32": _scaled_erfc_f32,
    "bessel_below_f32": lambda: _excess(_bessel_below, mpf("0.000001") - 2.5, 2.5, 15),
    "bessel_above_f32": lambda: _excess(_bessel_above, mpf(2) ** -20, mpf(0.3876953125) ** 2 / 5, 9),
    "tanh_small_f32": lambda: _tanh_small(1.0, 1, 2, 24, 5.2875),
    "tanh_small_f64": lambda: _tanh_small(0.625, 2, 3, 53, 3.0375),
    "sinh_near_f32": _sinh_near,
    "cosh_near_f32": _cosh_near,
    "asin_near_f32": lambda: _arc(mpmath.asin, 0.5, 4, 24),
    "atan_f32": lambda: _arc(mpmath.atan, 1, 8, 24),
    "atan_f64": lambda: _arc(mpmath.atan, 1, 20, 53),
    "atanh_f32": lambda: _arc(mpmath.atanh, "0.2005", 2, 24),
    "atanh_f64": lambda: _arc(mpmath.atanh, "0.2005", 8, 53),
    "rsqrt_step_f32": lambda: _inverse_root(2, "0.0682", 2, 24),
    "rsqrt_step_f64": lambda: _inverse_root(2, "0.0682", 4, 53),
    "cbrt_step_f32": lambda: _inverse_root(3, "0.1023", 2, 24),
    "cbrt_step_f64": lambda: _inverse_root(3, "0.1023", 5, 53),
    "bessel_near": lambda: _relative(_bessel_near, 0, 9, 10),
    "bessel_middle": lambda: _relative(_bessel_middle, -2.5, 2.5, 22),
    "bessel_far": lambda: _relative(_bessel_far, mpf(2) ** -60 - 1, 1, 25, doubled=1),
    "log_tail_f32": lambda: Fit(_log_tail, lambda r: r**3 / mpmath.log1p(r), ("-0.1001", "0.1035"), 5, 24),
    "narrow_tanh": lambda: _odd_quotient(mpmath.tanh, 4.6, 3, 3),
    "narrow_erf": lambda: _odd_quotient(mpmath.erf, 2.65, 4, 3),
    "narrow_erfc": lambda: _quotient_of(lambda x: mpmath.erfc(x) * mpmath.exp(x * x), 0, 14, 4, 5),
    "narrow_i1e_near": lambda: _quotient_of(lambda x: _i1(x) / x * mpmath.exp(-x), 0, 8, 5, 5),
    "narrow_i1e_far": lambda: Fit(_bessel_infinity, lambda v: 1 / _bessel_infinity(v), (mpf(2) ** -20, 0.125), 4, 24),
    "narrow_expm1": lambda: Fit(_growth, lambda r: 1 / _growth(r), (-0.34658, 0.34658), 4, 24),
    "lgamma_near_f32": lambda: _relative(_lgamma_near, mpf("-0.499999"), mpf("0.499999"), 19),
    "reciprocal_gamma": lambda: Fit(_reciprocal_gamma, _one, (-0.5, 0.5), 27, 53, doubled=18),
    "reciprocal_gamma_slope": lambda: Fit(_reciprocal_gamma_slope, _one, (-0.5, 0.5), 27, 53, doubled=19),
}


def main(names: Sequence[str]) -> None:
    """Print the fits of these names, or all names."""
    for name in names:
        coefficients, error = solve(name)
        print(f"# {name}: error 2^{float(mpmath.log(error, 2)):.1f}")
        print("\n".join(f"{coefficient!r}," for coefficient in coefficients))
    if not names:
        print("\n".join(FITS))


if __name__ == "__main__":
    main(sys.argv[1:])
