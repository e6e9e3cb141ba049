"""Private functions that nothing refers to are erased.

Before::

    func.func private @unused() { return }
    func.func @main() { return }

After::

    func.func @main() { return }

A reference is any symbol attribute: a call, the decomposition of a composite. Runs MLIR's own pass, which does all of
this in C++; the name is ours too so that pipelines need not care whose it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.mlir import ir, run_upstream
from stablehlo_py.passmanager.base import Pass


@dataclass(frozen=True)
class SymbolDce(Pass):
    """Erase private functions that nothing refers to."""

    name: ClassVar[str] = "symbol-dce"
    only_erases: ClassVar[bool] = True
    required: ClassVar[bool] = True

    def run(self, module: ir.Module) -> None:
        """Nothing to do for a module of one function."""
        if len(module.body.operations) > 1:
            run_upstream(module, "symbol-dce")
