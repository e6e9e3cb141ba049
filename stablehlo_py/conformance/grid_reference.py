"""StableHLO's reference interpreter on a process grid. It ends its process where it cannot go on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stablehlo_py.debug.engines import run_on_grid
from stablehlo_py.dialect.constants import element_type_of, from_numpy, to_numpy
from stablehlo_py.dialect.context import make_context
from stablehlo_py.frontend.load import load
from stablehlo_py.mlir import ir, stablehlo


def reference_on_grid(
    text: str, replicas: int, partitions: int, arguments: Sequence[Sequence[np.ndarray]]
) -> list[list[np.ndarray]]:
    """Results of each process of a grid, in StableHLO's reference interpreter; `arguments` are those of each."""
    context = make_context()
    stablehlo.register_interpreter_dialect(context)
    with context, ir.Location.unknown():
        module = load(text, context=context)
        each = run_on_grid(module, replicas, partitions)
        flat = [array for process in arguments for array in process]
        values = [from_numpy(array, element_type_of(array.dtype, context)) for array in flat]
        results = [np.array(to_numpy(result)) for result in stablehlo.eval_module(module, values)]
    return [results[number * each : (number + 1) * each] for number in range(len(arguments))]
