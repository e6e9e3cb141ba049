"""What JAX asks of a compiled program: its costs, its text, the memory it takes."""

from __future__ import annotations

import numpy as np

from stablehlo_py.backends.common.roofline import program_work
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.context import make_context
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.passes.legalize_to_stablehlo import LegalizeToStablehlo
from stablehlo_py.runtime.program import CompiledProgram

# What the layouts of arguments and results are: XLA would choose others for what it takes for transposed.
_PARAMETERS, _RESULTS = "mhlo.xla_entry_computation_parameter_layouts", "mhlo.xla_entry_computation_result_layout"


def costs(program: CompiledProgram) -> dict[str, float]:
    """Operations on numbers, and bytes that fusions read and write in memory. A loop's body counts once, of branches
    the one with most operations.

    Raises:
        UnsupportedError: the program does not hold the stage that says it.
    """
    work = program_work(program)
    if work is None:
        raise UnsupportedError(
            "the costs of a program with large constants are not known", remedy="pass them as arguments"
        )
    return {"flops": float(work.flops), "bytes accessed": float(work.bytes)}


def text(program: CompiledProgram) -> str:
    """The stage `optimized` in StableHLO, of which JAX makes HLO."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(program.stages["optimized"])
        LegalizeToStablehlo().run(module)
        signature = main_function(module).type
        for name, types in ((_PARAMETERS, signature.inputs), (_RESULTS, signature.results)):
            module.operation.attributes[name] = ir.ArrayAttr.get([_row_major(type_) for type_ in types])
        return str(module.operation.get_asm(enable_debug_info=True))


def _row_major(type_: ir.Type) -> ir.Attribute:
    rank = ir.RankedTensorType(type_).rank
    return ir.DenseElementsAttr.get(np.arange(rank)[::-1].copy(), type=ir.IndexType.get())
