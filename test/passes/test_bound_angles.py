"""Angles that are known to be small: ranges of floats hold, and results have the bits of any angle's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.dialect import build as b
from stablehlo_py.dialect.context import make_context
from stablehlo_py.mlir import ir
from stablehlo_py.passes.simplify_rules.ranges import ANY, float_range

MODULE = """func.func @main() -> tensor<5000x{of}> {{
  %0 = stablehlo.iota dim = 0 : tensor<5000x{of}>
  %1 = stablehlo.constant dense<6.4> : tensor<5000x{of}>
  %2 = stablehlo.multiply %0, %1 : tensor<5000x{of}>
  %3 = stablehlo.constant dense<1.6e4> : tensor<5000x{of}>
  %4 = stablehlo.subtract %2, %3 : tensor<5000x{of}>
  %5 = stablehlo.{name} %4 : tensor<5000x{of}>
  return %5 : tensor<5000x{of}>
}}"""


@pytest.mark.parametrize("of", ["f32", "f64"])
@pytest.mark.parametrize("name", ["sine", "cosine", "tan"])
def test_the_same_bits(name: str, of: str) -> None:
    module = MODULE.format(name=name, of=of)
    small = shlo.compile(module)
    general = shlo.compile(module, options=shlo.Options(disable=("bound-angles",)))
    assert "hlo.small_angle" in small.stages["fused"]
    assert "hlo.small_angle" not in general.stages["fused"]
    np.testing.assert_array_equal(small()[0], general()[0])


@pytest.mark.parametrize("of", ["f32", "f64"])
@pytest.mark.parametrize("name", ["sine", "cosine", "tan"])
def test_a_fraction_of_what_is_no_number(name: str, of: str) -> None:
    type_ = f"tensor<5x{of}>"
    executable = shlo.compile(f"""func.func @main(%x: {type_}) -> {type_} {{
      %0 = stablehlo.floor %x : {type_}
      %1 = stablehlo.subtract %x, %0 : {type_}
      %2 = stablehlo.{name} %1 : {type_}
      return %2 : {type_}
    }}""")
    assert "hlo.small_angle" in executable.stages["fused"]
    x = np.array([np.inf, -np.inf, np.nan, 2.75, -1e-20], {"f32": np.float32, "f64": np.float64}[of])
    function = {"sine": np.sin, "cosine": np.cos, "tan": np.tan}[name]
    expected = function(np.array([np.nan, np.nan, np.nan, 0.75, 1.0], x.dtype))
    np.testing.assert_allclose(executable(x)[0], expected, rtol=4 * np.finfo(x.dtype).eps)


def test_ranges_of_floats() -> None:
    with make_context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            x = b.constant(np.array([-2.0, 3.0], np.float32), ir.F32Type.get())
            y = b.constant(np.array([0.5, 4.0], np.float32), ir.F32Type.get())
            line = b.value("iota", b.tensor([7], ir.IntegerType.get_signless(32)), dimension=0)
            assert float_range(b.like("add", x, y)) == (-1.5, 7.0)
            assert float_range(b.like("subtract", x, y)) == (-6.0, 2.5)
            assert float_range(b.like("multiply", x, y)) == (-8.0, 12.0)
            assert float_range(b.like("divide", x, y)) == (-4.0, 6.0)
            assert float_range(b.like("divide", y, x)) == ANY
            assert float_range(b.like("power", y, x)) == (0.0625, 64.0)
            assert float_range(b.like("power", x, y)) == ANY
            assert float_range(b.like("abs", x)) == (0.0, 3.0)
            assert float_range(b.like("negate", x)) == (-3.0, 2.0)
            assert float_range(b.like("maximum", x, y)) == (0.5, 4.0)
            assert float_range(b.like("minimum", x, y)) == (-2.0, 3.0)
            assert float_range(b.like("exponential", x)) == (math.exp(-2), math.exp(3))
            assert float_range(b.like("tanh", b.like("rsqrt", x))) == (-1.0, 1.0)
            any_ = b.like("rsqrt", x)
            assert float_range(b.like("add", x, any_)) == ANY
            assert float_range(b.like("subtract", any_, b.like("floor", any_))) == (0.0, 1.0)
            assert float_range(b.like("subtract", x, b.like("floor", any_))) == ANY
            assert float_range(b.convert(line, ir.F32Type.get())) == (0.0, 6.0)
            huge = b.like("exponential", b.like("exponential", b.like("exponential", y)))
            assert float_range(huge) == ANY
