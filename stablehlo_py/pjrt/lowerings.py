"""How JAX lowers primitives for the platforms where neither its rule for all platforms nor that for the CPU will do.

jaxlib expands functions of CHLO into arithmetic before it asks a platform to compile: lgamma to 83 ops. Composites it
passes on. So these functions are composites of their names, whose decompositions are what it expands; legalization
makes of each the ops that it makes of the function (legalize/composite.py), for which there are kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.extend.random

from stablehlo_py.pjrt.versions import internals

_jax = internals()
#: Others are composites already when they arrive, as `chlo.erf`. The expansion of polygamma, in the type of its
#: operand, takes a fourth of the time of ours, which is in f64.
EXPANDED = ("bessel_i1e", "digamma", "erf_inv", "erfc", "lgamma", "zeta")
#: Their rules for the CPU avoid faults of XLA's. Without them the gradient of a pooling, whose operand need not be
#: padded before, takes 0.7 of the time, and 20 keys and their numbers compile in 0.6 of it.
OF_ALL_PLATFORMS = (jax.lax.select_and_scatter_add_p, jax.extend.random.threefry2x32_p)


def register(platform: str) -> None:
    """Let JAX lower these primitives as a platform needs them, which takes the others as the CPU does."""
    for name in EXPANDED:
        _jax.register_lowering(getattr(jax.lax, f"{name}_p"), partial(_as_composite, f"chlo.{name}"), platform)
    for primitive in OF_ALL_PLATFORMS:
        usual = _jax._lowerings[primitive]
        _jax.register_lowering(primitive, usual.rule, platform, inline=usual.inline)


def _as_composite(name: str, context: Any, *operands: Any, **parameters: Any) -> Sequence[Any]:
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import func, stablehlo

    def composite(*operands: Any, **_: Any) -> Any:
        types, module = [operand.type for operand in operands], context.module_context
        with ir.InsertionPoint.at_block_begin(module.module.body):
            type_ = ir.FunctionType.get(types, types[:1])
            function = func.FuncOp(f"{name}.decomposition", type_, visibility="private")
            module.symbol_table.insert(function)
        with ir.InsertionPoint(function.add_entry_block()):
            func.ReturnOp(ir.Operation.create(name, types[:1], [*function.arguments]).results)
        decomposition = ir.FlatSymbolRefAttr.get(function.name.value)
        return stablehlo.CompositeOp(types[:1], operands, name=name, decomposition=decomposition).result

    return _jax._nary_lower_hlo(composite, context, *operands, **parameters)
