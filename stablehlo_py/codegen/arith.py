"""Elementwise hlo operations on lanes: `ARITH` maps an op's name (without `hlo.`) to `rule(f, op, operands) -> Lanes`.

Operands and results are compute values (codegen/types.py) of any number of lanes; scalars and vectors may not be mixed.
Semantics are StableHLO's, with XLA's answers where the specification leaves a choice: integer overflow wraps, x / 0 is
-1, x rem 0 is x, shifts by the width or more give 0 (or the sign), conversions to integers saturate and take NaN to 0.
Nothing traps.

`apply` is what code generators call: the rule, then rounding to the element type where it is narrower than its
registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from stablehlo_py.codegen import complex as complex_math
from stablehlo_py.codegen import math as real_math
from stablehlo_py.codegen import quotients
from stablehlo_py.codegen.builder import F32, F64, I1, I32, Function, ScalarType, Value, vector
from stablehlo_py.codegen.conversions import bitcast, convert, reduce_precision
from stablehlo_py.codegen.math import narrow as narrow_math
from stablehlo_py.codegen.types import Element, Known, Lanes, each, element, select
from stablehlo_py.dialect.attributes import SMALL_ANGLE
from stablehlo_py.dialect.ops import Rounds, combiner, record_of
from stablehlo_py.dialect.types import i64, text
from stablehlo_py.mlir import ir
from stablehlo_py.rules import Rules


class Rule(Protocol):
    """A rule of `ARITH`."""

    def __call__(self, f: Function, op: ir.OpView | ir.Operation, operands: Sequence[Known]) -> Lanes: ...


ARITH: Rules[Rule] = Rules()


def apply(f: Function, op: ir.OpView | ir.Operation, operands: Sequence[Known]) -> Lanes:
    """The result of an elementwise op on lanes. Raises KeyError for ops that are not elementwise."""
    name = op.operation.name.removeprefix("hlo.")
    result = ARITH[name](f, op, operands)
    of = element(op.results[0])
    if of.round is None:  # as wide as its registers
        return result
    record = record_of(f"hlo.{name}")
    if record is not None and record.rounds is Rounds.NEVER:
        return result
    in_bytes = record is not None and record.rounds is Rounds.IN_BYTES
    if in_bytes and of.bits > 8:
        return result
    own = all(element(operand).name in (of.name, "i1") for operand in op.operands)
    return rounded(f, of, result, own=own)


def rounded(f: Function, of: Element, value: Known, *, own: bool = False) -> Lanes:
    """The nearest value of the element type, for types narrower than their registers. `own`: as of
    `Element.round_own`."""
    rounds = (own and of.round_own) or of.round
    return rounds(f, value) if rounds else value


def _operand_element(op: ir.OpView | ir.Operation, number: int = 0) -> Element:
    return element(op.operands[number])


def _zero(f: Function, a: Value) -> Value:
    return f.const(0, a.type)


def _ones(f: Function, a: Value) -> Value:
    return f.const(-1, a.type)


# --- arithmetic ------------------------------------------------------------------------------------------------------


@ARITH.rule("divide", "remainder")
def _divide(f: Function, op: ir.OpView, operands: Sequence[Known]) -> Lanes:
    a, b = operands
    is_division = op.operation.name.endswith("divide")
    if isinstance(a, tuple):
        return complex_math.FUNCTIONS["divide"](f, a, b)
    if a.type.is_float:
        if not is_division:
            return real_math.remainder(f, a, b)
        return quotients.by_constant(f, op, a) or f.fdiv(a, b)
    unsigned = _operand_element(op).unsigned
    name = ("u" if unsigned else "s") + ("div" if is_division else "rem")
    divisor = quotients.constant_of(op.operands[1])
    if divisor not in (None, 0, -1):
        return f.binary(name, a, b)
    by_zero = f.cmp("eq", b, _zero(f, b))
    undefined = by_zero
    if not unsigned:
        lowest = f.const(-(1 << (a.type.bits - 1)), a.type)
        overflow = f.binary("and", f.cmp("eq", a, lowest), f.cmp("eq", b, _ones(f, b)))
        undefined = f.binary("or", by_zero, overflow)
    safe = f.select(undefined, f.const(1, b.type), b)
    # Few CPUs divide vectors of integers, most divide vectors of floats. By a constant LLVM multiplies.
    as_floats = f.emit.divides_as_floats and not (f.emit.target and f.emit.target.divides_integers)
    if as_floats and a.type.lanes > 1 and 8 <= a.type.bits <= 32 and divisor is None:
        result = _quotient_of_floats(f, a, safe, unsigned)
        if not is_division:
            result = f.binary("sub", a, f.binary("mul", result, safe))
    else:
        result = f.binary(name, a, safe)
    return f.select(by_zero, _ones(f, a) if is_division else a, result)


def _quotient_of_floats(f: Function, a: Value, b: Value, unsigned: bool) -> Value:
    """a / b of integers, towards zero. Rounding the quotient of floats does not reach the next integer: one that is not
    exact is farther from it than 1 / |a| of its size, and the floats have more bits than a."""
    wide, narrow = (F32, I32) if a.type.bits <= 16 else (F64, a.type.element)
    to, back = ("uitofp", "fptoui") if unsigned else ("sitofp", "fptosi")
    quotient = f.cast(back, f.fdiv(f.cast(to, a, wide), f.cast(to, b, wide)), narrow)
    return quotient if narrow is a.type.element else f.cast("trunc", quotient, a.type.element)


def extreme(f: Function, largest: bool, unsigned: bool, a: Known, b: Known) -> Lanes:
    """maximum or minimum: NaN wins, -0 < +0, complex numbers compare lexicographically."""
    if isinstance(a, tuple):
        return complex_math.extreme(f, largest, a, b)
    if a.type.is_float:
        return f.intrinsic("maximum" if largest else "minimum", a, b)
    if a.type.element is I1:
        return f.binary("or" if largest else "and", a, b)
    return f.intrinsic(("u" if unsigned else "s") + ("max" if largest else "min"), a, b)


@ARITH.rule("maximum", "minimum")
def _extreme(f: Function, op: ir.OpView, operands: Sequence[Known]) -> Lanes:
    return extreme(f, op.operation.name.endswith("maximum"), _operand_element(op).unsigned, *operands)


@ARITH.rule("shift_left", "shift_right_logical", "shift_right_arithmetic")
def _shift(f: Function, op: ir.OpView, operands: Sequence[Known]) -> Lanes:
    a, by = operands
    width = f.const(a.type.bits - 1, by.type)
    if op.operation.name.endswith("arithmetic"):
        return f.binary("ashr", a, f.select(f.cmp("ugt", by, width), width, by))
    outside = f.cmp("ugt", by, width)
    safe = f.select(outside, _zero(f, by), by)
    moved = f.binary("shl" if op.operation.name.endswith("left") else "lshr", a, safe)
    return f.select(outside, _zero(f, a), moved)


@ARITH.rule("abs")
def _abs(f: Function, op: ir.OpView, operands: Sequence[Known]) -> Lanes:
    (a,) = operands
    if isinstance(a, tuple):
        return complex_math.absolute(f, a)
    if a.type.is_float:
        return f.intrinsic("fabs", a)
    if _operand_element(op).unsigned:
        return a
    return f.select(f.cmp("slt", a, _zero(f, a)), f.binary("sub", _zero(f, a), a), a)


@ARITH.rule("sign")
def _sign(f: Function, op: ir.OpView, operands: Sequence[Known]) -> Lanes:
    (a,) = operands
    if isinstance(a, tuple):
        return complex_math.FUNCTIONS["sign"](f, a)
    zero = _zero(f, a)
    if a.type.is_float:
        keeps = f.cmp("ueq", a, zero)  # zeros and NaN
        return f.select(keeps, a, f.intrinsic("copysign", f.const(1.0, a.type), a))
    nonzero = f.cast("zext", f.cmp("ne", a, zero), a.type.element)
    if _operand_element(op).unsigned:
        return nonzero
    return f.select(f.cmp("slt", a, zero), _ones(f, a), nonzero)


# --- functions of the operands' values alone -------------------------------------------------------------------------


def _typed(float_name: str, integer_name: str, bool_name: str) -> Callable[[Function, Value, Value], Value]:
    def arithmetic(f: Function, a: Value, b: Value) -> Value:
        if a.type.is_float:
            return f.binary(float_name, a, b)
        return f.binary(bool_name if a.type.element is I1 else integer_name, a, b)

    return arithmetic


def _binary(name: str) -> Callable[[Function, Value, Value], Value]:
    return lambda f, a, b: f.binary(name, a, b)


def _intrinsic(name: str) -> Callable[[Function, Value], Value]:
    return lambda f, a: f.intrinsic(name, a)


def _negate(f: Function, a: Lanes) -> Lanes:
    return each(lambda part: f.fneg(part) if part.type.is_float else f.binary("sub", _zero(f, part), part), a)


def _round_away(f: Function, a: Value) -> Value:
    # trunc(x + copysign(pred(0.5), x)): llvm.round has no vector instruction on x86. The predecessor keeps 0.49999997
    # from rounding up.
    below_half = math.nextafter(0.5, 0.0) if a.type.element is F64 else 0.5 - 2.0**-25
    return f.intrinsic("trunc", f.fadd(a, f.intrinsic("copysign", f.const(below_half, a.type), a)))


_FUNCTIONS: dict[str, Callable[..., Lanes]] = {
    "acos": real_math.acos,
    "acosh": real_math.acosh,
    # On i1, StableHLO's add is OR and multiply is AND; subtract is not defined and XLA's answer is XOR.
    "add": _typed("fadd", "add", "or"),
    "and": _binary("and"),
    "asin": real_math.asin,
    "asinh": real_math.asinh,
    "atan2": real_math.atan2,
    "atanh": real_math.atanh,
    "bessel_i1e": real_math.bessel_i1e,
    "cbrt": real_math.cbrt,
    "ceil": _intrinsic("ceil"),
    "complex": lambda f, a, b: (a, b),
    "copy": lambda f, a: a,
    "cosh": real_math.cosh,
    "cosine": real_math.cos,
    "count_leading_zeros": _intrinsic("ctlz"),
    "digamma": real_math.digamma,
    "erf": real_math.erf,
    "erf_inv": real_math.erf_inv,
    "erfc": real_math.erfc,
    "exponential": real_math.exp,
    "exponential_minus_one": real_math.expm1,
    "floor": _intrinsic("floor"),
    "imag": lambda f, a: a[1] if isinstance(a, tuple) else f.const(0.0, a.type),
    "is_finite": lambda f, a: f.cmp("olt", f.intrinsic("fabs", a), f.const(math.inf, a.type)),
    "lgamma": real_math.lgamma,
    "log": real_math.log,
    "log_plus_one": real_math.log1p,
    "logistic": real_math.logistic,
    "multiply": _typed("fmul", "mul", "and"),
    "negate": _negate,
    "not": lambda f, a: f.binary("xor", a, _ones(f, a)),
    "or": _binary("or"),
    "popcnt": _intrinsic("ctpop"),
    "real": lambda f, a: a[0] if isinstance(a, tuple) else a,
    "round_nearest_afz": _round_away,
    "round_nearest_even": _intrinsic("roundeven"),
    "rsqrt": real_math.rsqrt,
    "select": lambda f, condition, a, b: select(f, condition, a, b),
    "sine": real_math.sin,
    "sinh": real_math.sinh,
    "sqrt": real_math.sqrt,
    "subtract": _typed("fsub", "sub", "xor"),
    "tan": real_math.tan,
    "tanh": real_math.tanh,
    "xor": _binary("xor"),
    "zeta": real_math.zeta,
}


def _value(name: str, f: Function, operands: Sequence[Known], of_16_bits: bool = False) -> Lanes:
    """What one of `_FUNCTIONS` makes of lanes. Complex numbers and numbers of 16 bits have tables of their own."""
    function = _FUNCTIONS[name]
    if isinstance(operands[0], tuple):
        function = complex_math.FUNCTIONS.get(name, function)
    elif of_16_bits:
        function = narrow_math.FUNCTIONS.get(name, function)
    return function(f, *operands)


@dataclass(frozen=True)
class RealFunction:
    """What an op of one of `_FUNCTIONS` makes of floats of at least 32 bits, as code that functions share."""

    name: str

    @classmethod
    def of(cls, op: ir.OpView) -> RealFunction | None:
        """That of an op; None: it is another one, of other numbers, or one instruction."""
        name, of = op.operation.name.removeprefix("hlo."), element(op.results[0])
        is_real = of.is_float and of.bits >= 32 and all(element(value).name == of.name for value in op.operands)
        return cls(name) if name in _FUNCTIONS and name != "sqrt" and is_real else None

    def __call__(self, f: Function, *operands: Value) -> list[Value]:
        result = _FUNCTIONS[self.name](f, *operands)
        assert isinstance(result, Value)
        return [result]


def _enter(name: str) -> None:
    ARITH.enter(lambda f, op, operands: _value(name, f, operands, element(op.results[0]).bits <= 16), name)


_CIRCULAR = ("cosine", "sine", "tan")

for _name in _FUNCTIONS:
    if _name not in _CIRCULAR:
        _enter(_name)


@ARITH.rule(*_CIRCULAR)
def _circular(f: Function, op: ir.OpView, operands: Sequence[Known]) -> Lanes:
    name = op.operation.name.removeprefix("hlo.")
    if SMALL_ANGLE in op.attributes and RealFunction.of(op):
        return _FUNCTIONS[name](f, *operands, is_small=True)
    return _value(name, f, operands, element(op.results[0]).bits <= 16)


@ARITH.rule("power")
def _power(f: Function, op: ir.OpView, operands: Sequence[Known]) -> Lanes:
    a, b = operands
    if isinstance(a, tuple):
        return complex_math.FUNCTIONS["power"](f, a, b)
    if a.type.is_float:
        return real_math.power(f, a, b)
    return _integer_power(f, a, b, _operand_element(op))


def _integer_power(f: Function, a: Value, b: Value, of: Element) -> Value:
    one, zero = f.const(1, a.type), _zero(f, a)

    def square_and_multiply(_: Value, result: Value, base: Value, exponent: Value) -> list[Value]:
        odd = f.cmp("ne", f.binary("and", exponent, one), zero)
        result = f.select(odd, f.binary("mul", result, base), result)
        return [result, f.binary("mul", base, base), f.binary("lshr", exponent, one)]

    result, _, _ = f.loop(0, of.bits, 1, square_and_multiply, [one, a, b])
    if of.unsigned:
        return result
    # Negative exponents: 1/a rounded towards zero, by the sign rule of its power.
    odd = f.cmp("ne", f.binary("and", b, one), zero)
    minus = f.select(f.cmp("eq", a, _ones(f, a)), f.select(odd, _ones(f, a), one), zero)
    return f.select(f.cmp("slt", b, zero), f.select(f.cmp("eq", a, one), one, minus), result)


@ARITH.rule("reduce_precision")
def _reduce_precision(f: Function, op: ir.OpView, operands: Sequence[Known]) -> Lanes:
    return reduce_precision(f, _operand_element(op), operands[0], i64(op, "exponent_bits"), i64(op, "mantissa_bits"))


# --- choice and comparison -------------------------------------------------------------------------------------------

_FLOAT_PREDICATES = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}


@ARITH.rule("compare")
def _compare(f: Function, op: ir.OpView, operands: Sequence[Known]) -> Lanes:
    total = "total_order" in op.attributes
    return compare(f, text(op, "direction"), _operand_element(op), *operands, total_order=total)


def compare(f: Function, direction: str, of: Element, a: Known, b: Known, *, total_order: bool = False) -> Value:
    """Lanes of i1: `direction` is EQ NE LT LE GT GE. Total order: -NaN < -inf < ... < -0 < +0 < ... < NaN."""
    if isinstance(a, tuple):
        return complex_math.compare(f, direction, a, b)
    if a.type.is_float and not total_order:
        return f.cmp(_FLOAT_PREDICATES[direction], a, b)
    if a.type.is_float:
        return f.cmp(_integer_predicate(direction, unsigned=False), sortable(f, a), sortable(f, b))
    return f.cmp(_integer_predicate(direction, of.unsigned), a, b)


def _integer_predicate(direction: str, unsigned: bool) -> str:
    return direction.lower() if direction in ("EQ", "NE") else ("u" if unsigned else "s") + direction.lower()


def sortable(f: Function, a: Value) -> Value:
    """Signed integers that compare as the floats do in total order."""
    integer = vector(a.type.lanes, ScalarType(f"i{a.type.bits}", a.type.bits))
    bits = f.bitcast(a, integer)
    flip = f.binary("lshr", f.binary("ashr", bits, f.const(a.type.bits - 1, integer)), f.const(1, integer))
    return f.binary("xor", bits, flip)


# --- conversion ------------------------------------------------------------------------------------------------------


@ARITH.rule("convert")
def _convert(f: Function, op: ir.OpView, operands: Sequence[Known]) -> Lanes:
    return convert(f, _operand_element(op), element(op.results[0]), operands[0])


@ARITH.rule("bitcast_convert")
def _bitcast_convert(f: Function, op: ir.OpView, operands: Sequence[Known]) -> Lanes:
    return bitcast(f, _operand_element(op), element(op.results[0]), operands[0])


# --- combiners of reductions -----------------------------------------------------------------------------------------


def combine(f: Function, kind: str, of: Element, a: Known, b: Known) -> Lanes:
    """One step of a reduction (`kind` as in hlo.reduce). f16 and bf16 accumulate in f32: round the final result."""
    if kind in ("maximum", "minimum"):
        return extreme(f, kind == "maximum", of.unsigned, a, b)
    return _value(kind, f, (a, b))


def identity(f: Function, kind: str, of: Element, lanes: int = 1) -> Lanes:
    """The value that `combine` leaves others unchanged with."""
    type_, element_ = vector(lanes, of.compute), combiner(kind).identity
    assert element_ is not None
    if of.is_complex or of.is_float:
        assert element_.real is not None
        real = f.const(element_.real, type_)
        return (real, f.const(element_.imaginary, type_)) if of.is_complex else real
    unsigned = of.unsigned or of.bits == 1
    lowest = 0 if unsigned else -(1 << (of.bits - 1))
    number = element_.integer(lowest, lowest + (1 << of.bits) - 1)
    # Constants are signed: all ones are -1.
    return f.const(number - (1 << of.bits) if unsigned and number >> (of.bits - 1) else number, type_)


_REDUCTIONS = {"maximum": "fmaximum", "minimum": "fminimum", "add": "fadd", "multiply": "fmul"}


def reduce_lanes(f: Function, kind: str, of: Element, a: Known) -> Lanes:
    """All lanes combined into a scalar, in a fixed tree."""
    if isinstance(a, tuple):
        return _fold_lanes(f, kind, of, a)
    if a.type.lanes == 1:
        return a
    if a.type.is_float:
        return f.reduce_lanes(_REDUCTIONS[kind], a)
    if a.type.element is I1:
        names = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}
        return f.reduce_lanes(names.get(kind, kind), a)
    if kind in ("maximum", "minimum"):
        return f.reduce_lanes(("u" if of.unsigned else "s") + kind[:3], a)
    return f.reduce_lanes({"multiply": "mul"}.get(kind, kind), a)


def _fold_lanes(f: Function, kind: str, of: Element, a: Known) -> Lanes:
    lanes = a[0].type.lanes
    while lanes > 1:
        half = lanes // 2
        low = each(lambda part, half=half: _part(f, part, range(half)), a)
        high = each(lambda part, half=half, lanes=lanes: _part(f, part, range(half, lanes)), a)
        a, lanes = combine(f, kind, of, low, high), half
    return a


def _part(f: Function, a: Value, lanes: range) -> Value:
    return f.extract(a, lanes[0]) if len(lanes) == 1 else f.shuffle(a, a, list(lanes))
