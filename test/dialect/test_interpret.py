"""The evaluation of hlo in NumPy, of ops that compute nothing."""

from __future__ import annotations

import numpy as np

from stablehlo_py.debug.engines import ENGINES
from stablehlo_py.debug.settings import Settings

BARRIER = """func.func @main(%x: tensor<2xf32>, %y: tensor<3xi32>) -> (tensor<3xi32>, tensor<2xf32>) {
  %0:2 = stablehlo.optimization_barrier %x, %y : tensor<2xf32>, tensor<3xi32>
  return %0#1, %0#0 : tensor<3xi32>, tensor<2xf32>
}"""


def test_a_barrier_gives_its_operands() -> None:
    x, y = np.array([1, 2], np.float32), np.array([3, 4, 5], np.int32)
    results = ENGINES["hlo"](BARRIER, [x, y], Settings())
    assert [result.tolist() for result in results] == [[3, 4, 5], [1, 2]]
