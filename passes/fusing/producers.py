"""Producer-consumer fusion, one walk from the last op to the first: every op joins the fusions that use its value, or
starts a fusion of its own.

All users of an op are in fusions when its turn comes. Reductions turn the loop that uses them into a row or a
column fusion.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stablehlo_py.dialect.ops import Work
from stablehlo_py.dialect.symint import IntLike, always_at_most, maximum, size_hint
from stablehlo_py.dialect.types import i64
from stablehlo_py.passes.buffers import inplace
from stablehlo_py.passes.fusing import scattered
from stablehlo_py.passes.fusing.clusters import (
    VIEW,
    Ancestors,
    Cluster,
    Clusters,
    Identity,
    IndexMap,
    OperandIndex,
    SeveralIndices,
)
from stablehlo_py.passes.fusing.epilogue_split import is_derived
from stablehlo_py.passes.fusing.epilogues import is_view_chain
from stablehlo_py.passes.fusing.graph import ALONE, CONSTANT, DOT, LOOP, REDUCE, UPDATE, Graph, Node
from stablehlo_py.passes.fusing.shapes import Split, is_prefix_broadcast, moves_minor_dimension, reduction_split
from stablehlo_py.passes.fusing.skewed import SKEWING, is_skewed

#: Kinds that compute what they read, where that pays.
_FUSING = frozenset(
    """loop row column dot convolution in_place_update attention scores scatter reduce_general""".split()
)
_FEW = 64  # one element in so many is gathered, at most, to let go of the others early
REPEATED = 5  # places at which one is computed that a stencil's neighbours are read of


@dataclass(slots=True)
class ProducerPlan:
    """How a node would be computed in a cluster; `turn_into` says what the cluster becomes by that."""

    trip_count: IntLike
    index_map: IndexMap
    turn_into: str = ""
    split: Split | None = None


class ProducerFusion:
    """The walk and what it knows about every node."""

    def __init__(self, clusters: Clusters) -> None:
        self.clusters = clusters
        self.graph: Graph = clusters.graph
        self.policy = clusters.policy
        self.costs = clusters.graph.costs
        size = len(self.graph.nodes)
        self.splits: list[Split | None] = [None] * size  # node -> split, for reductions
        # Node -> split of the row reduction that it is elementwise work on.
        self.row_of: list[Split | None] = [None] * size
        self.constant_flops: list[int] = [-1] * size  # flops of a subtree that reads no memory, -1 if it does
        self.duplicate_flops: list[int] = [0] * size  # flops that are duplicated together with the node
        self.of_indices = self._of_indices()
        self.index_flops: dict[int, int] = {}  # of what indices of gathers are computed by, down from a node
        self.repeated_flops: dict[int, int] = {}  # the same of what is computed at several places
        self.small_flops: dict[int, int] = {}  # the same of what is computed for every element of a few
        self.early: set[int] = set()  # gathers that no other fusion computes (`_keeps_alive`)
        # Update -> node -> how it is computed from what is overwritten.
        self.update_reads: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for node in self.graph.nodes:
            self._describe(node)

    def run(self) -> None:
        """Fuse every node into its consumers, or make it a root."""
        for node in reversed(self.graph.nodes):
            fusion = self.clusters.containing[node.index][0]
            if fusion.kind in ("attention", "scores"):
                continue
            if len(fusion.members) > 1:
                self._recompute_outside(fusion, node)
            elif node.role in (LOOP, REDUCE, CONSTANT):
                self._fuse(node)

    def run_unfused(self) -> None:
        """Leave every node by itself, with the constants that it uses."""
        for node in reversed(self.graph.nodes):
            if node.role == CONSTANT:
                self._fuse(node)
            elif node.role in (LOOP, REDUCE):
                self._root(node)

    # --- what is known before the walk -------------------------------------------------------------------------------

    def _describe(self, node: Node) -> None:
        graph = self.graph
        if node.role == REDUCE:
            split = reduction_split(graph.shape(node.operands[0]), node.attributes["dimensions"])
            self.splits[node.index] = split
            self.row_of[node.index] = split if split.is_row else None
        elif node.in_order:
            for producer in node.producers:
                row = self.row_of[producer] if producer >= 0 else None
                if row and row.rows == node.elements:
                    self.row_of[node.index] = row
        if node.role in (LOOP, CONSTANT):
            self.constant_flops[node.index] = self._flops_of_constants(node)

    def _flops_of_constants(self, node: Node) -> int:
        flops = node.flops
        for producer in node.producers:
            below = self.constant_flops[producer] if producer >= 0 else -1
            if below < 0:
                return -1
            flops += below
        return flops

    def _of_indices(self) -> set[int]:
        """Nodes that indices of gathers depend on."""
        nodes, found = self.graph.nodes, set[int]()
        stack = [each for node in nodes if node.name == "gather" for each in node.producers[1:]]
        while stack:
            index = stack.pop()
            if index >= 0 and index not in found:
                found.add(index)
                stack += nodes[index].producers
        return found

    # --- one node ----------------------------------------------------------------------------------------------------

    def _fuse(self, node: Node) -> None:
        clusters = self.clusters
        readers = clusters.readers(node.index)
        if len(readers) < 2:
            for cluster, users in readers.items():
                plan = self._admit(cluster, node, users)
                if plan:
                    self._join(cluster, node, plan)
                    clusters.drop_single(node.index)
                else:
                    self._root(node)
            return
        plans = [(cluster, self._admit(cluster, node, users)) for cluster, users in readers.items()]
        accepted = [(cluster, plan) for cluster, plan in plans if plan]
        if len(accepted) == len(readers):
            shared = all(plan.index_map is VIEW for _, plan in accepted) or self._is_duplicable(node)
            if not shared:
                accepted = self._merge_loops(accepted, node)
            if len(accepted) == 1 or shared:
                self._fuse_into(accepted, node)
                return
        elif node.role == CONSTANT or node.free or self._is_constant_subtree(node):
            self._note_duplicates(node, len(readers))
            for cluster, plan in accepted:
                self._join(cluster, node, plan)
            self._root(node)
            return
        for cluster, plan in accepted:
            others = [reader for reader in readers if reader is not cluster]
            if any(other.hero in self.early for other in others):
                continue  # it would wait for the whole fusion
            if self._may_output(cluster, node, plan) and not clusters.reaches(others, cluster):
                clusters.put_before(cluster, others)
                self._note_duplicates(node, len(readers))
                self._join(cluster, node, plan)
                cluster.outputs.append(node.index)
                clusters.drop_single(node.index)
                return
        self._root(node)

    def _fuse_into(self, accepted: list[tuple[Cluster, ProducerPlan]], node: Node) -> None:
        """All that read the node compute it."""
        self._note_duplicates(node, len(accepted))
        for cluster, plan in accepted:
            self._join(cluster, node, plan)
        self.clusters.drop_single(node.index)

    def _recompute_outside(self, fusion: Cluster, node: Node) -> None:
        """A cheap output of a dot is not written when its readers can compute it from what is written anyway."""
        is_output = node.role == LOOP and node.index in fusion.outputs
        if not is_output or not is_derived(self.clusters, fusion, node.index):
            return
        readers = self.clusters.outside_readers(node.index)
        plans = [(cluster, self._admit(cluster, node, users)) for cluster, users in readers.items()]
        if not readers or not all(plan for _, plan in plans):
            return
        self._note_duplicates(node, len(self.clusters.readers(node.index)))
        for cluster, plan in plans:
            assert plan is not None
            self._join(cluster, node, plan)
        fusion.outputs.remove(node.index)
        for producer in node.producers:
            if producer in fusion.members and producer not in fusion.outputs and not self.graph.nodes[producer].free:
                fusion.outputs.append(producer)  # its own turn comes later in the walk

    def _root(self, node: Node) -> None:
        cluster = self.clusters.containing[node.index][0]
        if node.role == CONSTANT:
            cluster.kind = "control"
        elif node.name == "reshape":
            cluster.kind = "view"
        elif node.role == REDUCE:
            split = self._split(node)
            kind = "row" if split.is_row else "column"
            if kind in self.policy.kinds:
                self._turn(cluster, ProducerPlan(node.elements, Identity(node.elements), kind, split), node)
            cluster.reductions = 1

    def _join(self, cluster: Cluster, node: Node, plan: ProducerPlan) -> None:
        if plan.turn_into:
            self._turn(cluster, plan, node)
        if node.role == REDUCE:
            cluster.reductions += 1
        self.clusters.join(cluster, node.index, plan.trip_count, plan.index_map)

    def _note_duplicates(self, node: Node, readers: int) -> None:
        """To be called before clusters compute a node that so many read."""
        if node.role != CONSTANT and readers > 1:
            inherited = max((self.duplicate_flops[user] for user in self.clusters.users[node.index]), default=0)
            self.duplicate_flops[node.index] = node.flops + inherited

    def _turn(self, cluster: Cluster, plan: ProducerPlan, node: Node) -> None:
        cluster.kind = plan.turn_into
        assert plan.split is not None
        if plan.turn_into == "row":
            cluster.rows, cluster.columns = plan.split.rows, plan.split.columns
            for member, (trip_count, index_map) in cluster.members.items():
                if index_map == Identity(cluster.rows):
                    cluster.members[member] = (min(trip_count, cluster.rows, key=size_hint), index_map)
        else:
            cluster.reduced = (self.graph.shape(node.operands[0]), node.attributes["dimensions"])

    def _split(self, node: Node) -> Split:
        split = self.splits[node.index]
        assert split is not None
        return split

    # --- admission ---------------------------------------------------------------------------------------------------

    def _admit(self, cluster: Cluster, node: Node, users: Sequence[int]) -> ProducerPlan | None:
        """Can the cluster compute `node` itself, instead of reading it for these users?"""
        if node.role == CONSTANT:
            return self._admit_constant(cluster, node, users)
        costs_nothing = self.constant_flops[node.index] == 0
        if costs_nothing and cluster.kind in self.policy.constant_operands:
            return ProducerPlan(cluster.elements, None)
        if cluster.kind not in _FUSING or (len(cluster.members) >= self.policy.body_ops and not costs_nothing):
            return None
        apart = self.policy.not_held(cluster.kind)
        trip_count: IntLike = 0
        index_map: IndexMap = None
        view = False
        for user in users:
            step = self._step(cluster, self.graph.nodes[user], node, apart)
            if step is None:
                return None
            times, where = step
            if where is VIEW:
                view = True
            elif index_map is None and not trip_count:  # the first
                trip_count, index_map = times, where
            elif index_map == where:
                trip_count = max(trip_count, times, key=size_hint)
            else:  # read at two different indices: computed for each
                index_map = SeveralIndices(node.index) if trip_count else where
                trip_count = trip_count + times
        if view:
            return ProducerPlan(0, VIEW) if not trip_count or node.free else None
        plan = ProducerPlan(trip_count, index_map)
        if node.role == REDUCE:
            return self._admit_reduce(cluster, node, plan)
        return self._admit_loop(cluster, node, users, plan) if node.name not in apart else None

    def _admit_constant(self, cluster: Cluster, node: Node, users: Sequence[int]) -> ProducerPlan | None:
        if cluster.kind in ("control", "view", "constant"):
            return None
        for user in users:
            reader = self.graph.nodes[user]
            if reader.role == DOT or cluster.members[user][1] is VIEW:
                return None
            if reader.role == UPDATE and node.results[0] == reader.operands[0]:
                return None
            if reader.role == ALONE and not self._takes_number(reader, node):
                return None
        return ProducerPlan(cluster.elements, None)

    def _step(
        self, cluster: Cluster, user: Node, node: Node, apart: Collection[str]
    ) -> tuple[IntLike, IndexMap] | None:
        """(trip_count, index map) of `node` as an operand of one member of the cluster; None where it must be read
        from memory."""
        trip_count, index_map = place = cluster.members[user.index]
        if user.role == DOT or index_map is VIEW:
            return (0, VIEW) if user.name != "convolution" and is_view_chain(self.clusters, node.index) else None
        if user.name in apart:
            return None
        if user.in_order:
            return place
        if user.role == ALONE:
            uniform = node.name == "broadcast" and self._is_constant_subtree(node)
            computes = scattered.computes(self.clusters, user, node, uniform) or self._reduces(user, node)
            return (node.elements, Identity(node.elements)) if computes else None
        if user.role == UPDATE:
            target, _, *indices = user.operands
            if node.results[0] == target or node.results[0] in indices:
                return (1, None) if node.results[0] != target and node.free else None
            return node.elements, Identity(node.elements)
        if user.role == REDUCE:
            if node.results[0] != user.operands[0]:
                return None
            full = self.graph.elements(user.operands[0])
            return full, Identity(full)
        elsewhere = OperandIndex(user.index)
        if user.name == "broadcast":
            prefix = (
                isinstance(index_map, Identity) and cluster.kind != "column" and is_prefix_broadcast(user, node.shape)
            )
            repeated = (
                cluster.rows if cluster.kind == "row" and prefix and node.elements == cluster.rows else trip_count
            )
            return repeated, Identity(node.elements) if prefix else elsewhere
        if user.name in ("concatenate", "pad"):
            if user.name == "concatenate" and (node.expensive or not self._takes_pieces(user)):
                return None
            each = node.elements * -(-trip_count // maximum(1, user.elements))
            return min(trip_count, each, key=size_hint), elsewhere
        if user.name == "gather" and node.results[0] != user.operands[0] and scattered.reads_places_in_order(user):
            return trip_count, index_map
        if user.name == "gather" and node.results[0] == user.operands[0] and not node.free and node.name != "convert":
            # A few rows of a table that is computed: only those rows are.
            read = size_hint(trip_count) * self.costs.gather_saves
            return (trip_count, elsewhere) if read <= size_hint(node.elements) else None
        return trip_count, elsewhere

    def _takes_pieces(self, concatenate: Node) -> bool:
        """Has it so few operands that each of its elements may ask which one it comes from?"""
        count, dimension = len(concatenate.operands), i64(concatenate.op, "dimension")
        alternates = math.prod(concatenate.shape[dimension:]) == count
        return count <= (self.policy.alternating if alternates else self.policy.concatenated)

    def _admit_loop(
        self, cluster: Cluster, node: Node, users: Sequence[int], plan: ProducerPlan
    ) -> ProducerPlan | None:
        name, kind = node.name, cluster.kind
        if name == "transpose" and kind not in self.policy.transposing and moves_minor_dimension(node):
            return None
        if name == "concatenate" and not self._takes_pieces(node):
            return None
        if kind == "in_place_update" and self._reads(cluster.hero, node) == inplace.ELSEWHERE:
            return None  # the operand is overwritten while it would be read
        if kind in ("attention", "scores") and node.index in self.clusters.masks:
            return plan
        if kind == "scatter" and not scattered.is_cheap(self.clusters, cluster, node):
            return None
        if name == "gather" and self._keeps_alive(cluster, node):
            self.early.add(node.index)
            return None
        if kind == "reduce_general" and not self._is_cheap_operand(cluster, node):
            return None
        if name in SKEWING and self._is_skewed(cluster, node, plan):
            return None
        is_index = node.index in self.of_indices and self._is_index(node, users)
        if plan.trip_count == node.elements or is_index or node.free or self._is_constant_subtree(node):
            return plan
        if size_hint(plan.trip_count) <= size_hint(node.elements):
            return plan
        split = self.row_of[node.index]
        if split and kind == "loop" and self._can_be_row(cluster, plan.index_map, split):
            return ProducerPlan(split.rows, plan.index_map, "row", split)
        if (name == "convert" and not split) or self._is_small(node, users, plan):
            return plan
        if self._is_repeatable(cluster, node, users, plan) or self._is_read_as_bytes(node):
            return plan
        return None

    def _is_skewed(self, cluster: Cluster, node: Node, plan: ProducerPlan) -> bool:
        """Is what neighbours are read of better in memory, where they are read along strides?"""
        most = 2 * size_hint(plan.trip_count) >= size_hint(node.elements)
        return self.policy.strided and most and is_skewed(self.clusters, cluster, node)

    def _keeps_alive(self, cluster: Cluster, gather: Node) -> bool:
        """Would a large value live longer for the few elements of it that a gather reads, if the cluster computed them,
        as it has to wait for another reader?"""
        source, costs = gather.producers[0], self.costs
        if source < 0 or not costs.early_bytes or size_hint(self.graph.bytes(gather.operands[0])) < costs.early_bytes:
            return False
        if size_hint(gather.elements) * _FEW > size_hint(self.graph.nodes[source].elements):
            return False
        before = Ancestors(self.graph.nodes, cluster.hero)
        others = (user for user in self.clusters.users[source] if user != gather.index and user not in cluster.members)
        return any(before.holds(user) for user in others)

    def _is_index(self, node: Node, users: Sequence[int]) -> bool:
        """Do users read a node as part of the indices of gathers alone, and is it cheap enough to be computed for every
        element of these?"""
        flops = node.flops
        for user in users:
            reader = self.graph.nodes[user]
            if reader.name == "gather" and node.results[0] != reader.operands[0]:
                continue
            if user not in self.index_flops:
                return False
            flops = max(flops, node.flops + self.index_flops[user])
        if node.expensive or flops > self.costs.index_flops:
            return False
        self.index_flops[node.index] = flops
        return True

    def _reduces(self, reduction: Node, node: Node) -> bool:
        """May a reduction with a combiner of its own compute a node as an operand? Threads share what it keeps,
        which may be a single element, where they share all elements of a loop."""
        few = size_hint(node.elements) <= self.costs.serial_elements
        (result,) = node.results
        return reduction.name == "reduce_general" and few and result in reduction.operands[: len(reduction.results)]

    def _is_cheap_operand(self, cluster: Cluster, node: Node) -> bool:
        """Would such a reduction still compute its operands by few operations, element by element?"""
        members = [self.graph.nodes[member] for member in cluster.members if member != cluster.hero]
        plain = (node.in_order and not node.expensive) or node.free or node.name == "broadcast"
        return plain and sum(each.flops for each in (*members, node)) <= self.policy.general

    def _is_small(self, node: Node, users: Sequence[int], plan: ProducerPlan) -> bool:
        """Is the node, read at one place, cheap enough to be computed for every element of a few, rather than by a
        kernel of its own?"""
        flops = node.flops + max((self.small_flops.get(user, 0) for user in users), default=0)
        is_few = size_hint(plan.trip_count) <= self.costs.small_elements
        if isinstance(plan.index_map, SeveralIndices) or node.role != LOOP or node.expensive:
            return False
        if not is_few or flops > self.costs.duplicate_flops:
            return False
        self.small_flops[node.index] = flops
        return True

    def _is_repeatable(self, cluster: Cluster, node: Node, users: Sequence[int], plan: ProducerPlan) -> bool:
        """Is the node, read at several places, few operations on one tensor, which would be read there anyway?"""
        flops = node.flops + max((self.repeated_flops.get(user, 0) for user in users), default=0)
        if cluster.kind not in ("loop", "row", "column") or node.role != LOOP or node.expensive:
            return False
        if any(self.graph.nodes[user].name in ("broadcast", "gather") for user in users):
            return False  # the same elements again
        if not all(self._is_read_anyway(producer) for producer in node.producers):
            return False
        tensors = {
            operand
            for operand, producer in zip(node.operands, node.producers, strict=True)
            if producer < 0 or not self._costs_nothing(self.graph.nodes[producer])
        }
        if not node.in_order or len(tensors) > 1:
            return False
        if size_hint(plan.trip_count) > REPEATED * size_hint(node.elements) or flops > self.costs.repeated_flops:
            return False
        self.repeated_flops[node.index] = flops
        return True

    def _is_read_as_bytes(self, node: Node) -> bool:
        """Is the node a comparison of memory with a number? Its result would be bytes, which readers compare with 0."""
        if node.name != "compare" or not all(map(self._is_read_anyway, node.producers)):
            return False
        return sum(each >= 0 and self._is_constant_subtree(self.graph.nodes[each]) for each in node.producers) == 1

    def _is_read_anyway(self, producer: int) -> bool:
        """Is what this node makes in memory, or a window of that, or computed from no memory?"""
        if producer < 0:
            return True
        node = self.graph.nodes[producer]
        if self._is_window(node):
            return self._is_read_anyway(node.producers[0])
        return node.role not in (LOOP, REDUCE) or self._costs_nothing(node)

    def _costs_nothing(self, node: Node) -> bool:
        """Does what this node makes read no memory, or one number?"""
        one = node.name == "broadcast" and self.graph.elements(node.operands[0]) == 1
        return one or node.role == CONSTANT or self._is_constant_subtree(node)

    @staticmethod
    def _is_window(node: Node) -> bool:
        """Is this a part of a tensor in which neighbours stay neighbours?"""
        return node.name == "slice" and all(always_at_most(stride, 1) for stride in node.attributes["strides"])

    def _reads(self, hero: int, node: Node) -> int:
        """How loops compute a node from the tensor that an update overwrites (passes/buffers/inplace.py)."""
        known, update, waiting = self.update_reads[hero], self.graph.nodes[hero], [node.index]
        while waiting:
            one = self.graph.nodes[waiting[-1]]
            loops = [each for each in one.producers if each >= 0 and self.graph.nodes[each].role == LOOP]
            missing = [each for each in loops if each not in known]
            waiting += missing
            if not missing:
                known[waiting.pop()] = inplace.reading(one.op, update.op, [known[each] for each in loops])
        return known[node.index]

    def _admit_reduce(self, cluster: Cluster, node: Node, plan: ProducerPlan) -> ProducerPlan | None:
        split = self._split(node)
        if split.is_row:
            if (
                cluster.kind == "row"
                and (cluster.rows, cluster.columns) == (split.rows, split.columns)
                and plan.index_map == Identity(split.rows)
            ):
                return ProducerPlan(split.rows, Identity(split.rows))
            if cluster.kind == "loop" and self._can_be_row(cluster, plan.index_map, split):
                return ProducerPlan(split.rows, Identity(split.rows), "row", split)
            return None
        reduced = (self.graph.shape(node.operands[0]), node.attributes["dimensions"])
        if plan.index_map != Identity(node.elements) or cluster.elements != node.elements:
            return None
        if cluster.kind == "column":
            return plan if cluster.reduced == reduced else None
        becomes = cluster.kind == "loop" and "column" in self.policy.kinds
        return ProducerPlan(node.elements, Identity(node.elements), "column", split) if becomes else None

    def _can_be_row(self, cluster: Cluster, index_map: IndexMap, split: Split) -> bool:
        """Can this loop become a row fusion of that split, with a row-shaped value at that index?"""
        if "row" not in self.policy.kinds or index_map != Identity(split.rows):
            return False
        if "row" not in self.policy.transposing and self._transposes(cluster):
            return False
        if cluster.elements == split.rows:
            return True
        return cluster.elements == split.rows * split.columns and self.costs.row_fusion_pays(split.rows, split.columns)

    def _transposes(self, cluster: Cluster) -> bool:
        nodes = [self.graph.nodes[member] for member in cluster.members]
        return any(node.name == "transpose" and moves_minor_dimension(node) for node in nodes)

    # --- more than one reader ----------------------------------------------------------------------------------------

    def _is_constant_subtree(self, node: Node) -> bool:
        return 0 <= self.constant_flops[node.index] <= self.costs.constant_subtree_flops

    def _is_duplicable(self, node: Node) -> bool:
        """Is evaluating the node in each reader no more work, and no more traffic, than storing and loading it?"""
        if node.free or node.role == CONSTANT or self._is_constant_subtree(node) or node.index in self.clusters.masks:
            return True
        reads_once = node.work is Work.ELEMENTS or node.name in ("dynamic_slice", "reverse")
        if node.expensive or node.role != LOOP or not reads_once:
            return False
        inherited = max((self.duplicate_flops[user] for user in self.clusters.users[node.index]), default=0)
        if node.flops + inherited > self.costs.duplicate_flops:
            return False
        if node.name == "dynamic_slice":
            return True
        read = 0
        for operand, producer in set(zip(node.operands, node.producers, strict=True)):
            source = self.graph.nodes[producer] if producer >= 0 else None
            if source is None or not (source.free or self._is_constant_subtree(source)):
                read += size_hint(self.graph.bytes(operand))
        return read <= size_hint(self.graph.bytes(node.results[0]))

    def _merge_loops(
        self, accepted: list[tuple[Cluster, ProducerPlan]], node: Node
    ) -> list[tuple[Cluster, ProducerPlan]]:
        """Make one multi-output loop of the loops that use an expensive value at the same indices, if they iterate
        alike and no path joins them. Returns the loops that may still compute it."""
        first, where = accepted[0]
        alike = all(
            cluster.kind == "loop"
            and cluster.shape == first.shape
            and not plan.turn_into
            and plan.index_map == where.index_map
            for cluster, plan in accepted
        )
        outputs = sum(len(cluster.outputs) for cluster, _ in accepted)
        members = sum(len(cluster.members) for cluster, _ in accepted)
        if not alike or outputs > self.policy.outputs or members > self.policy.body_ops:
            return accepted
        if any(self.clusters.connected(a, b) for (a, _), (b, _) in itertools.combinations(accepted, 2)):
            return accepted
        for cluster, _ in accepted[1:]:
            if self.clusters.connected(first, cluster):
                return [(one, plan) for one, plan in accepted if one in self.clusters.readers(node.index)]
            self.clusters.merge(first, cluster)
        plan = self._admit(first, node, self.clusters.readers(node.index)[first])
        return [(first, plan)] if plan else []  # the others are gone

    def _may_output(self, cluster: Cluster, node: Node, plan: ProducerPlan) -> bool:
        everywhere = plan.trip_count == node.elements and plan.index_map == Identity(node.elements)
        if len(cluster.outputs) >= self.policy.outputs or not everywhere:
            return False
        if cluster.kind == "row" or plan.turn_into == "row":
            rows = plan.split.rows if plan.split else cluster.rows
            columns = plan.split.columns if plan.split else cluster.columns
            if node.elements != rows and not self.costs.row_output_pays(rows, columns):
                return False
            # Rows without elements are computed as a loop over their reductions' results.
            return columns != 0 and node.elements in (rows, rows * columns)
        return cluster.kind in ("loop", "column") and node.shape == cluster.shape

    def _takes_number(self, reader: Node, node: Node) -> bool:
        """Does `reader`, alone in its fusion, take the constant `node` as a number?"""
        if node.elements != 1 or reader.name not in self.policy.immediates:
            return False
        first = self.policy.immediates[reader.name](len(reader.operands))
        return node.results[0] not in reader.operands[:first]
