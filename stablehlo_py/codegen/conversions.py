"""Lanes of one element type as lanes of another: by value, by bits, and by value with fewer bits.

Conversions to integers round to zero, saturate and take NaN to 0; between integers they wrap; to floats they round
once, to nearest even.
"""

from __future__ import annotations

import math

from stablehlo_py.codegen import narrow_floats
from stablehlo_py.codegen.builder import F32, F64, I32, I64, Function, ScalarType, Value, vector
from stablehlo_py.codegen.types import PARTS, Element, Known, Lanes, from_bits, to_bits
from stablehlo_py.dialect.formats import FORMATS, Specials

# --- values ----------------------------------------------------------------------------------------------------------


def convert(f: Function, source: Element, target: Element, a: Known) -> Lanes:
    """Lanes of another element type, not yet rounded to it (see `rounded`)."""
    if target.is_complex:
        part = PARTS[target.name]
        real, imaginary = a if isinstance(a, tuple) else (a, None)
        if imaginary is None:
            real = _convert_real(f, source, part, real)
            return real, f.const(0.0, real.type)
        return _convert_real(f, PARTS[source.name], part, real), _convert_real(f, PARTS[source.name], part, imaginary)
    if isinstance(a, tuple):
        return _convert_real(f, PARTS[source.name], target, a[0])
    return _convert_real(f, source, target, a)


def _convert_real(f: Function, source: Element, target: Element, a: Value) -> Value:
    to = target.compute
    if target.kind == "bool":
        return a if source.kind == "bool" else f.cmp("une" if a.type.is_float else "ne", a, f.const(0, a.type))
    if a.type.is_float:
        if target.is_float:
            if a.type.element is F64 and target.round:
                return narrow_floats.to_odd(f, a)
            return f.cast("fpext" if to.bits > a.type.bits else "fptrunc", a, to)
        return _to_integer(f, a, to, target.unsigned)
    if target.is_float and source.kind == "bool":  # one instruction, where LLVM makes a mask integers, then floats
        type_ = vector(a.type.lanes, to)
        return f.select(a, f.const(1.0, type_), f.const(0.0, type_))
    if target.is_float:
        to_float = "uitofp" if source.unsigned else "sitofp"
        if source.bits > 24 and target.round and FORMATS[target.name].largest > 2.0**24:
            return narrow_floats.to_odd(f, f.cast(to_float, _sticky(f, source, a), F64))
        return f.cast(to_float, a, to)
    if to.bits < a.type.bits:
        return f.cast("trunc", a, to)
    return f.cast("zext" if source.unsigned else "sext", a, to)


def _to_integer(f: Function, a: Value, to: ScalarType, unsigned: bool) -> Value:
    """Floats as integers: rounded to zero, clamped to the type's range, NaN as 0.

    LLVM's `fptosi.sat` says the same, and its code for vectors goes lane by lane: ten times as slow.
    """
    low, end = (0, 2**to.bits) if unsigned else (-(2 ** (to.bits - 1)), 2 ** (to.bits - 1))
    digits = 24 if a.type.element is F32 else 53
    highest = end - max(1, end >> digits)  # the largest float below the end
    bottom, top = f.const(low, a.type), f.const(highest, a.type)
    clamped = f.select(f.cmp("ogt", a, bottom), a, bottom)
    clamped = f.select(f.cmp("olt", clamped, top), clamped, top)
    if to.bits < 32:
        result = f.cast("trunc", f.cast("fptosi", clamped, I32), to)
    else:
        result = f.cast("fptoui" if unsigned else "fptosi", clamped, to)
    if highest != end - 1:
        result = f.select(f.cmp("oge", a, f.const(end, a.type)), f.const(end - 1, result.type), result)
    return f.select(f.cmp("uno", a, a), f.const(0, result.type), result)


def _sticky(f: Function, source: Element, a: Value) -> Value:
    """Integers that f64 holds and that round to few bits as the given ones: of large ones the low bits become one,
    which says whether any was set."""
    if source.bits < 64:
        return a
    dropped, most = 12, 1 << 53
    low = f.binary("and", a, f.const((1 << dropped) - 1, a.type))
    last = f.select(f.cmp("ne", low, f.const(0, a.type)), f.const(1 << (dropped - 1), a.type), f.const(0, a.type))
    short = f.binary("or", f.binary("xor", a, low), last)
    if source.unsigned:
        return f.select(f.cmp("ugt", a, f.const(most, a.type)), short, a)
    distance = f.binary("add", a, f.const(most, a.type))
    return f.select(f.cmp("ugt", distance, f.const(2 * most, a.type)), short, a)


def as_index(f: Function, of: Element, a: Value) -> Value:
    """Lanes of i64 from lanes of integers. Those of ui64 that i64 cannot hold become 2^62, which is beyond every tensor
    too."""
    if of.unsigned and of.bits == 64:
        return f.intrinsic("umin", a, f.const(1 << 62, a.type))
    return f.cast("zext" if of.unsigned else "sext", a, I64)


# --- bits ------------------------------------------------------------------------------------------------------------


def bitcast(f: Function, source: Element, target: Element, a: Known) -> Lanes:
    """The bits as another element type of the same width."""
    return a if isinstance(a, tuple) else from_bits(f, target, to_bits(f, source, a))


# --- precision -------------------------------------------------------------------------------------------------------


def reduce_precision(f: Function, of: Element, a: Value, exponent_bits: int, mantissa_bits: int) -> Value:
    """Lanes of real floats rounded to fewer mantissa bits (ties to even) and exponent bits; overflow gives infinity,
    values below the normal range 0. Not yet rounded to the type (see `arith.rounded`), which may lack both.

    The rounding is that of the type's own bits, as in XLA (EmitReducePrecisionIR): of denormal numbers fewer than
    `mantissa_bits` remain.
    """
    if of.round:
        return _reduced_narrow(f, of, a, exponent_bits, mantissa_bits)
    own = FORMATS[of.name]
    return _reduced(
        f, of, a, exponent_bits if exponent_bits < own.exponent_bits else None, min(mantissa_bits, own.mantissa_bits)
    )


def _reduced_narrow(f: Function, of: Element, a: Value, exponent_bits: int, mantissa_bits: int) -> Value:
    own, integer = FORMATS[of.name], vector(a.type.lanes, I32)

    def number(value: int) -> Value:
        return f.const(value, integer)

    stored = to_bits(f, of, a)
    bits = f.cast("zext", stored, I32)
    sign = f.binary("and", bits, number(0 if own.specials is Specials.SCALE else 1 << (own.bits - 1)))
    magnitude = f.binary("xor", bits, sign)
    dropped = own.mantissa_bits - mantissa_bits
    if dropped > 0:
        last = f.binary("and", f.binary("lshr", magnitude, number(dropped)), number(1))
        magnitude = f.binary("add", magnitude, f.binary("add", last, number((1 << (dropped - 1)) - 1)))
        magnitude = f.binary("and", magnitude, number(-(1 << dropped)))
    beyond = own.largest_code + 1
    result = from_bits(f, of, f.cast("trunc", f.binary("or", magnitude, sign), stored.type.element))
    if exponent_bits < own.exponent_bits:
        reach = (1 << (exponent_bits - 1)) - 1
        beyond = min(beyond, (own.bias + reach + 1) << own.mantissa_bits)
        below = (own.bias - reach + 1) << own.mantissa_bits
        zero = f.intrinsic("copysign", f.const(0.0, a.type), a)
        result = f.select(f.cmp("ult", magnitude, number(below)), zero, result)
    infinity = f.intrinsic("copysign", f.const(math.inf, a.type), a)
    result = f.select(f.cmp("uge", magnitude, number(beyond)), infinity, result)
    return f.select(f.cmp("uno", a, a), _reduced_nan(f, a, mantissa_bits), result)


def _reduced(f: Function, of: Element, a: Value, exponent_bits: int | None, mantissa_bits: int) -> Value:
    """For f32 and f64; no `exponent_bits` keep all."""
    is_f32 = a.type.element is F32
    all_exponent, all_mantissa = FORMATS[of.name].exponent_bits, FORMATS[of.name].mantissa_bits
    integer = vector(a.type.lanes, I32 if is_f32 else I64)
    bits = f.bitcast(a, integer)

    def number(value: int) -> Value:
        return f.const(value, integer)

    dropped = all_mantissa - mantissa_bits
    if dropped > 0:
        last = f.binary("and", f.binary("lshr", bits, number(dropped)), number(1))
        bits = f.binary("add", bits, f.binary("add", last, number((1 << (dropped - 1)) - 1)))
        bits = f.binary("and", bits, number(-(1 << dropped)))
    if exponent_bits is not None:
        sign = f.binary("and", bits, number(1 << (all_exponent + all_mantissa)))
        infinity = ((1 << all_exponent) - 1) << all_mantissa
        magnitude = f.binary("and", bits, number((1 << (all_exponent + all_mantissa)) - 1))
        bias, own_bias = (1 << (exponent_bits - 1)) - 1, (1 << (all_exponent - 1)) - 1
        exponent = f.binary("and", bits, number(infinity))
        large = f.cmp("ugt", exponent, number((own_bias + bias) << all_mantissa))
        small = f.cmp("ule", exponent, number((own_bias - bias) << all_mantissa))
        magnitude = f.select(large, number(infinity), f.select(small, number(0), magnitude))
        bits = f.binary("or", magnitude, sign)
    return f.select(f.cmp("uno", a, a), _reduced_nan(f, a, mantissa_bits), f.bitcast(bits, a.type))


def _reduced_nan(f: Function, a: Value, mantissa_bits: int) -> Value:
    """NaN in a format of fewer mantissa bits: without any there are only infinities (as in XLA and in StableHLO's
    reference interpreter; the specification is silent)."""
    return a if mantissa_bits else f.intrinsic("copysign", f.const(math.inf, a.type), a)
