"""Floats of eight bits and less in f32 registers: decoding, rounding and encoding as arithmetic on lanes.

Every value of these formats is an f32. `decode` makes it from the code in a byte, `encode` is its inverse on such
values (NaN payloads survive the way there and back), and `rounded` takes any f32 to the nearest value of the format,
ties to even, once. Overflow gives infinity, NaN where there are no infinities, and the largest number where there is
neither; NaN becomes -0 where there is none (all as in ml_dtypes).

`to_odd` narrows f64 to f32 such that rounding the result again is as rounding the f64 once: the last bit remembers
whether anything was lost (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd", 2008).
"""

from __future__ import annotations

import struct

from stablehlo_py.codegen.builder import F32, F64, I8, I32, Function, Value, vector
from stablehlo_py.dialect.formats import FORMATS, FloatFormat, Specials

_WIDE = FORMATS["f32"]
_SIGN, _MAGNITUDE, _INFINITY, _NAN = 0x80000000, 0x7FFFFFFF, 0x7F800000, 0x7FC00000


def _bits_of(number: float) -> int:
    return struct.unpack("<I", struct.pack("<f", number))[0]


def _dropped(of: FloatFormat) -> int:
    """Mantissa bits of f32 that the format lacks."""
    return _WIDE.mantissa_bits - of.mantissa_bits


class _Bits:
    """Integer operations on the lanes of a value, with Python numbers as operands."""

    def __init__(self, f: Function, lanes: int) -> None:
        self.f, self.type, self.float = f, vector(lanes, I32), vector(lanes, F32)

    def number(self, value: int) -> Value:
        return self.f.const(value, self.type)

    def op(self, name: str, a: Value, b: Value | int) -> Value:
        return self.f.binary(name, a, self.number(b) if isinstance(b, int) else b)

    def least(self, a: Value, low: int) -> Value:
        """max(a, low), unsigned."""
        return self.f.intrinsic("umax", a, self.number(low))

    def where(self, predicate: str, a: Value, b: int, yes: Value | int, no: Value) -> Value:
        """`yes` in the lanes where a <predicate> b, else `no`."""
        yes = self.number(yes) if isinstance(yes, int) else yes
        return self.f.select(self.f.cmp(predicate, a, self.number(b)), yes, no)

    def of(self, a: Value) -> Value:
        return self.f.bitcast(a, self.type)

    def as_float(self, a: Value) -> Value:
        return self.f.bitcast(a, self.float)

    def times(self, a: Value, number: float) -> Value:
        return self.f.fmul(a, self.f.const(number, self.float))


def decode(f: Function, of: FloatFormat, a: Value) -> Value:
    """f32 lanes from codes in i8 lanes (bits above the format's are ignored)."""
    b = _Bits(f, a.type.lanes)
    code = f.cast("zext", a, I32)
    if of.specials is Specials.SCALE:
        shifted = b.op("shl", code, _WIDE.mantissa_bits)
        result = b.where("eq", code, 0, _bits_of(of.smallest), shifted)
        return b.as_float(b.where("eq", code, of.largest_code + 1, _NAN, result))
    sign = 1 << (of.bits - 1)
    magnitude = b.op("and", code, sign - 1)
    shifted = b.op("shl", magnitude, _dropped(of))
    normal = b.op("add", shifted, (_WIDE.bias - of.bias) << _WIDE.mantissa_bits)
    # Below the normal numbers the code counts multiples of the smallest one.
    counted = b.of(b.times(f.cast("sitofp", magnitude, F32), of.smallest))
    result = b.where("ult", magnitude, 1 << of.mantissa_bits, counted, normal)
    if of.specials is Specials.IEEE:
        result = b.where("ugt", magnitude, of.largest_code, b.op("or", shifted, _INFINITY), result)
    elif of.specials is Specials.FN:
        result = b.where("ugt", magnitude, of.largest_code, _NAN, result)
    result = b.op("or", result, b.op("shl", b.op("and", code, sign), 32 - of.bits))
    if of.specials is Specials.FNUZ:
        result = b.where("eq", code, sign, _NAN, result)
    return b.as_float(result)


def encode(f: Function, of: FloatFormat, a: Value) -> Value:
    """Codes in i8 lanes from f32 lanes that hold values of the format."""
    b = _Bits(f, a.type.lanes)
    bits = b.of(a)
    if of.specials is Specials.SCALE:
        return f.cast("trunc", b.op("lshr", bits, _WIDE.mantissa_bits), I8)
    magnitude = b.op("and", bits, _MAGNITUDE)
    shifted = b.op("lshr", magnitude, _dropped(of))
    normal = b.op("sub", shifted, (_WIDE.bias - of.bias) << of.mantissa_bits)
    # Adding 2^23 times the smallest number brings multiples of it into the low bits.
    anchor = of.smallest * 2.0**_WIDE.mantissa_bits
    anchored = b.of(f.fadd(b.as_float(magnitude), f.const(anchor, b.float)))
    counted = b.op("sub", anchored, _bits_of(anchor))
    result = b.where("ult", magnitude, _bits_of(of.smallest_normal), counted, normal)
    if of.specials is Specials.IEEE:
        special = b.op("and", shifted, (1 << (of.bits - 1)) - 1)
        result = b.where("uge", magnitude, _INFINITY, special, result)
    elif of.specials is Specials.FN:
        result = b.where("ugt", magnitude, _INFINITY, of.largest_code + 1, result)
    result = b.op("or", result, b.op("and", b.op("lshr", bits, 32 - of.bits), 1 << (of.bits - 1)))
    if of.specials is Specials.FNUZ:
        result = b.where("ugt", magnitude, _INFINITY, 1 << (of.bits - 1), result)
    return f.cast("trunc", result, I8)


def rounded(f: Function, of: FloatFormat, a: Value) -> Value:
    """The nearest value of the format for every f32, as f32 lanes."""
    return _rounded_scale(f, of, a) if of.specials is Specials.SCALE else _rounded(f, of, a)


def _rounded(f: Function, of: FloatFormat, a: Value) -> Value:
    b = _Bits(f, a.type.lanes)
    bits = b.of(a)
    magnitude, sign = b.op("and", bits, _MAGNITUDE), b.op("and", bits, _SIGN)
    # In x + c, c a power of two 2^k times x's own (or the smallest normal number's), the hardware rounds x to the bits
    # that are wanted; where c overflows the result is replaced below.
    power = b.least(b.op("and", magnitude, _INFINITY), _bits_of(of.smallest_normal))
    anchor = b.as_float(b.op("add", power, _dropped(of) << _WIDE.mantissa_bits))
    result = b.of(f.fsub(f.fadd(b.as_float(magnitude), anchor), anchor))
    result = b.where("uge", magnitude, _overflow_bits(of), _overflowed(b, of, magnitude), result)
    signed = b.op("or", result, sign)
    if of.specials is Specials.FINITE:
        signed = b.where("ugt", magnitude, _INFINITY, _SIGN, signed)
    # -0 + 0 is +0.
    return b.as_float(signed) if of.has_negative_zero else f.fadd(b.as_float(signed), f.const(0.0, b.float))


def _overflow_bits(of: FloatFormat) -> int:
    """Bits of the smallest f32 that rounds beyond the largest number: half way is a tie, for the even code."""
    middle = (of.largest + of.magnitude(of.largest_code + 1)) / 2
    return _bits_of(middle) + (of.largest_code % 2 == 0)


def _overflowed(b: _Bits, of: FloatFormat, magnitude: Value) -> Value | int:
    if of.has_infinities:
        return b.where("ugt", magnitude, _INFINITY, _NAN, b.number(_INFINITY))
    return _NAN if of.has_nan else _bits_of(of.largest)


def _rounded_scale(f: Function, of: FloatFormat, a: Value) -> Value:
    # A significand of one bit is odd, so ties go up. Everything above zero rounds to a number; the rest is NaN.
    b = _Bits(f, a.type.lanes)
    bits = b.of(a)
    half = 1 << (_WIDE.mantissa_bits - 1)
    result = b.op("and", b.op("add", bits, half), _SIGN | _INFINITY)
    result = b.where("ult", bits, _bits_of(1.5 * of.smallest), _bits_of(of.smallest), result)
    # From the first number that overflows on up: infinity, NaN, everything with a sign; and, one below 0, zero.
    beyond = _bits_of(1.5 * of.largest)
    return b.as_float(b.where("uge", b.op("sub", bits, 1), beyond - 1, _NAN, result))


def to_odd(f: Function, a: Value) -> Value:
    """f64 lanes as f32 lanes, rounded to the neighbour with an odd last bit unless exact."""
    nearest = f.cast("fptrunc", a, F32)
    back = f.cast("fpext", nearest, F64)
    b = _Bits(f, a.type.lanes)
    bits, zero = b.of(nearest), b.number(0)
    # The neighbours of an f64 are one step apart: where the nearest is even the other one is odd.
    even = f.cmp("eq", b.op("and", bits, 1), zero)
    above = f.cmp("ogt", f.intrinsic("fabs", back), f.intrinsic("fabs", a))
    below = f.cmp("olt", f.intrinsic("fabs", back), f.intrinsic("fabs", a))
    step = f.select(above, b.number(-1), f.select(below, b.number(1), zero))
    return b.as_float(b.op("add", bits, f.select(even, step, zero)))
