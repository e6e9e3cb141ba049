"""Rules on sums, products, quotients, powers, extrema and rounding.

Floats: -0.0 + 0.0 is +0.0 and NaN spreads, so x + 0 -> x holds for c = -0.0 only, x * 0 -> 0 never, and x / c -> x * (1
/ c) only for powers of two. The payload and sign of a NaN are not kept.
"""

from __future__ import annotations

import math

from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.types import element_type, is_complex, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import (
    SPLAT,
    has_one_use,
    is_float_value,
    is_integer_value,
    is_number,
    operand_of,
    splat_is,
)
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet, defining

ARITHMETIC = RuleSet("arithmetic")
APPROXIMATE = RuleSet("approximate")

_SUMS = ("hlo.add", "hlo.subtract", "hlo.negate", "hlo.reduce")
_SMALLEST_EXPONENTS = {"f64": -1021, "f32": -125, "bf16": -125, "f16": -13}  # of normal numbers, as `frexp` has them
_ROUNDING = ("hlo.floor", "hlo.ceil", "hlo.round_nearest_even", "hlo.round_nearest_afz")


def _is_minus_zero(number: complex | None) -> bool:
    return isinstance(number, float) and number == 0 and math.copysign(1.0, number) < 0


def _is_plus_zero(number: complex | None) -> bool:
    return isinstance(number, float) and number == 0 and math.copysign(1.0, number) > 0


def never_minus_zero(value: ir.Value) -> bool:
    """True for floats that cannot be -0.0: |x|, exp x, x * x, integers converted."""
    op = defining(value)
    if op is None:
        return False
    if op.name in ("hlo.abs", "hlo.exponential", "hlo.logistic", "hlo.iota"):
        return True
    if op.name == "hlo.convert":
        return is_integer_value(op.operands[0])
    return op.name == "hlo.multiply" and op.operands[0] == op.operands[1]


# --- add, subtract ---------------------------------------------------------------------------------------------------


@ARITHMETIC.rule("hlo.add", needs=SPLAT, number=1, constants=[0], where="floats; x is never -0.0")
def add_zero(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x + 0 -> x"
    x, y = op.operands
    return x if _is_plus_zero(splat(y)) and never_minus_zero(x) else None


@ARITHMETIC.rule(
    "hlo.add", needs="hlo.negate", where="y is no constant: -c folds, and subtract-constant goes the other way"
)
def add_negated(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x + (-y) -> x - y"
    x, y = op.operands
    if (negated := operand_of(y, "hlo.negate")) is not None and splat(negated) is None:
        return rewriter.like("subtract", x, negated)
    if (negated := operand_of(x, "hlo.negate")) is not None:
        return rewriter.like("subtract", y, negated)
    return None


@ARITHMETIC.rule("hlo.subtract", needs="hlo.negate")
def subtract_negated(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x - (-y) -> x + y"
    x, y = op.operands
    negated = operand_of(y, "hlo.negate")
    return None if negated is None else rewriter.like("add", x, negated)


@ARITHMETIC.rule("hlo.subtract", needs=SPLAT, number=1, constants=[0], where="integers; floats: c is +0.0")
def subtract_zero(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x - 0 -> x"
    x, y = op.operands
    c = splat(y)
    return x if c == 0 and (is_integer_value(x) or _is_plus_zero(c)) else None


@ARITHMETIC.rule("hlo.subtract", needs=SPLAT, where="integers: a constant difference is spelled as a sum")
def subtract_constant(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x - c -> x + (-c)"
    x, y = op.operands
    if not is_number(x) or splat(y) is None or splat(x) is not None:
        return None
    return rewriter.like("add", x, rewriter.like("negate", y))


@ARITHMETIC.rule("hlo.subtract", where="integers")
def subtract_self(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x - x -> 0"
    x, y = op.operands
    return rewriter.splat(0, x.type) if x == y and is_integer_value(x) else None


@ARITHMETIC.rule("hlo.subtract", needs=SPLAT, where="integers; floats: c is -0.0")
def zero_subtract(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "0 - x -> -x"
    x, y = op.operands
    c = splat(x)
    return rewriter.like("negate", y) if c == 0 and (is_number(x) or _is_minus_zero(c)) else None


@ARITHMETIC.pair("hlo.subtract", "hlo.add", where="integers")
def subtract_sum(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "(x + y) - y -> x"
    (first, second), y = inner.operands, op.operands[1]
    if not is_number(y):
        return None
    return first if second == y else second if first == y else None


# --- multiply, divide, remainder -------------------------------------------------------------------------------------


@ARITHMETIC.rule(
    "hlo.divide", "hlo.power", needs=SPLAT, number=1, constants=[1], where="not complex: inf * 0 in its parts is NaN"
)
def one_right(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x / 1 -> x, pow(x, 1) -> x"
    c = splat(op.operands[1])
    return op.operands[0] if c == 1 and not isinstance(c, complex) else None


@ARITHMETIC.rule(
    "hlo.multiply", "hlo.divide", needs=SPLAT, number=1, constants=[-1], where="signed integers and floats"
)
def minus_one_right(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x * -1 -> -x, x / -1 -> -x"
    x, y = op.operands
    c = splat(y)
    return rewriter.like("negate", x) if c == -1 and not isinstance(c, complex) else None


@ARITHMETIC.rule("hlo.multiply", "hlo.divide", needs="hlo.negate", where="floats")
def negated_both(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "(-x) * (-y) -> x * y, (-x) / (-y) -> x / y"
    x, y = (operand_of(operand, "hlo.negate") for operand in op.operands)
    if x is None or y is None or not is_float_value(x):
        return None
    return rewriter.like(op.name[4:], x, y)


@ARITHMETIC.rule("hlo.multiply", "hlo.divide", needs="hlo.negate", where="floats; for * also integers")
def negated_by_constant(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "(-x) * c -> x * (-c), (-x) / c -> x / (-c)"
    x, y = op.operands
    inner = operand_of(x, "hlo.negate")
    if inner is None or splat(y) is None or not (is_float_value(x) or op.name == "hlo.multiply"):
        return None
    return rewriter.like(op.name[4:], inner, rewriter.like("negate", y))


class _PowersOfTwo:
    """All that are floats."""

    def __contains__(self, number: object) -> bool:
        return isinstance(number, float) and abs(math.frexp(number)[0]) == 0.5


@ARITHMETIC.rule(
    "hlo.divide",
    needs=SPLAT,
    number=1,
    constants=_PowersOfTwo(),
    where="floats; c is a power of two and 1 / c a normal number",
)
def divide_by_power_of_two(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x / c -> x * (1 / c)"
    x, y = op.operands
    c = splat(y)
    assert isinstance(c, float)
    exponent = math.frexp(c)[1]
    # Both are the exact quotient rounded once. Formats of eight bits and less have no room for reciprocals.
    smallest = _SMALLEST_EXPONENTS.get(str(x.type.element_type))
    if smallest is None or not smallest < 2 - exponent < 2 - smallest:
        return None
    return rewriter.like("multiply", x, rewriter.splat(1.0 / c, x.type))


@ARITHMETIC.rule("hlo.remainder", needs=SPLAT, number=1, constants=[1], where="integers")
def remainder_one(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x % 1 -> 0"
    x, y = op.operands
    return rewriter.splat(0, x.type) if is_number(x) and splat_is(y, 1) else None


@ARITHMETIC.rule("hlo.divide", needs="hlo.add", number=1, where="floats; the logistic kernel is as accurate")
def logistic(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "1 / (1 + exp(-x)) -> logistic(x)"
    one, sum_ = op.operands
    if not splat_is(one, 1) or not is_float_value(one) or (add := defining(sum_, "hlo.add")) is None:
        return None
    for exponential, other in (tuple(add.operands), tuple(add.operands)[::-1]):
        power = operand_of(exponential, "hlo.exponential")
        if power is not None and splat_is(other, 1) and (x := operand_of(power, "hlo.negate")) is not None:
            return rewriter.like("logistic", x)
    return None


# --- power -----------------------------------------------------------------------------------------------------------


@ARITHMETIC.rule(
    "hlo.power",
    needs=SPLAT,
    where="floats: n in 0 2 -1, and 3 from f32 on; integers: 0 <= n <= 16; a product rounds no worse than pow",
)
def power_of_constant(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "pow(x, n) -> x * x ..., 1 / x, 1"
    x, y = op.operands
    n = splat(y)
    if n is None or isinstance(n, complex) or n != n or n != int(min(max(n, -2), 17)):
        return None
    if n == 0:
        return rewriter.splat(1, x.type)
    if is_float_value(x):
        if n == -1:
            return rewriter.like("divide", rewriter.splat(1, x.type), x)
        exact_enough = n == 2 or (n == 3 and x.type.element_type.width >= 32)  # both products round to the type
        return _multiplied(x, int(n), rewriter) if exact_enough else None
    return _multiplied(x, int(n), rewriter) if is_number(x) and 2 <= n <= 16 else None


def _multiplied(x: ir.Value, n: int, rewriter: Rewriter) -> ir.Value:
    if n == 1:
        return x
    half = _multiplied(x, n // 2, rewriter)
    square = rewriter.like("multiply", half, half)
    return rewriter.like("multiply", square, x) if n % 2 else square


@ARITHMETIC.rule("hlo.power", needs=SPLAT, where="floats from f32 on; y in 1.5 2.5 -1.5: within 2 ulp; -2.5 is not")
def power_of_halves(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "pow(x, y) -> sqrt(x) * x ..., rsqrt(x) / x ..."
    x, y = op.operands
    n = splat(y)
    if not isinstance(n, float) or n not in (1.5, 2.5, -1.5) or not is_float_value(x) or x.type.element_type.width < 32:
        return None
    by = "multiply" if n > 0 else "divide"
    root = rewriter.like("sqrt" if n > 0 else "rsqrt", x)
    value = rewriter.like(by, root, x)
    if n == 2.5:
        value = rewriter.like("abs", rewriter.like(by, value, x))  # of -0 it would have the sign, which a power has not
    infinite = rewriter.compare(x, rewriter.splat(-math.inf, x.type), "EQ")  # a root is NaN there
    return rewriter.value("select", x.type, infinite, rewriter.splat(math.inf if n > 0 else 0.0, x.type), value)


@ARITHMETIC.rule("hlo.power", needs=SPLAT)
def power_of_one(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "pow(1, y) -> 1"
    x = op.operands[0]
    return x if splat_is(x, 1) and (is_float_value(x) or is_number(x)) else None


@APPROXIMATE.rule("hlo.power", needs=SPLAT, where="differs at -0 and -inf")
def power_half(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "pow(x, 0.5) -> sqrt(x), pow(x, -0.5) -> rsqrt(x)"
    x, y = op.operands
    name = {0.5: "sqrt", -0.5: "rsqrt"}.get(splat(y))  # type: ignore[arg-type]
    return None if name is None else rewriter.like(name, x)


@APPROXIMATE.rule("hlo.divide", needs="hlo.sqrt", where="one rounding more")
def divide_by_sqrt(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x / sqrt(y) -> x * rsqrt(y)"
    x, y = op.operands
    root = operand_of(y, "hlo.sqrt")
    return None if root is None else rewriter.like("multiply", x, rewriter.like("rsqrt", root))


@APPROXIMATE.rule("hlo.divide", needs=SPLAT, where="floats; one rounding more")
def divide_by_constant(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x / c -> x * (1 / c)"
    x, y = op.operands
    c = splat(y)
    if not isinstance(c, float) or not is_float_value(x) or not 1e-30 < abs(c) < 1e30:
        return None
    return rewriter.like("multiply", x, rewriter.splat(1.0 / c, x.type))


# --- one operand -----------------------------------------------------------------------------------------------------


@ARITHMETIC.rule("hlo.negate", "hlo.not", needs=("hlo.negate", "hlo.not"))
def involution(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "-(-x) -> x, not(not(x)) -> x"
    return operand_of(op.operands[0], op.name)


@ARITHMETIC.pair("hlo.negate", "hlo.subtract", where="integers")
def negate_difference(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "-(x - y) -> y - x"
    x, y = inner.operands
    return rewriter.like("subtract", y, x) if is_integer_value(x) else None


@ARITHMETIC.pair("hlo.negate", "hlo.multiply", where="floats and integers; c a splat constant")
def negate_product(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "-(x * c) -> x * (-c)"
    x, c = inner.operands
    if splat(c) is None or isinstance(x.type.element_type, ir.ComplexType):
        return None
    return rewriter.like("multiply", x, rewriter.like("negate", c))


@ARITHMETIC.rule("hlo.abs", needs=("hlo.abs", "hlo.negate"))
def abs_of_abs(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "abs(abs(x)) -> abs(x), abs(-x) -> abs(x)"
    x = op.operands[0]
    inner = defining(x)
    if inner is None or x.type != op.result.type:
        return None
    if inner.name == "hlo.abs":
        return x
    return rewriter.like("abs", inner.operands[0]) if inner.name == "hlo.negate" else None


@ARITHMETIC.rule(*_ROUNDING, needs=(*_ROUNDING, "hlo.convert"), where="the type does not saturate at a fraction")
def round_whole(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "floor(floor(x)) -> floor(x), floor(convert(integer)) -> convert(integer), and so for ceil and round"
    x = op.operands[0]
    inner = defining(x)
    if inner is None or str(x.type.element_type) == "f6E2M3FN":  # ceil(7.1) is 7.5 there
        return None
    if inner.name in _ROUNDING or (inner.name == "hlo.convert" and is_integer_value(inner.operands[0])):
        return x
    return None


@ARITHMETIC.rule("hlo.real", "hlo.imag", needs="hlo.complex")
def part_of_complex(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "real(complex(a, b)) -> a, imag(complex(a, b)) -> b"
    inner = defining(op.operands[0], "hlo.complex")
    return None if inner is None else inner.operands[0 if op.name == "hlo.real" else 1]


@ARITHMETIC.rule("hlo.real", "hlo.imag", needs="hlo.convert")
def part_of_real(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "real(convert(x)) -> convert(x), imag(convert(x)) -> 0, of numbers x that are not complex"
    inner = defining(op.operands[0], "hlo.convert")
    if inner is None or is_complex(element_type(inner.operands[0])):
        return None
    if op.name == "hlo.imag":
        return rewriter.splat(0, op.result.type)
    return rewriter.convert(inner.operands[0], element_type(op.result))


@ARITHMETIC.rule("hlo.real", "hlo.imag", needs=_SUMS, where="nobody else reads the sum")
def part_of_sum(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "real(a + b) -> real(a) + real(b), and so for a - b, -a, sums along dimensions, and imaginary parts"
    inner = defining(op.operands[0])
    if inner is None or inner.name not in _SUMS or not has_one_use(inner.result):
        return None
    if inner.name == "hlo.reduce" and text(inner, "kind") != "add":
        return None
    part, element = op.name.removeprefix("hlo."), element_type(op.result)
    parts = [rewriter.value(part, tensor(shape(operand), element), operand) for operand in inner.operands]
    return rewriter.again(inner, parts, op.result.type)


@ARITHMETIC.rule("hlo.complex", needs="hlo.real")
def complex_of_parts(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "complex(real(z), imag(z)) -> z"
    real, imag = operand_of(op.operands[0], "hlo.real"), operand_of(op.operands[1], "hlo.imag")
    if real is None or imag is None:
        return None
    return real if real == imag and real.type == op.result.type else None


# --- extrema ---------------------------------------------------------------------------------------------------------


@ARITHMETIC.rule("hlo.maximum", "hlo.minimum", needs=SPLAT, where="a <= b, constants")
def clamp_twice(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "max(min(max(x, a), b), a) -> min(max(x, a), b), and with max and min exchanged"
    x, y = op.operands
    other = "hlo.minimum" if op.name == "hlo.maximum" else "hlo.maximum"
    if (limit := splat(y)) is None or isinstance(limit, complex):
        return None
    middle = defining(x, other)
    if middle is None or (inner := defining(middle.operands[0], op.name)) is None:
        return None
    bound, first = splat(middle.operands[1]), splat(inner.operands[1])
    if bound is None or first is None or isinstance(bound, complex):
        return None
    ordered = limit < bound if op.name == "hlo.maximum" else bound < limit
    return x if first == limit and str(first) == str(limit) and ordered else None  # -0.0 == 0.0, but "-0.0" != "0.0"


@ARITHMETIC.rule(
    "hlo.maximum", "hlo.minimum", needs=("hlo.maximum", "hlo.minimum"), where="integers (a NaN in y would be lost)"
)
def extremum_absorbs(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "max(min(x, y), x) -> x, min(max(x, y), x) -> x"
    other = "hlo.minimum" if op.name == "hlo.maximum" else "hlo.maximum"
    if not is_integer_value(op.operands[0]):
        return None
    for one, two in (tuple(op.operands), tuple(op.operands)[::-1]):
        inner = defining(one, other)
        if inner is not None and two in (inner.operands[0], inner.operands[1]):
            return two
    return None
