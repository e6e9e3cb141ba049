"""Static shapes for modules whose arguments are static: dynamic twins of static ops become those ops."""

from __future__ import annotations

from stablehlo_py.dialect.dynamic import any_dynamic, open_types
from stablehlo_py.dialect.types import operations
from stablehlo_py.errors import LoadError
from stablehlo_py.frontend import dynamic_calls
from stablehlo_py.frontend.limits import check_elements
from stablehlo_py.frontend.refine import contradictions, is_symbolic, refine, symbolic_inputs
from stablehlo_py.mlir import ir, run_upstream


def make_static(module: ir.Module) -> None:
    """Work out the shapes of a module that has dynamic twins, or results of open sizes, as far as they follow from
    constants and from the arguments' shapes. A module with symbolic arguments keeps its dynamic shapes."""
    names = op_names(module)
    if "stablehlo.custom_call" in names:
        dynamic_calls.make_static(operations(module.operation))
    if any_dynamic(names):
        run_upstream(module, "func.func(stablehlo-canonicalize-dynamism)")
        with contradictions(module, LoadError("the operands of dynamic ops do not make valid ops of known shape")):
            module.operation.verify()
        check_elements(module)
    if open_types(module) and not is_symbolic(module):
        refine(module, [tuple(size or 0 for size in sizes) for sizes in symbolic_inputs(module)])


def op_names(module: ir.Module) -> set[str]:
    """The names of all ops of a module."""
    return {op.name for op in operations(module.operation)}
