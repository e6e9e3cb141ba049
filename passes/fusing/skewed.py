"""Producers that a fusion would ask for at places which no strides say.

`pad` to `[128, 256]`, `reshape`, `slice`, `reshape` to `[128, 255]` and `transpose` make rows of antidiagonals: in
memory they are strided vectors, but as places of the `[128, 256]` tensor each element is a division of its own.
`transpose`, `reshape` and `pad` go the way back.
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect.index_map import VIEW_OPS, Layout, row_major_strides, view
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.passes.fusing.clusters import Cluster, Clusters
from stablehlo_py.passes.fusing.graph import Node
from stablehlo_py.passes.fusing.shapes import moves_minor_dimension

_CUTS = ("pad", "concatenate")  # their parts are told apart by places
SKEWING = frozenset((*_CUTS, "transpose"))  # what `is_skewed` may be true of


def is_skewed(clusters: Clusters, cluster: Cluster, node: Node) -> bool:
    """Is `node`, read by this fusion through views, better in memory than computed in it?"""
    turns = node.name == "transpose" and moves_minor_dimension(node)
    if not (turns or node.name in _CUTS) or not is_known(*node.shape):
        return False
    views, reader = _views(clusters, cluster, node)
    places = _seen(node.shape, [size + 1 for size in node.shape], views)
    if turns:
        if reader is None or reader.name not in _CUTS:
            return False
        last = [node, *views][-1]
        return places is None or any(
            len(digits) > 1 and size != cut
            for digits, size, cut in zip(places.dimensions, last.shape, reader.shape, strict=True)
        )
    return (
        places is None
        and _seen(node.shape, node.shape, views) is not None
        and any(each.name == "transpose" and moves_minor_dimension(each) for each in views)
    )


def _views(clusters: Clusters, cluster: Cluster, node: Node) -> tuple[list[Node], Node | None]:
    """The views of a node in a fusion, each of the one before, and what reads the last one, if that is one op."""
    views: list[Node] = []
    while True:
        last = views[-1] if views else node
        users = [user for user in clusters.users[last.index] if user in cluster.members]
        if len(users) != 1:
            return views, None
        reader = clusters.graph.nodes[users[0]]
        if reader.name not in VIEW_OPS:
            return views, reader
        views.append(reader)


def _seen(shape: Sequence[IntLike], spread: Sequence[IntLike], views: Sequence[Node]) -> Layout | None:
    """Where the last view's elements lie, if the node's lie as in a tensor of shape `spread`. One that is larger than
    its own keeps its dimensions apart: no digits of two of them become one."""
    strides = row_major_strides(spread)
    layout: Layout | None = Layout(0, tuple(((size, stride),) for size, stride in zip(shape, strides, strict=True)))
    for each in views:
        layout = None if layout is None else view(layout, each.name, each.attributes, each.shape)
    return layout
