"""Clusters: the fusions of one block while they are being formed, and the paths between them."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from types import MappingProxyType
from typing import TypeAlias

from stablehlo_py.dialect.symint import IntLike, size_hint
from stablehlo_py.passes.fusing.graph import ALONE, CONSTANT, CONTROL, DOT, REDUCE, UPDATE, Graph, Node
from stablehlo_py.passes.policy import FusionPolicy


# A program has tens of thousands of them. Frozen ones take four times as long to make.
@dataclass(slots=True, unsafe_hash=True)
class Identity:
    """An index map: iteration index // (elements / `elements`), the identity where both are equal."""

    elements: IntLike


@dataclass(slots=True, unsafe_hash=True)
class OperandIndex:
    """The index map of the operands of node `user`, which reads them at indices of its own."""

    user: int


@dataclass(frozen=True)
class SeveralIndices:
    """The index maps of several readers of `node`."""

    node: int


class Addressing(Enum):
    """In place of an index map: a view of a dot's operand is part of how the operand is read, not of the iteration."""

    VIEW = "view"


VIEW = Addressing.VIEW
IndexMap: TypeAlias = Identity | OperandIndex | SeveralIndices | Addressing | None  # None: none that others share

MAX_PATH_SEARCH = 400  # fusions visited before a path is assumed to exist
LONG_SEARCH = 16  # fusions visited before it is asked what ops depend on
MOST_ASKED = 32  # times the ops of the graph that are looked at for that


class Cluster:
    """A fusion in the making.

    Attributes:
        kind: a fusion kind of docs/architecture.md; "control" and "view" stay at the top level.
        members: node -> (trip count, index map): iterations of the fusion that compute an element of it, and at which
            index (equal maps, equal elements).
        outputs: member nodes whose value others read, in order.
        shape, elements: the iteration space (row: full shape's element count is `elements`, shape of the root).
        rows, columns: the split of a row fusion; the one to be where no reduction has joined.
        reduced: operand shape and dimensions of the reductions of a column fusion.
        last: largest member index.
        rank: larger than that of everything it reads, but for what `absorb` has left.
    """

    __slots__ = (
        "columns", "elements", "hero", "kind", "last", "members", "outputs", "rank", "reduced", "reductions", "rows",
        "shape",
    )  # fmt: skip

    def __init__(self, kind: str, hero: int, shape: tuple[IntLike, ...], elements: IntLike) -> None:
        self.kind = kind
        self.hero = self.last = hero
        self.shape = shape
        self.elements = elements
        self.members: dict[int, tuple[IntLike, IndexMap]] = {hero: (elements, Identity(elements))}
        self.outputs = [hero]
        self.rows: IntLike = 0
        self.columns: IntLike = 0
        self.reduced: tuple[tuple[IntLike, ...], tuple[IntLike, ...]] | None = None
        self.reductions = 0
        self.rank: float = hero

    def __repr__(self) -> str:
        return f"{self.kind}{sorted(self.members)}"


class Ancestors:
    """The nodes that one depends on, and itself, found backwards as far as somebody has asked for. Nodes come after
    what they depend on."""

    def __init__(self, nodes: Sequence[Node], node: int) -> None:
        self._nodes, self._found = nodes, {node}
        self._waiting: list[int] = []  # a heap of complements of those whose producers are not among them yet
        self.visited = 0
        self._visit(node)

    def holds(self, node: int, known: Mapping[int, Ancestors] = MappingProxyType({})) -> bool:
        """Whether a node is one of them. What those by their nodes that are `known` depend on is taken over: in a
        network and its gradient, each layer asks about the layers that the one before has asked about."""
        found, waiting = self._found, self._waiting
        while node not in found and waiting and ~waiting[0] > node:
            index = ~heapq.heappop(waiting)
            if index in known:
                self._adopt(known[index])
            else:
                self._visit(index)
        return node in found

    def _visit(self, node: int) -> None:
        self.visited += 1
        for producer in self._nodes[node].producers:
            if producer >= 0 and producer not in self._found:
                self._found.add(producer)
                heapq.heappush(self._waiting, ~producer)

    def _adopt(self, other: Ancestors) -> None:
        left = [each for each in self._waiting if ~each not in other._found]
        self._waiting[:] = left + other._waiting
        heapq.heapify(self._waiting)
        self._found |= other._found


#: Kinds of nodes by themselves; an op that is alone in its fusion gives it its name.
_SINGLE = {CONTROL: "control", CONSTANT: "constant", REDUCE: "reduce"}


class Clusters:
    """All clusters of a graph. In the beginning every node is one; `containing[node]` lists the
    clusters that compute it; `masks` are nodes that say by indices what attention is about."""

    def __init__(self, graph: Graph, policy: FusionPolicy) -> None:
        self.graph = graph
        self.policy = policy
        self.containing: list[list[Cluster]] = []
        self.masks: set[int] = set()
        self.view_chains: dict[int, bool] = {}  # of nodes that have been asked for (`epilogues.is_view_chain`)
        self._ancestors: dict[int, Ancestors] = {}  # by node
        self._asked = 0
        self.users: list[list[int]] = [graph.node_users(node) for node in graph.nodes]
        for node in graph.nodes:
            kind = node.name if node.role in (ALONE, DOT, UPDATE) else _SINGLE.get(node.role, "loop")
            if node.role == UPDATE and "in_place_update" in policy.kinds:
                kind = "in_place_update"
            self.containing.append([Cluster(kind, node.index, node.shape, node.elements)])

    def join(self, cluster: Cluster, node: int, trip_count: IntLike, index_map: IndexMap) -> None:
        """Compute `node` inside `cluster` (too)."""
        cluster.members[node] = (trip_count, index_map)
        self.containing[node].append(cluster)
        if node > cluster.last:
            cluster.last = node

    def drop_single(self, node: int) -> None:
        """Give up the cluster that the node has been by itself: others compute it now."""
        first = self.containing[node][0]
        if first.hero == node and len(first.members) == 1:
            del self.containing[node][0]

    def owner(self, node: int) -> Cluster | None:
        """The cluster that writes the node's value, if any does."""
        return next((cluster for cluster in self.containing[node] if node in cluster.outputs), None)

    def readers(self, node: int) -> dict[Cluster, list[int]]:
        """Clusters that contain users of the node, each with these, in order of users."""
        users = self.users[node]
        if len(users) == 1:
            return dict.fromkeys(self.containing[users[0]], users)
        found: dict[Cluster, list[int]] = {}
        for user in users:
            for cluster in self.containing[user]:
                found.setdefault(cluster, []).append(user)
        return found

    def outside_readers(self, node: int) -> dict[Cluster, list[int]]:
        """The same of clusters that read a node from the memory that another one writes it to."""
        return {each: users for each, users in self.readers(node).items() if node not in each.members}

    def is_read_from_memory(self, node: int) -> bool:
        """Are there such clusters?"""
        return any(node not in each.members for user in self.users[node] for each in self.containing[user])

    def followers(self, among: Sequence[Cluster]) -> list[list[int]]:
        """For each of these clusters the positions of those that read what it writes."""
        position = {cluster: number for number, cluster in enumerate(among)}
        readers = map(self.followers_of, among)
        return [list({position[each]: None for each in of if each in position}) for of in readers]

    def reaches(self, start: list[Cluster], target: Cluster) -> bool:
        """Is there a path from a cluster of `start` to `target`? True also when the search becomes too long to say."""
        stack, seen = [cluster for cluster in start if cluster.rank <= target.rank], set()
        while stack:
            cluster = stack.pop()
            if cluster is target:
                return True
            if cluster.rank > target.rank or cluster in seen:
                continue
            seen.add(cluster)
            if len(seen) > MAX_PATH_SEARCH or (len(seen) == LONG_SEARCH and self._feeds(start, target)):
                return True
            stack += self.followers_of(cluster)
        return False

    def _feeds(self, start: Sequence[Cluster], target: Cluster) -> bool:
        """True only where ops lead from a cluster of `start` to the hero of `target`, so that a path does. Outputs that
        others compute, too, say nothing: the ops may lead through these."""
        own = [node for cluster in start for node in cluster.outputs if self.containing[node] == [cluster]]
        outputs = sorted(own, reverse=True)  # what is near takes the shortest search
        ancestors = self._ancestors.get(target.hero) or Ancestors(self.graph.nodes, target.hero)
        self._ancestors[target.hero] = ancestors
        before = ancestors.visited
        found = self._asked < MOST_ASKED * len(self.graph.nodes) and any(
            ancestors.holds(node, self._ancestors) for node in outputs
        )
        self._asked += ancestors.visited - before
        return found

    def followers_of(self, cluster: Cluster) -> list[Cluster]:
        """Clusters that read what this one writes; some of them more than once."""
        return [
            reader
            for node in cluster.outputs
            for user in self.users[node]
            for reader in self.containing[user]
            if node not in reader.members
        ]

    def _leaders(self, cluster: Cluster) -> list[Cluster]:
        """Clusters that write what this one reads; some of them more than once."""
        return [
            writer
            for member in cluster.members
            for node in self.graph.nodes[member].producers
            if node >= 0 and node not in cluster.members
            for writer in self.containing[node]
            if node in writer.outputs
        ]

    def rank(self) -> None:
        """Number all clusters in an order in which they can run, which spares most searches. In the beginning that of
        the nodes is one; what takes a node that it reads keeps it; `merge` and `put_before` mend it."""
        number, state, stack = 0, dict[Cluster, bool](), self.all()[::-1]
        while stack:
            cluster = stack[-1]
            if cluster not in state:
                state[cluster] = False
                stack += [leader for leader in self._leaders(cluster) if leader not in state]
                continue
            stack.pop()
            if not state[cluster]:
                state[cluster], cluster.rank, number = True, number, number + 1

    def put_before(self, cluster: Cluster, others: Sequence[Cluster]) -> None:
        """Mend the ranks for paths from a cluster to others, none of which reaches it, as Pearce and Kelly do."""
        first = min((other.rank for other in others), default=cluster.rank)
        if first < cluster.rank:
            back = self._closure([cluster], self._leaders, lambda one: one.rank >= first)
            ahead = self._closure(others, self.followers_of, lambda one: one.rank <= cluster.rank)
            ranks = sorted(one.rank for one in (*back, *ahead))
            for one, rank in zip((*back, *ahead), ranks, strict=True):
                one.rank = rank

    @staticmethod
    def _closure(
        start: Sequence[Cluster], step: Callable[[Cluster], list[Cluster]], within: Callable[[Cluster], bool]
    ) -> list[Cluster]:
        """What can be reached from some clusters by steps through clusters `within` a part, by rank."""
        found, stack = dict[Cluster, None](), list(start)
        while stack:
            cluster = stack.pop()
            if cluster not in found and within(cluster):
                found[cluster] = None
                stack += step(cluster)
        return sorted(found, key=attrgetter("rank"))

    def connected(self, a: Cluster, b: Cluster) -> bool:
        """Is there a path from one of the two to the other?"""
        return self.reaches([a], b) or self.reaches([b], a)

    def merge(self, kept: Cluster, other: Cluster) -> None:
        """Move everything of `other` into `kept` (same iteration space; the caller has checked that no path through
        others joins them)."""
        first, last = sorted((kept, other), key=attrgetter("rank"))
        self.put_before(last, [cluster for cluster in self.followers_of(first) if cluster is not last])
        kept.rank = last.rank
        self.absorb(kept, other)

    def absorb(self, kept: Cluster, other: Cluster) -> None:
        """The same where paths through others will be merged, too: ranks say nothing any more."""
        for node, (trip_count, index_map) in other.members.items():
            known = kept.members.get(node)
            if known:
                most = max(known[0], trip_count, key=size_hint)
                kept.members[node] = (most, known[1] if known[1] == index_map else None)
            else:
                kept.members[node] = (trip_count, index_map)
            self.containing[node] = [one for one in self.containing[node] if one not in (other, kept)] + [kept]
        kept.outputs += [node for node in other.outputs if node not in kept.outputs]
        kept.last = max(kept.last, other.last)
        kept.reductions += other.reductions

    def all(self) -> list[Cluster]:
        """Every live cluster once, in order of its last member."""
        found = dict.fromkeys(itertools.chain.from_iterable(self.containing))
        return sorted(found, key=attrgetter("last"))
