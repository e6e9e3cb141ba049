"""Quantized StableHLO to ordinary StableHLO, before the rules of `legalize` run.

Every quantized tensor becomes a tensor of its storage type, and what the type said (scales, zero points, range) becomes
arithmetic at the ops that need it. `dialect/quantized.py` reads quantized types; here, `emit.py` builds StableHLO,
`affine.py` holds the formulas of the specification, `elementwise.py`, `products.py`, `reductions.py` and `movement.py`
are the rules, `driver.py` applies them. docs/quantization.md is the user's page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.census import Contents
from stablehlo_py.legalize.quantized.driver import is_quantized, legalize_quantized
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.base import Pass

__all__ = ["LegalizeQuantized", "legalize_quantized"]


@dataclass(frozen=True)
class LegalizeQuantized(Pass):
    """Ops on quantized tensors become StableHLO ops on integers and floats.

    Before: `stablehlo.uniform_dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4xf32>`.
    After: `%x` is a `tensor<4xi8>`; 3 is subtracted from it in i32, the difference is converted to f32 and multiplied
    by 0.5. An argument of a function keeps its quantized type as the attribute `hlo.quantized`.

    Relies on `inline` (no calls) and on static shapes.
    """

    name: ClassVar[str] = "legalize-quantized"
    required: ClassVar[bool] = True

    def concerns(self, contents: Contents) -> bool:
        return any(map(is_quantized, contents.types))

    def run(self, module: ir.Module) -> bool:
        """Raises UnsupportedError with every op that has no meaning on quantized tensors."""
        return legalize_quantized(module)
