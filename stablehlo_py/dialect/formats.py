"""The binary floating-point formats of StableHLO, in numbers.

Layouts and special values are those of the StableHLO specification (section Types) and of `ml_dtypes`: IEEE 754 for
f16 to f64, f8E5M2, f8E4M3 and f8E3M4, bf16 alike; "FP8 Formats for Deep Learning" (Micikevicius et al., 2022) for
f8E4M3FN; "8-bit Numerical Formats for Deep Neural Networks" (Noune et al., 2022) for the FNUZ types; the OCP
Microscaling Formats specification 1.0 for f4, f6 and f8E8M0FNU.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Specials(Enum):
    """What a format has besides signed finite numbers."""

    IEEE = "infinities, NaN of many codes, both zeros"
    FN = "no infinities, NaN is the highest code of either sign, both zeros"
    FNUZ = "no infinities, NaN is the code of -0, one zero"
    FINITE = "no infinities, no NaN, both zeros"
    SCALE = "powers of two only: no sign, no zero, no infinities, NaN is the highest code"


@dataclass(frozen=True)
class FloatFormat:
    """A format: sign, `exponent_bits`, `mantissa_bits` from the highest bit on. The value of a code below the specials
    is 2^(exponent - bias) * 1.mantissa, or 2^(1 - bias) * 0.mantissa for exponent 0 (2^-bias in scales).
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: Specials = Specials.IEEE

    @property
    def bits(self) -> int:
        """Width of a code."""
        return self.exponent_bits + self.mantissa_bits + (self.specials is not Specials.SCALE)

    @property
    def has_infinities(self) -> bool:
        return self.specials is Specials.IEEE

    @property
    def has_nan(self) -> bool:
        return self.specials is not Specials.FINITE

    @property
    def has_negative_zero(self) -> bool:
        return self.specials in (Specials.IEEE, Specials.FN, Specials.FINITE)

    @property
    def largest_code(self) -> int:
        """The code of the largest finite number."""
        codes = 1 << (self.exponent_bits + self.mantissa_bits)
        if self.specials is Specials.IEEE:
            return codes - (1 << self.mantissa_bits) - 1
        return codes - (2 if self.specials in (Specials.FN, Specials.SCALE) else 1)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return self.magnitude(self.largest_code)

    @property
    def smallest(self) -> float:
        """The smallest positive number: all numbers are multiples of it."""
        return self.magnitude(0 if self.specials is Specials.SCALE else 1)

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with all bits of the mantissa; 2^-bias in scales."""
        return self.magnitude(0 if self.specials is Specials.SCALE else 1 << self.mantissa_bits)

    def magnitude(self, code: int) -> float:
        """The number of a code without sign, as if no code were special (so the one after the largest has a number)."""
        exponent, mantissa = divmod(code, 1 << self.mantissa_bits)
        if exponent == 0 and self.specials is not Specials.SCALE:
            return float(mantissa) * 2.0 ** (1 - self.bias - self.mantissa_bits)
        return (1.0 + mantissa / (1 << self.mantissa_bits)) * 2.0 ** (exponent - self.bias)

    def holds(self, other: FloatFormat) -> bool:
        """Whether every value of the other format (its NaN, infinities and -0 included) is one of this."""
        if self.specials is Specials.SCALE or other.specials is Specials.SCALE:
            numbers = self == other or (self.specials is not Specials.SCALE and self._reaches(other))
        else:
            numbers = self._reaches(other) and other.mantissa_bits <= self.mantissa_bits
        return (
            numbers
            and self.has_infinities >= other.has_infinities
            and self.has_nan >= other.has_nan
            and self.has_negative_zero >= other.has_negative_zero
        )

    def holds_integers(self, low: int, high: int) -> bool:
        """Whether every integer of [low, high], which has 0, is a value of this format."""
        digits = max(-low - 1, high).bit_length()
        return (
            self.specials is not Specials.SCALE and digits <= self.mantissa_bits + 1 and max(-low, high) <= self.largest
        )

    def _reaches(self, other: FloatFormat) -> bool:
        return other.largest <= self.largest and other.smallest >= self.smallest


FORMATS: dict[str, FloatFormat] = {
    "f64": FloatFormat(11, 52, 1023),
    "f32": FloatFormat(8, 23, 127),
    "bf16": FloatFormat(8, 7, 127),
    "f16": FloatFormat(5, 10, 15),
    "f8E5M2": FloatFormat(5, 2, 15),
    "f8E4M3": FloatFormat(4, 3, 7),
    "f8E3M4": FloatFormat(3, 4, 3),
    "f8E4M3FN": FloatFormat(4, 3, 7, Specials.FN),
    "f8E5M2FNUZ": FloatFormat(5, 2, 16, Specials.FNUZ),
    "f8E4M3FNUZ": FloatFormat(4, 3, 8, Specials.FNUZ),
    "f8E4M3B11FNUZ": FloatFormat(4, 3, 11, Specials.FNUZ),
    "f8E8M0FNU": FloatFormat(8, 0, 127, Specials.SCALE),
    "f6E3M2FN": FloatFormat(3, 2, 3, Specials.FINITE),
    "f6E2M3FN": FloatFormat(2, 3, 1, Specials.FINITE),
    "f4E2M1FN": FloatFormat(2, 1, 1, Specials.FINITE),
}


def holds(wide: str, narrow: str) -> bool:
    """Whether a type of floats has all numbers of another one."""
    if wide not in FORMATS or narrow not in FORMATS:
        return False
    a, b = FORMATS[wide], FORMATS[narrow]
    return a.mantissa_bits >= b.mantissa_bits and a.smallest <= b.smallest and a.largest >= b.largest
