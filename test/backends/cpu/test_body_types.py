"""Kernels refuse a body whose element types are not those of what it combines."""

from __future__ import annotations

import numpy as np
import pytest
from one_kernel import run_kernel

import stablehlo_py
from stablehlo_py.backends.cpu.target import host_target


def test_a_kernel_whose_body_computes_in_another_type_is_refused() -> None:
    """Legalization leaves none: one would read and write past the end of what is there."""
    text = """
    func.func private @fusion(%x: tensor<4xf32>, %p: tensor<2x1xi32>, %u: tensor<2xf32>) -> tensor<4xf64>
        attributes {hlo.fusion = "scatter"} {
      %0 = "stablehlo.scatter"(%x, %p, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
          scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%a: tensor<f64>, %b: tensor<f64>):
        %s = "hlo.add"(%a, %b) : (tensor<f64>, tensor<f64>) -> tensor<f64>
        stablehlo.return %s : tensor<f64>
      }) : (tensor<4xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<4xf64>
      return %0 : tensor<4xf64>
    }"""
    arguments = (np.ones(4, np.float32), np.array([[1], [3]], np.int32), np.ones(2, np.float32))
    with pytest.raises(stablehlo_py.InternalError, match=r"takes f64, its kernel has .*32"):
        run_kernel(text, arguments, host_target())
