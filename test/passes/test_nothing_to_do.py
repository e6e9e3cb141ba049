"""Passes that find nothing to do say so: what is known of the module then stays."""

from __future__ import annotations

import pytest

from stablehlo_py.dialect.context import make_context
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.registry import get_pass

LOOP = """
func.func @main(%x: tensor<100x1000xf32>) -> tensor<100x1000xf32> {
  %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %limit = "hlo.constant"() {value = dense<100> : tensor<i32>} : () -> tensor<i32>
  %one = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %r:2 = scf.while (%i = %zero, %y = %x) : (tensor<i32>, tensor<100x1000xf32>)
      -> (tensor<i32>, tensor<100x1000xf32>) {
    %p = "hlo.compare"(%i, %limit) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %go = tensor.extract %p[] : tensor<i1>
    scf.condition(%go) %i, %y : tensor<i32>, tensor<100x1000xf32>
  } do {
  ^bb0(%i: tensor<i32>, %y: tensor<100x1000xf32>):
    %next = "hlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %twice = "hlo.add"(%y, %y) : (tensor<100x1000xf32>, tensor<100x1000xf32>) -> tensor<100x1000xf32>
    scf.yield %next, %twice : tensor<i32>, tensor<100x1000xf32>
  }
  return %r#1 : tensor<100x1000xf32>
}
"""


@pytest.mark.parametrize("name", ["cse", "mark-stacks", "outline-loops", "unroll-loops"])
def test_a_pass_says_that_nothing_has_changed(name: str) -> None:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(LOOP)
        before = str(module)
        assert get_pass(name)().run(module) is False
        assert str(module) == before


def test_cse_says_that_it_merged_something() -> None:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(LOOP.replace('"hlo.add"(%y, %y)', '"hlo.add"(%y, %z)').replace(
            "    %twice", '    %w = "hlo.negate"(%y) : (tensor<100x1000xf32>) -> tensor<100x1000xf32>\n'
            '    %v = "hlo.negate"(%y) : (tensor<100x1000xf32>) -> tensor<100x1000xf32>\n'
            '    %z = "hlo.add"(%w, %v) : (tensor<100x1000xf32>, tensor<100x1000xf32>) -> tensor<100x1000xf32>\n'
            "    %twice"))  # fmt: skip
        assert get_pass("cse")().run(module) is True
        assert str(module).count("negate") == 1


def test_loops_over_equal_operands_with_other_bodies_stay() -> None:
    """Regions are compared where the rest of two ops is equal."""
    body = LOOP[LOOP.index("  %r:2 =") : LOOP.index("  return")]
    other = body.replace("%r:2", "%s:2").replace('"hlo.add"(%y, %y)', '"hlo.multiply"(%y, %y)')
    same = body.replace("%r:2", "%t:2")
    text = LOOP.replace(body, body + other + same).replace(
        "return %r#1 : tensor<100x1000xf32>",
        "return %r#1, %s#1, %t#1 : tensor<100x1000xf32>, tensor<100x1000xf32>, tensor<100x1000xf32>",
    ).replace(
        "-> tensor<100x1000xf32> {\n  %zero",
        "-> (tensor<100x1000xf32>, tensor<100x1000xf32>, tensor<100x1000xf32>) {\n  %zero",
    )  # fmt: skip
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        assert get_pass("cse")().run(module) is True
        assert str(module).count("scf.while") == 2
