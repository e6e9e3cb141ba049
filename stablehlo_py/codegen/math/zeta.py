"""Hurwitz's zeta function in f64; f32 goes through it, with fewer terms and powers that are no more exact than f64.

For q > 0 the sum of (q + k)^-s for k < 9 (6) and, with w = q + 9, the Euler-Maclaurin formula for the rest (Johansson,
"Rigorous high-precision computation of the Hurwitz zeta function and its derivatives", 2015, section 2):

    w^(1 - s) / (s - 1) + w^-s (1/2 + sum over j of B(2j) / (2j)! s (s + 1) ... (s + 2j - 2) / w^(2j - 1))

For q < 0 and whole s, with M the number of terms whose base is negative and r = q + M, the sum splits into

    zeta(s, r) + (-1)^s (zeta(s, 1 - r) - zeta(s, 1 - q))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from stablehlo_py.codegen.builder import F32, F64, Function, Value
from stablehlo_py.codegen.math.basics import (
    Double,
    at_most,
    const,
    two_sum,
    where_rare,
)
from stablehlo_py.codegen.math.exponential import exp
from stablehlo_py.codegen.math.logarithm import log
from stablehlo_py.codegen.math.powers import power, power_double

_Sum: TypeAlias = Callable[[Function, Value, Value], Value]
_TERMS = 9
# With w >= 6 the first 5 terms leave out less than 2^-33 of a result.
_TERMS_OF_F32, _SERIES_OF_F32 = 6, 5
# B(2j) / (2j)! for j from 1 on. Where w^-s is a number of f64 at all, 12 terms are enough for w >= 9.
_BERNOULLI = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
    43867 / 5109094217170944000,
    -174611 / 802857662698291200000,
    77683 / 14101100039391805440000,
    -236364091 / 1693824136731743669452800000,
)
_LARGEST = 1e4  # w^-s is 0 for larger s and w >= 9


def zeta(f: Function, s: Value, q: Value) -> Value:
    """The sum of (q + k)^-s for k = 0, 1, 2, ... Infinite at s = 1 and NaN for smaller s; where q is 0 or a negative
    integer, infinite for even s and NaN for others, as the two limits differ; NaN for other negative q and fractional
    s."""
    if s.type.element is F32:
        return f.cast("fptrunc", _zeta(f, f.cast("fpext", s, F64), f.cast("fpext", q, F64), _right_of_f32), F32)
    return _zeta(f, s, q, _right)


def _zeta(f: Function, s: Value, q: Value, right: _Sum) -> Value:
    """Of f64; `right` is the function for q > 0 and s > 1."""
    zero, one, infinity, nan = (const(f, s, number) for number in (0.0, 1.0, math.inf, math.nan))
    left = f.cmp("olt", q, zero)
    whole = f.cmp("oeq", f.intrinsic("floor", q), q)
    positive = right(f, s, f.select(f.cmp("ole", q, zero), one, q))
    (result,) = where_rare(f, left, lambda: [_left(f, s, q, right)], [positive])
    half = f.fmul(s, const(f, s, 0.5))
    even = f.cmp("oeq", f.intrinsic("floor", half), half)
    at_pole = f.select(even, infinity, nan)
    result = f.select(f.binary("and", whole, f.cmp("ole", q, zero)), at_pole, result)
    result = f.select(f.cmp("uge", s, one), result, nan)
    result = f.select(f.cmp("oeq", s, one), infinity, result)
    return f.select(f.cmp("uno", s, q), f.fadd(s, q), result)


def _right(f: Function, s: Value, q: Value) -> Value:
    """For q > 0 and s > 1."""
    zero, one, infinity = const(f, s, 0.0), const(f, s, 1.0), const(f, s, math.inf)
    minus_s = f.fneg(s)

    def raised(base: Double, exponent: Value) -> Double:
        """The power, and what it lost and the rest of its base changes."""
        high, low = power_double(f, base[0], exponent)
        change = f.fdiv(f.fmul(f.fmul(high, exponent), base[1]), base[0])
        return high, f.select(f.cmp("oeq", high, zero), zero, f.fadd(low, change))

    def add(_: Value | int, k: Value, total: Value, rest: Value) -> list[Value]:
        high, low = raised(two_sum(f, q, k), minus_s)
        total, lost = two_sum(f, total, high)
        return [f.fadd(k, one), total, f.fadd(rest, f.fadd(lost, low))]

    _, total, rest = f.loop(0, _TERMS, 1, add, [zero, zero, zero])
    w, w_rest = two_sum(f, q, const(f, s, float(_TERMS)))
    less = f.fsub(s, one)
    high, low = raised((w, w_rest), f.fneg(less))
    quotient = f.fdiv(high, less)
    lost = f.fadd(f.fma(f.fneg(quotient), less, high), low)
    series = _series(f, s, w, _BERNOULLI)
    total, error = two_sum(f, total, quotient)
    rest = f.fadd(f.fadd(rest, error), f.fma(power(f, w, minus_s), series, f.fdiv(lost, less)))
    # The first term is infinite, or q is; or nothing but the first term is left.
    result = f.fadd(total, rest)
    result = f.select(f.cmp("oeq", total, infinity), infinity, result)
    result = f.select(f.cmp("oeq", q, infinity), zero, result)
    return f.select(f.cmp("oeq", s, infinity), power(f, q, minus_s), result)


def _right_of_f32(f: Function, s: Value, q: Value) -> Value:
    """For q > 0 and s > 1 that are numbers of f32: some 2^-30 of the result may be wrong."""
    zero, one, infinity = const(f, s, 0.0), const(f, s, 1.0), const(f, s, math.inf)

    def raised(base: Value) -> Value:
        return exp(f, f.fneg(f.fmul(s, log(f, base))))

    total = zero
    for k in range(_TERMS_OF_F32):
        total = f.fadd(total, raised(f.fadd(q, const(f, s, float(k)))))
    w = f.fadd(q, const(f, s, float(_TERMS_OF_F32)))
    rest = f.fadd(f.fdiv(w, f.fsub(s, one)), _series(f, s, w, _BERNOULLI[:_SERIES_OF_F32]))
    result = f.fma(raised(w), rest, total)
    result = f.select(f.cmp("oeq", total, infinity), infinity, result)
    result = f.select(f.cmp("oeq", q, infinity), zero, result)
    of_infinity = f.select(f.cmp("oeq", q, one), one, f.select(f.cmp("olt", q, one), infinity, zero))
    return f.select(f.cmp("oeq", s, infinity), of_infinity, result)


def _series(f: Function, s: Value, w: Value, coefficients: Sequence[float]) -> Value:
    """1/2 + the sum over j of coefficients[j - 1] s (s + 1) ... (s + 2j - 2) / w^(2j - 1)."""
    bounded = at_most(f, s, _LARGEST)
    series = const(f, s, coefficients[-1])
    inverse = f.fdiv(const(f, s, 1.0), w)
    for j in range(len(coefficients) - 1, 0, -1):
        first, second = (f.fmul(f.fadd(bounded, const(f, s, float(2 * j - i))), inverse) for i in (1, 0))
        series = f.fma(f.fmul(first, second), series, const(f, s, coefficients[j - 1]))
    return f.fma(f.fmul(bounded, inverse), series, const(f, s, 0.5))


def _left(f: Function, s: Value, q: Value, right: _Sum) -> Value:
    """For q < 0 that is no integer; NaN unless s is whole."""
    one = const(f, s, 1.0)
    r = f.fsub(q, f.intrinsic("floor", q))
    half = f.fmul(s, const(f, s, 0.5))
    even = f.cmp("oeq", f.intrinsic("floor", half), half)
    mirrored = f.fsub(right(f, s, f.fsub(one, r)), right(f, s, f.fsub(one, q)))
    result = f.fadd(right(f, s, r), f.select(even, mirrored, f.fneg(mirrored)))
    return f.select(f.cmp("oeq", f.intrinsic("floor", s), s), result, const(f, s, math.nan))
