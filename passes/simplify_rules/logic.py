"""Rules on bits and booleans: and, or, xor, not, shifts."""

from __future__ import annotations

from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.types import text
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import SPLAT, integer_splat, is_float_value, operand_of
from stablehlo_py.passes.simplify_rules.combine import is_identity
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet, defining

LOGIC = RuleSet("logic")

INVERSE = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}
_SHIFTS = ("hlo.shift_left", "hlo.shift_right_logical", "hlo.shift_right_arithmetic")


@LOGIC.rule("hlo.xor")
def xor_constant(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x ^ ~0 -> not x, x ^ x -> 0"
    x, y = op.operands
    if x == y:
        return rewriter.splat(0, x.type)
    return rewriter.like("not", x) if is_identity("and", y) else None


@LOGIC.rule("hlo.and", "hlo.or", needs="hlo.not")
def bitwise_complement(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x & not(x) -> 0, x | not(x) -> ~0"
    x, y = op.operands
    inner, other = operand_of(x, "hlo.not"), operand_of(y, "hlo.not")  # values do not compare with None
    if not ((inner is not None and inner == y) or (other is not None and other == x)):
        return None
    zero = rewriter.splat(0, x.type)
    return zero if op.name == "hlo.and" else rewriter.like("not", zero)


@LOGIC.rule("hlo.xor", needs="hlo.xor", where="i1 or integers")
def xor_twice(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "(x ^ y) ^ y -> x"
    for one, two in (tuple(op.operands), tuple(op.operands)[::-1]):
        inner = defining(one, "hlo.xor")
        if inner is not None:
            first, second = inner.operands
            if two in (first, second):
                return first if two == second else second
    return None


@LOGIC.pair("hlo.not", "hlo.compare", where="integers, or EQ and NE: a NaN makes both < and >= false")
def not_compare(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "not(x < y) -> x >= y"
    direction = text(inner, "direction")
    total = "total_order" in inner.attributes
    if direction not in ("EQ", "NE") and is_float_value(inner.operands[0]) and not total:
        return None
    return rewriter.again(inner, inner.operands, attributes={"direction": INVERSE[direction]})


@LOGIC.rule(*_SHIFTS, needs=SPLAT)
def shift_zero(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x << 0 -> x"
    x, y = op.operands
    return x if splat(y) == 0 else None


@LOGIC.rule("hlo.shift_left", "hlo.shift_right_logical", needs=SPLAT)
def shift_out(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x << c -> 0 where c >= width"
    x, y = op.operands
    c = integer_splat(y)
    if c is None or 0 <= c < x.type.element_type.width:
        return None
    return rewriter.splat(0, x.type)  # a negative amount is a large unsigned one


@LOGIC.rule(*_SHIFTS, needs=SPLAT, where="c, d and c + d are less than the width")
def shift_twice(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "(x << c) << d -> x << (c + d)"
    x, y = op.operands
    inner = defining(x, op.name)
    if (d := integer_splat(y)) is None or inner is None or (c := integer_splat(inner.operands[1])) is None:
        return None
    width = x.type.element_type.width
    if not (0 <= c < width and 0 <= d < width and c + d < width):
        return None
    return rewriter.like(op.name[4:], inner.operands[0], rewriter.splat(c + d, y.type))
