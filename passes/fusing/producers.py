"""One walk from the last op to the first: every op joins the fusions that use its value, or starts a fusion of its own.

All users of an op have been placed when its turn comes. Reductions turn the loop that uses them into a row or a
column fusion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stablehlo_py.dialect.ops import Work
from stablehlo_py.passes.cost_model import (
    CONSTANT_SUBTREE_FLOPS,
    DUPLICATE_FLOPS,
    GATHER_SAVES,
    MAX_BODY_OPS,
    MAX_CONCATENATE,
    MAX_OUTPUTS,
    row_fusion_pays,
)
from stablehlo_py.passes.fusing.clusters import VIEW, Cluster, Clusters
from stablehlo_py.passes.fusing.epilogues import is_cheap_from_outputs, is_view_chain
from stablehlo_py.passes.fusing.graph import ALONE, CONSTANT, DOT, LOOP, REDUCE, UPDATE, Graph, Node
from stablehlo_py.passes.fusing.shapes import Split, is_prefix_broadcast, moves_minor_dimension, reduction_split

_LOOPS = ("loop", "row", "column")
# Kinds of one op whose kernels take some constants of one element as numbers: the first operand that may be one, of so
# many. They read every other operand from memory, as all other kinds do.
_NUMBERS_FROM: dict[str, Callable[[int], int]] = {
    "reduce_general": lambda operands: operands // 2,
    "reduce_window": lambda operands: operands // 2,
    "reduce_window_general": lambda operands: operands // 2,
    "select_and_scatter": lambda operands: 2,
}


@dataclass(frozen=True)
class Place:
    """How a node would be computed in a cluster; `turn_into` says what the cluster becomes by that."""

    evaluations: int
    linear: int
    turn_into: str = ""
    split: Split | None = None


class Placement:
    """The walk and what it knows about every node."""

    def __init__(self, clusters: Clusters) -> None:
        self.clusters = clusters
        self.graph: Graph = clusters.graph
        size = len(self.graph.nodes)
        self.splits: list[Split | None] = [None] * size  # node -> split, for reductions
        self.row_of: list[Split | None] = [
            None
        ] * size  # node -> split of the row reduction that it is elementwise work on
        self.constant_flops: list[int] = [-1] * size  # flops of a subtree that reads no memory, -1 if it does
        self.duplicate_flops: list[int] = [0] * size  # flops that are duplicated together with the node
        for node in self.graph.nodes:
            self._describe(node)

    def run(self) -> None:
        """Place every node."""
        for node in reversed(self.graph.nodes):
            home = self.clusters.homes[node.index][0]
            if len(home.members) > 1:
                self._recompute_outside(home, node)
            elif node.role in (LOOP, REDUCE, CONSTANT):
                self._place(node)

    def part(self) -> None:
        """Leave every node by itself, with the constants that it uses."""
        for node in reversed(self.graph.nodes):
            if node.role == CONSTANT:
                self._place(node)
            elif node.role in (LOOP, REDUCE):
                self._root(node)

    # --- what is known before the walk -------------------------------------------------------------------------------

    def _describe(self, node: Node) -> None:
        graph = self.graph
        producers = [graph.producer[operand] for operand in node.operands]
        if node.role == REDUCE:
            split = reduction_split(graph.shape(node.operands[0]), node.attributes["dimensions"])
            self.splits[node.index] = split
            self.row_of[node.index] = split if split.is_row else None
        elif node.in_order:
            for producer in producers:
                row = self.row_of[producer] if producer >= 0 else None
                if row and row.rows == node.elements:
                    self.row_of[node.index] = row
        if node.role in (LOOP, CONSTANT) and all(
            producer >= 0 and self.constant_flops[producer] >= 0 for producer in producers
        ):
            self.constant_flops[node.index] = node.flops + sum(self.constant_flops[producer] for producer in producers)

    # --- placing one node --------------------------------------------------------------------------------------------

    def _place(self, node: Node) -> None:
        clusters = self.clusters
        readers = clusters.readers(node.index)
        if not readers:
            return
        places = [(cluster, self._admit(cluster, node)) for cluster in readers]
        accepted = [(cluster, place) for cluster, place in places if place]
        if len(accepted) == len(readers):
            shared = all(place.evaluations == VIEW for _, place in accepted) or self._is_duplicable(node)
            if len(accepted) > 1 and not shared:
                accepted = self._merge_loops(accepted, node)
            if len(accepted) == 1 or shared:
                for cluster, place in accepted:
                    self._join(cluster, node, place)
                clusters.leave_alone(node.index)
                return
        elif node.role == CONSTANT or node.free or self._is_constant_subtree(node):
            for cluster, place in accepted:
                self._join(cluster, node, place)
            self._root(node)
            return
        for cluster, place in accepted:
            if self._may_output(cluster, node, place) and self._is_safe_output(cluster, node, readers):
                self._join(cluster, node, place)
                clusters.add_output(cluster, node.index)
                clusters.leave_alone(node.index)
                return
        self._root(node)

    def _recompute_outside(self, home: Cluster, node: Node) -> None:
        """A cheap output of a dot is not written when its readers can compute it from what is written anyway."""
        if node.role != LOOP or node.index not in home.outputs:
            return
        if not is_cheap_from_outputs(self.graph, home.members, home.outputs, node, DUPLICATE_FLOPS):
            return
        readers = self.clusters.outside_readers(home, node.index)
        places = [(cluster, self._admit(cluster, node)) for cluster in readers]
        if not readers or not all(place for _, place in places):
            return
        for cluster, place in places:
            assert place is not None
            self._join(cluster, node, place)
        home.outputs.remove(node.index)
        for operand in node.operands:
            producer = self.graph.producer[operand]
            if producer in home.members and producer not in home.outputs and not self.graph.nodes[producer].free:
                self.clusters.add_output(home, producer)  # its own turn comes later in the walk

    def _root(self, node: Node) -> None:
        cluster = self.clusters.homes[node.index][0]
        if node.role == CONSTANT:
            cluster.kind = "control"
        elif node.name == "reshape":
            cluster.kind = "view"
        elif node.role == REDUCE:
            self._turn(
                cluster,
                Place(node.elements, node.elements, "row" if self._split(node).is_row else "column", self._split(node)),
                node,
            )
            cluster.reductions = 1

    def _join(self, cluster: Cluster, node: Node, place: Place) -> None:
        if place.turn_into:
            self._turn(cluster, place, node)
        if node.role == REDUCE:
            cluster.reductions += 1
        if node.role != CONSTANT and len(self.clusters.readers(node.index)) > 1:
            inherited = max((self.duplicate_flops[user] for user in self.clusters.users[node.index]), default=0)
            self.duplicate_flops[node.index] = node.flops + inherited
        self.clusters.join(cluster, node.index, place.evaluations, place.linear)

    def _turn(self, cluster: Cluster, place: Place, node: Node) -> None:
        cluster.kind = place.turn_into
        assert place.split is not None
        if place.turn_into == "row":
            cluster.rows, cluster.columns = place.split.rows, place.split.columns
            for member, (evaluations, linear) in cluster.members.items():
                if linear == cluster.rows:
                    cluster.members[member] = (min(evaluations, linear), linear)
        else:
            cluster.reduced = (self.graph.shape(node.operands[0]), node.attributes["dimensions"])

    def _split(self, node: Node) -> Split:
        split = self.splits[node.index]
        assert split is not None
        return split

    # --- admission ---------------------------------------------------------------------------------------------------

    def _admit(self, cluster: Cluster, node: Node) -> Place | None:
        """Can the cluster compute `node` itself, instead of reading it?"""
        if node.role == CONSTANT:
            return self._admit_constant(cluster, node)
        if cluster.kind not in (*_LOOPS, "dot", "convolution", "update") or len(cluster.members) >= MAX_BODY_OPS:
            return None
        evaluations, linear, view, size = 0, 0, False, len(self.graph.nodes)
        for user in self.clusters.users[node.index]:
            if user not in cluster.members:
                continue
            step = self._step(cluster, self.graph.nodes[user], node)
            if step is None:
                return None
            if step[0] == VIEW:
                view = True
            elif linear == step[1]:
                evaluations = max(evaluations, step[0])
            else:  # read at two different places: evaluated for each
                evaluations, linear = evaluations + step[0], step[1] if not evaluations else -size - node.index
        if view:
            return Place(VIEW, 0) if not evaluations or node.free else None
        place = Place(evaluations, linear)
        return (
            self._admit_reduce(cluster, node, place) if node.role == REDUCE else self._admit_loop(cluster, node, place)
        )

    def _admit_constant(self, cluster: Cluster, node: Node) -> Place | None:
        if cluster.kind in ("control", "view", "constant"):
            return None
        for user in self.clusters.users[node.index]:
            reader = self.graph.nodes[user]
            if user in cluster.members:
                if reader.role == DOT or cluster.members[user][0] == VIEW:
                    return None
                if reader.role == UPDATE and node.results[0] == reader.operands[0]:
                    return None
                if reader.role == ALONE and not _takes_number(reader, node):
                    return None
        return Place(cluster.elements, 0)

    def _step(self, cluster: Cluster, user: Node, node: Node) -> tuple[int, int] | None:
        """(evaluations, linear) of `node` as an operand of one member of the cluster; None where it must be read
        from memory."""
        evaluations, linear = cluster.members[user.index]
        elsewhere = -1 - user.index  # every op that moves elements reads its operand at places of its own
        if user.role == DOT or evaluations == VIEW:
            return (VIEW, 0) if user.name != "convolution" and is_view_chain(self.clusters, node.index) else None
        if user.role == UPDATE:
            target, _, *indices = user.operands
            if node.results[0] == target or node.results[0] in indices:
                return (1, 0) if node.results[0] != target and node.free else None
            return node.elements, node.elements
        if user.role == REDUCE:
            if node.results[0] != user.operands[0]:
                return None
            full = self.graph.elements(user.operands[0])
            return full, full
        if user.in_order:
            return evaluations, linear
        if user.name == "broadcast":
            prefix = linear > 0 and cluster.kind != "column" and is_prefix_broadcast(user, node.shape)
            repeated = (
                cluster.rows if cluster.kind == "row" and prefix and node.elements == cluster.rows else evaluations
            )
            return repeated, node.elements if prefix else elsewhere
        if user.name in ("concatenate", "pad"):
            if len(user.operands) > MAX_CONCATENATE or (user.name == "concatenate" and node.expensive):
                return None
            return min(evaluations, node.elements * -(-evaluations // max(1, user.elements))), elsewhere
        if user.name == "gather" and node.results[0] == user.operands[0] and not node.free and node.name != "convert":
            # A few rows of a table that is computed: only those rows are.
            return (evaluations, elsewhere) if evaluations * GATHER_SAVES <= node.elements else None
        return evaluations, elsewhere

    def _admit_loop(self, cluster: Cluster, node: Node, place: Place) -> Place | None:
        if cluster.kind != "loop" and node.name == "transpose" and moves_minor_dimension(node):
            return None
        if cluster.kind == "update" and self.graph.nodes[cluster.hero].operands[0] in node.operands:
            return None  # the operand is overwritten while it would be read
        if cluster.kind == "dot" and node.name in ("gather", "concatenate"):
            return None
        split = self.row_of[node.index]
        if place.evaluations <= node.elements or node.free or self._is_constant_subtree(node):
            return place
        if split and cluster.kind == "loop" and self._row_place(cluster, place.linear, split):
            return Place(split.rows, place.linear, "row", split)
        if node.name == "convert" and not split:
            return place
        return None

    def _admit_reduce(self, cluster: Cluster, node: Node, place: Place) -> Place | None:
        split = self._split(node)
        if split.is_row:
            if (
                cluster.kind == "row"
                and (cluster.rows, cluster.columns) == (split.rows, split.columns)
                and place.linear == split.rows
            ):
                return Place(split.rows, split.rows)
            if cluster.kind == "loop" and self._row_place(cluster, place.linear, split):
                return Place(split.rows, split.rows, "row", split)
            return None
        reduced = (self.graph.shape(node.operands[0]), node.attributes["dimensions"])
        if place.linear != node.elements or cluster.elements != node.elements:
            return None
        if cluster.kind == "column":
            return place if cluster.reduced == reduced else None
        return Place(node.elements, node.elements, "column", split) if cluster.kind == "loop" else None

    def _row_place(self, cluster: Cluster, linear: int, split: Split) -> bool:
        """Can this loop become a row fusion of that split, with a row-shaped value at `linear`?"""
        if linear != split.rows:
            return False
        if any(name == "transpose" for name in self._moves(cluster)):
            return False
        if cluster.elements == split.rows:
            return True
        return cluster.elements == split.rows * split.columns and row_fusion_pays(split.rows, split.columns)

    def _moves(self, cluster: Cluster) -> list[str]:
        nodes = self.graph.nodes
        return [
            nodes[member].name
            for member in cluster.members
            if nodes[member].name == "transpose" and moves_minor_dimension(nodes[member])
        ]

    # --- more than one reader ----------------------------------------------------------------------------------------

    def _is_constant_subtree(self, node: Node) -> bool:
        return 0 <= self.constant_flops[node.index] <= CONSTANT_SUBTREE_FLOPS

    def _is_duplicable(self, node: Node) -> bool:
        """Is evaluating the node in each reader no more work, and no more traffic, than storing and loading it?"""
        if node.free or node.role == CONSTANT or self._is_constant_subtree(node):
            return True
        reads_once = node.work is Work.ELEMENTS or node.name in ("dynamic_slice", "reverse")
        if node.expensive or node.role != LOOP or not reads_once:
            return False
        inherited = max((self.duplicate_flops[user] for user in self.clusters.users[node.index]), default=0)
        if node.flops + inherited > DUPLICATE_FLOPS:
            return False
        if node.name == "dynamic_slice":
            return True
        read = 0
        for operand in set(node.operands):
            producer = self.graph.producer[operand]
            if producer < 0 or not (
                self.graph.nodes[producer].free or self._is_constant_subtree(self.graph.nodes[producer])
            ):
                read += self.graph.bytes(operand)
        return read <= self.graph.bytes(node.results[0])

    def _merge_loops(self, accepted: list[tuple[Cluster, Place]], node: Node) -> list[tuple[Cluster, Place]]:
        """Make one multi-output loop of the loops that use an expensive value at the same places, if they iterate alike
        and no path joins them. Returns the loops that may still compute it."""
        first, where = accepted[0]
        alike = all(
            cluster.kind == "loop"
            and cluster.shape == first.shape
            and not place.turn_into
            and place.linear == where.linear
            for cluster, place in accepted
        )
        outputs = sum(len(cluster.outputs) for cluster, _ in accepted)
        if not alike or outputs > MAX_OUTPUTS or sum(len(cluster.members) for cluster, _ in accepted) > MAX_BODY_OPS:
            return accepted
        for position, (cluster, _) in enumerate(accepted):
            for other, _ in accepted[position + 1 :]:
                if self.clusters.reaches([cluster], other) or self.clusters.reaches([other], cluster):
                    return accepted
        for cluster, _ in accepted[1:]:
            if self.clusters.reaches([first], cluster) or self.clusters.reaches([cluster], first):
                return [(one, place) for one, place in accepted if one in self.clusters.readers(node.index)]
            self.clusters.merge(first, cluster)
        place = self._admit(first, node)
        return [(first, place)] if place else []  # the others are gone

    def _may_output(self, cluster: Cluster, node: Node, place: Place) -> bool:
        if len(cluster.outputs) >= MAX_OUTPUTS or place.evaluations != node.elements or place.linear != node.elements:
            return False
        if cluster.kind == "row" or place.turn_into == "row":
            rows = place.split.rows if place.split else cluster.rows
            columns = place.split.columns if place.split else cluster.columns
            # Rows without elements are computed as a loop over their reductions' results.
            return columns != 0 and node.elements in (rows, rows * columns)
        return cluster.kind in ("loop", "column") and node.shape == cluster.shape

    def _is_safe_output(self, cluster: Cluster, node: Node, readers: list[Cluster]) -> bool:
        others = [reader for reader in readers if reader is not cluster]
        return not self.clusters.reaches(others, cluster)


def _takes_number(reader: Node, node: Node) -> bool:
    """Does the kernel of `reader`, alone in its fusion, take the constant `node` as a number?"""
    if node.elements != 1 or reader.name not in _NUMBERS_FROM:
        return False
    first = _NUMBERS_FROM[reader.name](len(reader.operands))
    return node.results[0] not in reader.operands[:first]
