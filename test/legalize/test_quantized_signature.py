"""Quantized arguments and results as a caller sees them, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import stablehlo_py
from stablehlo_py.errors import ArgumentError, UnsupportedError
from stablehlo_py.runtime.quantization import Quantization

OPTIONS = stablehlo_py.Options(threads=1, cache_dir=None)


def run(module: str, *arguments: np.ndarray) -> Sequence[np.ndarray]:
    return stablehlo_py.compile(module, options=OPTIONS)(*arguments)


SIGNATURE = """
!a = !quant.uniform<u8<1:200>:f32, 0.5:100>
!p = !quant.uniform<i8:f32:1, {0.5:3, 0.25:-1}>
func.func @main(%x: tensor<4x2x!a>, %y: tensor<4x2x!p>, %z: tensor<f32>) -> (tensor<4x2xf32>, tensor<4x2x!p>) {
  %0 = stablehlo.uniform_dequantize %x : (tensor<4x2x!a>) -> tensor<4x2xf32>
  %1 = stablehlo.uniform_quantize %0 : (tensor<4x2xf32>) -> tensor<4x2x!p>
  return %0, %1 : tensor<4x2xf32>, tensor<4x2x!p>
}
"""


def test_an_executable_says_how_its_arguments_are_quantized(tmp_path):
    executable = stablehlo_py.compile(SIGNATURE, options=OPTIONS)
    executable.save(tmp_path / "model.shlo")
    for each in (executable, stablehlo_py.load_executable(tmp_path / "model.shlo")):
        x, y, z = each.inputs
        assert (x.dtype, y.dtype, z.quantization) == (np.uint8, np.int8, None)
        assert x.quantization == Quantization("float32", "uint8", 1, 200, (0.5,), (100,))
        assert y.quantization == Quantization("float32", "int8", -128, 127, (0.5, 0.25), (3, -1), 1)
        assert each.outputs[1].quantization == y.quantization
    assert str(x) == "arg0: uint8[4, 2] (float32 as 0.5:100)"
    assert str(y) == "arg1: int8[4, 2] (float32 as {0.5:3, 0.25:-1} along 1)"
    real = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32) * 30
    real[0] = np.inf, np.nan
    stored = x.quantization.quantize(real)
    dequantized, requantized = executable(stored, y.quantization.quantize(real), np.float32(0))
    np.testing.assert_array_equal(dequantized, x.quantization.dequantize(stored))
    np.testing.assert_array_equal(requantized, y.quantization.quantize(dequantized))
    with pytest.raises(ArgumentError, match=r"inputs\[i\].quantization.quantize"):
        executable(real, stored, np.float32(0))


SYMBOLIC = """!q = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<?x3x!q>) -> tensor<?x3x!q> {
  %0 = stablehlo.multiply %a, %a : tensor<?x3x!q>
  return %0 : tensor<?x3x!q>
}
"""


def test_symbolic_shapes():
    executable = stablehlo_py.compile(SYMBOLIC, options=OPTIONS)
    quantization = executable.inputs[0].quantization
    assert (
        quantization == executable.outputs[0].quantization == Quantization("float32", "int8", -128, 127, (0.5,), (3,))
    )
    for rows in (4, 2):
        stored = np.arange(-6, 3 * rows - 6, dtype=np.int8).reshape(rows, 3)
        (result,) = executable(stored)
        np.testing.assert_array_equal(result, quantization.quantize(quantization.dequantize(stored) ** 2))


def test_quantized_arguments_are_specialized():
    executable = stablehlo_py.compile(SYMBOLIC, options=OPTIONS)
    stored = np.arange(-6, 6, dtype=np.int8).reshape(4, 3)
    (result,) = executable.specialize((4, 3))(stored)
    np.testing.assert_array_equal(result, executable(stored)[0])


ERRORS = {
    "has no meaning on quantized tensors": """
    !a = !quant.uniform<i8:f32, 0.5>
    func.func @main(%a: tensor<4x!a>) -> tensor<4xf32> {
      %0 = "chlo.constant_like"(%a) {value = 1.0 : f32} : (tensor<4x!a>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }""",
    "its body returns a value quantized as !quant.uniform<i8:f32, 2.500000e-01>": """
    !a = !quant.uniform<i8:f32, 0.5>
    !b = !quant.uniform<i8:f32, 0.25>
    func.func @main(%a: tensor<4x!a>, %i: tensor<!a>) -> tensor<!a> {
      %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] : (tensor<4x!a>, tensor<!a>) -> tensor<!a>
       reducer(%x: tensor<!b>, %y: tensor<!b>) {
        %1 = stablehlo.add %x, %y : tensor<!b>
        stablehlo.return %1 : tensor<!b>
      }
      return %0 : tensor<!a> }""",
}


@pytest.mark.parametrize("reason", ERRORS)
def test_what_has_no_meaning_is_refused(reason):
    with pytest.raises(UnsupportedError) as caught:
        stablehlo_py.compile(ERRORS[reason], options=OPTIONS)
    (problem,) = caught.value.problems
    assert reason in problem.reason
    assert problem.remedy and problem.location and problem.op
