"""All source locations are dropped.

Before (printed with `--mlir-print-debuginfo`)::

    %0 = "hlo.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":3:4)

After::

    %0 = "hlo.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc(unknown)

For comparing and storing modules: errors of later passes can no longer name the user's line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.mlir import ir, run_upstream
from stablehlo_py.passmanager.base import Pass


@dataclass(frozen=True)
class StripDebug(Pass):
    """Drop all source locations."""

    name: ClassVar[str] = "strip-debug"

    def run(self, module: ir.Module) -> None:
        """Locations of ops and of block arguments."""
        run_upstream(module, "strip-debuginfo")
