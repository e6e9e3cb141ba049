"""Makes fusions of attention and of its gradient, and says which masks they compute themselves."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import byte_size, element_type
from stablehlo_py.passes.fusing.attention import Attention, Role, attention_of
from stablehlo_py.passes.fusing.attention_mask import mask_of
from stablehlo_py.passes.fusing.clusters import Cluster, Clusters, OperandIndex
from stablehlo_py.passes.fusing.graph import DOT, LOOP, REDUCE, Graph, Node
from stablehlo_py.passes.fusing.scores import BEHIND, Scores, ScoresOf, Sum, is_one_precision
from stablehlo_py.passes.fusing.scores_mask import masked_scores

_MOST_DEPTH = 256  # of a product that is computed again for each sum: more costs more than storing scores


def form_attention(clusters: Clusters) -> None:
    """Make a fusion of all attention that its users see the result of only. Clusters are to be ranked after that."""
    graph = clusters.graph
    for index in _after_exponentials(clusters):
        if _is_dot(clusters, graph.nodes[index]):
            found = attention_of(graph, graph.nodes[index])
            if found is not None and _is_wanted(clusters, found, found.members[-1:]):
                _form(clusters, found, found.members[-1:])


def form_scores(clusters: Clusters) -> None:
    """Make fusions of the sums over scores that a softmax and its gradient have, where these use scores only. Clusters
    are to be ranked after that."""
    graph = clusters.graph
    scores_of = ScoresOf(graph)
    for index in _of_exponentials(graph):
        if _is_dot(clusters, graph.nodes[index]) and _are_enough(clusters, graph.nodes[index]):
            scores = scores_of(index)
            if scores is not None and _pays(graph, scores) and _fits(clusters, scores):
                _Forming(clusters, scores).run()


def _after_exponentials(clusters: Clusters) -> list[int]:
    """Products with an operand that depends on an exponential without another product in between, and that no other
    product reads, as the weights of attention have to be for it to be wanted: few are, and to read what is before a
    product takes longer than to follow the exponentials."""
    nodes, users = clusters.graph.nodes, clusters.users
    found, seen = set[int](), set[int]()
    stack = [node.index for node in nodes if node.name == "exponential"]
    while stack:
        index = stack.pop()
        if index not in seen and nodes[index].role in (LOOP, REDUCE):
            seen.add(index)
            stack += users[index]
            products = [user for user in users[index] if nodes[user].role == DOT]
            if len(products) == 1:
                found.add(products[0])
    return sorted(found)


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


def _are_enough(clusters: Clusters, product: Node) -> bool:
    """Has a batch of scores as many as the backend wants? To read what is computed of them takes longer."""
    sides = product.shape[len(product.attributes["lhs_batch"]) :]
    return math.prod(map(int, sides)) >= clusters.policy.attention.scores


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


def _fits(clusters: Clusters, scores: Scores) -> bool:
    """Is that within the backend's limits?"""
    limits, nodes = clusters.policy.attention, clusters.graph.nodes
    is_over_left = next(each.left for each in scores.sums if nodes[each.node].role == REDUCE)
    sizes = {side: [int(nodes[of].shape[d]) for of, d in side] for side in (scores.left, scores.right)}
    keys, queries = (
        sizes[side] for side in ((scores.left, scores.right) if is_over_left else (scores.right, scores.left))
    )
    elements, places = (math.prod(each) for each in (keys, queries))
    ends = [(nodes[each.node], each.left == is_over_left) for each in scores.sums if nodes[each.node].role == DOT]
    batch = int(nodes[scores.products[0]].elements) // (elements * places)
    columns = [int(node.elements) // batch // (places if over_keys else elements) for node, over_keys in ends]
    dots = [*(nodes[each] for each in scores.products), *(node for node, _ in ends)]
    return (
        max(queries) >= limits.queries
        and elements >= limits.keys
        and (limits.columns is None or max(columns) <= limits.columns)
        and all(byte_size(element_type(value)) * 8 >= limits.sums_bits for dot in dots for value in dot.op.operands)
        and not (limits.flat and (len(keys) != 1 or not _is_flat(clusters.graph, scores)))
    )


def _is_flat(graph: Graph, scores: Scores) -> bool:
    """Does every dimension that is summed over go through one label at most?"""
    for each in scores.sums:
        node = graph.nodes[each.node]
        if node.role == DOT:
            summed = node.attributes[f"{('lhs', 'rhs')[each.operand]}_contract"]
            axes = scores.axes[node.producers[each.operand]]
            if any(len(axes[int(d)]) > 1 for d in summed):
                return False
    return True


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
        self.outputs: list[int] = []  # of the forward pass
        self.written: list[int] = []  # of these and of the sums, by it

    def run(self) -> None:
        """Make them."""
        self._find_forward()
        sums = [each for each in self.scores.sums if each.node not in self.written]
        whole = self._whole(sums) if self.clusters.policy.attention.whole else []
        if whole is None:
            return
        if self.forward is not None:
            _form(self.clusters, self.forward, self.outputs)
        masked = masked_scores(self.graph, self.scores)
        if masked is not None:
            self.clusters.masks |= masked.nodes
        if whole:
            sums = [each for each in sums if self.graph.nodes[each.node].role == DOT]
            self._make_scores(sums, whole)
            return
        groups: list[list[Sum]] = []
        for sum_ in sums:
            if not any(self._join(group, sum_) for group in groups):
                groups.append([sum_])
        for group in groups:
            self._make_scores(group, self._needed(group))

    def _make_scores(self, group: Sequence[Sum], needed: list[int]) -> None:
        """A fusion of these sums."""
        outputs = list[int]()
        for sum_ in group:
            behind = self._behind(sum_)
            needed, outputs = needed + behind, [*outputs, behind[-1] if behind else sum_.node]
        _make(self.clusters, "scores", self.scores.products[0], group[0].node, needed, outputs)

    def _find_forward(self) -> None:
        for sum_ in self.scores.sums:
            node = self.graph.nodes[sum_.node]
            found = attention_of(self.graph, node) if node.role == DOT else None
            if found is None or found.first not in self.scores.products:
                continue
            others = (*self.scores.axes, *(each.node for each in self.scores.sums))
            inside = {*found.members, *others}
            views = [each for each in found.members if found.roles.get(each) is Role.ROW and each not in others]
            rows = [
                found.maximum,
                found.total,
                *(each for each in views if not inside.issuperset(self.clusters.users[each])),
            ]
            outputs = [each for each in (*rows, found.output) if each >= 0]
            if _is_wanted(self.clusters, found, outputs, others):
                self.forward, self.outputs, self.written = found, outputs, [*outputs, found.second]
                return

    def _whole(self, sums: Sequence[Sum]) -> list[int] | None:
        """What one fusion of all of these sums computes, none of which depends on a product of another one; None: there
        is no such fusion."""
        nodes = self.graph.nodes
        by_role = {role: [each for each in sums if nodes[each.node].role == role] for role in (DOT, REDUCE)}
        reductions = {each.node for each in by_role[REDUCE]}
        if not by_role[DOT] or len({each.left for each in by_role[REDUCE]}) > 1:
            return None
        needed = self._needed(by_role[DOT], reductions)
        inside, ends = set(needed), {each.node for each in by_role[DOT]}
        outside = {producer for each in needed for producer in nodes[each].producers if producer >= 0} - inside
        if any(self._depends(each, end) for each in outside for end in (*ends, *reductions)):
            return None
        behind = [each for each in needed if each not in self.scores.axes and self._depends_on_any(each, reductions)]
        work = [nodes[each] for each in behind if each not in reductions | ends]
        is_inside = all(inside.issuperset(self.clusters.users[each]) for each in behind if each not in ends)
        is_work = all(node.role == LOOP for node in work)
        return needed if is_inside and is_work and inside >= reductions else None

    def _depends_on_any(self, node: int, reductions: Iterable[int]) -> bool:
        return any(self._depends(node, each) for each in reductions)

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

    def _needed(self, group: Sequence[Sum], reductions: Collection[int] = ()) -> list[int]:
        """What a fusion computes: the sums, the scores that they need, what attention computed of rows, but does not
        write, and these reductions with what becomes of them."""
        inside = {*self.scores.axes, *reductions}
        if self.forward is not None:
            inside |= set(self.forward.members) - set(self.written)
        needed = {each.node for each in group}
        stack = [self.graph.nodes[each.node].producers[each.operand] for each in group]
        while stack:
            index = stack.pop()
            if index not in needed and (index in inside or self._depends_on_any(index, reductions)):
                needed.add(index)
                stack += self.graph.nodes[index].producers
        return sorted(needed)
