"""Ops about devices, tokens and tuples. The compiled program runs on one device: collectives of one participant do
nothing."""

from __future__ import annotations

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import to_numpy
from stablehlo_py.dialect.types import i64
from stablehlo_py.legalize.rules import Results, Unsupported, refuse, rule
from stablehlo_py.mlir import ir

_ONE_DEVICE = "export the model for one device"


@rule("stablehlo.replica_id", "stablehlo.partition_id")
def device_id(op: ir.OpView) -> ir.Value:
    """Zero."""
    return build.constant(np.uint32(0), op.results[0].type.element_type)


@rule(
    "stablehlo.all_reduce",
    "stablehlo.all_gather",
    "stablehlo.all_to_all",
    "stablehlo.reduce_scatter",
    "stablehlo.collective_broadcast",
    "stablehlo.cross-replica-sum",
)
def collective(op: ir.OpView) -> Results:
    """The operands, where every group has one participant."""
    groups = to_numpy(op.attributes["replica_groups"])
    operands = list(op.operands)
    if (
        groups.ndim != 2
        or groups.shape[1] > 1
        or [each.type for each in operands] != [each.type for each in op.results]
    ):
        raise Unsupported("communicates between devices", _ONE_DEVICE)
    return operands


refuse(
    "communicates with the host or with other devices",
    "export the model for one device and without callbacks, infeed and outfeed",
    "stablehlo.collective_permute",
    "stablehlo.infeed",
    "stablehlo.outfeed",
    "stablehlo.send",
    "stablehlo.recv",
    "stablehlo.after_all",
    "stablehlo.create_token",
    "stablehlo.async_start",
    "stablehlo.async_done",
)


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
