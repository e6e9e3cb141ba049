"""The functions of a module: programs, and the fusions that they call."""

from __future__ import annotations

from stablehlo_py.dialect.attributes import FUSION
from stablehlo_py.dialect.calls import MAIN, functions_of
from stablehlo_py.mlir import ir


def functions(module: ir.Module) -> tuple[list[ir.Operation], dict[str, ir.Operation]]:
    """Those with a body: programs, `@main` first, and fusions by name."""
    named = {name: op for name, op in functions_of(module).items() if len(op.regions[0].blocks)}
    fusions = {name: op for name, op in named.items() if FUSION in op.attributes}
    programs = sorted((name for name in named if name not in fusions), key=lambda name: name != MAIN)
    return [named[name] for name in programs], fusions
