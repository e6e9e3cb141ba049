"""What JAX asks of a compiled program: its costs, its text, the memory it takes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.roofline import work_of
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.context import make_context
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.passes._functions import functions
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
    stage = program.stages.get("scheduled")
    if not isinstance(stage, bytes):  # text without the elements of large constants
        raise UnsupportedError(
            "the costs of a program with large constants are not known", remedy="pass them as arguments"
        )
    with make_context():
        module = ir.Module.parse(stage)
        (main, *_), fusions = functions(module)
        work = {name: work_of(Fusion.read(function)) for name, function in fusions.items()}
        flops, moved = _of_region(main.regions[0], {name: (one.flops, one.bytes) for name, one in work.items()})
    return {"flops": float(flops), "bytes accessed": float(moved)}


def _of_region(region: ir.Region, fusions: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    parts = [(0, 0)]
    for block in region.blocks:
        for view in block.operations:
            op = view.operation
            if op.name == "func.call":
                parts.append(fusions.get(op.attributes["callee"].value, (0, 0)))
            elif len(op.regions):
                inner = [_of_region(each, fusions) for each in op.regions]
                parts += inner if op.name == "scf.while" else [max(inner)]
    return sum(flops for flops, _ in parts), sum(moved for _, moved in parts)


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
