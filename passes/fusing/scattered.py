"""What a scatter computes itself: its updates, where they are single elements or whole rows and few operations."""

from __future__ import annotations

from stablehlo_py.dialect.symint import IntLike, always_at_most, size_hint
from stablehlo_py.dialect.types import i64s, shape, symints
from stablehlo_py.mlir import stablehlo
from stablehlo_py.passes.fusing.clusters import Cluster, Clusters
from stablehlo_py.passes.fusing.graph import Node


def computes(clusters: Clusters, scatter: Node, node: Node, uniform: bool) -> bool:
    """May a scatter compute a node as its updates? It does so one after the other, where threads share a loop; but
    what is one number (`uniform`) needs no loop, and rows take longer to be written and read again."""
    policy = clusters.policy
    if scatter.name != "scatter" or not policy.scattered:
        return False
    row = _row_of_updates(scatter)
    few = uniform or size_hint(node.elements) <= clusters.graph.costs.serial_elements
    if row is None or not (few if row == 1 else size_hint(row) >= policy.scattered_row):
        return False
    updates, others = scatter.operands[len(scatter.results) + 1 :], scatter.operands[: len(scatter.results) + 1]
    (result,) = node.results
    return result in updates and result not in others


def is_cheap(clusters: Clusters, cluster: Cluster, node: Node) -> bool:
    """Would the updates of a scatter still take few operations each, and read nothing of what it overwrites?"""
    nodes = clusters.graph.nodes
    scatter = nodes[cluster.hero]
    overwritten = scatter.operands[: len(scatter.results)]
    members = [nodes[member] for member in cluster.members if member != cluster.hero]
    plain = (node.in_order and not node.expensive) or node.free or node.name == "broadcast"
    plain = plain or (node.name == "gather" and (reads_places_in_order(node) or _reads_rows(node)))
    flops = sum(each.flops for each in (*members, node))
    return plain and flops <= clusters.policy.scattered and not any(each in overwritten for each in node.operands)


def reads_places_in_order(gather: Node) -> bool:
    """Does the n-th element of a gather lie where the n-th of its start indices says? So it is where elements are read
    one by one, and each place is one number: batch dimensions are in the order of the indices' own."""
    sizes = symints(gather.op, "slice_sizes")
    return len(i64s(gather.op, "start_index_map")) == 1 and all(always_at_most(size, 1) for size in sizes)


def _reads_rows(gather: Node) -> bool:
    """Is each row of a gather a part of one row of its operand?"""
    *others, _ = symints(gather.op, "slice_sizes")
    last = len(gather.shape) - 1
    return i64s(gather.op, "offset_dims") == (last,) and all(always_at_most(size, 1) for size in others)


def _row_of_updates(scatter: Node) -> IntLike | None:
    """How many elements a row of updates has, each a whole row of the operand; 1 where they are single elements; None
    where they are other windows."""
    numbers = stablehlo.ScatterDimensionNumbers(scatter.op.attributes["scatter_dimension_numbers"])
    window = list(numbers.update_window_dims)
    if not window:
        return 1
    operand, updates = (shape(scatter.op.operands[position]) for position in (0, len(scatter.results) + 1))
    last = len(operand) - 1
    absent = {*numbers.inserted_window_dims, *numbers.input_batching_dims, *numbers.scattered_dims_to_operand_dims}
    whole = window == [len(updates) - 1] and last not in absent and updates[-1] == operand[-1]
    return updates[-1] if whole else None
