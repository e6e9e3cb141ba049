"""Forms that the specification allows and few programs use."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import stablehlo_py as shlo

OPTIONS = shlo.Options(threads=1, cache_dir=None)


def _lexicographic(direction: str, x: complex, y: complex) -> bool:
    """Spec, section compare: by (real, imag) with comparisons in which NaN never holds."""
    strict = {"L": x.real < y.real, "G": x.real > y.real}[direction[0]]
    last = {"LT": x.imag < y.imag, "LE": x.imag <= y.imag, "GT": x.imag > y.imag, "GE": x.imag >= y.imag}[direction]
    return strict or (x.real == y.real and last)


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE"])
def test_complex_numbers_compare_lexicographically(direction):
    parts = [0.0, -0.0, 1.0, -2.0, float("inf"), float("nan")]
    numbers = np.array([complex(*pair) for pair in itertools.product(parts, parts)], np.complex64)
    x, y = (each.ravel() for each in np.meshgrid(numbers, numbers))
    type_ = f"tensor<{x.size}xcomplex<f32>>"
    (found,) = shlo.compile(
        f"""func.func @main(%x: {type_}, %y: {type_}) -> tensor<{x.size}xi1> {{
          %0 = stablehlo.compare {direction}, %x, %y, FLOAT : ({type_}, {type_}) -> tensor<{x.size}xi1>
          return %0 : tensor<{x.size}xi1>
        }}""",
        options=OPTIONS,
    )(x, y)
    np.testing.assert_array_equal(found, [_lexicographic(direction, *pair) for pair in zip(x, y, strict=True)])


SELECT_AND_SCATTER = """func.func @main(%x: tensor<5x6xf32>, %s: tensor<3x3xf32>, %z: tensor<f32>, %c: tensor<f32>,
    %e: tensor<f32>) -> tensor<5x6xf32> {{
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %two = stablehlo.constant dense<2.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%x, %s, %z) ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %d = stablehlo.add %b, {one} : tensor<f32>
    %p = stablehlo.compare GE, %a, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }}, {{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %d = stablehlo.multiply %b, {two} : tensor<f32>
    %r = stablehlo.add %a, %d : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }}) {{window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 2, 2>,
       padding = dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>}}
    : (tensor<5x6xf32>, tensor<3x3xf32>, tensor<f32>) -> tensor<5x6xf32>
  return %0 : tensor<5x6xf32>
}}"""


def test_bodies_of_select_and_scatter_may_use_scalars_from_outside():
    """The same as with constants in the bodies."""
    rng = np.random.default_rng(3)
    x, s = (rng.integers(-4, 5, sizes).astype(np.float32) for sizes in ((5, 6), (3, 3)))
    arguments = (x, s, np.float32(0.5), np.float32(1), np.float32(2))
    texts = [SELECT_AND_SCATTER.format(one=one, two=two) for one, two in (("%one", "%two"), ("%c", "%e"))]
    (right,), (found,) = (shlo.compile(text, options=OPTIONS)(*arguments) for text in texts)
    np.testing.assert_array_equal(found, right)
    assert len(np.unique(right)) > 3


def test_quantized_tensors_whose_shape_is_computed():
    """The argument is quantized, and the shape of the result follows from a constant."""
    type_ = "!quant.uniform<i8:f32, 0.5:3>"
    text = f"""func.func @main(%x: tensor<2x6x{type_}>) -> tensor<?x?x{type_}> {{
      %s = stablehlo.constant dense<[4, 3]> : tensor<2xi32>
      %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x6x{type_}>, tensor<2xi32>) -> tensor<?x?x{type_}>
      return %0 : tensor<?x?x{type_}>
    }}"""
    x = np.arange(12, dtype=np.int8).reshape(2, 6)
    (found,) = shlo.compile(text, options=OPTIONS)(x)
    np.testing.assert_array_equal(found, x.reshape(4, 3))
