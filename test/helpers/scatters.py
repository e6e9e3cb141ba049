"""Scatters, built op by op."""

from __future__ import annotations

from collections.abc import Callable

from stablehlo_py.dialect import build as b
from stablehlo_py.mlir import ir

ROW = "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
EACH = (
    "inserted_window_dims = [1], input_batching_dims = [0, 2], scatter_dims_to_operand_dims = [1], "
    "scatter_indices_batching_dims = [0, 1], index_vector_dim = 3"
)
BOX = "update_window_dims = [0, 1], scatter_dims_to_operand_dims = [1, 0]"


def scatter(x: ir.Value, indices: ir.Value, updates: ir.Value, numbers: str, body: Callable, *marks: str) -> ir.Value:
    attributes = {"scatter_dimension_numbers": ir.Attribute.parse(f"#stablehlo.scatter<{numbers}>")}
    attributes |= {mark: ir.UnitAttr.get() for mark in marks}
    made = b.op("stablehlo.scatter", [x.type], [x, indices, updates], attributes, regions=1)
    scalar = b.tensor([], x.type.element_type)
    block = made.regions[0].blocks.append(scalar, scalar, arg_locs=[ir.Location.unknown()] * 2)
    with ir.InsertionPoint(block):
        b.op("stablehlo.return", [], [body(*block.arguments)])
    return made.result
