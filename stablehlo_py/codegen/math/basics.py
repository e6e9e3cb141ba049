"""What the elementary functions are made of: constants, bits, polynomials, sums and products with their rounding
errors.

Everything works on f32 and f64 of any number of lanes, and gives a lane the same bits whatever stands in the others.
`Double` is an unevaluated sum of two values, the second at most half an ulp of the first: about twice the precision
(Dekker, "A floating-point technique for extending the available precision", 1971).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

from stablehlo_py.codegen.builder import F32, F64, I8, I16, I32, I64, Function, ScalarType, Value, vector

Double: TypeAlias = tuple[Value, Value]
Scheme: TypeAlias = Callable[[Function, Value, Sequence[float]], Value]  # `polynomial` or `estrin`

MANTISSA = {F32: 23, F64: 52}
BIAS = {F32: 127, F64: 1023}
# 1.5 * 2^(mantissa bits): adding it rounds to an integer, which then stands in the low bits.
MAGIC = {F32: 12582912.0, F64: 6755399441055744.0}
_ROUNDS_AS_USUAL = 4  # `TargetDescription.scaling`
TINY = {F32: 2.0**-126, F64: 2.0**-1022}  # the least normal number


def const(f: Function, x: Value, number: float) -> Value:
    """A constant of x's type."""
    return f.const(number, x.type)


def integer_type(x: Value) -> ScalarType:
    """The integers of the width of x's elements."""
    return I32 if x.type.element is F32 else I64


def bits(f: Function, x: Value) -> Value:
    """The bits of x as integers."""
    return f.bitcast(x, vector(x.type.lanes, integer_type(x)))


def integer(f: Function, x: Value, name: str, number: int) -> Value:
    """`x name number` on integers: add, and, lshr, shl ..."""
    return f.binary(name, x, f.const(number, x.type))


def muladd(f: Function, a: Value, b: Value, c: Value) -> Value:
    """a * b + c, fused where the target has an instruction for it."""
    return f.intrinsic("fmuladd", a, b, c)


def absolute(f: Function, x: Value) -> Value:
    """|x|."""
    return f.intrinsic("fabs", x)


def half_inverse(f: Function, x: Value) -> Value:
    """An estimate of 1 / (2 x) for normal x > 0, and a finite number for 0: for terms of less than an ulp. Exact for
    powers of two, and up to an eighth too large between them."""
    raw, element = bits(f, x), x.type.element
    return f.bitcast(f.binary("sub", f.const((2 * BIAS[element] - 1) << MANTISSA[element], raw.type), raw), x.type)


def copysign(f: Function, size: Value, sign: Value) -> Value:
    """|size| with the sign of the other. f64 by its bits: LLVM would round both operands instead of a result that is
    rounded to f16, and calls a library for that."""
    if size.type.element is not F64:
        return f.intrinsic("copysign", size, sign)
    return copysign_bits(f, size, sign)


def copysign_bits(f: Function, size: Value, sign: Value) -> Value:
    """`copysign` in integer arithmetic: what LLVM does not look through."""
    top = 1 << (size.type.element.bits - 1)
    magnitude = integer(f, bits(f, size), "and", top - 1)
    return f.bitcast(f.binary("or", magnitude, integer(f, bits(f, sign), "and", -top)), size.type)


def signed(f: Function, size: Value, sign: Value) -> Value:
    """`copysign` of what is not negative: one instruction less."""
    top = 1 << (size.type.element.bits - 1)
    return f.bitcast(f.binary("or", bits(f, size), integer(f, bits(f, sign), "and", -top)), size.type)


def negative(f: Function, x: Value) -> Value:
    """i1: whether the sign bit is set (-0 and -NaN included)."""
    raw = bits(f, x)
    return f.cmp("slt", raw, f.const(0, raw.type))


def polynomial(f: Function, x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's scheme, highest power first."""
    result = const(f, x, coefficients[0])
    for coefficient in coefficients[1:]:
        result = muladd(f, result, x, const(f, x, coefficient))
    return result


def estrin(f: Function, x: Value, coefficients: Sequence[float]) -> Value:
    """The same by Estrin's scheme: neighbours are joined by x, what that gives by x^2, and the last three are Horner's.
    A shorter chain of dependent instructions for a product or two more and some rounding."""
    values = [const(f, x, coefficient) for coefficient in coefficients]
    while len(values) > 3:
        odd, even = values[-2::-2], values[-1::-2]
        joined = [muladd(f, high, x, low) for high, low in zip(odd, even, strict=False)]
        values = [*even[len(odd) :], *joined[::-1]]
        x = f.fmul(x, x)
    result = values[0]
    for value in values[1:]:
        result = muladd(f, result, x, value)
    return result


def at_most(f: Function, x: Value, bound: float) -> Value:
    """min(x, bound); a NaN stays. One instruction in this form."""
    limit = const(f, x, bound)
    return f.select(f.cmp("ogt", x, limit), limit, x)


def at_least(f: Function, x: Value, bound: float) -> Value:
    """max(x, bound); a NaN stays."""
    limit = const(f, x, bound)
    return f.select(f.cmp("olt", x, limit), limit, x)


def scales(f: Function, x: Value) -> bool:
    """Whether the target has an instruction for `scaled_at_once` of this type."""
    target = f.emit.target
    return target is not None and bool(target.scaling) and (x.type.lanes == 1 or _width(x) in (128, 256, 512, 1024))


def scaled_at_once(f: Function, x: Value, power: Value) -> Value:
    """x 2^power, rounded once, where `power` has x's type and whole numbers."""
    if _width(x) == 1024:
        lanes = range(x.type.lanes)
        parts = (lanes[: len(lanes) // 2], lanes[len(lanes) // 2 :])
        low, high = (scaled_at_once(f, f.shuffle(x, x, part), f.shuffle(power, power, part)) for part in parts)
        return f.shuffle(low, high, lanes)
    assert f.emit.target is not None
    of = "s" if x.type.element is F32 else "d"
    if x.type.lanes == 1:
        # No faster than products, but for what underflows: a product that does takes 50 cycles more.
        type_ = vector(128 // x.type.element.bits, x.type.element)
        x, power = (f.insert(f.poison(type_), value, 0) for value in (x, power))
        operands = [x, power, x, f.const(-1, I8), f.const(_ROUNDS_AS_USUAL, I32)]
        return f.extract(f.target_intrinsic(f"{f.emit.target.scaling}.s{of}", *operands, result=type_), 0)
    name = f"{f.emit.target.scaling}.p{of}.{_width(x)}"
    everywhere = f.const(-1, I16 if x.type.lanes > 8 else I8)
    rounding = [f.const(_ROUNDS_AS_USUAL, I32)] if _width(x) == 512 else []
    return f.target_intrinsic(name, x, power, x, everywhere, *rounding, result=x.type)


def _width(x: Value) -> int:
    return x.type.lanes * x.type.element.bits


def any_lane(f: Function, condition: Value) -> Value:
    """i1: whether the condition holds in a lane."""
    return condition if condition.type.lanes == 1 else f.reduce_lanes("or", condition)


def where_rare(
    f: Function,
    rare: Value,
    slow: Callable[[], Sequence[Value]],
    fast: Sequence[Value],
    *,
    unlikely: bool = False,
) -> list[Value]:
    """`fast`, and `slow()` in the lanes where the rare condition holds; code for it runs only if there is one. A lane's
    bits do not depend on its neighbours: those may be padding, or other elements with another number of threads.
    `unlikely`: as of `Function.if_`."""

    def replaced() -> list[Value]:
        return [f.select(rare, one, other) for one, other in zip(slow(), fast, strict=True)]

    return f.if_(any_lane(f, rare), replaced, lambda: list(fast), unlikely=unlikely)


# --- sums and products of two values ---------------------------------------------------------------------------------


def fast_two_sum(f: Function, a: Value, b: Value) -> Double:
    """a + b exactly; |a| >= |b|, or a is 0."""
    total = f.fadd(a, b)
    return total, f.fsub(b, f.fsub(total, a))


def two_sum(f: Function, a: Value, b: Value) -> Double:
    """a + b exactly, whichever is larger (Knuth)."""
    total = f.fadd(a, b)
    part = f.fsub(total, a)
    return total, f.fadd(f.fsub(a, f.fsub(total, part)), f.fsub(b, part))


def two_product(f: Function, a: Value, b: Value) -> Double:
    """a * b exactly, but for underflow."""
    product = f.fmul(a, b)
    return product, f.fma(a, b, f.fneg(product))


def multiply_doubles(f: Function, a: Double, b: Double) -> Double:
    """(a0 + a1)(b0 + b1), relative error about 2^-102 in f64."""
    product, rest = two_product(f, a[0], b[0])
    rest = f.fma(a[0], b[1], f.fma(a[1], b[0], rest))
    return fast_two_sum(f, product, rest)


def divide_doubles(f: Function, a: Double, b: Double) -> Double:
    """(a0 + a1) / (b0 + b1), relative error about 2^-102 in f64."""
    quotient = f.fdiv(a[0], b[0])
    minus = f.fneg(quotient)
    residual = f.fadd(f.fma(minus, b[0], a[0]), f.fma(minus, b[1], a[1]))
    return fast_two_sum(f, quotient, f.fdiv(residual, b[0]))


def polynomial_double(f: Function, x: Double, head: Sequence[float], tail: Sequence[tuple[float, float]]) -> Double:
    """Horner's scheme, highest power first, whose later coefficients, those of the `tail`, are unevaluated sums of two
    numbers; for |x| <= 1/2 and coefficients of about one size."""
    high = polynomial(f, x[0], head)
    low = const(f, high, 0.0)
    for coefficient, rest in tail:
        product, lost = two_product(f, high, x[0])
        small = f.fma(low, x[0], f.fma(high, x[1], f.fadd(lost, const(f, high, rest))))
        high, error = two_sum(f, const(f, high, coefficient), product)
        low = f.fadd(small, error)
    return fast_two_sum(f, high, low)


def split_fraction(numerator: int, denominator: int) -> tuple[float, float]:
    """numerator / denominator as an unevaluated sum of two f64 numbers."""
    high = numerator / denominator
    return high, float(Fraction(numerator, denominator) - Fraction(high))
