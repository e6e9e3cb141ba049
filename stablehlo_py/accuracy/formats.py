"""Errors in units in the last place of a floating-point format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

from stablehlo_py.dialect import formats
from stablehlo_py.element_types import ELEMENT_TYPES


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    Attributes:
        name: as StableHLO writes it.
        dtype, bits: the NumPy type, and the unsigned integers of its width.
        precision: bits of the significand, the implicit one included.
        least, greatest: exponents of the smallest and the largest normal number.
    """

    name: str
    dtype: np.dtype
    bits: np.dtype
    precision: int
    least: int
    greatest: int

    @property
    def count(self) -> int:
        """Bit patterns there are."""
        return 1 << (8 * self.dtype.itemsize)


def _format(name: str) -> Format:
    of, dtype = formats.FORMATS[name], ELEMENT_TYPES[name]
    return Format(name, dtype, np.dtype(f"u{dtype.itemsize}"), of.mantissa_bits + 1, 1 - of.bias, of.bias)


FORMATS = {name: _format(name) for name in ("f32", "f64", "f16", "bf16")}


def ulps(result: np.ndarray, exact: np.ndarray, of: Format) -> np.ndarray:
    """|result - exact| in ulps of the exact value.

    Args:
        result: values of the format.
        exact: what they should be, in a wider type.

    Infinity stands one ulp above the largest finite number, on both sides. A NaN where none belongs or the other way
    round, and a zero of the wrong sign, count as infinite errors.
    """
    if exact.dtype == np.float64 and of.precision <= 24:
        errors = _usual_ulps(result, exact, of)
        if errors is not None:
            return errors
    error, unit = error_and_unit(result, exact, of)
    undefined = np.isnan(exact)
    wrong = undefined != np.isnan(result)
    wrong |= (result == 0) & ~undefined & (np.signbit(result) != np.signbit(exact))
    return np.where(wrong, np.inf, np.where(undefined, 0, error / unit)).astype(np.float64)


def error_and_unit(result: np.ndarray, exact: np.ndarray, of: Format) -> tuple[np.ndarray, np.ndarray]:
    """|result - exact|, and the unit in the last place of the exact value, in the exact value's type. Infinity stands
    one such unit above the largest finite number."""
    wide = exact.dtype.type
    top = np.ldexp(wide(1), of.greatest + 1)
    # The next binade's ulp starts at `top`: results there would be counted in units twice as large.
    limit = np.nextafter(top, wide(0))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(np.clip(result.astype(wide), -top, top) - np.clip(exact, -top, top))
        return error, _ulp(np.clip(exact, -limit, limit), of)


def _usual_ulps(result: np.ndarray, exact: np.ndarray, of: Format) -> np.ndarray | None:
    """`ulps` without the special cases, or None where there are any: most of 2^32 arguments are quickly done with."""
    ours = result.astype(np.float64)
    size = np.abs(exact)
    if not (size.max() < 2.0**of.greatest and np.abs(ours).max() < np.inf and size.min() > 0 and ours.all()):
        return None
    size.view(np.int64)[...] &= 0x7FF0000000000000  # the power of two of the exact value
    size *= 2.0 ** (1 - of.precision)
    np.maximum(size, 2.0 ** (of.least - of.precision + 1), out=size)
    ours -= exact
    np.abs(ours, out=ours)
    ours /= size
    return ours


def _ulp(exact: np.ndarray, of: Format) -> np.ndarray:
    smallest = np.ldexp(exact.dtype.type(1), of.least - of.precision + 1)
    if exact.dtype == np.float64:  # frexp is slow, and this is done for 2^32 numbers
        power = (exact.view(np.int64) & 0x7FF0000000000000).view(np.float64)
        return np.maximum(power * 2.0 ** (1 - of.precision), smallest)
    _, exponent = np.frexp(exact)
    return np.where(exact == 0, smallest, np.maximum(np.ldexp(exact.dtype.type(1), exponent - of.precision), smallest))


def exact_ulps(result: float, exact: Any, of: Format) -> float:
    """The same of one finite number or infinity and an mpmath number."""
    top = mpmath.ldexp(1, of.greatest + 1)
    ours = mpmath.mpf(result) if np.isfinite(result) else mpmath.sign(result) * top
    exact = max(-top, min(top, exact))
    return float(abs(ours - exact) / exact_ulp(exact, of))


def exact_ulp(exact: Any, of: Format) -> Any:
    """The unit in the last place of an mpmath number."""
    exponent = of.least if exact == 0 else max(of.least, min(of.greatest, mpmath.frexp(exact)[1] - 1))
    return mpmath.ldexp(1, exponent - of.precision + 1)
