"""Work on the scores of a product that ends in sums over one of its sides: what the gradient of attention is.

    s = q k^T,  dp = do v^T              products of [queries, keys]
    w = f(s, dp, values of the rows)     work on each score, or on each query: another product, a mask, an exponential
    sum over keys of w                   a value for each query
    w k,  w^T do                         products that sum over keys, or over queries

No array of [queries, keys] has to exist: whoever sums computes the scores again (Dao et al., FlashAttention, 2022,
algorithm 4). What is looked for is this structure, whatever the work on the scores is. The template of the kind reads a
fusion by the same analysis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stablehlo_py.dialect.ops import Work
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import element_type, is_float
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.graph import DOT, LOOP, REDUCE, Graph, Node

VIEWS = ("transpose", "reshape")
BEHIND = ("convert", "transpose")  # a sum, in the fusion that computes it

Label = tuple[int, int]  # a product of scores and a dimension of its result; those of size 1 have none
Axes = tuple[tuple[Label, ...], ...]  # for each dimension of a value the labels that it goes through, the last fastest


@dataclass(frozen=True)
class Sum:
    """What ends work on scores.

    Attributes:
        node: a reduction, or a product; operand: which one of its operands has scores.
        left: whether the sum is over the left side of the products of scores.
    """

    node: int
    operand: int
    left: bool


@dataclass(frozen=True)
class Scores:
    """What is computed of some products of the same two sides.

    Attributes:
        products: all of them, in order.
        batch, left, right: the labels of batches, and of the sides, in the order of the first product.
        axes: of every value of a score: the products, and work on them.
        sums: what ends it.
    """

    products: tuple[int, ...]
    batch: tuple[Label, ...]
    left: tuple[Label, ...]
    right: tuple[Label, ...]
    axes: dict[int, Axes]
    sums: tuple[Sum, ...]


class ScoresOf:
    """Reads what is computed of products in a graph, which is divided once: what one product meets is looked for among
    the nodes that elementwise work and views connect with it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._parts: dict[IntLike, dict[int, list[Node]]] = {}

    def __call__(self, first: int) -> Scores | None:
        """What is computed of a product and of those that meet it; None: not all of that ends in sums over a side."""
        elements = self.graph.nodes[first].elements
        if elements not in self._parts:
            self._parts[elements] = self._connected(elements)
        return _Reading(self.graph, first).read(self._parts[elements][first])

    def _connected(self, elements: IntLike) -> dict[int, list[Node]]:
        """For every product of so many elements, and all work on them, the nodes that it is connected with."""
        parts = dict[int, list[Node]]()
        for node in self._computed(elements):
            if node.role == DOT:
                parts[node.index] = [node]
                continue
            found = {id(part): part for producer in node.producers if (part := parts.get(producer)) is not None}
            kept, *others = sorted(found.values(), key=len, reverse=True)
            for other in others:
                kept += other
                parts.update((each.index, kept) for each in other)
            kept.append(node)
            parts[node.index] = kept
        for part in {id(part): part for part in parts.values()}.values():
            part.sort(key=lambda node: node.index)
        return parts

    def _computed(self, elements: IntLike) -> list[Node]:
        """The products of so many elements and all work on them, in order."""
        nodes = self.graph.nodes
        found = {node.index for node in self.graph.dots if node.name == "dot" and node.elements == elements}
        stack = list(found)
        while stack:
            work = {user for user in self.graph.node_users(nodes[stack.pop()]) if _is_work(nodes[user])} - found
            found |= work
            stack += work
        return [nodes[index] for index in sorted(found)]


def _is_work(node: Node) -> bool:
    """May the result have the axes of an operand?"""
    return node.role == LOOP and (node.work is Work.ELEMENTS or node.name in VIEWS)


class _Reading:
    """One attempt. Every product of as many elements begins with labels of its own; where two meet in an elementwise
    op, these are the same."""

    def __init__(self, graph: Graph, first: int) -> None:
        self.graph, self.first = graph, first
        self.axes: dict[int, Axes] = {}
        self.same: dict[Label, Label] = {}

    def read(self, nodes: Iterable[Node]) -> Scores | None:
        """All that meets the first product, among products and work on them."""
        for node in nodes:
            if node.role == DOT:
                axes: Axes | None = tuple(((node.index, d),) if size != 1 else () for d, size in enumerate(node.shape))
            else:
                axes = self._joined(node)
            if axes is not None:
                self.axes[node.index] = axes
        found = self._meeting()
        products = tuple(index for index in found if self.graph.nodes[index].role == DOT)
        batch, left, right = self._sides(products[0], found)
        for each in products:
            if not found.keys().isdisjoint(self.graph.nodes[each].producers):
                return None
            other, *sides = self._sides(each, found)
            if set(other) != set(batch) or {frozenset(side) for side in sides} != {frozenset(left), frozenset(right)}:
                return None
        sums = []
        for index in found:
            for user in self.graph.node_users(self.graph.nodes[index]):
                if user not in found:
                    sum_ = self._sum(self.graph.nodes[user], found, batch, (left, right))
                    if sum_ is None:
                        return None
                    sums.append(sum_)
        return Scores(products, batch, left, right, found, tuple(sums)) if left and right else None

    def _meeting(self) -> dict[int, Axes]:
        """The axes of all values that go through the labels of the first product."""
        resolved = {index: tuple(map(self._resolved, axes)) for index, axes in self.axes.items()}
        return {
            index: axes for index, axes in resolved.items() if all(of == self.first for part in axes for of, _ in part)
        }

    # --- axes --------------------------------------------------------------------------------------------------------

    def _resolved(self, part: Iterable[Label]) -> tuple[Label, ...]:
        found = []
        for label in part:
            while label in self.same:
                label = self.same[label]
            found.append(label)
        return tuple(found)

    def _joined(self, node: Node) -> Axes | None:
        """Of an elementwise op, or a view: those that its operands with scores have in common."""
        found: Axes | None = None
        for producer in node.producers:
            if producer not in self.axes:
                continue
            axes = self._viewed(node, self.axes[producer])
            if axes is None or (found is not None and not self._meet(found, axes)):
                return None
            found = found or axes
        return found

    def _meet(self, one: Axes, other: Axes) -> bool:
        """Whether the dimensions of two values can be the same; from here on they are."""
        pairs = []
        for a, b in zip(map(self._resolved, one), map(self._resolved, other), strict=True):
            if len(a) != len(b):
                return False
            pairs += [(x, y) for x, y in zip(a, b, strict=True) if x != y]
        if any(x[0] == y[0] or self._size(x) != self._size(y) for x, y in pairs):
            return False
        for x, y in pairs:
            kept, gone = (x, y) if x[0] == self.first or (y[0] != self.first and x[0] < y[0]) else (y, x)
            self.same[gone] = kept
        return True

    def _size(self, label: Label) -> int:
        return int(self.graph.nodes[label[0]].shape[label[1]])

    def _viewed(self, node: Node, axes: Axes) -> Axes | None:
        if node.name == "transpose":
            return tuple(axes[int(d)] for d in node.attributes["permutation"])
        if node.name != "reshape":
            return axes
        labels = [label for part in axes for label in part]
        result: list[tuple[Label, ...]] = []
        for size in node.shape:
            part, product = [], 1
            while product != size:
                if not labels or int(size) % (product * self._size(labels[0])):
                    return None
                product *= self._size(labels[0])
                part.append(labels.pop(0))
            result.append(tuple(part))
        return tuple(result) if not labels else None

    # --- products and sums -------------------------------------------------------------------------------------------

    def _sides(self, product: int, axes: dict[int, Axes]) -> tuple[tuple[Label, ...], ...]:
        """The labels of the batches and of both sides of a product of scores."""
        node = self.graph.nodes[product]
        batches = len(node.attributes["lhs_batch"])
        left = len(self.graph.shape(node.operands[0])) - len(node.attributes["lhs_contract"])
        parts = ((0, batches), (batches, left), (left, len(node.shape)))
        return tuple(tuple(label for d in range(*part) for label in axes[product][d]) for part in parts)

    def _sum(
        self, node: Node, axes: dict[int, Axes], batch: tuple[Label, ...], sides: tuple[tuple[Label, ...], ...]
    ) -> Sum | None:
        """What an op is that is no work on scores, if it is a sum over a side of them."""
        inside = [position for position, producer in enumerate(node.producers) if producer in axes]
        if len(inside) != 1:
            return None
        (operand,) = inside
        of = axes[node.producers[operand]]
        if node.role == REDUCE and operand == 0:
            summed, free = set(map(int, node.attributes["dimensions"])), set(batch)
        elif node.role == DOT and node.name == "dot":
            side = ("lhs", "rhs")[operand]
            summed = set(map(int, node.attributes[f"{side}_contract"]))
            free = {label for d in node.attributes[f"{side}_batch"] for label in of[int(d)]}
        else:
            return None
        over = {label for d in summed for label in of[d]}
        if free != set(batch) or over not in map(set, sides):
            return None
        left = over == set(sides[0])
        if node.role == DOT:
            for what, labels in (("batch", batch), ("contract", sides[0] if left else sides[1])):
                parts = sorted_parts([of[int(d)] for d in node.attributes[f"{side}_{what}"]], labels)
                if [label for _, part in parts for label in part] != list(labels):
                    return None
        return Sum(node.index, operand, left)


def sorted_parts(parts: Sequence[tuple[Label, ...]], labels: Sequence[Label]) -> list[tuple[int, tuple[Label, ...]]]:
    """Dimensions by number, in the order that the labels which they go through have among `labels`."""
    return sorted(enumerate(parts), key=lambda part: labels.index(part[1][0]) if part[1] else -1)


def is_one_precision(graph: Graph, nodes: Iterable[int]) -> bool:
    """Are all results floats, and all f64 or none of them?"""
    types = [element_type(graph.nodes[index].op.results[0]) for index in nodes]
    return all(map(is_float, types)) and len({isinstance(type_, ir.F64Type) for type_ in types}) == 1
