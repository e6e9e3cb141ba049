"""Two ops that exist here only, added as docs/adding-an-op.md says, in a process of its own: run by test_records.py.

`hlo.atan` is elementwise; without it `chlo.atan` becomes `hlo.atan2`. `hlo.flip` reverses the last dimension; without
it that is `hlo.reverse`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import stablehlo_py as shlo
from stablehlo_py.codegen import math as real_math
from stablehlo_py.codegen.arith import ARITH
from stablehlo_py.codegen.builder import Function
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.elemental.core import RULES as ELEMENTAL
from stablehlo_py.codegen.index import Delinearized, add, delinearize, delinearized, scale
from stablehlo_py.codegen.types import Known, Lanes
from stablehlo_py.dialect import build, docs
from stablehlo_py.dialect.ops.elementwise import pointwise
from stablehlo_py.dialect.ops.factors import Kind, common_but
from stablehlo_py.dialect.ops.record import FIRST, Work, always, op
from stablehlo_py.dialect.types import i64s, rank, shape
from stablehlo_py.dialect.verify import same_elements, same_shape
from stablehlo_py.legalize.rules import RENAMED, RULES
from stablehlo_py.mlir import ir

# --- an elementwise op -----------------------------------------------------------------------------------------------

pointwise("atan", "float", "Arc tangent.", np.arctan, flops=40, ulps=4)

RENAMED["chlo.atan"] = "hlo.atan"


@ARITH.rule("atan")
def atan(f: Function, op: ir.OpView, operands: Sequence[Known]) -> Lanes:
    """The angle of the point (1, x)."""
    (a,) = operands
    return real_math.atan2(f, a, f.const(1.0, a.type))


# --- a structural op -------------------------------------------------------------------------------------------------


op(
    "flip(operand: any) -> (result: any)",
    "The last dimension in reverse.",
    checks=(same_elements, same_shape),
    work=Work.MOVES,
    picks=FIRST,
    value=lambda op, x: x[..., ::-1],
    exact=always,
    factors=common_but(lambda op: [-1], Kind.WINDOWED),
)


_reverse = RULES["stablehlo.reverse"]


def flip(op: ir.OpView) -> Any:
    """A reversal of the last dimension alone."""
    (operand,) = op.operands
    return build.like("flip", operand) if i64s(op, "dimensions") == (rank(operand) - 1,) else _reverse(op)


RULES["stablehlo.reverse"] = flip


@ELEMENTAL.rule("flip")
def element_of_flip(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    """Element i of n is element n - 1 - i of the operand."""
    *_, count = sizes = shape(op.operands[0])
    outer, index = delinearize(e.f, place, [math.prod(sizes) // count, count], e.lanes)
    turned = add(e.f, scale(e.f, index, -1), count - 1)
    return e.value(op.operands[0], delinearized([math.prod(sizes) // count, count], [outer, turned]))


# --- they work -------------------------------------------------------------------------------------------------------

MODEL = """
func.func @main(%x: tensor<8x100xf32>) -> (tensor<8x100xf32>, tensor<8x100xf32>) {
  %0 = chlo.atan %x : tensor<8x100xf32> -> tensor<8x100xf32>
  %1 = stablehlo.reverse %0, dims = [1] : tensor<8x100xf32>
  %2 = chlo.atan %x : tensor<8x100xf32> -> tensor<8x100xf32>
  %3 = stablehlo.add %1, %2 : tensor<8x100xf32>
  %c = stablehlo.constant dense<[[0.0, 1.0]]> : tensor<1x2xf32>
  %4 = stablehlo.reverse %c, dims = [1] : tensor<1x2xf32>
  %5 = stablehlo.slice %4 [0:1, 0:1] : (tensor<1x2xf32>) -> tensor<1x1xf32>
  %6 = stablehlo.reshape %5 : (tensor<1x1xf32>) -> tensor<f32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<8x100xf32>
  %8 = stablehlo.multiply %3, %7 : tensor<8x100xf32>
  return %3, %8 : tensor<8x100xf32>, tensor<8x100xf32>
}
"""


def main() -> None:
    """Compile a model of both ops, look at its stages, and run it."""
    executable = shlo.compile(MODEL)
    legal, optimized, fused = (executable.stages[name] for name in ("hlo", "optimized", "fused"))
    # Equal arc tangents are merged before they are hlo.
    assert legal.count("hlo.atan") == 1 and "atan2" not in legal, legal
    assert legal.count("hlo.flip") == 2 and "hlo.reverse" not in legal, legal
    # The constant folds, and the product with 1 goes.
    assert optimized.count("hlo.atan") == 1 and optimized.count("hlo.flip") == 1, optimized
    assert "hlo.multiply" not in optimized, optimized
    # The arc tangent is computed once; reading it in reverse is part of the sum.
    assert fused.count("hlo.fusion =") == 2, fused
    x = np.random.default_rng(0).normal(size=(8, 100)).astype(np.float32)
    expected = np.arctan(x)[:, ::-1] + np.arctan(x)
    for result in executable(x):
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
    page = docs.generate()
    assert "| `hlo.atan` | float | Arc tangent. |" in page and "### hlo.flip" in page


if __name__ == "__main__":
    main()
