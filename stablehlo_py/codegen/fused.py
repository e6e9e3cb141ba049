"""a * b + c with one rounding as arithmetic on lanes, for processors without an instruction for it: compilers call a
function for each lane there, which not every system has.

The product is exact as a sum of two numbers, and so is the sum of three numbers but for its last rounding, which comes
behind one to odd (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding
to odd", 2008). Where f64 overflows on the way, or loses bits below its smallest numbers, it is a * b + c in two
roundings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stablehlo_py.codegen.values import F32, F64, I64, Value, vector

if TYPE_CHECKING:
    from stablehlo_py.codegen.operations import Operations

_SPLITTER = 2.0**27 + 1.0


def multiply_add(f: Operations, a: Value, b: Value, c: Value) -> Value:
    """a * b + c of f32 or f64 lanes."""
    if a.type.element is F32:
        a, b, c = (f.cast("fpext", value, F64) for value in (a, b, c))
        total, rest = _two_sum(f, f.fmul(a, b), c)  # the product of two f32 is an f64
        return f.cast("fptrunc", _to_odd(f, total, rest), F32)
    product, lost = _two_product(f, a, b)
    low, rest = _two_sum(f, c, lost)
    high, carried = _two_sum(f, product, low)
    total = f.fadd(high, _to_odd(f, *_two_sum(f, rest, carried)))
    # Where splitting overflowed there is no number in the result; and a zero has the sign that one sum gives it.
    plain = f.fadd(product, c)
    return f.select(f.cmp("one", total, f.const(0.0, total.type)), total, plain)


def _two_sum(f: Operations, a: Value, b: Value) -> tuple[Value, Value]:
    """a + b exactly (Knuth)."""
    total = f.fadd(a, b)
    part = f.fsub(total, a)
    return total, f.fadd(f.fsub(a, f.fsub(total, part)), f.fsub(b, part))


def _two_product(f: Operations, a: Value, b: Value) -> tuple[Value, Value]:
    """a * b exactly (Dekker)."""
    product = f.fmul(a, b)
    (a, a_low), (b, b_low) = _split(f, a), _split(f, b)
    rest = f.fsub(f.fmul(a, b), product)
    rest = f.fadd(f.fadd(rest, f.fmul(a, b_low)), f.fmul(a_low, b))
    return product, f.fadd(rest, f.fmul(a_low, b_low))


def _split(f: Operations, a: Value) -> tuple[Value, Value]:
    """The upper and the lower half of the digits (Veltkamp)."""
    scaled = f.fmul(a, f.const(_SPLITTER, a.type))
    high = f.fsub(scaled, f.fsub(scaled, a))
    return high, f.fsub(a, high)


def _to_odd(f: Operations, total: Value, rest: Value) -> Value:
    """A sum that was rounded to nearest as one rounded to odd: its neighbour on the side of the rest, where there is a
    rest and the last bit is even."""
    integers = vector(total.type.lanes, I64)
    zero = f.const(0.0, total.type)
    bits = f.bitcast(total, integers)
    is_even = f.cmp("eq", f.binary("and", bits, f.const(1, integers)), f.const(0, integers))
    inexact = f.cmp("one", rest, zero)  # not where the rest is not a number, as behind infinity
    signs = f.binary("xor", bits, f.bitcast(rest, integers))
    away = f.cmp("sge", signs, f.const(0, integers))
    step = f.select(away, f.const(1, integers), f.const(-1, integers))
    moved = f.bitcast(f.binary("add", bits, step), total.type)
    return f.select(f.binary("and", is_even, inexact), moved, total)
