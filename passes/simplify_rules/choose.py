"""Rules on compare and select."""

from __future__ import annotations

from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.ops import SWAPPED
from stablehlo_py.dialect.types import text
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import SPLAT, integer_splat, is_integer_value, is_number
from stablehlo_py.passes.simplify_rules.ranges import integer_range
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet, defining

CHOOSE = RuleSet("choose")


# --- compare ---------------------------------------------------------------------------------------------------------


@CHOOSE.rule("hlo.compare", needs=SPLAT, where="c is a splat constant, x is not")
def compare_constant_right(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "c < x -> x > c"
    x, y = op.operands
    if splat(x) is None or splat(y) is not None:
        return None
    return rewriter.again(op, [y, x], attributes={"direction": SWAPPED[text(op, "direction")]})


@CHOOSE.rule("hlo.compare", where="integers (NaN is not equal to itself), or total order")
def compare_self(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x == x -> true, x < x -> false"
    x, y = op.operands
    if x != y or not (is_integer_value(x) or "total_order" in op.attributes):
        return None
    return rewriter.splat(text(op, "direction") in ("EQ", "LE", "GE"), op.result.type)


@CHOOSE.rule("hlo.compare", needs=SPLAT, where="the range of x, known from iota and constants, decides")
def compare_range(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x < c -> true or false"
    x, y = op.operands
    if not is_number(x) or (c := integer_splat(y)) is None:
        return None
    low, high = integer_range(x)
    direction = text(op, "direction")
    if direction in ("GE", "GT"):
        holds, fails = (low >= c, high < c) if direction == "GE" else (low > c, high <= c)
    elif direction in ("LT", "LE"):
        holds, fails = (high < c, low >= c) if direction == "LT" else (high <= c, low > c)
    else:
        apart, equal = c < low or c > high, low == high == c
        holds, fails = (equal, apart) if direction == "EQ" else (apart, equal)
    return rewriter.splat(holds, op.result.type) if holds or fails else None


@CHOOSE.rule("hlo.compare", needs=SPLAT, where="x is i1")
def compare_bool(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x == true -> x, x == false -> not x"
    x, y = op.operands
    c = splat(y)
    if c is None or x.type != op.result.type:
        return None
    direction = text(op, "direction")
    if direction not in ("EQ", "NE"):
        return None
    return x if (c == 1) == (direction == "EQ") else rewriter.like("not", x)


@CHOOSE.pair("hlo.compare", "hlo.add", where="integers; == and !=: sums wrap, but one to one")
def compare_sum(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x + c == d -> x == d - c"
    (x, c), d = inner.operands, op.operands[1]
    if splat(c) is None or splat(d) is None or not is_number(x) or text(op, "direction") not in ("EQ", "NE"):
        return None
    return rewriter.again(op, [x, rewriter.like("subtract", d, c)])


@CHOOSE.pair("hlo.compare", "hlo.subtract", where="integers; == and !=")
def compare_difference(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "x - y == 0 -> x == y"
    x, zero = op.operands
    if splat(zero) != 0 or not is_integer_value(x) or text(op, "direction") not in ("EQ", "NE"):
        return None
    return rewriter.again(op, inner.operands)


@CHOOSE.pair("hlo.compare", "hlo.select", where="integers; == and !=; the range of x has no c")
def compare_choice(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "select(p, c, x) == c -> p, select(p, c, x) != c -> not p"
    pred, chosen, x = inner.operands
    c, direction = integer_splat(op.operands[1]), text(op, "direction")
    if c is None or integer_splat(chosen) != c or direction not in ("EQ", "NE") or pred.type != op.result.type:
        return None
    low, high = integer_range(x)
    if low <= c <= high:
        return None
    return pred if direction == "EQ" else rewriter.like("not", pred)


# --- select ----------------------------------------------------------------------------------------------------------


@CHOOSE.rule("hlo.select")
def select_same(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "select(p, x, x) -> x"
    _, x, y = op.operands
    return x if x == y else None


@CHOOSE.rule("hlo.select", needs=SPLAT)
def select_constant(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "select(true, x, y) -> x, select(false, x, y) -> y"
    pred, x, y = op.operands
    c = splat(pred)
    return None if c is None else x if c else y


@CHOOSE.pair("hlo.select", "hlo.not")
def select_not(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "select(not p, x, y) -> select(p, y, x)"
    _, x, y = op.operands
    return rewriter.value("select", op.result.type, inner.operands[0], y, x)


@CHOOSE.rule("hlo.select", needs=SPLAT, where="i1")
def select_bool(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "select(p, true, x) -> p | x, select(p, x, false) -> p & x, and with not p for the other two"
    pred, x, y = op.operands
    if pred.type != op.result.type:
        return None
    on_true, on_false = splat(x), splat(y)
    if on_true == 1:
        return rewriter.like("or", pred, y)
    if on_false == 0:
        return rewriter.like("and", pred, x)
    if on_true == 0:
        return rewriter.like("and", rewriter.like("not", pred), y)
    if on_false == 1:
        return rewriter.like("or", rewriter.like("not", pred), x)
    return None


@CHOOSE.rule("hlo.select", needs="hlo.select")
def select_twice(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "select(p, select(p, x, y), z) -> select(p, x, z), select(p, x, select(p, y, z)) -> select(p, x, z)"
    pred, x, y = op.operands
    inner = defining(x, "hlo.select")
    if inner is not None and inner.operands[0] == pred:
        return rewriter.value("select", op.result.type, pred, inner.operands[1], y)
    inner = defining(y, "hlo.select")
    if inner is not None and inner.operands[0] == pred:
        return rewriter.value("select", op.result.type, pred, x, inner.operands[2])
    return None


@CHOOSE.pair("hlo.select", "hlo.compare", where="integers (-0 == +0, but they differ)")
def select_equal(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "select(x == y, x, y) -> y, select(x != y, x, y) -> x"
    _, x, y = op.operands
    if not is_integer_value(x) or set(inner.operands) != {x, y}:
        return None
    direction = text(inner, "direction")
    return y if direction == "EQ" else x if direction == "NE" else None


@CHOOSE.pair("hlo.select", "hlo.compare", where="integers (a NaN, or zeros of both signs, choose differently)")
def select_extremum(op: ir.Operation, inner: ir.Operation, rewriter: Rewriter) -> Replacement:
    "select(x < y, x, y) -> min(x, y), select(x > y, x, y) -> max(x, y)"
    (_, x, y), compared, direction = op.operands, tuple(inner.operands), text(inner, "direction")
    if not is_number(x):
        return None
    if compared == (y, x):
        direction = SWAPPED[direction]
    elif compared != (x, y):
        return None
    name = {"LT": "minimum", "LE": "minimum", "GT": "maximum", "GE": "maximum"}.get(direction)
    return None if name is None else rewriter.like(name, x, y)
