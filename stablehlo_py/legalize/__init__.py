"""Legalization: StableHLO (and CHLO) to the hlo dialect in normal form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.legalize.composite import is_known_composite
from stablehlo_py.legalize.driver import legalize
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.base import Pass

__all__ = ["LegalizeToHlo", "is_known_composite", "legalize"]


@dataclass(frozen=True)
class LegalizeToHlo(Pass):
    """StableHLO and CHLO ops become hlo ops in normal form.

    Before: `stablehlo.broadcast_in_dim %x, dims = [0]`. After: `"hlo.broadcast"(%x) {dimensions = array<i64: 0>}`.
    Relies on `inline`: no calls, and only composites that `is_known_composite` knows.
    """

    name: ClassVar[str] = "legalize-to-hlo"
    required: ClassVar[bool] = True

    def run(self, module: ir.Module) -> None:
        """Raises UnsupportedError with every op that has no rule."""
        legalize(module)
