"""Tuples that are made and taken apart in one function; those of its signature are gone (`structure`)."""

from __future__ import annotations

from stablehlo_py.dialect import sharding
from stablehlo_py.dialect.types import i64
from stablehlo_py.legalize.rules import refuse
from stablehlo_py.mlir import ir

_REMEDY = "export the model without tuples"
refuse("is used as a whole", _REMEDY, "stablehlo.tuple")
refuse("takes apart a tuple that no op in this function makes", _REMEDY, "stablehlo.get_tuple_element")


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
                sharding.replace(op.results[0], owner.operands[i64(op, "index")])
                op.erase()
    for made in reversed(tuples):
        if next(iter(made.results[0].uses), None) is None:
            made.erase()
