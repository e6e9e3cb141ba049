"""Dots and convolutions take the elementwise work on their result with them, before it is written."""

from __future__ import annotations

import heapq
import math

from stablehlo_py.dialect.index_map import Layout, view
from stablehlo_py.dialect.ops import Work
from stablehlo_py.dialect.symint import size_hint
from stablehlo_py.dialect.types import element_type, is_bool, is_float, is_integer
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.clusters import Cluster, Clusters
from stablehlo_py.passes.fusing.epilogue_split import part_to_split_off
from stablehlo_py.passes.fusing.graph import LOOP, REDUCE, Graph, Node
from stablehlo_py.passes.policy import EpilogueLimits

_MAX_VIEW_CHAIN = 6
MAX_EPILOGUE_SEARCH = 64  # users looked at while an epilogue grows


def grow_epilogues(clusters: Clusters, limits: EpilogueLimits) -> None:
    """Grow every dot and convolution; later ones first, so that of two dots that meet in an addition the one that
    runs last takes it."""
    for node in reversed(clusters.graph.dots):
        cluster = clusters.containing[node.index][0]
        if cluster.kind == node.name:
            _Epilogue(clusters, cluster, limits).grow()


def is_view_chain(clusters: Clusters, node: int) -> bool:
    """Can `node` be part of how the dots that use it address their operand? It is a view or an exact conversion, all
    its users are dots, or views of which the same holds, and the backend's dots read what lies as the whole chain
    says. An argument's conversion may round, where one dot alone reads it: one that is computed is rounded as it is
    written."""
    known = clusters.view_chains.get(node)
    if known is None:
        rounds = clusters.graph.nodes[node].producers[:1] == [-1]
        known = clusters.view_chains[node] = _chain(clusters, node, None, 0, rounds=rounds)
    return known


def _chain(clusters: Clusters, node: int, layout: Layout | None, depth: int, *, rounds: bool) -> bool:
    graph = clusters.graph
    op, users = graph.nodes[node], clusters.users[node]
    if not users or depth == _MAX_VIEW_CHAIN or op.name not in clusters.policy.operand_views:
        return False
    before = layout or Layout.dense(graph.shape(op.operands[0]))
    rounds = rounds and len(users) == 1
    if op.name == "convert":
        rounded = str(element_type(op.op.results[0])) in clusters.policy.rounded_operands
        reads = _widens(op) or (rounds and rounded and isinstance(element_type(op.op.operands[0]), ir.F32Type))
        after = before if reads else None
    else:
        after = view(before, op.name, op.attributes, op.shape)
    if after is None or not clusters.policy.operand_layout(after):
        return False
    for user in users:
        reader = graph.nodes[user]
        if reader.name == "dot":
            continue
        if reader.role != LOOP or not _chain(clusters, user, after, depth + 1, rounds=rounds):
            return False
    return True


def _widens(op: Node) -> bool:
    """Is a conversion exact, so that the load of an operand can do it?"""
    source, target = element_type(op.op.operands[0]), element_type(op.op.results[0])
    if not isinstance(target, ir.F32Type | ir.F64Type):
        return False
    if is_integer(source):
        return not is_bool(source) and source.width < (target.width * 3) // 4
    return is_float(source) and source.width < target.width


def _is_long(graph: Graph, node: Node, products: int) -> bool:
    """Are that many products summed for one element of a dot? A convolution counts as long."""
    if node.name != "dot":
        return True
    sizes = graph.shape(node.operands[0])
    return size_hint(math.prod(sizes[int(dimension)] for dimension in node.attributes["lhs_contract"])) >= products


class _Epilogue:
    def __init__(self, clusters: Clusters, cluster: Cluster, limits: EpilogueLimits) -> None:
        self.limits = limits
        self.clusters = clusters
        self.graph = clusters.graph
        self.cluster = cluster
        self.singles: dict[int, Cluster] = {}  # what members have been before
        self.refused: set[int] = set()
        self.transposed: set[int] = set()
        self.inputs: set[int] = set()

    def grow(self) -> None:
        """Walk the users in program order: each joins when everything else that it needs is there without the
        result of this dot."""
        members, users = self.cluster.members, self.clusters.users
        waiting = list(users[self.cluster.hero])
        heapq.heapify(waiting)
        searched, last = 0, -1
        while waiting and searched < MAX_EPILOGUE_SEARCH:
            index = heapq.heappop(waiting)
            if index == last:
                continue
            last, searched = index, searched + 1
            if not self._admits(self.graph.nodes[index]):
                self.refused.add(index)
                continue
            self.singles[index] = self.clusters.containing[index][0]
            self.clusters.containing[index] = [self.cluster]
            members[index] = members[self.cluster.hero]
            for user in users[index]:
                heapq.heappush(waiting, user)
        self._outputs()
        self._split_outputs()
        self._limit_streams()
        if not self._is_one_layout():
            self._split_off(
                [
                    index
                    for index in members
                    if index in self.transposed or self.graph.nodes[index].shape != self.cluster.shape
                ]
            )
            self._split_outputs()
        self.cluster.last = max(members)
        self._rank()

    def _admits(self, node: Node) -> bool:
        if node.role != LOOP or node.elements != self.cluster.elements:
            return False
        first, *others = self.clusters.containing[node.index]
        if others or len(first.members) != 1 or not self.refused.isdisjoint(node.producers):
            return False
        if node.name == "transpose":
            if not self.limits.transposes or is_view_chain(self.clusters, node.index):
                return False
            self.transposed.add(node.index)
            return True
        if not self.transposed.isdisjoint(node.producers):
            # After a transpose the tile is only stored: other operands would be read across their rows.
            if node.name not in ("reshape", "convert"):
                return False
            self.transposed.add(node.index)
            return True
        if node.name != "reshape" and node.work is not Work.ELEMENTS:
            return False
        return self._outside_allowed(node)

    def _outside_allowed(self, node: Node) -> bool:
        """May the product wait for the other operands of a node, and read them?"""
        members, nodes = self.cluster.members, self.graph.nodes
        outside = [both for both in zip(node.operands, node.producers, strict=True) if both[1] not in members]
        large = {operand for operand, producer in outside if producer < 0 or not nodes[producer].free}
        if len(self.inputs | large) > self.limits.inputs:
            return False
        containing, rank = self.clusters.containing, self.cluster.rank
        sources = [
            each
            for _, producer in outside
            if producer >= 0
            for each in containing[producer]
            if each.rank >= rank  # what runs before the product does not wait for it
        ]
        if sources:
            leaving = self._leaving(node.index)
            if any(self.clusters.reaches(leaving, source) for source in sources):
                return False
        self.inputs |= large
        return True

    def _leaving(self, besides: int) -> list[Cluster]:
        """Clusters that read what this one computes, apart from the node that asks to join."""
        found: list[Cluster] = []
        for member in self.cluster.members:
            for user in self.clusters.users[member]:
                if user != besides and user not in self.cluster.members:
                    found += self.clusters.containing[user]
        return found

    def _rank(self) -> None:
        """The product waits for all that it takes other operands of."""
        ranks = [self.singles[member].rank for member in self.cluster.members if member != self.cluster.hero]
        self.cluster.rank = max([self.cluster.rank, *ranks])
        self.clusters.put_before(self.cluster, self.clusters.followers_of(self.cluster))

    def _outputs(self) -> None:
        members = self.cluster.members
        self.cluster.outputs = [
            index
            for index in sorted(members)
            if any(user not in members for user in self.clusters.users[index]) or not self.clusters.users[index]
        ]

    def _split_outputs(self) -> None:
        """Split off what others compute as cheaply from a value that is written anyway, and what costs more outputs
        than it is worth."""
        members = self.cluster.members
        for index in sorted(members, reverse=True):
            node = self.graph.nodes[index]
            users = self.clusters.users[index]
            if index == self.cluster.hero or any(user in members for user in users):
                continue
            if self._is_better_outside(node, users):
                self._split_off([index])
        while len(self.cluster.outputs) > 1:
            too_many = len(self.cluster.outputs) > self.clusters.policy.outputs
            part = part_to_split_off(self.clusters, self.cluster, required=too_many)
            if not part:
                return
            self._split_off(part)

    def _split_off(self, indices: list[int]) -> None:
        for index in indices:
            del self.cluster.members[index]
            self.clusters.containing[index] = [self.singles[index]]
        self._outputs()

    def _limit_streams(self) -> None:
        """A product over a short contraction is bound by memory: writing and reading many arrays tile by tile is slower
        than one pass over whole rows (Adam after a weight gradient)."""
        members, graph = self.cluster.members, self.graph
        if _is_long(graph, graph.nodes[self.cluster.hero], self.limits.long_contraction):
            return
        sized = {operand for operand in self.inputs if graph.elements(operand) == self.cluster.elements}
        if len(sized) + len(self.cluster.outputs) <= self.limits.streams:
            return
        reading: set[int] = set()
        for index in sorted(members):
            node = graph.nodes[index]
            if index != self.cluster.hero and not (
                sized.isdisjoint(node.operands) and reading.isdisjoint(node.producers)
            ):
                reading.add(index)
        self._split_off(sorted(reading))
        self._split_outputs()

    def _is_one_layout(self) -> bool:
        """All results must put the elements of the product in the same places: kernels store them tile by tile."""
        outputs = self.cluster.outputs
        shapes = {self.graph.nodes[index].shape for index in outputs}
        return (
            len(shapes) == 1
            and len({index in self.transposed for index in outputs}) == 1
            and not (len(outputs) > 1 and self.transposed)
        )

    def _is_better_outside(self, node: Node, users: list[int]) -> bool:
        graph = self.graph
        fusable = all(graph.nodes[user].role in (LOOP, REDUCE) for user in users)
        if node.name == "reshape":
            return True
        if node.name == "convert" and fusable:
            return size_hint(graph.bytes(node.results[0])) > size_hint(graph.bytes(node.operands[0]))
        inside = set(node.producers) & self.cluster.members.keys()
        return fusable and not node.expensive and inside <= set(self.cluster.outputs)
