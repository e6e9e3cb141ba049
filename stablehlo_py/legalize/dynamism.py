"""Static shapes for modules whose arguments are static: dynamic twins of static ops become those ops."""

from __future__ import annotations

from stablehlo_py.dialect.dynamic import any_dynamic
from stablehlo_py.dialect.types import is_tensor, operations
from stablehlo_py.errors import LoadError
from stablehlo_py.frontend import dynamic_calls
from stablehlo_py.frontend.limits import check_elements
from stablehlo_py.frontend.refine import contradictions, is_symbolic, refine, symbolic_inputs
from stablehlo_py.mlir import ir, run_upstream


def make_static(module: ir.Module) -> None:
    """Work out the shapes of a module that has dynamic twins, as far as they follow from constants and from the
    arguments' shapes. A module with symbolic arguments keeps its dynamic shapes."""
    names = op_names(module)
    if "stablehlo.custom_call" in names:
        dynamic_calls.make_static(module, operations(module.operation))
    if not any_dynamic(names):
        return
    run_upstream(module, "func.func(stablehlo-canonicalize-dynamism)")
    with contradictions(module, LoadError("the operands of dynamic ops do not make valid ops of known shape")):
        module.operation.verify()
    if any(not type_.has_static_shape for type_ in _tensor_types(module)) and not is_symbolic(module):
        refine(module, [tuple(size or 0 for size in sizes) for sizes in symbolic_inputs(module)])
    else:
        check_elements(module)


def op_names(module: ir.Module) -> set[str]:
    """The names of all ops of a module."""
    return {op.name for op in operations(module.operation)}


def _tensor_types(module: ir.Module) -> list[ir.RankedTensorType]:
    return [result.type for op in operations(module.operation) for result in op.results if is_tensor(result)]
