"""Sine, cosine and tangent.

x = q pi/2 + r + low with |r| <= pi/4: Cody and Waite's reduction in three parts for usual arguments, in f64 for larger
ones of f32, Payne and Hanek's (huge_angles.py) for others. The kernels of sine and cosine are FDLIBM's in f64 and
Cephes's in f32; those of the tangent are minimax fits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.codegen.builder import F32, F64, I32, Function, Value
from stablehlo_py.codegen.math.basics import (
    MAGIC,
    absolute,
    bits,
    const,
    fast_two_sum,
    integer,
    muladd,
    polynomial,
    two_product,
    two_sum,
    where_rare,
)
from stablehlo_py.codegen.math.huge_angles import reduce_huge, reduce_huge_single
from stablehlo_py.codegen.shared import in_parts, shared_code

_HALF_PI = {
    F32: (1.57079637050628662109375, -4.371138828673793e-8, -1.7151245100058819e-15),
    F64: (1.57079632679489655800e00, 6.12323399573676603587e-17, -1.49738490485918331e-33),
}
_SIN = {
    F32: (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1),
    F64: (
        1.58969099521155010221e-10,
        -2.50507602534068634195e-08,
        2.75573137070700676789e-06,
        -1.98412698298579493134e-04,
        8.33333333332248946124e-03,
        -1.66666666666666324348e-01,
    ),
}
_COS = {
    F32: (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2),
    F64: (
        -1.13596475577881948265e-11,
        2.08757232129817482790e-09,
        -2.75573143513906633035e-07,
        2.48015872894767294178e-05,
        -1.38888888888741095749e-03,
        4.16666666666666019037e-02,
    ),
}
# (tan r - r) / r^3 in r^2: relative error of the tangent 2^-29 and 2^-56.
_TAN = {
    F32: (
        0.004363059066236019,
        0.00011790169810410589,
        0.010812136344611645,
        0.021291835233569145,
        0.054057952016592026,
        0.13332681357860565,
        0.33333349227905273,
    ),
    F64: (
        2.089970333534543e-05,
        -4.5027582333888224e-05,
        8.973111718514725e-05,
        -2.668840301955078e-05,
        0.00013673914426987633,
        0.00022227654381505325,
        0.0005950996090054057,
        0.0014547497186769807,
        0.0035922904306773455,
        0.008863219014991404,
        0.021869489619559514,
        0.053968253926228914,
        0.1333333333341554,
        0.3333333333333277,
    ),
}
_USUAL = {F32: 30000.0, F64: 1.0e8}  # up to here multiples of the first part of pi/2 are exact under fma
_LARGE = 2.0**40  # up to here f64 reduces f32


def _reduced(f: Function, x: Value, added: Value | None = None, is_small: bool = False) -> tuple[Value, Value, Value]:
    """(bits whose low part is q, r, low): x + added = q pi/2 + r + low, where `added` is at most 1/16. One that
    `is_small` is at most 2^14."""
    element = x.type.element
    magic = const(f, x, MAGIC[element])
    shifted = f.fma(x, const(f, x, 2.0 / math.pi), magic)
    n = f.fsub(shifted, magic)
    first, second, third = (const(f, x, -part) for part in _HALF_PI[element])
    exact = f.fma(n, first, x)
    step, rest = two_product(f, n, second)
    r, low = fast_two_sum(f, exact, step)
    low = f.fma(n, third, f.fadd(low, rest))
    if is_small:
        q = bits(f, shifted)
    else:
        rare = f.cmp("ugt", absolute(f, x), const(f, x, _USUAL[element]))
        usual = [bits(f, shifted), r, low]
        # A call leaves no registers to what comes before and after it.
        q, r, low = where_rare(
            f, rare, lambda: shared_code(f, "shlo_angle", _reduced_slowly, x), usual, unlikely=f.common is not None
        )
    if added is not None:
        r, lost = two_sum(f, r, added)
        low = f.fadd(low, lost)
    return q, r, low


def _reduced_slowly(f: Function, x: Value) -> Sequence[Value]:
    """The same of any angle from 2^4 on."""
    return reduce_huge(f, x) if x.type.element is F64 else _reduced_in_double(f, x)


def _reduced_in_double(f: Function, x: Value) -> Sequence[Value]:
    """The same of a larger f32: up to 2^40, pi/2 in two parts of f64 is off by 2^-67 in all, where the nearest multiple
    of pi/2 is farther than 2^-33."""
    wide = f.cast("fpext", x, F64)
    magic = const(f, wide, MAGIC[F64])
    shifted = f.fma(wide, const(f, wide, 2.0 / math.pi), magic)
    n = f.fsub(shifted, magic)
    first, second, _ = (const(f, wide, -part) for part in _HALF_PI[F64])
    r = f.fma(n, second, f.fma(n, first, wide))
    single = f.cast("fptrunc", r, F32)
    low = f.cast("fptrunc", f.fsub(r, f.cast("fpext", single, F64)), F32)
    huge = f.cmp("ugt", absolute(f, x), const(f, x, _LARGE))
    usual = [f.cast("trunc", bits(f, shifted), I32), single, low]
    types = [value.type for value in usual]
    return where_rare(f, huge, lambda: in_parts(f, reduce_huge_single, 1, x, types), usual)


def _sine(f: Function, r: Value, low: Value) -> Value:
    """sin(r + low) for |r| <= pi/4."""
    square = f.fmul(r, r)
    return f.fadd(r, muladd(f, f.fmul(r, square), polynomial(f, square, _SIN[r.type.element]), low))


def _cosine(f: Function, r: Value, low: Value) -> Value:
    """cos(r + low) for |r| <= pi/4; what rounding 1 - r^2/2 loses is added to the small terms."""
    square, one, half = f.fmul(r, r), const(f, r, 1.0), const(f, r, -0.5)
    head = muladd(f, square, half, one)
    rest = muladd(f, square, half, f.fsub(one, head))
    rest = muladd(f, f.fneg(r), low, rest)
    return f.fadd(head, muladd(f, f.fmul(square, square), polynomial(f, square, _COS[r.type.element]), rest))


def _is_odd(f: Function, q: Value) -> Value:
    return f.cmp("ne", integer(f, q, "and", 1), f.const(0, q.type))


def _circular(f: Function, x: Value, quarter: int, is_small: bool) -> Value:
    """sin(x + quarter pi/2)."""
    return _in_quarter(f, *_in_parts(f, x, None, is_small), quarter)


def _in_parts(f: Function, x: Value, added: Value | None, is_small: bool) -> tuple[Value, Value, Value]:
    """(q, sin r, cos r) of `_reduced`. Computed once for sines and cosines of an angle: each takes both."""
    key = ("circular", x.ref, added and added.ref, is_small)
    known: tuple[Value, Value, Value] | None = f.recall(key)
    if known is None:
        q, r, low = _reduced(f, x, added, is_small)
        known = f.remember(key, (q, _sine(f, r, low), _cosine(f, r, low)))
    return known


def _in_quarter(f: Function, q: Value, sine: Value, cosine: Value, quarter: int) -> Value:
    """sin(x + quarter pi/2) of the sine and cosine of what is left of x."""
    if quarter:
        q = integer(f, q, "add", quarter)
    chosen = f.select(_is_odd(f, q), cosine, sine)
    sign = integer(f, integer(f, q, "and", 2), "shl", q.type.bits - 2)
    return f.bitcast(f.binary("xor", bits(f, chosen), sign), chosen.type)


def sin_of_pi(f: Function, x: Value) -> Value:
    """|sin(pi x)| for |x| <= 1/2."""
    size, quarter = absolute(f, x), const(f, x, 0.25)
    near = f.cmp("ole", size, quarter)
    turn = f.select(near, size, f.fsub(const(f, x, 0.5), size))
    high, low = (const(f, x, 2 * part) for part in _HALF_PI[x.type.element][:2])
    r, lost = two_product(f, turn, high)
    low = f.fma(turn, low, lost)
    return f.select(near, _sine(f, r, low), _cosine(f, r, low))


def _zeros_kept(f: Function, x: Value, result: Value) -> Value:
    return f.select(f.cmp("oeq", x, const(f, x, 0.0)), x, result)


def sin(f: Function, x: Value, is_small: bool = False) -> Value:
    """Sine; `is_small` as of `_reduced`."""
    return _zeros_kept(f, x, _circular(f, x, 0, is_small))


def cos(f: Function, x: Value, is_small: bool = False) -> Value:
    """Cosine; `is_small` as of `_reduced`."""
    return _circular(f, x, 1, is_small)


def cos_sin(f: Function, x: Value, added: Value | None = None) -> tuple[Value, Value]:
    """Cosine and sine of x + added, by one reduction; `added` is at most 1/16, and 0 where x is."""
    parts = _in_parts(f, x, added, is_small=False)
    return _in_quarter(f, *parts, 1), _zeros_kept(f, x, _in_quarter(f, *parts, 0))


def tan(f: Function, x: Value, is_small: bool = False) -> Value:
    """Tangent t of r, or -1/t: there t's own rounding and that of the quotient are made good. `is_small` as of
    `_reduced`."""
    q, r, low = _reduced(f, x, is_small=is_small)
    one = const(f, x, 1.0)
    square, square_rest = two_product(f, r, r)
    cube, series = f.fmul(r, square), polynomial(f, square, _TAN[x.type.element])
    first = muladd(f, cube, series, r)
    slope = muladd(f, first, first, one)
    # Half of r: about the derivative of the tail by the square, where that counts.
    small = muladd(f, square_rest, f.fmul(r, const(f, x, 0.5)), f.fmul(low, slope))
    t, lost = fast_two_sum(f, r, muladd(f, cube, series, small))
    quotient = f.fdiv(const(f, x, -1.0), t)
    error = f.fma(quotient, lost, f.fma(quotient, t, one))
    inverse = f.fma(quotient, error, quotient)
    return _zeros_kept(f, x, f.select(_is_odd(f, q), inverse, t))
