"""Contexts that speak all of the compiler's dialects."""

from __future__ import annotations

import threading

from stablehlo_py.dialect.ops import Hlo
from stablehlo_py.mlir import ir, run_upstream, stablehlo

_lock = threading.Lock()
_registered = False


def make_context() -> ir.Context:
    """A context with every dialect that the compiler speaks: upstream's, StableHLO, CHLO, VHLO and hlo."""
    global _registered
    # Loading a Python-defined dialect stores state on its class: one context at a time.
    with _lock:
        if not _registered:
            stablehlo.register_stablehlo_passes()
            _registered = True
        context = ir.Context()
        context.enable_multithreading(False)
        stablehlo.register_dialect(context)
        with context, ir.Location.unknown():
            # register_dialect leaves chlo out; a pass that depends on it loads it.
            run_upstream(ir.Module.create(), "func.func(stablehlo-complex-math-expander)")
            Hlo.load()
            del Hlo._mlir_module  # the class would keep this context alive until there is the next
    return context
