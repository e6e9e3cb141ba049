"""Reduction of huge angles by pi/2 (Payne and Hanek, "Radian reduction for trigonometric functions", 1983).

x 2/pi is the product of x and as many bits of 2/pi from the first ones on that do not make multiples of 8: everything
before leaves x modulo 2 pi alone. An f64 is multiplied in digits of 24 bits, in f64 lanes, after FDLIBM's
__kernel_rem_pio2: products of digits and their sums are exact. An f32 is one digit, and takes integers of 64 bits.
"""

from __future__ import annotations

from fractions import Fraction

from stablehlo_py.codegen.builder import F32, F64, I32, I64, Function, Value, vector
from stablehlo_py.codegen.math.basics import (
    MAGIC,
    absolute,
    bits,
    const,
    fast_two_sum,
    integer,
    integer_type,
    negative,
)
from stablehlo_py.codegen.shared import in_parts

_DIGIT = 24
_ANGLE_DIGITS = 3  # of a 53-bit x
# Digits of the product: the first holds up to 21 bits behind the point, and for the f64 nearest to a multiple of pi/2
# sixty bits cancel: the other six leave 53 more and a few to spare.
_PRODUCT_DIGITS = 7
_LARGEST_EXPONENT = 1024
_TABLE_DIGITS = _LARGEST_EXPONENT // _DIGIT + _PRODUCT_DIGITS + _ANGLE_DIGITS


def _arctangent_of_inverse(n: int, bits: int) -> int:
    """2^bits arctan(1/n), by its series."""
    total, term, k = 0, (1 << bits) // n, 0
    while term:
        total += (term // (2 * k + 1)) * (-1) ** k
        term, k = term // (n * n), k + 1
    return total


def _pi(bits: int) -> Fraction:
    """pi to about so many bits (Machin's formula)."""
    guard = bits + 32
    return Fraction(4 * (4 * _arctangent_of_inverse(5, guard) - _arctangent_of_inverse(239, guard)), 1 << guard)


def _two_over_pi(bits: int) -> int:
    """2/pi 2^bits."""
    return int(2 / _pi(bits + 64) * (1 << bits))


def _two_over_pi_digits() -> list[int]:
    """2/pi = sum of digits[j] 2^(-24 (j + 1))."""
    number = _two_over_pi(_TABLE_DIGITS * _DIGIT)
    return [number >> (_DIGIT * place) & ((1 << _DIGIT) - 1) for place in reversed(range(_TABLE_DIGITS))]


_LEAD = _ANGLE_DIGITS - 1  # zeros before the table, for the digits of small j that do not exist
_TABLE = [0.0] * _LEAD + [float(digit) for digit in _two_over_pi_digits()]
_HALF_PI = (1.57079632679489655800e00, 6.12323399573676603587e-17)


# For f32: from each byte of 2/pi on, 32 bits of it.
_BYTES = 24
_WINDOWS = [float(_two_over_pi(8 * (place + 1)) & 0xFFFFFFFF) for place in range(_BYTES)]
_TURN = 62  # bits behind the point of a product, in integers of 64: it is known modulo 4


def reduce_huge(f: Function, x: Value) -> list[Value]:
    """[bits whose low part is q, r, low]: x = q pi/2 + r + low modulo 2 pi, for |x| from 2^4 on; NaN for infinities."""
    turns, r, low = _reduce(f, absolute(f, x))
    undefined = f.fsub(x, x)  # NaN where x is infinite or NaN, else 0
    minus = negative(f, x)
    turns, r, low = (f.select(minus, f.fneg(part), part) for part in (turns, f.fadd(r, undefined), low))
    return [_as_bits(f, turns), r, low]


def reduce_huge_single(f: Function, x: Value) -> list[Value]:
    """The same of an f32: a few instructions for one lane."""
    raw = f.cast("zext", bits(f, x), I64)
    byte = integer(f, integer(f, raw, "lshr", 26), "and", 15)  # of the exponent, from 2^1 on; the other bits are x's
    digit = integer(f, integer(f, raw, "and", (1 << 23) - 1), "or", 1 << 23)
    digit = f.binary("shl", digit, integer(f, integer(f, raw, "lshr", 23), "and", 7))
    table = f.lookup_table(_WINDOWS)
    windows = (f.looked_up(table, integer(f, byte, "add", place)) for place in (0, 4, 8))
    high, middle, low = (f.binary("mul", digit, f.cast("fptosi", window, I64)) for window in windows)
    product = f.binary("add", integer(f, high, "shl", 32), f.binary("add", middle, integer(f, low, "lshr", 32)))
    turns = integer(f, integer(f, product, "add", 1 << (_TURN - 1)), "lshr", _TURN)
    rest = f.cast("sitofp", f.binary("sub", product, integer(f, turns, "shl", _TURN)), F64)
    r = f.fmul(rest, const(f, rest, _HALF_PI[0] * 2.0**-_TURN))
    minus = negative(f, x)
    turns = f.select(minus, f.binary("sub", f.const(0, turns.type), turns), turns)
    r = f.select(minus, f.fneg(r), r)
    single = f.fadd(f.cast("fptrunc", r, F32), f.fsub(x, x))  # NaN where x is infinite or NaN
    rest = f.fsub(r, f.cast("fpext", single, F64))
    return [f.cast("trunc", turns, I32), single, f.cast("fptrunc", rest, F32)]


def _as_bits(f: Function, n: Value) -> Value:
    return f.bitcast(f.fadd(n, const(f, n, MAGIC[n.type.element])), vector(n.type.lanes, integer_type(n)))


def _digits(f: Function, x: Value, exponent: Value) -> list[Value]:
    """x 2^(23 - exponent) in three digits, the first a whole number of 24 bits."""
    unit = integer(f, integer(f, bits(f, x), "and", (1 << 52) - 1), "or", (1023 + 23) << 52)
    rest = f.bitcast(unit, x.type)
    found = []
    for _ in range(_ANGLE_DIGITS):
        digit = f.intrinsic("floor", rest)
        rest = f.fmul(f.fsub(rest, digit), const(f, x, 2.0**_DIGIT))
        found.append(digit)
    return found


def _power_of_two(f: Function, exponent: Value, like: Value) -> Value:
    return f.bitcast(integer(f, integer(f, exponent, "add", 1023), "shl", 52), like.type)


def _reduce(f: Function, x: Value) -> tuple[Value, Value, Value]:
    """(q as a float, r, low) for positive f64 x."""
    biased = integer(f, bits(f, x), "lshr", 52)
    exponent = integer(f, biased, "sub", 1023 + 23)  # x = 2^exponent times a number of 24 bits before the point
    digits = _digits(f, x, exponent)
    table = f.lookup_table(_TABLE)
    count = _PRODUCT_DIGITS + _LEAD

    def read(f: Function, exponent: Value) -> list[Value]:
        """The first digit's place, and so many from there on."""
        first = integer(f, integer(f, exponent, "sub", 3), "sdiv", _DIGIT)
        return [first, *(f.looked_up(table, integer(f, first, "add", place)) for place in range(count))]

    # Lane by lane, as a loop: gathers and divisions of integers are the code of single lanes on many processors.
    first, *two_over_pi = in_parts(f, read, 1, exponent, [exponent.type, *[x.type] * count])
    product = []
    for place in range(_PRODUCT_DIGITS):
        total = f.fmul(digits[0], two_over_pi[place + _LEAD])
        for number in range(1, _ANGLE_DIGITS):
            total = f.fma(digits[number], two_over_pi[place + _LEAD - number], total)
        product.append(total)
    for place in reversed(range(1, _PRODUCT_DIGITS)):  # carry, so that the digits do not overlap
        carry = f.intrinsic("floor", f.fmul(product[place], const(f, x, 2.0**-_DIGIT)))
        product[place] = f.fma(carry, const(f, x, -(2.0**_DIGIT)), product[place])
        product[place - 1] = f.fadd(product[place - 1], carry)
    # The first digit counts 2^(exponent - 24 (first + 1)): between 2^-21 and 2^2.
    shift = f.binary("sub", integer(f, exponent, "sub", _DIGIT), f.binary("mul", first, f.const(_DIGIT, first.type)))
    unit = _power_of_two(f, shift, x)
    parts = []
    for place in range(0, _PRODUCT_DIGITS - 1, 2):  # two digits fit into one number
        pair = f.fma(product[place + 1], const(f, x, 2.0**-_DIGIT), product[place])
        if place == 0:  # the first one is longer than a digit: only its value modulo 8 matters
            eight = f.fdiv(const(f, x, 8.0), unit)
            whole = f.fmul(f.intrinsic("floor", f.fdiv(product[0], eight)), eight)
            pair = f.fma(product[1], const(f, x, 2.0**-_DIGIT), f.fsub(product[0], whole))
        parts.append(f.fmul(f.fmul(pair, const(f, x, 2.0 ** (-_DIGIT * place))), unit))
    turns = f.intrinsic("roundeven", parts[0])
    high, low = fast_two_sum(f, f.fsub(parts[0], turns), parts[1])
    high, low = fast_two_sum(f, high, f.fadd(low, parts[2]))
    half_pi, rest = (const(f, x, part) for part in _HALF_PI)
    r = f.fmul(high, half_pi)
    lost = f.fma(high, half_pi, f.fneg(r))
    r, low = fast_two_sum(f, r, f.fadd(lost, f.fma(high, rest, f.fmul(low, half_pi))))
    return turns, r, low
