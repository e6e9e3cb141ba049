"""Makes fusions of attention and of its gradient, and says which masks they compute themselves."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import byte_size, element_type
from stablehlo_py.passes.fusing.attention import Attention, attention_of
from stablehlo_py.passes.fusing.attention_mask import mask_of
from stablehlo_py.passes.fusing.clusters import Cluster, Clusters, OperandIndex
from stablehlo_py.passes.fusing.graph import DOT, LOOP, REDUCE, Graph, Node
from stablehlo_py.passes.fusing.scores import BEHIND, Scores, Sum, is_one_precision, scores_of
from stablehlo_py.passes.fusing.scores_mask import masked_scores

_MOST_DEPTH = 256  # of a product that is computed again for each sum: more costs more than storing scores


def form_attention(clusters: Clusters) -> None:
    """Make a fusion of all attention that its users see the result of only."""
    graph = clusters.graph
    for node in graph.nodes:
        if _is_dot(clusters, node):
            found = attention_of(graph, node)
            if found is not None and _is_wanted(clusters, found, found.members[-1:]):
                _form(clusters, found, found.members[-1:])


def form_scores(clusters: Clusters) -> None:
    """Make fusions of the sums over scores that a softmax and its gradient have, where these use scores only."""
    graph = clusters.graph
    for index in _of_exponentials(graph):
        if _is_dot(clusters, graph.nodes[index]):
            scores = scores_of(graph, index)
            if scores is not None and _pays(graph, scores):
                _Forming(clusters, scores).run()


def _of_exponentials(graph: Graph) -> list[int]:
    """Products of as many elements as an exponential has that is work on them: to read what is computed of a product
    takes a look at the whole graph, and few are those of a softmax."""
    found, seen = set[int](), set[int]()
    stack = [node.index for node in graph.nodes if node.name == "exponential" and is_known(*node.shape)]
    while stack:
        node = graph.nodes[stack.pop()]
        if node.index in seen:
            continue
        seen.add(node.index)
        if node.role == DOT and node.elements:
            found.add(node.index)
        elif node.role == LOOP:
            alike = (each for each in node.producers if each >= 0 and graph.nodes[each].elements == node.elements)
            stack += alike
    return sorted(found)


def _is_dot(clusters: Clusters, node: Node) -> bool:
    return node.role == DOT and node.name == "dot" and clusters.containing[node.index][0].kind == "dot"


def _is_wanted(clusters: Clusters, found: Attention, outputs: Collection[int], others: Iterable[int] = ()) -> bool:
    """Are all values but the outputs used in it, or in the others, only? And has the backend a kernel that pays?"""
    inside = {*found.members, *others}
    return _is_within(clusters, found) and all(
        inside.issuperset(clusters.users[member]) for member in found.members if member not in outputs
    )


def _is_within(clusters: Clusters, found: Attention) -> bool:
    """Is it within the backend's limits?"""
    limits, graph = clusters.policy.attention, clusters.graph
    first, second = graph.nodes[found.first], graph.nodes[found.second]
    queries = max((int(first.shape[label]) for label in found.rows), default=1)
    keys = math.prod(int(first.shape[label]) for label in found.keys)
    columns = int(second.elements) * keys // int(first.elements)
    operands = [*first.op.operands, *second.op.operands]
    return (
        queries >= limits.queries
        and keys >= limits.keys
        and (limits.columns is None or columns <= limits.columns)
        and all(byte_size(element_type(value)) * 8 >= limits.bits for value in operands)
        and not (limits.flat and len(found.keys) != 1)
    )


def _form(clusters: Clusters, found: Attention, outputs: list[int]) -> None:
    _make(clusters, "attention", found.first, found.second, found.members, outputs)
    mask = mask_of(clusters.graph, found)
    if mask is not None:
        clusters.masks |= mask.nodes


def _make(clusters: Clusters, kind: str, first: int, hero: int, members: Iterable[int], outputs: list[int]) -> None:
    """Make a cluster of these members, which may be those of others of its like, too."""
    graph = clusters.graph
    cluster = Cluster(kind, hero, graph.nodes[first].shape, graph.nodes[first].elements)
    for member in members:
        others = [each for each in clusters.containing[member] if each.kind in ("attention", "scores")]
        cluster.members[member] = (graph.nodes[member].elements, OperandIndex(hero))
        cluster.last = max(cluster.last, member)
        clusters.containing[member] = [*others, cluster]
    cluster.outputs = outputs
    clusters.note_span(cluster)


# --- gradients -------------------------------------------------------------------------------------------------------


def _pays(graph: Graph, scores: Scores) -> bool:
    """Whether this is a softmax that is used more than once, of products that are cheap enough to compute again."""
    nodes = [graph.nodes[index] for index in scores.axes]
    depths = [_depth(graph, graph.nodes[product]) for product in scores.products]
    ends = [graph.nodes[each.node].role for each in scores.sums]
    is_softmax = any(node.name == "exponential" for node in nodes) and REDUCE in ends
    return (
        is_softmax
        and ends.count(DOT) > 1
        and max(depths) <= _MOST_DEPTH
        and is_one_precision(graph, (*scores.axes, *(each.node for each in scores.sums)))
    )


def _depth(graph: Graph, product: Node) -> int:
    sizes = graph.shape(product.operands[0])
    depth = 1
    for d in product.attributes["lhs_contract"]:
        depth *= int(sizes[int(d)])
    return depth


class _Forming:
    """The fusions of one structure: attention, which writes the values of rows that its softmax has; one for each other
    reduction; one for all products that sum over the same side, where none of them depends on another."""

    def __init__(self, clusters: Clusters, scores: Scores) -> None:
        self.clusters, self.graph, self.scores = clusters, clusters.graph, scores
        self.forward: Attention | None = None
        self.written: list[int] = []

    def run(self) -> None:
        """Make them."""
        self._form_forward()
        masked = masked_scores(self.graph, self.scores)
        if masked is not None:
            self.clusters.masks |= masked.nodes
        sums = [each for each in self.scores.sums if each.node not in self.written]
        groups: list[list[Sum]] = []
        for sum_ in sums:
            if not any(self._join(group, sum_) for group in groups):
                groups.append([sum_])
        for group in groups:
            needed, outputs = self._needed(group), list[int]()
            for sum_ in group:
                behind = self._behind(sum_)
                needed, outputs = needed + behind, [*outputs, behind[-1] if behind else sum_.node]
            _make(self.clusters, "scores", self.scores.products[0], group[0].node, needed, outputs)

    def _form_forward(self) -> None:
        for sum_ in self.scores.sums:
            node = self.graph.nodes[sum_.node]
            found = attention_of(self.graph, node) if node.role == DOT else None
            if found is None or found.first not in self.scores.products:
                continue
            outputs = [each for each in (found.maximum, found.total, found.output) if each >= 0]
            others = (*self.scores.axes, *(each.node for each in self.scores.sums))
            if _is_wanted(self.clusters, found, outputs, others):
                self.forward, self.written = found, [*outputs, found.second]
                _form(self.clusters, found, outputs)
                return

    def _join(self, group: list[Sum], sum_: Sum) -> bool:
        """Put a product into a group of products over the same side that do not depend on it, nor it on them."""
        nodes, first = self.graph.nodes, group[0]
        if nodes[first.node].role != DOT or nodes[sum_.node].role != DOT or first.left != sum_.left:
            return False
        if any(self._depends(sum_.node, each.node) or self._depends(each.node, sum_.node) for each in group):
            return False
        group.append(sum_)
        return True

    def _depends(self, node: int, on: int) -> bool:
        stack, seen = [node], set[int]()
        while stack:
            index = stack.pop()
            if index == on:
                return True
            if index > on and index not in seen:
                seen.add(index)
                stack += self.graph.nodes[index].producers
        return False

    def _behind(self, sum_: Sum) -> list[int]:
        """Conversions and transposes that a sum is for only: the fusion computes them, too."""
        found = list[int]()
        last = self.graph.nodes[sum_.node]
        while len(users := self.clusters.users[last.index]) == 1:
            last = self.graph.nodes[users[0]]
            if last.name not in BEHIND:
                break
            found.append(last.index)
        return found

    def _needed(self, group: list[Sum]) -> list[int]:
        """What a fusion computes: the sums, the scores that they need, and what attention computed of rows, but does
        not write."""
        inside = set(self.scores.axes)
        if self.forward is not None:
            inside |= set(self.forward.members) - set(self.written)
        needed = {each.node for each in group}
        stack = [self.graph.nodes[each.node].producers[each.operand] for each in group]
        while stack:
            index = stack.pop()
            if index in inside and index not in needed:
                needed.add(index)
                stack += self.graph.nodes[index].producers
        return sorted(needed)
