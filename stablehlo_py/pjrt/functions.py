"""Functions of CHLO that jaxlib expands into arithmetic before it asks a platform to compile: lgamma and others.

Composites it passes on. So these functions are composites of their names, whose decompositions are what it expands;
legalization makes one op of each (legalize/composite.py), for which there are kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from stablehlo_py.pjrt.versions import internals

_jax = internals()
#: Others are composites already when they arrive, as `chlo.erf`.
EXPANDED = ("bessel_i1e", "digamma", "erf_inv", "erfc", "lgamma")


def register(platform: str) -> None:
    """Let JAX lower these functions to composites for a platform."""
    for name in EXPANDED:
        primitive = getattr(jax.lax, f"{name}_p")
        usual = _jax._lowerings[primitive].rule
        _jax.register_lowering(primitive, _as_composite(f"chlo.{name}", usual), platform)


def _as_composite(name: str, usual: Callable[..., Any]) -> Callable[..., Sequence[Any]]:
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import func, stablehlo

    def lower(context: Any, operand: Any, **parameters: Any) -> Sequence[Any]:
        (aval,) = context.avals_out
        if not jax.numpy.issubdtype(aval.dtype, np.floating):
            return usual(context, operand, **parameters)
        module = context.module_context
        with ir.InsertionPoint.at_block_begin(module.module.body):
            type_ = ir.FunctionType.get([operand.type], [operand.type])
            function = func.FuncOp(f"{name}.decomposition", type_, visibility="private")
            module.symbol_table.insert(function)
        with ir.InsertionPoint(function.add_entry_block()):
            inner = ir.Operation.create(name, [operand.type], [function.arguments[0]])
            func.ReturnOp(inner.results)
        decomposition = ir.FlatSymbolRefAttr.get(function.name.value)
        made = stablehlo.CompositeOp([operand.type], [operand], name=name, decomposition=decomposition)
        return made.results

    return lower
