"""Models on newname, through the public interface of stablehlo-py."""

from __future__ import annotations

import numpy as np
import pytest

import stablehlo_py as shlo

OPTIONS = shlo.Options(cache_dir=None)
SOFTMAX = """func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = stablehlo.reduce(%0 init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %3 = stablehlo.subtract %0, %2 : tensor<4x8xf32>
  %4 = stablehlo.exponential %3 : tensor<4x8xf32>
  %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %7 = stablehlo.divide %4, %6 : tensor<4x8xf32>
  return %7 : tensor<4x8xf32>
}"""
RUNNING_SUM = """func.func @main(%state: tensor<3xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<3xf32>)
    -> tensor<3xf32> {
  %0 = stablehlo.add %state, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}"""
BRANCHES = """func.func @main(%take: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.if"(%take) ({
    %1 = stablehlo.add %x, %x : tensor<2xf32>
    stablehlo.return %1 : tensor<2xf32>
  }, {
    stablehlo.return %x : tensor<2xf32>
  }) : (tensor<i1>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}"""
SYMBOLIC = """func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = stablehlo.add %x, %x : tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}"""
LACKS = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.sine %x : tensor<3xf32>
  %1 = stablehlo.add %0, %x : tensor<3xf32>
  %2 = stablehlo.tan %1 : tensor<3xf32>
  return %2 : tensor<3xf32>
}"""


def compiled(model: str) -> shlo.Executable:
    """A model of one process and of one shape."""
    executable = shlo.compile(model, target="newname", options=OPTIONS)
    assert isinstance(executable, shlo.Executable)
    return executable


def test_a_softmax_of_a_product() -> None:
    generator = np.random.default_rng(0)
    x, w = (generator.standard_normal(shape).astype(np.float32) for shape in ((4, 8), (8, 8)))
    (result,) = compiled(SOFTMAX)(x, w)
    right = np.exp(x.astype(np.float64) @ w)
    np.testing.assert_allclose(result, right / right.sum(1, keepdims=True), rtol=1e-5)


def test_state_stays_on_the_device() -> None:
    executable = compiled(RUNNING_SUM)
    state, x = executable.put(np.zeros(3, np.float32), 0), executable.put(np.arange(3, dtype=np.float32), 1)
    for _ in range(5):
        (state,) = executable.call([state, x])
        assert (state.device, state.memory_space) == ("newname:0", "device")
    np.testing.assert_array_equal(np.asarray(state), [0, 5, 10])


@pytest.mark.parametrize("take", [False, True])
def test_branches(take: bool) -> None:
    (result,) = compiled(BRANCHES)(np.array(take), np.ones(2, np.float32))
    np.testing.assert_array_equal(result, 2 if take else 1)


def test_a_model_of_many_shapes_is_compiled_for_each() -> None:
    executable = shlo.compile(SYMBOLIC, target="newname", options=OPTIONS)
    for rows in (1, 4):
        (result,) = executable(np.ones((rows, 3), np.float32))
        np.testing.assert_array_equal(result, np.full((rows, 3), 2))


def test_a_program_is_saved_and_loaded(tmp_path: object) -> None:
    compiled(BRANCHES).save(f"{tmp_path}/model.shloexe")
    (result,) = shlo.load_executable(f"{tmp_path}/model.shloexe")(np.array(True), np.ones(2, np.float32))
    np.testing.assert_array_equal(result, 2)


def test_what_the_device_lacks_is_refused_by_name_and_line() -> None:
    with pytest.raises(shlo.UnsupportedError) as caught:
        compiled(LACKS)
    found = [(problem.op, problem.location) for problem in caught.value.problems]
    assert found == [("hlo.sine", "<text>:2:8"), ("hlo.tan", "<text>:4:8")]
