"""NumPy arrays between the small floats of ml_dtypes and f32, with one rounding.

`ml_dtypes` rounds twice on the way from f64 and integers (through f32); here it only ever sees f32 that round as the
original does, so that constants folded at compile time have the bits of those computed at run time
(stablehlo_py/codegen/narrow_floats.py).
"""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

from stablehlo_py.dialect.constants import element_name
from stablehlo_py.dialect.formats import FORMATS, FloatFormat, Specials

Array = np.ndarray


def format_of(dtype: np.dtype) -> FloatFormat | None:
    """The format of a real float dtype, None for others."""
    return FORMATS.get(element_name(dtype)) if dtype.kind in "fV" else None


def is_float_dtype(dtype: np.dtype) -> bool:
    """True for real floating-point dtypes, the ml_dtypes included (NumPy calls those void)."""
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


def is_integer_dtype(dtype: np.dtype) -> bool:
    """True for integer dtypes, int4 and its like included; False for bool."""
    return dtype.kind in "iu" or (dtype.kind == "V" and "int" in dtype.name)


@cache
def integer_info(dtype: np.dtype) -> tuple[int, int, int]:
    """(bits, minimum, maximum) of an integer dtype."""
    info = ml_dtypes.iinfo(dtype)
    return info.bits, int(info.min), int(info.max)


def is_byte_float(dtype: np.dtype) -> bool:
    """True for the floats of eight bits and less."""
    return dtype.itemsize == 1 and dtype.kind in "fV" and "float" in dtype.name


def widened(x: Array) -> Array:
    """Floats of eight bits and less as f32 (exact); other arrays pass."""
    return x.astype(np.float32) if is_byte_float(x.dtype) else x


def cast(x: Array, dtype: np.dtype) -> Array:
    """`x.astype(dtype)`, but for the small floats: those are rounded once, to nearest even; a NaN becomes -0 in formats
    without."""
    of = format_of(dtype)
    if of is None or dtype.isbuiltin == 1 or x.dtype == dtype:
        with np.errstate(all="ignore"):
            return x.astype(dtype, copy=False)
    single = _single(x.real if x.dtype.kind == "c" else x)
    if not of.has_nan:
        single = np.where(np.isnan(single), np.float32(-0.0), single)
    if of.specials is Specials.SCALE:  # ml_dtypes rounds everything between the two smallest numbers up
        tiny = (single > of.smallest) & (single < 1.5 * of.smallest)
        single = np.where(tiny, np.float32(of.smallest), single)
    with np.errstate(all="ignore"):
        return single.astype(dtype)


def _single(x: Array) -> Array:
    """f32 that rounds to fewer bits as x does: rounded to odd where f32 cannot hold x."""
    if x.dtype == np.float64:
        return _to_odd(x)
    if x.dtype.kind in "iu" and x.dtype.itemsize >= 4:
        return _to_odd(_sticky(x).astype(np.float64))
    return x.astype(np.float32)


def _sticky(x: Array) -> Array:
    """Integers that f64 holds: of those that need more than its 53 bits, the lowest 12 become one."""
    if x.dtype.itemsize < 8:
        return x
    one = x.dtype.type(1)
    low = x & x.dtype.type((1 << 12) - 1)
    short = (x ^ low) | np.where(low != 0, one << x.dtype.type(11), one - one)
    large = x > x.dtype.type(1 << 53)
    if x.dtype.kind == "i":
        large |= x < x.dtype.type(-(1 << 53))
    return np.where(large, short, x)


def _to_odd(x: Array) -> Array:
    with np.errstate(all="ignore"):
        nearest = np.asarray(x.astype(np.float32))
    distance = np.abs(nearest).astype(np.float64), np.abs(x)
    step = (distance[0] < distance[1]).astype(np.int32) - (distance[0] > distance[1]).astype(np.int32)
    bits = nearest.view(np.int32)
    return np.where(bits & 1 == 0, bits + step, bits).astype(np.int32).view(np.float32)


def codes(x: Array) -> tuple[Array, int]:
    """The bits of every element as u64, and how many there are."""
    if x.dtype.kind == "b":
        return x.astype(np.uint64), 1
    bits = FORMATS[element_name(x.dtype)].bits if format_of(x.dtype) else ml_dtypes.iinfo(x.dtype).bits
    raw = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape).astype(np.uint64)
    return raw & np.uint64((1 << bits) - 1), bits


def from_codes(bits: Array, dtype: np.dtype) -> Array:
    """The inverse of `codes`, of as many low bits as the dtype has."""
    if dtype.kind == "b":
        return (bits & np.uint64(1)).astype(dtype)
    if dtype.kind == "V" and "int" in dtype.name:
        return bits.astype(np.uint8).view(np.int8).astype(dtype)  # ml_dtypes takes the low bits
    return np.ascontiguousarray(bits.astype(f"u{dtype.itemsize}")).view(dtype).reshape(bits.shape)
