"""What is left to do when every producer is fused: rows without reductions, and multi-output fusion of consumers (loops
over the results of one fusion) and of siblings (reductions over one operand)."""

from __future__ import annotations

import math

from stablehlo_py.dialect.symint import IntLike, size_hint
from stablehlo_py.passes.fusing.clusters import Cluster, Clusters
from stablehlo_py.passes.fusing.graph import CONSTANT


def rows_to_loops(clusters: Clusters) -> None:
    """Row fusions that no reduction has joined become loops again; their row-shaped values move to a loop of their
    own."""
    graph = clusters.graph
    for cluster in clusters.all():
        if cluster.kind != "row" or cluster.reductions:
            continue
        cluster.kind = "loop"
        per_row = [
            node
            for node, (trip_count, _) in cluster.members.items()
            if trip_count == cluster.rows != cluster.elements
            and not graph.nodes[node].free
            and graph.nodes[node].role != CONSTANT
        ]
        for node in per_row:
            apart = Cluster("loop", node, graph.nodes[node].shape, graph.nodes[node].elements)
            apart.rank = cluster.rank - 1 + (node + 1) / (len(graph.nodes) + 1)  # after what both read
            clusters.containing[node] = [one for one in clusters.containing[node] if one is not cluster] + [apart]
            _copy_free_operands(clusters, cluster, apart, node)
        for node in per_row:
            del cluster.members[node]
        cluster.outputs = [node for node in cluster.outputs if node in cluster.members]


def _copy_free_operands(clusters: Clusters, source: Cluster, target: Cluster, node: int) -> None:
    """Constants and index arithmetic that `node` uses inside `source` come along into `target`."""
    graph = clusters.graph
    for producer in graph.nodes[node].producers:
        if producer in source.members and producer not in target.members:
            operand_node = graph.nodes[producer]
            if operand_node.free or operand_node.role == CONSTANT:
                clusters.join(target, producer, target.elements, None)
                _copy_free_operands(clusters, source, target, producer)


def fuse_consumers(clusters: Clusters) -> None:
    """Loops over the results of one row or column fusion, and over nothing else, join it as further outputs."""
    graph = clusters.graph
    for cluster in clusters.all():
        if cluster.kind != "loop":
            continue
        sources: dict[int, Cluster | None] = {}
        for node in cluster.members:
            for producer in graph.nodes[node].producers:
                if producer not in cluster.members:
                    owner = clusters.owner(producer) if producer >= 0 else None
                    sources[id(owner)] = owner
        source = next(iter(sources.values()), None)
        if len(sources) != 1 or source is None or source.kind not in ("row", "column"):
            continue
        results = source.rows if source.kind == "row" else source.elements
        if (
            _is_in_order(clusters, cluster, results)
            and len(source.outputs) + len(cluster.outputs) <= clusters.policy.outputs
        ):
            clusters.merge(source, cluster)


def _is_in_order(clusters: Clusters, cluster: Cluster, elements: IntLike) -> bool:
    """Does every member compute element i of `elements` from element i of what the cluster reads? What reads nothing
    (an iota, a constant's broadcast) may be evaluated anywhere."""
    reading: set[int] = set()
    for member in sorted(cluster.members):
        node = clusters.graph.nodes[member]
        if node.role == CONSTANT:
            continue
        reads = any(producer in reading or producer not in cluster.members for producer in node.producers)
        if reads:
            reading.add(member)
        if not (node.in_order and node.elements == elements) and (reads or not node.free):
            return False
    return True


def fuse_siblings(clusters: Clusters) -> None:
    """Reductions over the same operand, or over the same shape with a common input, become one multi-output fusion: of
    few elements whatever the input's shape, of more if it is theirs."""
    groups: dict[tuple[bool, object, int], list[Cluster]] = {}
    graph, policy = clusters.graph, clusters.policy
    for cluster in clusters.all():
        if cluster.kind == "column" and cluster.reductions:
            over = (cluster.reduced or ((),))[0]
            is_small = size_hint(math.prod(over)) <= policy.small_siblings
            members = [graph.nodes[member] for member in cluster.members]
            read = dict.fromkeys(operand for node in members for operand in node.operands)
            for operand in read:
                if graph.producer[operand] in cluster.members:
                    continue
                reduced = graph.elements(operand) and graph.shape(operand) == over
                if reduced or is_small:
                    groups.setdefault((not reduced, cluster.reduced, operand), []).append(cluster)
    gone: set[Cluster] = set()
    for (is_of_few, _, _), group in groups.items():
        left = list(dict.fromkeys(cluster for cluster in group if cluster not in gone))
        while left:
            first, *others = left
            merged = {other for other in others if _join_sibling(clusters, first, other, is_of_few)}
            gone |= merged
            left = [other for other in others if other not in merged] if is_of_few else []


def _join_sibling(clusters: Clusters, first: Cluster, other: Cluster, is_of_few: bool) -> bool:
    """Merge a reduction into another one, where that is allowed. Reductions of few elements read different things, so
    what they compute counts, too."""
    policy, outputs = clusters.policy, [*first.outputs, *other.outputs]
    shapes = {clusters.graph.nodes[output].shape for output in outputs}
    if shapes != {first.shape} or len(outputs) > policy.outputs or clusters.connected(first, other):
        return False
    if is_of_few and len(first.members) + len(other.members) > policy.body_ops:
        return False
    clusters.merge(first, other)
    return True
