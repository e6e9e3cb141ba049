"""Shapes of modules with dynamic dimensions, inferred with symbols and with ints: both give what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest

import stablehlo_py as shlo

_BOUNDED = "tensor<?xf32, #stablehlo.bounds<4>>"


def _numbers(*sizes: int) -> np.ndarray:
    return np.arange(1, 1 + np.prod(sizes), dtype=np.float32).reshape(sizes)


def _slice_at_a_sum(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    return x[places.sum() : places.sum() + 2]


CASES = {
    "a smaller operand": (
        """func.func @main(%a: tensor<?x4xf32>, %b: tensor<4xf32>) -> tensor<?x4xf32> {
          %0 = chlo.broadcast_add %a, %b : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
          return %0 : tensor<?x4xf32> }""",
        (_numbers(3, 4), _numbers(4)),
        np.add,
    ),
    "a dimension that may be 1": (
        """func.func @main(%a: tensor<?x4xf32>, %b: tensor<?x4xf32>) -> tensor<?x4xf32> {
          %0 = chlo.broadcast_add %a, %b : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
          return %0 : tensor<?x4xf32> }""",
        (_numbers(3, 4), _numbers(1, 4)),
        np.add,
    ),
    "an operand of features": (
        """func.func @main(%a: tensor<?x4xf32>, %b: tensor<4xf32>) -> tensor<?x4xf32> {
          %0 = "stablehlo.batch_norm_inference"(%a, %b, %b, %b, %b) {epsilon = 0.0 : f32, feature_index = 1 : i64} :
            (tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
          return %0 : tensor<?x4xf32> }""",
        (_numbers(3, 4), _numbers(4)),
        lambda a, b: (a - b) / np.sqrt(b) * b + b,
    ),
    "a slice at a place that depends on data": (
        """func.func @main(%a: tensor<?x4xf32>, %x: tensor<8xi32>) -> tensor<?x4xf32> {
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] :
            (tensor<8xi32>, tensor<i32>) -> tensor<i32>
          %i = stablehlo.reshape %sum : (tensor<i32>) -> tensor<1xi32>
          %0 = stablehlo.constant dense<0> : tensor<1xi32>
          %steps = stablehlo.constant dense<1> : tensor<2xi32>
          %2 = stablehlo.constant dense<2> : tensor<1xi32>
          %4 = stablehlo.constant dense<4> : tensor<1xi32>
          %start = stablehlo.concatenate %i, %0, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
          %end = stablehlo.add %i, %2 : tensor<1xi32>
          %limit = stablehlo.concatenate %end, %4, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
          %r = stablehlo.real_dynamic_slice %a, %start, %limit, %steps :
            (tensor<?x4xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x4xf32>
          return %r : tensor<?x4xf32> }""",
        (_numbers(5, 4), np.array([1, 0, 0, 0, 0, 0, 1, 0], np.int32)),
        _slice_at_a_sum,
    ),
    "a shape that depends on data, of a result that is known": (
        """func.func @main(%a: tensor<?x4xf32>, %s: tensor<1xi32>) -> tensor<12xf32> {
          %r = stablehlo.dynamic_reshape %a, %s : (tensor<?x4xf32>, tensor<1xi32>) -> tensor<12xf32>
          return %r : tensor<12xf32> }""",
        (_numbers(3, 4), np.array([12], np.int32)),
        lambda a, s: a.reshape(s),
    ),
    "a token": (
        """func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
          %t = stablehlo.create_token : !stablehlo.token
          %u = stablehlo.after_all %t, %t : !stablehlo.token
          %r = stablehlo.add %a, %a : tensor<?xf32>
          return %r : tensor<?xf32> }""",
        (_numbers(3),),
        lambda a: a + a,
    ),
    "a tuple": (
        """func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
          %0 = stablehlo.tuple %a, %a : tuple<tensor<?xf32>, tensor<?xf32>>
          %1 = stablehlo.get_tuple_element %0[0] : (tuple<tensor<?xf32>, tensor<?xf32>>) -> tensor<?xf32>
          return %1 : tensor<?xf32> }""",
        (_numbers(3),),
        lambda a: a,
    ),
    "a size that its type does not hold": (
        """func.func @main(%a: tensor<?xf32>) -> tensor<44xf32> {
          %0 = stablehlo.constant dense<300> : tensor<1xi32>
          %1 = stablehlo.convert %0 : (tensor<1xi32>) -> tensor<1xui8>
          %r = stablehlo.dynamic_reshape %a, %1 : (tensor<?xf32>, tensor<1xui8>) -> tensor<?xf32>
          %s = stablehlo.add %r, %r : (tensor<?xf32>, tensor<?xf32>) -> tensor<44xf32>
          return %s : tensor<44xf32> }""",
        (_numbers(44),),
        lambda a: a + a,
    ),
}


@pytest.mark.parametrize("dynamic", ["specialize", "auto"])
@pytest.mark.parametrize("case", CASES)
def test_both_walks_infer_the_shapes(case: str, dynamic: str) -> None:
    text, arguments, wanted = CASES[case]
    (result,) = shlo.compile(text, options=shlo.Options(dynamic=dynamic))(*arguments)
    np.testing.assert_allclose(result, wanted(*arguments), rtol=1e-6)


@pytest.mark.parametrize("dynamic", ["specialize", "auto"])
def test_a_bound_is_checked(dynamic: str) -> None:
    text = f"""func.func @main(%a: {_BOUNDED}) -> {_BOUNDED} {{
      %1 = stablehlo.add %a, %a : {_BOUNDED}
      return %1 : {_BOUNDED} }}"""
    executable = shlo.compile(text, options=shlo.Options(dynamic=dynamic))
    np.testing.assert_array_equal(executable(_numbers(4))[0], 2 * _numbers(4))
    with pytest.raises(shlo.ArgumentError, match="dimension 0 of argument 0 is 5, and the model bounds it by 4"):
        executable(_numbers(5))


def test_an_op_without_a_rule_is_not_taken_for_elementwise() -> None:
    text = """func.func @main(%a: tensor<?x4xf32>, %b: tensor<4x2xf32>) -> tensor<?x2xf32> {
      %0 = "stablehlo.einsum"(%a, %b) {einsum_config = "ij,jk->ik"} :
        (tensor<?x4xf32>, tensor<4x2xf32>) -> tensor<?x2xf32>
      return %0 : tensor<?x2xf32> }"""
    with pytest.raises(shlo.UnsupportedError, match=r"einsum.*no rule explains"):
        shlo.compile(text)(_numbers(3, 4), _numbers(4, 2))


def test_integers_that_double_do_not_grow_without_end() -> None:
    lines = "\n".join(f"%{n + 1} = stablehlo.multiply %{n}, %{n} : tensor<i32>" for n in range(40))
    text = f"""func.func @main(%x: tensor<?xf32>, %0: tensor<i32>) -> (tensor<?xf32>, tensor<i32>) {{
      {lines.replace("%1 = stablehlo.multiply %0, %0", "%1 = stablehlo.add %0, %0")}
      return %x, %40 : tensor<?xf32>, tensor<i32> }}"""
    executable = shlo.compile(text)
    np.testing.assert_array_equal(executable(_numbers(3), np.int32(1))[0], _numbers(3))
    np.testing.assert_array_equal(executable.specialize((3,), ())(_numbers(3), np.int32(1))[0], _numbers(3))


@pytest.mark.parametrize("name", ["or", "xor", "and"])
def test_truth_values_of_data_do_not_double_in_a_reduction(name: str) -> None:
    """Over symbols, `or` of n values is a sum of 2^n products."""
    text = f"""func.func @main(%x: tensor<?xf32>, %a: tensor<48xi1>) -> (tensor<?xf32>, tensor<i1>) {{
      %z = stablehlo.constant dense<false> : tensor<i1>
      %0 = stablehlo.reduce(%a init: %z) applies stablehlo.{name} across dimensions = [0] :
        (tensor<48xi1>, tensor<i1>) -> tensor<i1>
      return %x, %0 : tensor<?xf32>, tensor<i1> }}"""
    given = _numbers(3), np.arange(48) == 7
    for dynamic in ("specialize", "auto"):
        (_, found) = shlo.compile(text, options=shlo.Options(dynamic=dynamic))(*given)
        assert found == (name != "and")


@pytest.mark.parametrize(("size", "windows"), [("5", "4"), ("?", "4"), ("?", "?")])
def test_windows_that_depend_on_data_are_refused_where_shapes_are_known(size: str, windows: str) -> None:
    types = f"tensor<{size}xf32>, tensor<f32>, {'tensor<1xi64>, ' * 4}tensor<1x2xi64>"
    text = f"""func.func @main(%a: tensor<{size}xf32>, %w: tensor<1xi64>) -> tensor<{windows}xf32> {{
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %1 = stablehlo.constant dense<1> : tensor<1xi64>
      %p = stablehlo.constant dense<0> : tensor<1x2xi64>
      %0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%a, %z, %w, %1, %1, %1, %p)
        {{called_computations = [@add]}} : ({types}) -> tensor<{windows}xf32>
      return %0 : tensor<{windows}xf32> }}
    func.func private @add(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {{
      %0 = stablehlo.add %x, %y : tensor<f32>
      return %0 : tensor<f32> }}"""
    with pytest.raises(shlo.UnsupportedError, match=r"depends on data|not given by constants"):
        shlo.compile(text, options=shlo.Options(dynamic="specialize"))(_numbers(5), np.array([2]))
