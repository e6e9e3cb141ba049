"""Products that leave a loop behind it: which do, and results with and without the pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stablehlo_py.passes.sink_products import SinkProducts

Check = Callable[..., str]
EAGER = {"least": 1, "share": 0}
I32 = "tensor<i32>"


def scan(body: str, result: str, last: str, start: int = 0, step: int = 1) -> str:
    """A loop of five trips that carries a value of type `result`, %a in its `body`, and yields `last` for it."""
    limit = start + 5 * step
    arguments = f"%xs: tensor<5x2x3xf32>, %ys: tensor<5x2x4xf32>, %w: tensor<3x4xf32>, %from: {result}"
    return f"""func.func @main({arguments}) -> {result} {{
  %c0 = "hlo.constant"() {{value = dense<0> : {I32}}} : () -> {I32}
  %c1 = "hlo.constant"() {{value = dense<{step}> : {I32}}} : () -> {I32}
  %c4 = "hlo.constant"() {{value = dense<4> : {I32}}} : () -> {I32}
  %start = "hlo.constant"() {{value = dense<{start}> : {I32}}} : () -> {I32}
  %limit = "hlo.constant"() {{value = dense<{limit}> : {I32}}} : () -> {I32}
  %r:2 = scf.while (%i0 = %start, %a0 = %from) : ({I32}, {result}) -> ({I32}, {result}) {{
    %l = "hlo.compare"(%i0, %limit) {{direction = "NE"}} : ({I32}, {I32}) -> tensor<i1>
    %p = tensor.extract %l[] : tensor<i1>
    scf.condition(%p) %i0, %a0 : {I32}, {result}
  }} do {{
  ^bb0(%i: {I32}, %a: {result}):
    %n = "hlo.add"(%i, %c1) : ({I32}, {I32}) -> {I32}
    %back = "hlo.subtract"(%c4, %i) : ({I32}, {I32}) -> {I32}
    {body}
    scf.yield %n, {last} : {I32}, {result}
  }}
  return %r#1 : {result}
}}"""


def cut(name: str, source: str, index: str, width: int) -> str:
    """A place of a stack, without its first dimension."""
    stack, part = f"tensor<5x2x{width}xf32>", f"tensor<1x2x{width}xf32>"
    return (
        f'%{name}1 = "hlo.dynamic_slice"({source}, {index}, %c0, %c0) {{sizes = array<i64: 1, 2, {width}>}}'
        f" : ({stack}, {I32}, {I32}, {I32}) -> {part}\n"
        f'%{name} = "hlo.reshape"(%{name}1) : ({part}) -> tensor<2x{width}xf32>\n'
    )


def dot(name: str, left: str, right: str, numbers: tuple[int, int], types: str) -> str:
    return (
        f'%{name} = "hlo.dot"({left}, {right}) {{lhs_batch = array<i64>, lhs_contract = array<i64: {numbers[0]}>,'
        f" rhs_batch = array<i64>, rhs_contract = array<i64: {numbers[1]}>}} : {types}\n"
    )


def unary(name: str, op: str, operand: str, type_: str, result: str = "", attributes: str = "") -> str:
    return f'%{name} = "hlo.{op}"({operand}) {attributes} : ({type_}) -> {result or type_}\n'


def add(name: str, left: str, right: str, type_: str) -> str:
    return f'%{name} = "hlo.add"({left}, {right}) : ({type_}, {type_}) -> {type_}\n'


X, Y, W, WT = "tensor<2x3xf32>", "tensor<2x4xf32>", "tensor<3x4xf32>", "tensor<4x3xf32>"
PRODUCT = cut("x", "%xs", "%i", 3) + cut("y", "%ys", "%i", 4)
STACKED = unary("t", "negate", "%y", Y)
SUM = dot("d", "%x", "%t", (0, 0), f"({X}, {Y}) -> {W}") + add("b", "%a", "%d", W)
TRANSPOSED = (
    dot("q", "%t", "%x", (0, 0), f"({Y}, {X}) -> {WT}")
    + unary("d", "transpose", "%q", WT, W, "{permutation = array<i64: 1, 0>}")
    + add("b", "%d", "%a", W)
)
OUTER = (
    '%u = "hlo.slice"(%x) {start = array<i64: 0, 0>, limit = array<i64: 1, 3>, strides = array<i64: 1, 1>}'
    f" : ({X}) -> tensor<1x3xf32>\n"
    '%v = "hlo.slice"(%t) {start = array<i64: 0, 0>, limit = array<i64: 1, 4>, strides = array<i64: 1, 1>}'
    f" : ({Y}) -> tensor<1x4xf32>\n"
    + unary("ur", "reshape", "%u", "tensor<1x3xf32>", "tensor<3xf32>")
    + unary("vr", "reshape", "%v", "tensor<1x4xf32>", "tensor<4xf32>")
    + unary("ub", "broadcast", "%ur", "tensor<3xf32>", W, "{dimensions = array<i64: 0>}")
    + unary("vb", "broadcast", "%vr", "tensor<4xf32>", W, "{dimensions = array<i64: 1>}")
    + f'%d = "hlo.multiply"(%vb, %ub) : ({W}, {W}) -> {W}\n'
    + add("b", "%a", "%d", W)
)


def loop_of(text: str) -> str:
    """What stands in the loop, of the text of a module."""
    return text.split("scf.while")[1].split("scf.yield")[0]


@pytest.mark.parametrize("body", [PRODUCT + STACKED + SUM, PRODUCT + STACKED + TRANSPOSED])
def test_sums_of_products_are_one(check: Check, body: str) -> None:
    after = check(scan(body, W, "%b"), SinkProducts(**EAGER).run, tolerance=1e-5)
    assert '%1 = "hlo.dot"' not in loop_of(after) and after.count("lhs_contract = array<i64: 0, 1>") == 1


def test_sums_of_outer_products_are_one(check: Check) -> None:
    after = check(scan(PRODUCT + STACKED + OUTER, W, "%b"), SinkProducts(**EAGER).run, tolerance=1e-5)
    assert after.count('"hlo.dot"') == 1


def test_slices_from_the_last_one_on(check: Check) -> None:
    body = (PRODUCT + STACKED + SUM).replace("(%xs, %i,", "(%xs, %back,").replace("(%ys, %i,", "(%ys, %back,")
    after = check(scan(body, W, "%b"), SinkProducts(**EAGER).run, tolerance=1e-5)
    assert after.count("lhs_contract = array<i64: 0, 1>") == 1


def test_slices_of_different_trips_are_stacked_at_one_index(check: Check) -> None:
    body = (PRODUCT + STACKED + SUM).replace("(%ys, %i,", "(%ys, %back,").replace("%t, ", "%y, ").replace("%t)", "%y)")
    after = check(scan(body, W, "%b"), SinkProducts(**EAGER).run, tolerance=1e-5)
    assert after.count("lhs_contract = array<i64: 0, 1>") == 1


@pytest.mark.parametrize(
    ("body", "options"),
    [
        (PRODUCT + STACKED + SUM, EAGER | {"least": 13}),
        (PRODUCT + STACKED + SUM, EAGER | {"share": 2}),  # eight elements are stacked for a sum of twelve
        (PRODUCT + STACKED + SUM, EAGER | {"max_growth": 1, "memory": 1}),
        (PRODUCT + STACKED + SUM + add("e", "%b", "%b", W), EAGER),  # somebody reads the sum within the loop
    ],
)
def test_sums_that_stay(check: Check, body: str, options: dict[str, int]) -> None:
    last = "%e" if "%e =" in body else "%b"
    after = check(scan(body, W, last), SinkProducts(**options).run, tolerance=1e-5)
    assert "hlo.dot" in loop_of(after)


def test_counters_that_are_no_index_stay(check: Check) -> None:
    body = unary("x", "negate", "%a", W) + dot("d", "%x", "%x", (1, 1), f"({W}, {W}) -> tensor<3x3xf32>")
    body += dot("e", "%d", "%w", (1, 0), f"(tensor<3x3xf32>, {W}) -> {W}") + add("b", "%a", "%e", W)
    after = check(scan(body, W, "%b", start=1, step=2), SinkProducts(**EAGER).run, tolerance=1e-2)
    assert "hlo.dot" in loop_of(after)


STACK = "tensor<5x2x4xf32>"
RIGHT = dot("d", "%t", "%w", (1, 0), f"({X}, {W}) -> {Y}")
LEFT = dot("q", "%w", "%t", (0, 1), f"({W}, {X}) -> tensor<4x2xf32>") + unary(
    "d", "reshape", "%q", "tensor<4x2xf32>", Y
)


def update(index: str) -> str:
    return (
        unary("row", "reshape", "%d", Y, "tensor<1x2x4xf32>")
        + f'%b = "hlo.dynamic_update_slice"(%a, %row, {index}, %c0, %c0)'
        f" : ({STACK}, tensor<1x2x4xf32>, {I32}, {I32}, {I32}) -> {STACK}"
    )


@pytest.mark.parametrize("product", [RIGHT, LEFT])
@pytest.mark.parametrize("index", ["%i", "%back"])
def test_products_that_are_stacked_are_one(check: Check, product: str, index: str) -> None:
    body = cut("x", "%xs", "%i", 3) + unary("t", "negate", "%x", X) + product + update(index)
    after = check(scan(body, STACK, "%b"), SinkProducts(**EAGER).run, tolerance=1e-5)
    assert after.split("return")[0].rsplit("scf.yield", 1)[1].count('"hlo.dot"') == 1


def test_products_that_are_stacked_elsewhere_stay(check: Check) -> None:
    body = cut("x", "%xs", "%i", 3) + unary("t", "negate", "%x", X) + RIGHT + update("%c4")
    after = check(scan(body, STACK, "%b"), SinkProducts(**EAGER).run, tolerance=1e-5)
    assert '"hlo.dot"' not in after.split("return")[0].rsplit("scf.yield", 1)[1]


def test_products_of_many_rows_stay(check: Check) -> None:
    body = cut("x", "%xs", "%i", 3) + unary("t", "negate", "%x", X) + RIGHT + update("%i")
    after = check(scan(body, STACK, "%b"), SinkProducts(**EAGER, rows=1).run, tolerance=1e-5)
    assert '"hlo.dot"' not in after.split("return")[0].rsplit("scf.yield", 1)[1]
