"""Clusters: the fusions of one block while they are being formed, and the paths between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import TypeAlias

import numpy as np

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


@dataclass(slots=True, eq=False, repr=False)
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
        rank: larger than that of everything it reads, where clusters are ranked.
    """

    kind: str
    hero: int
    shape: tuple[IntLike, ...]
    elements: IntLike
    members: dict[int, tuple[IntLike, IndexMap]] = field(init=False)
    outputs: list[int] = field(init=False)
    rows: IntLike = 0
    columns: IntLike = 0
    reduced: tuple[tuple[IntLike, ...], tuple[IntLike, ...]] | None = None
    reductions: int = 0
    last: int = field(init=False)
    rank: int = 0

    def __post_init__(self) -> None:
        self.members = {self.hero: (self.elements, Identity(self.elements))}
        self.outputs, self.last = [self.hero], self.hero

    def __repr__(self) -> str:
        return f"{self.kind}{sorted(self.members)}"


class Ancestors:
    """The nodes that one depends on, and itself, found backwards as far as somebody has asked for. Nodes come after
    what they depend on."""

    def __init__(self, nodes: Sequence[Node], node: int) -> None:
        self._nodes, self._found, self.next = nodes, {node}, node  # next: whose producers are not among them yet

    def holds(self, node: int) -> bool:
        """Whether a node is one of them."""
        found = self._found
        for index in range(self.next, node, -1):
            if index in found:
                found.update(self._nodes[index].producers)
        self.next = min(self.next, node)
        return node in found


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
        self._ranked = False
        self._ancestors: dict[int, Ancestors] = {}  # by node
        self._asked = 0
        self.users: list[list[int]] = [graph.node_users(node.index) for node in graph.nodes]
        # Node -> the first output of any cluster that has outputs before it and members from it on: where a path that
        # comes past it may lead back to.
        self._back = np.arange(len(graph.nodes) + 1)
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
            self.note_span(cluster)

    def drop_single(self, node: int) -> None:
        """Give up the cluster that the node has been by itself: others compute it now."""
        self.containing[node] = [
            cluster for cluster in self.containing[node] if cluster.hero != node or len(cluster.members) > 1
        ]

    def owner(self, node: int) -> Cluster | None:
        """The cluster that writes the node's value, if any does."""
        return next((cluster for cluster in self.containing[node] if node in cluster.outputs), None)

    def readers(self, node: int) -> list[Cluster]:
        """Clusters that contain a user of the node, without repetition, in order of users."""
        users = self.users[node]
        if len(users) == 1:
            return list(self.containing[users[0]])
        return list(dict.fromkeys([cluster for user in users for cluster in self.containing[user]]))

    def outside_readers(self, cluster: Cluster, node: int) -> list[Cluster]:
        """Clusters that read a node from the memory that `cluster` writes it to."""
        return [reader for reader in self.readers(node) if reader is not cluster and node not in reader.members]

    def followers(self, among: Sequence[Cluster]) -> list[list[int]]:
        """For each of these clusters the positions of those that read what it writes."""
        position = {cluster: number for number, cluster in enumerate(among)}
        readers = [[each for node in one.outputs for each in self.outside_readers(one, node)] for one in among]
        return [list({position[each]: None for each in of if each in position}) for of in readers]

    def add_output(self, cluster: Cluster, node: int) -> None:
        """Write a member's value to memory, too."""
        cluster.outputs.append(node)
        self.note_span(cluster)

    def note_span(self, cluster: Cluster) -> None:
        """To be called when a cluster has got members or outputs that it did not have."""
        first = min(cluster.outputs)
        if first < cluster.last:
            span = self._back[first + 1 : cluster.last + 1]
            np.minimum(span, first, out=span)

    def reaches(self, start: list[Cluster], target: Cluster) -> bool:
        """Is there a path from a cluster of `start` to `target`? True also when the search becomes too long to say."""
        stack, seen = list(start), set()
        while stack:
            cluster = stack.pop()
            if cluster is target:
                return True
            if cluster in seen or not cluster.outputs or self._is_past(cluster, target):
                continue
            seen.add(cluster)
            if len(seen) > MAX_PATH_SEARCH or (len(seen) == LONG_SEARCH and self._feeds(start, target)):
                return True
            stack += self._followers(cluster)
        return False

    def _feeds(self, start: Sequence[Cluster], target: Cluster) -> bool:
        """True only where ops lead from a cluster of `start` to the hero of `target`, so that a path does. Outputs that
        others compute, too, say nothing: the ops may lead through these."""
        outputs = [node for cluster in start for node in cluster.outputs if self.containing[node] == [cluster]]
        known = self._ancestors.setdefault(target.hero, Ancestors(self.graph.nodes, target.hero))
        self._asked += max(0, known.next - min(outputs, default=known.next))
        return self._asked < MOST_ASKED * len(self.graph.nodes) and any(map(known.holds, outputs))

    def _is_past(self, cluster: Cluster, target: Cluster) -> bool:
        """True only where no path leads from a cluster to another one."""
        if self._ranked:
            return cluster.rank > target.rank
        node = min(cluster.outputs) + 1  # no path comes to one before it, but for those that lead back
        while node > target.last:
            back = int(self._back[node])
            if back >= node - 1:
                return True
            node = back + 1
        return False

    def _followers(self, cluster: Cluster) -> list[Cluster]:
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

    @contextmanager
    def ranked(self) -> Iterator[None]:
        """Inside, clusters are numbered in an order in which they can run, which spares most searches. What takes a
        node that it reads keeps that order; `merge` and `put_before` mend it."""
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
        self._ranked = True
        yield
        self._ranked = False

    def put_before(self, cluster: Cluster, others: Sequence[Cluster]) -> None:
        """Mend the ranks for paths from a cluster to others, none of which reaches it, as Pearce and Kelly do."""
        first = min((other.rank for other in others), default=cluster.rank)
        if first < cluster.rank:
            back = self._closure([cluster], self._leaders, lambda one: one.rank >= first)
            ahead = self._closure(others, self._followers, lambda one: one.rank <= cluster.rank)
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
        return sorted(found, key=lambda cluster: cluster.rank)

    def connected(self, a: Cluster, b: Cluster) -> bool:
        """Is there a path from one of the two to the other?"""
        return self.reaches([a], b) or self.reaches([b], a)

    def merge(self, kept: Cluster, other: Cluster) -> None:
        """Move everything of `other` into `kept` (same iteration space; the caller has checked that no path joins
        them)."""
        if self._ranked:
            first, last = sorted((kept, other), key=lambda cluster: cluster.rank)
            self.put_before(last, self._followers(first))
            kept.rank = last.rank
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
        self.note_span(kept)

    def all(self) -> list[Cluster]:
        """Every live cluster once, in order of its last member."""
        found = dict.fromkeys([cluster for computing in self.containing for cluster in computing])
        return sorted(found, key=attrgetter("last"))
