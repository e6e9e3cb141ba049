"""Tuples that are made and taken apart in one function; those of its signature are gone (`structure`)."""

from __future__ import annotations

from stablehlo_py.dialect.types import i64
from stablehlo_py.legalize.rules import Results, Unsupported, rule
from stablehlo_py.mlir import ir


@rule("stablehlo.tuple")
def make_tuple(op: ir.OpView) -> Results:
    """Stays until its elements are taken: `erase_unused_tuples` takes it away then."""
    return None


@rule("stablehlo.get_tuple_element")
def get_tuple_element(op: ir.OpView) -> ir.Value:
    """The element of the tuple that was made."""
    owner = op.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.tuple":
        raise Unsupported("takes apart a tuple that no op in this function makes", "export the model without tuples")
    return owner.operands[i64(op, "index")]


def erase_unused_tuples(block: ir.Block) -> list[ir.OpView]:
    """Erase tuples that nothing uses any more, last ones first; returns those that are still used."""
    left = []
    for op in reversed(list(block.operations)):
        if op.operation.name == "stablehlo.tuple":
            if next(iter(op.operation.results[0].uses), None) is None:
                op.operation.erase()
            else:
                left.append(op)
    return left
