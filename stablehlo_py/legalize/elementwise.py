"""Elementwise ops. Most keep their name; what differs: booleans have logic only, scalar operands are broadcast, no
clamp."""

from __future__ import annotations

import math

from stablehlo_py.dialect import build
from stablehlo_py.dialect.formats import FORMATS, Specials
from stablehlo_py.dialect.ops import records
from stablehlo_py.dialect.stablehlo import keyword
from stablehlo_py.dialect.types import element_type, i64, is_bool, is_complex, is_float, is_unsigned, rank, shape
from stablehlo_py.legalize.rules import ON_BOOLEANS, RENAMED, RULES, Results, Unsupported, rule
from stablehlo_py.mlir import ir

RENAMED.update({"chlo.erf": "hlo.erf", "chlo.tan": "hlo.tan", "chlo.zeta": "hlo.zeta"})
RENAMED.update({f"stablehlo.{name.removeprefix('hlo.')}": name for name in ON_BOOLEANS})
# CHLO functions with an accurate expansion of ours for real numbers; complex ones are left to upstream's.
REAL_FUNCTIONS = "acos acosh asin asinh atanh bessel_i1e cosh digamma erf_inv erfc lgamma sinh".split()


@rule(*(f"chlo.{name}" for name in REAL_FUNCTIONS))
def real_function(op: ir.OpView) -> Results:
    """The same op on real numbers."""
    if is_complex(element_type(op.operands[0])) and op.operation.name not in ("chlo.cosh", "chlo.sinh"):
        return None
    return build.like(op.operation.name.removeprefix("chlo."), op.operands[0])


@rule("chlo.polygamma")
def polygamma(op: ir.OpView) -> ir.Value:
    """digamma of order 0; (-1)^(n + 1) n! zeta(n + 1, x) of others, in f64, whose first factorials are made exact by
    rounding; NaN unless the order is a natural number."""
    double = build.tensor(shape(op.operands[0]), ir.F64Type.get())
    n, x = (value if value.type == double else build.value("convert", double, value) for value in op.operands)
    zero, one, two, nan = (build.splat(number, double) for number in (0.0, 1.0, 2.0, math.nan))
    next_ = build.like("add", n, one)
    factorial = build.like("exponential", build.like("lgamma", next_))
    # Beyond 2^53 all numbers are whole, and the largest ones are infinite.
    factorial = build.like("round_nearest_even", factorial)
    size = build.like("multiply", factorial, build.like("zeta", next_, x))

    def equal(a: ir.Value, b: ir.Value) -> ir.Value:
        return build.compare(a, b, "EQ")

    even = equal(build.like("remainder", n, two), zero)
    result = build.value("select", double, even, build.like("negate", size), size)
    natural = build.compare(n, zero, "GE")
    natural = build.like("and", natural, equal(build.like("subtract", n, build.like("floor", n)), zero))
    result = build.value("select", double, natural, result, nan)
    result = build.value("select", double, equal(n, zero), build.like("digamma", x), result)
    # The op's own type does not name dynamic sizes; the operands' do.
    element = element_type(op.result)
    return build.convert(result, element)


@rule("stablehlo.negate")
def negate(op: ir.OpView) -> ir.Value:
    """Minus the operand. f8E8M0FNU has positive numbers only: there it is NaN, which rules on signs need not know."""
    (operand,) = op.operands
    element = element_type(operand)
    if is_float(element) and element.width == 8 and FORMATS[str(element)].specials is Specials.SCALE:
        return build.splat(math.nan, operand.type)
    return build.like("negate", operand)


@rule("stablehlo.remainder")
def remainder(op: ir.OpView) -> ir.Value:
    """The same op."""
    if is_complex(element_type(op.operands[0])):
        raise Unsupported("is not defined for complex numbers", "divide, and subtract what was divided")
    return build.like("remainder", *op.operands)


@rule("stablehlo.compare")
def compare(op: ir.OpView) -> ir.Value:
    """The element type says how to compare, and `compare_type` whether floats are in total order (spec, section
    compare, C3)."""
    lhs, rhs = op.operands
    element, flags = element_type(lhs), op.results[0].type
    direction = keyword(op.attributes["comparison_direction"])
    kind = keyword(op.attributes["compare_type"]) if "compare_type" in op.attributes else "NOTYPE"
    if kind not in ("NOTYPE", *_compare_types(element)):
        raise Unsupported(f"compares elements of type {element} as {kind}", f"use {_compare_types(element)[0]}")
    if is_complex(element) and direction not in ("EQ", "NE"):
        return _lexicographic(direction, lhs, rhs, flags)
    attributes = {"total_order": ir.UnitAttr.get()} if kind == "TOTALORDER" else {}
    return build.compare(lhs, rhs, direction, **attributes)


def _compare_types(element: ir.Type) -> tuple[str, ...]:
    if is_complex(element):
        return ("FLOAT",)
    if is_float(element):
        return ("FLOAT", "TOTALORDER")
    return ("UNSIGNED", "SIGNED") if is_bool(element) else ("UNSIGNED",) if is_unsigned(element) else ("SIGNED",)


def _lexicographic(direction: str, lhs: ir.Value, rhs: ir.Value, flags: ir.Type) -> ir.Value:
    """Complex numbers by their real parts, those with equal ones by their imaginary parts."""
    (real, imaginary), (other_real, other_imaginary) = build.parts(lhs), build.parts(rhs)
    first = build.compare(real, other_real, direction[0] + "T")
    same = build.compare(real, other_real, "EQ")
    second = build.compare(imaginary, other_imaginary, direction)
    return build.like("or", first, build.like("and", same, second))


@rule("stablehlo.select")
def select(op: ir.OpView) -> ir.Value:
    """A scalar predicate is broadcast."""
    predicate, on_true, on_false = op.operands
    return build.value("select", on_true.type, build.broadcast(predicate, shape(on_true), []), on_true, on_false)


@rule("stablehlo.clamp")
def clamp(op: ir.OpView) -> ir.Value:
    """Spec, section clamp: `minimum(maximum(operand, min), max)`; scalar bounds are broadcast."""
    low, operand, high = op.operands
    low, high = (build.broadcast(bound, shape(operand), []) if rank(bound) == 0 else bound for bound in (low, high))
    if is_bool(element_type(operand)):
        return build.like("and", build.like("or", operand, low), high)
    return build.like("minimum", build.like("maximum", operand, low), high)


@rule("stablehlo.convert", "stablehlo.bitcast_convert")
def convert(op: ir.OpView) -> ir.Value:
    """A conversion to the same type is none."""
    (operand,) = op.operands
    result = op.results[0].type
    if operand.type == result:
        return operand
    return build.value(op.operation.name.removeprefix("stablehlo."), result, operand)


@rule("stablehlo.reduce_precision")
def reduce_precision(op: ir.OpView) -> ir.Value:
    """The bit counts become i64."""
    bits = {name: i64(op, name) for name in ("exponent_bits", "mantissa_bits")}
    return build.like("reduce_precision", op.operands[0], **bits)


@rule("stablehlo.real")
def real(op: ir.OpView) -> ir.Value:
    """The real part; of a real number the number."""
    (operand,) = op.operands
    return build.value("real", op.results[0].type, operand) if is_complex(element_type(operand)) else operand


@rule("stablehlo.imag")
def imag(op: ir.OpView) -> ir.Value:
    """The imaginary part; of a real number zero."""
    (operand,) = op.operands
    if is_complex(element_type(operand)):
        return build.value("imag", op.results[0].type, operand)
    return build.splat(0, op.results[0].type)


@rule("chlo.is_inf", "chlo.is_neg_inf", "chlo.is_pos_inf")
def is_inf(op: ir.OpView) -> Results:
    """Upstream's comparison with infinity, which takes the largest number of a type without infinities for one."""
    if FORMATS[str(element_type(op.operands[0]))].specials is Specials.IEEE:
        return None
    flags = build.tensor(shape(op.operands[0]), ir.IntegerType.get_signless(1))
    return build.splat(False, flags)


@rule("chlo.square")
def square(op: ir.OpView) -> ir.Value:
    """`x * x`. Of a complex number (x - y)(x + y) + 2 x y i, which is infinite where x^2 and y^2 are and their
    difference is NaN."""
    (operand,) = op.operands
    if not is_complex(element_type(operand)):
        return build.like("multiply", operand, operand)
    flags = build.tensor(shape(operand), ir.IntegerType.get_signless(1))
    x, y = build.parts(operand)
    difference = build.like("multiply", build.like("subtract", x, y), build.like("add", x, y))
    product = build.like("multiply", x, y)
    # x + y may be infinite where x - y is 0.
    same = build.compare(build.like("abs", x), build.like("abs", y), "EQ")
    cancels = build.like("and", same, build.value("is_finite", flags, x))
    real = build.value("select", x.type, cancels, build.splat(0, x.type), difference)
    return build.value("complex", operand.type, real, build.like("add", product, product))


@rule("chlo.conj")
def conj(op: ir.OpView) -> ir.Value:
    """The complex conjugate; of a real number the number."""
    return build.conjugate(op.operands[0])


# All functions that are not CHLO's alone, and have no rule above, keep their name.
for _record in records():
    _name = f"stablehlo.{_record.mnemonic}"
    if _record.function and _name not in RULES and _record.mnemonic not in (*REAL_FUNCTIONS, "erf", "zeta"):
        RENAMED[_name] = _record.name
