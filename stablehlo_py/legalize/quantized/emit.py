"""Building StableHLO ops on plain tensors. The insertion point and the location come from the surrounding `with`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import shape
from stablehlo_py.legalize.rules import Unsupported
from stablehlo_py.mlir import ir

value, like, convert = build.stablehlo.value, build.stablehlo.like, build.stablehlo.convert


def again(op: ir.OpView, operands: Sequence[ir.Value], element: ir.Type) -> ir.Operation:
    """The op once more, with other operands for its first ones, and other elements of its first result."""
    copy = op.operation.clone()
    for number, operand in enumerate(operands):
        copy.operands[number] = operand
    copy.results[0].set_type(build.tensor(shape(op.results[0]), element))
    return copy


def literal(array: np.ndarray, element: ir.Type) -> ir.Value:
    """A tensor with exactly these elements."""
    return build.stablehlo.constant(array.astype(numpy_dtype(element)), element)


def constant(array: np.ndarray, sizes: Sequence[IntLike], element: ir.Type) -> ir.Value:
    """A tensor of shape `sizes` from an array that broadcasts to it as in NumPy: of shape (), or of the same rank.

    Raises Unsupported for a dynamic shape.
    """
    if any(size < 0 for size in sizes):
        raise Unsupported("computes on a quantized tensor of dynamic shape", "load the module with concrete shapes")
    kept = [dimension for dimension, size in enumerate(array.shape) if size != 1] if array.size != 1 else []
    known = literal(array.reshape([array.shape[dimension] for dimension in kept]), element)
    if list(sizes) == [array.shape[dimension] for dimension in kept]:
        return known
    return value("broadcast_in_dim", build.tensor(sizes, element), known, broadcast_dimensions=kept)
