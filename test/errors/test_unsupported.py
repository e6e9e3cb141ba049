"""Programs that cannot be compiled: everything in the way is named at once, with the user's own lines."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.errors import EXIT_UNSUPPORTED


def problems(text: str) -> list[tuple[str | None, str | None, str, str | None]]:
    with pytest.raises(shlo.UnsupportedError) as caught:
        shlo.compile(text)
    error = caught.value
    assert error.exit_status == EXIT_UNSUPPORTED
    for problem in error.problems:
        assert problem.location is None or problem.location in str(error)
    return [(problem.location, problem.op, problem.reason, problem.remedy) for problem in error.problems]


def test_every_unknown_custom_call_is_named() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = stablehlo.custom_call @foo(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":10:3)
      %b = stablehlo.custom_call @bar(%a) : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":11:3)
      %c = stablehlo.custom_call @foo(%b) : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":12:3)
      %d = stablehlo.add %b, %c : tensor<4xf32>
      return %d : tensor<4xf32>
    }"""
    found = problems(text)
    assert [location for location, *_ in found] == ["model.py:10:3", "model.py:11:3", "model.py:12:3"]
    for (_, op, reason, remedy), target in zip(found, ("foo", "bar", "foo"), strict=True):
        assert op == "stablehlo.custom_call"
        assert f"'{target}'" in reason
        assert remedy


@pytest.mark.parametrize("op", ["reduce", "scatter"])
def test_a_body_that_takes_two_types_for_elements_of_one_tensor(op: str) -> None:
    """StableHLO's verifier accepts it, its specification does not (`(E, E) -> E`), no kernel could compute it."""
    operands, attributes, types = {
        "reduce": ("%x, %i", "dimensions = array<i64: 0>", "(tensor<4xf16>, tensor<f16>) -> tensor<f16>"),
        "scatter": (
            "%x, %p, %u",
            "scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], "
            "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>",
            "(tensor<4xf16>, tensor<2x1xi32>, tensor<2xf16>) -> tensor<4xf16>",
        ),
    }[op]
    result = types.rpartition(" ")[2]
    arguments = "%x: tensor<4xf16>, %i: tensor<f16>, %p: tensor<2x1xi32>, %u: tensor<2xf16>"
    text = f"""func.func @main({arguments}) -> {result} {{
      %0 = "stablehlo.{op}"({operands}) <{{{attributes}}}> ({{
      ^bb0(%a: tensor<f16>, %b: tensor<f32>):
        %c = stablehlo.convert %b : (tensor<f32>) -> tensor<f16>
        %s = stablehlo.add %a, %c : tensor<f16>
        stablehlo.return %s : tensor<f16>
      }}) : {types} loc("model.py":3:1)
      return %0 : {result}
    }}"""
    ((location, name, reason, remedy),) = problems(text)
    assert (location, name) == ("model.py:3:1", f"stablehlo.{op}")
    assert "tensor<f16> and tensor<f32>" in reason
    assert remedy


def test_inside_loops_and_called_functions() -> None:
    text = """
    func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = stablehlo.custom_call @foo(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":10:3)
      return %a : tensor<4xf32>
    }
    func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<4xf32>
      cond {
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %j = stablehlo.add %i, %one : tensor<i32>
        %z = func.call @f(%y) : (tensor<4xf32>) -> tensor<4xf32>
        %w = stablehlo.custom_call @bar(%z) : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":20:3)
        stablehlo.return %j, %w : tensor<i32>, tensor<4xf32>
      }
      return %r#1 : tensor<4xf32>
    }"""
    found = problems(text)
    assert [("foo" in reason, "bar" in reason) for _, _, reason, _ in found] == [(True, False), (False, True)]
    assert "model.py:10:3" in (found[0][0] or "")
    assert found[1][0] == "model.py:20:3"


@pytest.mark.parametrize("element", ["tf32", "f128", "i3", "i128", "complex<bf16>"])
def test_an_element_type_that_stablehlo_lacks(element: str) -> None:
    text = f"""func.func @main(%x: tensor<4x{element}>) -> tensor<4x{element}> {{
      %a = stablehlo.add %x, %x : tensor<4x{element}> loc("model.py":10:3)
      return %a : tensor<4x{element}>
    }}"""
    with pytest.raises(shlo.LoadError) as caught:
        shlo.compile(text)
    (problem,) = caught.value.problems
    assert problem.location == "model.py:10:3"
    assert "operand #0 must be" in problem.reason


def test_an_op_in_the_body_of_a_sort() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %z = stablehlo.custom_call @less(%p, %q) : (tensor<f32>, tensor<f32>) -> tensor<i1> loc("model.py":3:3)
          stablehlo.return %z : tensor<i1>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      return %a : tensor<4xf32>
    }"""
    ((location, _, reason, _),) = problems(text)
    assert location == "model.py:3:3"
    assert "stablehlo.sort" in reason


def test_a_bounded_size_that_upstreams_shape_refinement_aborts_on() -> None:
    bounded = "#stablehlo.bounds<2>>"
    text = f"""func.func @main(%x: tensor<2xi64>, %n: tensor<i32>) -> tensor<?xi32, {bounded} {{
      %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<2xi64>, tensor<i32>) -> tensor<?xi64, {bounded}
      %1 = "chlo.constant_like"(%0) <{{value = 1 : i32}}> : (tensor<?xi64, {bounded}) -> tensor<?xi32, {bounded}
      return %1 : tensor<?xi32, {bounded}
    }}"""
    ((_, op, reason, _),) = problems(text)
    assert "set_dimension_size" in op
    assert "whose shape depends on data" in reason


@pytest.mark.parametrize(
    "body",
    [
        "%a = stablehlo.rng %x, %x, %n, distribution = UNIFORM : "
        "(tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<?xf32>",
        "%a = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi64>) -> tensor<?xf32>",
    ],
)
def test_ops_that_are_refused_early(body: str) -> None:
    result = body.rsplit("->", 1)[1].strip()
    text = f"""func.func @main(%x: tensor<f32>, %n: tensor<1xi64>) -> {result} {{
      {body} loc("model.py":7:1)
      {body.replace("%a", "%b")} loc("model.py":8:1)
      return %b : {result}
    }}"""
    found = problems(text)
    assert {location for location, *_ in found} >= {"model.py:8:1"}
    assert "gives tensor<?xf32>" in found[-1][2]


def test_random_numbers_in_a_body_that_runs_in_no_particular_order() -> None:
    text = """func.func @main(%x: tensor<4xf32>, %z: tensor<f32>) -> tensor<f32> {
      %a = stablehlo.reduce(%x init: %z) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
        reducer(%p: tensor<f32>, %q: tensor<f32>) {
          %n = stablehlo.constant dense<> : tensor<0xi64>
          %r = stablehlo.rng %p, %q, %n, distribution = NORMAL :
            (tensor<f32>, tensor<f32>, tensor<0xi64>) -> tensor<f32> loc("model.py":3:3)
          stablehlo.return %r : tensor<f32>
      }
      return %a : tensor<f32>
    }"""
    ((location, op, reason, _),) = problems(text)
    assert (location, op) == ("model.py:3:3", "stablehlo.rng")
    assert "'stablehlo.reduce'" in reason


def test_backends_that_do_not_exist() -> None:
    with pytest.raises(shlo.OptionError, match="installed: c, cpu, "):
        shlo.compile("func.func @main() { return }", target="tpu")


def test_a_dynamic_model_on_a_backend_without_dynamic_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    from stablehlo_py import specialization

    compiled = specialization._compile

    def without_dynamic_programs(*arguments: Any) -> Any:
        return dataclasses.replace(compiled(*arguments), dynamic=None)

    monkeypatch.setattr(specialization, "_compile", without_dynamic_programs)
    text = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"
    with pytest.raises(shlo.UnsupportedError, match="the backend 'cpu' makes no programs for dynamic dimensions"):
        shlo.compile(text, options=shlo.Options(dynamic="once"))
    np.testing.assert_array_equal(shlo.compile(text)(np.ones(3, np.float32))[0], np.ones(3))
