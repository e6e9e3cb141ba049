"""Products that leave a loop: which do, and results with and without the pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stablehlo_py.passes.batch_products import BatchProducts

Check = Callable[..., str]


def scan(size: str, start: str, window: str, dot: str, result: str, trips: int = 5, reshaped: str = "") -> str:
    """A loop that adds `dot` of %w (3 x 4) and of a slice of %xs, in whatever shape it has, to a sum of type `result`;
    `reshaped` is a type."""
    source, part = f"tensor<{size}xf32>", f"tensor<{window}xf32>"
    sizes = window.replace("x", ", ")
    reshape = f'%x = "hlo.reshape"(%cut) : ({part}) -> {reshaped}' if reshaped else ""
    return f"""func.func @main(%xs: {source}, %w: tensor<3x4xf32>) -> {result} {{
  %c0 = "hlo.constant"() {{value = dense<0> : tensor<i32>}} : () -> tensor<i32>
  %c1 = "hlo.constant"() {{value = dense<1> : tensor<i32>}} : () -> tensor<i32>
  %c4 = "hlo.constant"() {{value = dense<4> : tensor<i32>}} : () -> tensor<i32>
  %limit = "hlo.constant"() {{value = dense<{trips}> : tensor<i32>}} : () -> tensor<i32>
  %zero = "hlo.constant"() {{value = dense<0.0> : tensor<f32>}} : () -> tensor<f32>
  %none = "hlo.broadcast"(%zero) {{dimensions = array<i64>}} : (tensor<f32>) -> {result}
  %r:2 = scf.while (%i0 = %c0, %a0 = %none) : (tensor<i32>, {result}) -> (tensor<i32>, {result}) {{
    %l = "hlo.compare"(%i0, %limit) {{direction = "LT"}} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %p = tensor.extract %l[] : tensor<i1>
    scf.condition(%p) %i0, %a0 : tensor<i32>, {result}
  }} do {{
  ^bb0(%i: tensor<i32>, %a: {result}):
    %n = "hlo.add"(%i, %c1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %back = "hlo.subtract"(%c4, %i) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %cut = "hlo.dynamic_slice"(%xs, {start}) {{sizes = array<i64: {sizes}>}}
      : ({source}, tensor<i32>, tensor<i32>, tensor<i32>) -> {part}
    {reshape}
    %d = "hlo.dot"({dot} -> {result}
    %b = "hlo.add"(%a, %d) : ({result}, {result}) -> {result}
    scf.yield %n, %b : tensor<i32>, {result}
  }}
  return %r#1 : {result}
}}"""


def numbers(lhs: int, rhs: int, lhs_batch: str = "", rhs_batch: str = "") -> str:
    return (
        f"{{lhs_batch = array<i64{lhs_batch}>, lhs_contract = array<i64: {lhs}>,"
        f" rhs_batch = array<i64{rhs_batch}>, rhs_contract = array<i64: {rhs}>}}"
    )


W = "tensor<3x4xf32>"
ROW, LAST = "tensor<1x2x3xf32>", "tensor<2x3x1xf32>"
ON_THE_LEFT = ("5x2x3", "%i, %c0, %c0", "1x2x3", f"%cut, %w) {numbers(2, 0)} : ({ROW}, {W})", "tensor<1x2x4xf32>")
ON_THE_RIGHT = ("2x3x5", "%c0, %c0, %back", "2x3x1", f"%w, %cut) {numbers(0, 1)} : ({W}, {LAST})", "tensor<4x2x1xf32>")
RESHAPED = ("5x2x3", "%back, %c0, %c0", "1x2x3", f"%x, %w) {numbers(1, 0)} : (tensor<2x3xf32>, {W})", "tensor<2x4xf32>")
RESHAPED_ON_THE_RIGHT = (
    *("2x5x3", "%c1, %i, %c0", "2x1x3", f"%w, %x) {numbers(0, 1)} : ({W}, tensor<2x3xf32>)", "tensor<4x2xf32>"),
)


@pytest.mark.parametrize(
    ("case", "reshaped"),
    [
        (ON_THE_LEFT, ""),
        (ON_THE_RIGHT, ""),
        (RESHAPED, "tensor<2x3xf32>"),
        (RESHAPED_ON_THE_RIGHT, "tensor<2x3xf32>"),
    ],
)
def test_products_of_slices_are_one(check: Check, case: tuple[str, ...], reshaped: str) -> None:
    after = check(scan(*case, reshaped=reshaped), BatchProducts(least=1).run)
    before_loop, inside = after.split("scf.while")
    assert "hlo.dot" in before_loop
    assert "hlo.dot" not in inside


@pytest.mark.parametrize(
    ("case", "options"),
    [
        ({"trips": 4}, {"least": 1}),  # a row of the product would be for nothing
        ({}, {"least": 13}),
        ({}, {"least": 1, "rows": 1}),
        ({}, {"least": 1, "max_growth": 0}),
    ],
)
def test_products_that_stay(check: Check, case: dict[str, int], options: dict[str, int]) -> None:
    after = check(scan(*ON_THE_LEFT, **case), BatchProducts(**options).run)
    assert "hlo.dot" not in after.split("scf.while")[0]


def test_slices_of_several_dimensions_stay(check: Check) -> None:
    dot = f"%x, %w) {numbers(0, 0)} : (tensor<3xf32>, {W})"
    text = scan("5x2x3", "%i, %i, %c0", "1x1x3", dot, "tensor<4xf32>", reshaped="tensor<3xf32>")
    assert "hlo.dot" not in check(text, BatchProducts(least=1).run).split("scf.while")[0]
