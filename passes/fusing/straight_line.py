"""Work on few elements between the big kernels: as many such clusters as possible become one straight-line fusion,
whose values stay out of memory."""

from __future__ import annotations

import itertools

from stablehlo_py.dialect.symint import is_known
from stablehlo_py.passes._order import topological_order
from stablehlo_py.passes.fusing.clusters import Cluster, Clusters
from stablehlo_py.passes.fusing.graph import Graph
from stablehlo_py.passes.policy import StraightLineLimits

#: Ops that read few elements of an operand of any size.
_PARTIAL_READS = frozenset(("slice", "dynamic_slice"))
#: Ops that are not written out element by element.
_NOT_UNROLLED = frozenset(("gather", "const_size"))


def straight_line_cost(graph: Graph, cluster: Cluster, limits: StraightLineLimits) -> int:
    """Scalar operations of the cluster after unrolling; more than the limit when it cannot be unrolled."""
    too_much = limits.cost + 1
    if cluster.kind not in ("loop", "row", "column", "view"):
        return too_much
    cost = 0
    for index in cluster.members:
        node = graph.nodes[index]
        regroups_bits = node.name == "bitcast_convert" and not node.in_order
        if not is_known(*node.shape) or node.elements > limits.elements:
            return too_much
        if node.name in _NOT_UNROLLED or regroups_bits:
            return too_much
        for position, operand in enumerate(node.operands):
            elements = graph.elements(operand)
            if not isinstance(elements, int):
                return too_much
            if elements > limits.elements and (node.name not in _PARTIAL_READS or position):
                return too_much
            if node.name == "reduce":
                cost += elements
        cost += 0 if node.free else int(node.elements)
    return cost


def fuse_straight_line(clusters: Clusters, limits: StraightLineLimits) -> None:
    """Walk the clusters as they could run; whatever work on few elements is ready when no other is becomes one fusion
    (or few, by cost)."""
    everything = clusters.all()
    costs = {cluster: straight_line_cost(clusters.graph, cluster, limits) for cluster in everything}
    few = [costs[cluster] <= limits.cost for cluster in everything]
    order = topological_order(clusters.followers(everything), few)
    for is_few, batch in itertools.groupby(order, key=few.__getitem__):
        if is_few:
            _merge_batch(clusters, [everything[position] for position in batch], costs, limits)


def _merge_batch(
    clusters: Clusters, batch: list[Cluster], costs: dict[Cluster, int], limits: StraightLineLimits
) -> None:
    if all(cluster.kind == "view" for cluster in batch):
        return
    kept: Cluster | None = None
    spent = 0
    for cluster in batch:
        cost = costs[cluster]
        if kept is None or spent + cost > limits.cost:
            kept, spent = cluster, cost
            kept.kind = "straight_line"
            continue
        clusters.absorb(kept, cluster)
        spent += cost
