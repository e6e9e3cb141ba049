"""Tuples that one function makes and takes apart again: their elements, before sizes are followed."""

from __future__ import annotations

from stablehlo_py.dialect.types import i64
from stablehlo_py.mlir import ir


def take_tuples_apart(block: ir.Block) -> None:
    """Use the elements themselves, in a block and the blocks within; tuples that nobody uses then go."""
    tuples: list[ir.Operation] = []
    for view in list(block.operations):
        op = view.operation
        for region in op.regions:
            for inner in region.blocks:
                take_tuples_apart(inner)
        if op.name == "stablehlo.tuple":
            tuples.append(op)
        elif op.name == "stablehlo.get_tuple_element":
            owner = op.operands[0].owner
            if not isinstance(owner, ir.Block) and owner.name == "stablehlo.tuple":
                op.results[0].replace_all_uses_with(owner.operands[i64(op, "index")])
                op.erase()
    for made in reversed(tuples):
        if next(iter(made.results[0].uses), None) is None:
            made.erase()
