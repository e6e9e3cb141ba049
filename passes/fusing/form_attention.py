"""Makes fusions of attention, and says which masks they compute themselves."""

from __future__ import annotations

from stablehlo_py.passes.fusing.attention import Attention, attention_of
from stablehlo_py.passes.fusing.attention_mask import mask_of
from stablehlo_py.passes.fusing.clusters import Cluster, Clusters, OperandIndex
from stablehlo_py.passes.fusing.graph import DOT


def form_attention(clusters: Clusters) -> None:
    """Make a fusion of all attention that its users see the result of only."""
    graph = clusters.graph
    for node in graph.nodes:
        if node.role == DOT and node.name == "dot" and clusters.containing[node.index][0].kind == "dot":
            found = attention_of(graph, node)
            if found is not None and _is_closed(clusters, found):
                _form(clusters, found)


def _is_closed(clusters: Clusters, found: Attention) -> bool:
    """Are all values but the result used in it only?"""
    inside = set(found.members)
    return all(inside.issuperset(clusters.users[member]) for member in found.members[:-1])


def _form(clusters: Clusters, found: Attention) -> None:
    graph = clusters.graph
    cluster = Cluster("attention", found.second, graph.nodes[found.first].shape, graph.nodes[found.first].elements)
    clusters.containing[found.second] = [cluster]
    for member in found.members:
        clusters.join(cluster, member, graph.nodes[member].elements, OperandIndex(found.second))
        clusters.containing[member] = [cluster]
    cluster.outputs = [found.output]
    clusters.note_span(cluster)
    mask = mask_of(graph, found)
    if mask is not None:
        clusters.masks |= mask.nodes
