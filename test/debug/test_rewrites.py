"""What the reference interpreter gets wrong, or ends its process on, it computes as rewritten."""

from __future__ import annotations

import numpy as np

from stablehlo_py.debug.workers import Workers

CONVOLUTION = """func.func @main(%x: tensor<2x1x2x1xf32>, %k: tensor<3x2x3x1xf32>) -> tensor<1x3x1x4xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [1, b, 0, f]x[o, 1, 0, i]->[0, f, b, 1],
    window = {stride = [1, 1], pad = [[-1, 2], [2, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1],
              reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x1x2x1xf32>, tensor<3x2x3x1xf32>) -> tensor<1x3x1x4xf32>
  return %0 : tensor<1x3x1x4xf32>
}"""
SORT = """func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> {
  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}"""


def test_a_convolution_in_any_layout() -> None:
    random = np.random.default_rng(0)
    inputs = [random.normal(size=shape).astype(np.float32) for shape in ((2, 1, 2, 1), (3, 2, 3, 1))]
    with Workers(60) as workers:
        answer, expected = (workers.run(engine, CONVOLUTION, inputs) for engine in ("reference", "jax"))
    assert answer.ok, answer.detail
    np.testing.assert_allclose(answer.results[0], expected.results[0], rtol=1e-5)


def test_floats_in_their_total_order() -> None:
    x = np.array([np.nan, 0.0, -0.0, -np.nan, np.inf, 1e-45], np.float32)
    with Workers(60) as workers:
        answer = workers.run("reference", SORT, [x])
    expected = np.array([-np.nan, -0.0, 0.0, 1e-45, np.inf, np.nan], np.float32)
    assert answer.results[0].tobytes() == expected.tobytes()
