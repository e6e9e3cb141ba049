"""Epilogue splitting: which part of an epilogue is better left to the fusions that read it.

An epilogue with several outputs writes each of them. Where readers can compute one from another as cheaply, or where
the members behind an output cost more bytes than they save, a part is split off: a member with all that depends on
it, or everything that a member does not depend on. Sets of members are bit masks here: the parts of a long epilogue
are many. The layers of a model ask the same question again and again, so answers are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stablehlo_py.dialect.ops import Work
from stablehlo_py.dialect.symint import size_hint
from stablehlo_py.passes.fusing.clusters import Cluster, Clusters
from stablehlo_py.passes.fusing.graph import LOOP, REDUCE, Graph, Node

ANSWERS_KEPT = 256


def part_to_split_off(clusters: Clusters, cluster: Cluster, required: bool) -> list[int]:
    """The members to split off, in order: those that cost most; none where that makes it no cheaper, unless it is
    `required` (there are too many outputs)."""
    indices = sorted(cluster.members)
    return [indices[position] for position in positions(_best(_describe(clusters, cluster, indices), required))]


def is_derived(clusters: Clusters, cluster: Cluster, node: int) -> bool:
    """Can readers compute a member from the other outputs of its fusion, with few flops and nothing else to read?"""
    return _is_derived(clusters.graph, cluster, node, clusters.graph.costs.duplicate_flops)


def _is_derived(graph: Graph, cluster: Cluster, index: int, flops: int) -> bool:
    node, members = graph.nodes[index], cluster.members
    if node.flops > flops or not _is_cheap(graph, node, members):
        return False
    inside = {each for each in node.producers if each in members and each not in cluster.outputs}
    return all(_is_derived(graph, cluster, each, flops - node.flops) for each in inside)


def _is_cheap(graph: Graph, node: Node, members: Collection[int]) -> bool:
    """May readers compute a member, from others and from what needs no memory?"""
    if node.flops > graph.costs.duplicate_flops or node.expensive or not (node.work is Work.ELEMENTS or node.free):
        return False
    return all(each in members or (each >= 0 and graph.nodes[each].free) for each in node.producers)


def positions(mask: int) -> Iterator[int]:
    """The bits that are set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True)
class Description:
    """The members of a cluster, in program order, as far as costs depend on them; sets of them as bits.

    Attributes:
        hero: the product.
        users, producers: of each member, among the members.
        bytes, flops: of each member.
        read: members that others read, or nobody.
        fusable: members whose other readers are loops and reductions.
        cheap: members that readers may compute, from members and from what needs no memory.
        free: members that compute nothing.
        duplicate_flops: what readers may compute again (`Costs`).
    """

    hero: int
    users: tuple[int, ...]
    producers: tuple[int, ...]
    bytes: tuple[int, ...]
    flops: tuple[int, ...]
    read: int
    fusable: int
    cheap: int
    free: int
    duplicate_flops: int


def _describe(clusters: Clusters, cluster: Cluster, indices: Sequence[int]) -> Description:
    graph = clusters.graph
    bit = {index: 1 << position for position, index in enumerate(indices)}
    nodes = [graph.nodes[index] for index in indices]
    read = fusable = cheap = free = 0
    for here, index, node in zip(bit.values(), indices, nodes, strict=True):
        users = clusters.users[index]
        others = [user for user in users if user not in bit]
        read |= here if others or not users else 0
        fusable |= here if all(graph.nodes[user].role in (LOOP, REDUCE) for user in others) else 0
        cheap |= here if _is_cheap(graph, node, bit) else 0
        free |= here if node.free else 0
    return Description(
        hero=bit[cluster.hero],
        users=tuple([_mask(bit, clusters.users[index]) for index in indices]),
        producers=tuple([_mask(bit, node.producers) for node in nodes]),
        bytes=tuple([size_hint(graph.bytes(node.results[0])) for node in nodes]),
        flops=tuple([node.flops for node in nodes]),
        read=read,
        fusable=fusable,
        cheap=cheap,
        free=free,
        duplicate_flops=graph.costs.duplicate_flops,
    )


def _mask(bit: Mapping[int, int], nodes: Iterable[int]) -> int:
    """The bits of those nodes that have one."""
    mask = 0
    for node in nodes:
        mask |= bit.get(node, 0)
    return mask


@functools.lru_cache(ANSWERS_KEPT)
def _best(description: Description, required: bool) -> int:
    return _Search(description).best(required)


@dataclass
class _Search:
    of: Description
    costs: dict[int, int] = field(default_factory=dict)

    @property
    def _all(self) -> int:
        return (1 << len(self.of.users)) - 1

    def best(self, required: bool) -> int:
        """The part to split off, 0 for none."""
        # Splitting off what does not end in fusions of its users makes one more kernel.
        parts = [part for part in self._candidates() if part and (required or not part & ~self.of.fusable)]
        best = min(parts, key=self._cost_without, default=0)
        return best if best and (required or self._cost_without(best) < self._cost_without(0)) else 0

    def _candidates(self) -> list[int]:
        """Every member with what depends on it, the hero's apart; everything that a member does not depend on."""
        count = len(self.of.users)
        dependents, needs = [0] * count, [0] * count
        for position in reversed(range(count)):
            dependents[position] = 1 << position | _union(dependents, self.of.users[position])
        for position in range(count):
            needs[position] = 1 << position | _union(needs, self.of.producers[position])
        parts = [part for position, part in enumerate(dependents) if 1 << position != self.of.hero]
        return parts + [self._all & ~(part | self.of.hero) for part in needs]

    def _cost_without(self, part: int) -> int:
        """Bytes written when a part is split off; what is lost is that others read the outputs to compute it."""
        known = self.costs.get(part)
        if known is not None:
            return known
        kept = self._all & ~part
        # What the part reads is written for it.
        written = kept & (self.of.read | _union(self.of.producers, part))
        candidates = written & self.of.cheap & self.of.fusable
        while candidates:
            last = candidates.bit_length() - 1
            candidates ^= 1 << last
            if self.is_derived(last, kept, written, self.of.duplicate_flops):
                written ^= 1 << last
        cost = self.costs[part] = sum(self.of.bytes[position] for position in positions(written))
        return cost

    def is_derived(self, position: int, kept: int, written: int, flops: int) -> bool:
        """Can readers compute a member from `written` ones, of those that are `kept`, for so many flops?"""
        needed, producers = self.of.flops[position], self.of.producers[position]
        if needed > flops or not self.of.cheap >> position & 1 or producers & ~(kept | self.of.free):
            return False
        inside = positions(producers & kept & ~written)
        return all(self.is_derived(other, kept, written, flops - needed) for other in inside)


def _union(masks: Sequence[int], chosen: int) -> int:
    result = 0
    for position in positions(chosen):
        result |= masks[position]
    return result
