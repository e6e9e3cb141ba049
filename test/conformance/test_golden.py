"""Splitting of self-checking modules, and the rules of the checks."""

import ml_dtypes
import numpy as np
import pytest

from stablehlo_py.errors import LoadError
from stablehlo_py.suite.golden import Check, compare, pieces, split, ulps

CALLS = """
func.func @main() -> (tensor<2xi32>, tensor<2xcomplex<f32>>) {
  %0:2 = call @inputs() : () -> (tensor<2xi32>, tensor<2xcomplex<f32>>)
  %1:2 = call @expected() : () -> (tensor<2xi32>, tensor<2xcomplex<f32>>)
  %2 = stablehlo.negate %0#0 : tensor<2xi32>
  stablehlo.custom_call @check.expect_eq(%2, %1#0) {has_side_effect = true} : (tensor<2xi32>, tensor<2xi32>) -> ()
  stablehlo.custom_call @check.expect_close(%0#1, %1#1) {has_side_effect = true} :
    (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> ()
  return %2, %0#1 : tensor<2xi32>, tensor<2xcomplex<f32>>
}
func.func private @inputs() -> (tensor<2xi32>, tensor<2xcomplex<f32>>) {
  %0 = stablehlo.constant dense<[1, -2]> : tensor<2xi32>
  %1 = stablehlo.constant dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f32>>
  return %0, %1 : tensor<2xi32>, tensor<2xcomplex<f32>>
}
func.func private @expected() -> (tensor<2xi32>, tensor<2xcomplex<f32>>) {
  %0 = stablehlo.constant dense<[-1, 2]> : tensor<2xi32>
  %1 = stablehlo.constant dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f32>>
  return %0, %1 : tensor<2xi32>, tensor<2xcomplex<f32>>
}
"""

CONSTANTS = """
func.func @ceil_test() {
  %0 = stablehlo.constant dense<[0.5, 1.5]> : tensor<2xf32>
  %1 = stablehlo.ceil %0 : tensor<2xf32>
  "check.expect_almost_eq_const"(%1) <{value = dense<[1.0, 2.0]> : tensor<2xf32>}> : (tensor<2xf32>) -> ()
  return
}
"""


def test_inputs_become_arguments_and_checked_values_results():
    case = split(CALLS)
    assert [a.tolist() for a in case.arguments] == [[1, -2], [1 + 2j, 3 + 4j]]
    assert [c.kind for c in case.checks] == ["eq", "close"]
    assert case.checks[0].expected.tolist() == [-1, 2]
    assert "custom_call" not in case.module
    assert "constant" not in case.module
    assert "@main(%arg0: tensor<2xi32>, %arg1: tensor<2xcomplex<f32>>)" in case.module
    assert "-> (tensor<2xi32>, tensor<2xcomplex<f32>>)" in case.module


def test_without_inputs_the_constants_of_main_become_arguments():
    case = split(CONSTANTS)
    assert [a.tolist() for a in case.arguments] == [[0.5, 1.5]]
    assert case.checks[0].kind == "almost_eq"
    assert case.checks[0].expected.tolist() == [1.0, 2.0]
    assert "@main(%arg0: tensor<2xf32>) -> tensor<2xf32>" in case.module


def test_a_module_without_checks_is_refused():
    with pytest.raises(LoadError, match="no check"):
        split("func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }")


def test_text_that_is_no_module_is_refused():
    with pytest.raises(LoadError, match="not a valid StableHLO module"):
        split("func.func @main(")


def test_pieces_are_separated_and_comments_dropped():
    assert pieces("// RUN: x\nmodule {\n}\n// -----\n\n// -----\nmodule @b {\n}") == ["module {\n}", "module @b {\n}"]


def test_ulps_count_steps_between_floats():
    one = np.array([1.0, -1.0, 0.0, np.nan, np.inf], np.float32)
    assert ulps(np.nextafter(one, np.float32(9)), one).tolist()[:3] == [1, 1, 1]
    assert ulps(one, one).tolist() == [0, 0, 0, 0, 0]
    assert ulps(np.array([-0.0], np.float32), np.array([0.0], np.float32)).tolist() == [0]
    assert ulps(np.array([np.inf]), np.array([1.0])).tolist() == [2**64 - 1]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_close_allows_three_ulps(dtype):
    expected = np.array([1.0, 100.0], dtype)
    bits = expected.view(f"u{expected.itemsize}")
    assert compare(Check("close", expected), (bits + 3).view(dtype)) is None
    assert "4 ULP" in compare(Check("close", expected), (bits + 4).view(dtype))


def test_almost_eq_is_absolute_and_knows_infinities():
    expected = np.array([1.0, np.inf, np.nan])
    assert compare(Check("almost_eq", expected), np.array([1.0009, np.inf, np.nan])) is None
    assert compare(Check("almost_eq", expected), np.array([1.002, np.inf, np.nan])) is not None
    assert compare(Check("almost_eq", expected), np.array([1.0, -np.inf, np.nan])) is not None
    assert compare(Check("almost_eq", expected), np.array([1.0, np.inf, 0.0])) is not None
    assert compare(Check("eq_or_almost", expected), np.array([1.0009, np.inf, np.nan])) is not None


def test_eq_is_exact_for_integers_under_every_rule():
    expected = np.array([5, 6])
    for kind in ("eq", "close", "almost_eq", "eq_or_almost"):
        assert compare(Check(kind, expected), np.array([5, 6])) is None
        assert "1 of 2" in compare(Check(kind, expected), np.array([5, 7]))


def test_shape_and_dtype_must_agree():
    expected = np.zeros((2,), np.float32)
    assert "float64[2] where float32[2]" in compare(Check("eq", expected), np.zeros((2,)))
    assert compare(Check("eq", expected), np.zeros((1, 2), np.float32)) is not None
