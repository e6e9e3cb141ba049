"""Values that are no tensors of known rank and element type: refused by name, wherever they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.errors import UnsupportedError


@pytest.mark.parametrize(
    "type_", ["index", "i32", "tensor<2xindex>", "tensor<?x3xindex>", "tensor<*xf32>", "!shape.shape", "tensor<i99>"]
)
def test_a_type_that_a_call_cannot_pass_is_named(type_: str) -> None:
    text = f"func.func @main(%a: tensor<f32>, %b: {type_}) -> {type_} {{ return %b : {type_} }}"
    with pytest.raises(UnsupportedError) as caught:
        shlo.compile(text)
    assert [each.reason for each in caught.value.problems] == [
        f"argument 1 of @main is of type {type_}",
        f"result 0 of @main is of type {type_}",
    ]
    assert caught.value.location == "<text>:1:34" and "ranked tensors" in caught.value.problems[0].remedy


def test_tuples_and_tokens_are_passed() -> None:
    text = """func.func @main(%a: tuple<tensor<2xf32>, !stablehlo.token>) -> tuple<tensor<2xf32>, !stablehlo.token> {
      return %a : tuple<tensor<2xf32>, !stablehlo.token>
    }"""
    shlo.compile(text)


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_value_inside_that_is_no_tensor(is_kept: bool, tmp_path: Path) -> None:
    """Nobody misses it where nobody reads it, whether stages are kept or not; else the op that does is named."""
    options = shlo.Options(cache_dir=str(tmp_path) if is_kept else None)
    text = """func.func @main(%a: tensor<f32>) -> tensor<f32> {{
      %0 = func.constant @f : (tensor<f32>) -> tensor<f32>
      {0}
    }}
    func.func private @f(%a: tensor<f32>) -> tensor<f32> {{ return %a : tensor<f32> }}"""
    (result,) = shlo.compile(text.format("return %a : tensor<f32>"), options=options)(np.float32(3))
    assert result == 3
    called = "%1 = func.call_indirect %0(%a) : (tensor<f32>) -> tensor<f32> return %1 : tensor<f32>"
    with pytest.raises(UnsupportedError, match=r"<text>:3:12: 'func.call_indirect'"):
        shlo.compile(text.format(called), options=options)


def test_a_size_that_nothing_decides_is_unsupported() -> None:
    text = """func.func @main(%a: tensor<?x3xf32>) -> (tensor<?x3xf32>, tensor<i32>) {
      %0 = arith.constant dense<0> : tensor<i32>
      %1 = shape.shape_of %0 : tensor<i32> -> tensor<0xindex>
      %2 = stablehlo.dynamic_reshape %0, %1 : (tensor<i32>, tensor<0xindex>) -> tensor<i32>
      %3 = "stablehlo.get_dimension_size"(%a) <{dimension = 0 : i64}> : (tensor<?x3xf32>) -> tensor<i32>
      %4 = stablehlo.add %2, %3 : tensor<i32>
      return %a, %4 : tensor<?x3xf32>, tensor<i32>
    }"""
    with pytest.raises(UnsupportedError, match=r"dynamic_reshape.*depends on data"):
        shlo.compile(text, options=shlo.Options(dynamic="once"))


def test_a_function_that_ends_with_another_op_is_refused_there() -> None:
    text = """func.func @main(%a: tensor<f32>) -> tensor<f32> {
      "stablehlo.return"(%a) : (tensor<f32>) -> ()
    }"""
    with pytest.raises(UnsupportedError) as caught:
        shlo.compile(text)
    assert (caught.value.location, caught.value.op) == ("<text>:2:7", "stablehlo.return")
    assert "func.return" in caught.value.remedy


RAGGED_DOT = """func.func @main(%a: tensor<19x17x11x5xf32>, %b: tensor<3x19x5x7xf32>, %n: tensor<3xi64>) -> tensor<19x17x11x7xf32> {
  %0 = "chlo.ragged_dot"(%a, %b, %n) {
    ragged_dot_dimension_numbers = #chlo.ragged_dot<
      lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [3],
      rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [2], rhs_group_dimensions = [0]>,
    precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>]
  } : (tensor<19x17x11x5xf32>, tensor<3x19x5x7xf32>, tensor<3xi64>) -> tensor<19x17x11x7xf32>
  return %0 : tensor<19x17x11x7xf32>
}"""  # noqa: E501


def test_an_op_that_upstream_expands_to_an_invalid_one_is_unsupported() -> None:
    with pytest.raises(UnsupportedError) as caught:
        shlo.compile(RAGGED_DOT)
    assert "cannot be expanded" in caught.value.reason and caught.value.location == "<text>:2:8"


@pytest.mark.parametrize("dimensions", ["1, 2", "0, 1", ""])
def test_broadcast_dimensions_that_the_result_lacks_are_unsupported(dimensions: str) -> None:
    text = f"""func.func @main(%a: tensor<1x4xf32>, %b: tensor<4xf32>) -> tensor<1x4xf32> {{
      %0 = chlo.broadcast_add %a, %b {{broadcast_dimensions = array<i64{": " if dimensions else ""}{dimensions}>}} :
        (tensor<1x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
      return %0 : tensor<1x4xf32>
    }}"""
    with pytest.raises(shlo.ShloError, match="broadcast_dimensions") as caught:
        shlo.compile(text)
    assert not isinstance(caught.value, shlo.InternalError)
