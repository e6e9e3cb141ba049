"""Which windows of a scatter that lie partly out of bounds count.

The specification asks of every element by itself whether it is in bounds; XLA leaves a window out as a whole, and what
JAX differentiates relies on that. A module that names its grid in `mhlo.*` attributes, or was exported by JAX, was
written for XLA. What holds for a module is decided once, before its first pass, and stands in its text:

    module attributes {hlo.whole_windows}     "stablehlo.scatter"(...) {hlo.whole_windows}
"""

from __future__ import annotations

from stablehlo_py.dialect.attributes import WHOLE_WINDOWS
from stablehlo_py.dialect.types import module_of, shape
from stablehlo_py.mlir import ir, stablehlo

_OF_XLA = ("mhlo.", "jax.")


def declare_windows(module: ir.Module, windows: str) -> None:
    """Write into the module what `Options(scatter_windows=...)` means for it."""
    attributes = module.operation.attributes
    written_for_xla = any(name.startswith(_OF_XLA) for name in attributes)
    if windows == "whole" or (windows == "auto" and written_for_xla):
        attributes[WHOLE_WINDOWS] = ir.UnitAttr.get(module.context)
    elif windows == "partial" and WHOLE_WINDOWS in attributes:
        del attributes[WHOLE_WINDOWS]


def mark_windows(op: ir.OpView) -> None:
    """Mark a scatter whose windows count as a whole or not at all. One whose indices move windows of one element only
    needs no mark: those are never partly out of bounds."""
    if WHOLE_WINDOWS in module_of(op.operation).attributes and _can_be_partial(op):
        op.operation.attributes[WHOLE_WINDOWS] = ir.UnitAttr.get()


def _can_be_partial(op: ir.OpView) -> bool:
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    count = len(op.results)
    absent = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    kept = [dimension for dimension in range(len(shape(op.operands[0]))) if dimension not in absent]
    updates = shape(op.operands[count + 1])
    moved = numbers.scattered_dims_to_operand_dims
    windows = dict(zip(kept, numbers.update_window_dims, strict=True))
    return any(dimension in windows and updates[windows[dimension]] != 1 for dimension in moved)
