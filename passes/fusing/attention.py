"""Attention: a product, elementwise work on its result, a softmax over one side of it, and a second product.

What is looked for is the structure, not a list of patterns. The scores are any elementwise work on the first product
(scales, masks, biases, caps). Their maximum over the keys, and what becomes of that (a guard against infinities), is
subtracted; exponentials of the differences are the weights. Sums over the keys and the division by them come before or
after the second product. Values in between are used nowhere else, so that no array of [queries, keys] has to exist
(Dao et al., FlashAttention, 2022). The template of the kind reads a fusion by the same analysis.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from stablehlo_py.dialect.ops import Work
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import element_type, is_float, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.graph import CONSTANT, DOT, LOOP, REDUCE, Graph, Node

_MOST_OPS = 64  # between the products
_VIEWS = ("transpose", "reshape")

#: For each dimension of a value the dimensions of the first product that it goes through, the last one fastest; None: a
#: dimension along which the value is the same, or one of the second product. Dimensions of size 1 are left out.
Axes = tuple[tuple[int, ...] | None, ...]


class Role(Enum):
    """What a value between the products is."""

    SCORE = "score"
    ROW = "row"  # the same for all keys: the maximum, the sum, and what becomes of them
    SHIFTED = "shifted"  # scores without their maximum
    WEIGHT = "weight"  # exponentials, or linear in them
    SCALED = "scaled"  # weights with a factor for each row
    RESULT = "result"


@dataclass
class Attention:
    """What the nodes of a graph are to attention.

    Attributes:
        first, second: the products; queries, weights: which operand of each is that of the queries, and the weights.
        members: every op that depends on the first product, up to the result, in order.
        roles, axes: of each member.
        keys: dimensions of the first product that the softmax, and the second product, sum over; rows: those of the
            queries, in the order of the result.
        scores: whose maximum is taken; maximum, shifted, exponential: the ops.
        total: the sum of the weights, where one is taken.
        factors: members that multiply or divide weights by a value of the row, each with that operand's position.
        output: the last member.
    """

    first: int
    second: int
    members: list[int]
    queries: int = 0
    weights: int = 0
    roles: dict[int, Role] = field(default_factory=dict)
    axes: dict[int, Axes] = field(default_factory=dict)
    keys: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    scores: int = -1
    maximum: int = -1
    shifted: int = -1
    exponential: int = -1
    total: int = -1
    factors: list[tuple[int, int]] = field(default_factory=list)

    @property
    def output(self) -> int:
        """The last member."""
        return self.members[-1]


def attention_of(graph: Graph, second: Node) -> Attention | None:
    """What a dot is the second product of, if that is attention."""
    if not is_known(*second.shape) or not second.elements:
        return None
    for weights in (0, 1):
        above = _before(graph, second, weights)
        if len(above) > _MOST_OPS or not any(graph.nodes[index].name == "exponential" for index in above):
            continue
        for first in above:
            if graph.nodes[first].role == DOT:
                found = _Reading(graph, first, second.index, weights).read(above)
                if found is not None:
                    return found
    return None


def _before(graph: Graph, second: Node, weights: int) -> list[int]:
    """Ops that an operand of the second product depends on without another product in between, and the dots of as many
    elements at their beginning; those that come last first."""
    elements = graph.elements(second.operands[weights])
    found: set[int] = set()
    stack = [second.producers[weights]]
    while stack and len(found) <= _MOST_OPS:
        index = stack.pop()
        if index < 0 or index in found:
            continue
        node = graph.nodes[index]
        if node.role == DOT and node.name == "dot" and node.elements == elements:
            found.add(index)
        elif node.role in (LOOP, REDUCE):
            found.add(index)
            stack += node.producers
    return sorted(found, reverse=True)


class _Reading:
    """One attempt: a first and a second product."""

    def __init__(self, graph: Graph, first: int, second: int, weights: int) -> None:
        self.graph = graph
        self.found = Attention(first, second, [], weights=weights)
        self.views: dict[int, int] = {}  # a member that is a view of another one, to the first of them

    def read(self, above: list[int]) -> Attention | None:
        """What both are, if it is attention."""
        found, graph = self.found, self.graph
        first, second = graph.nodes[found.first], graph.nodes[found.second]
        depends = {found.first}
        for index in sorted((*above, found.second)):
            if depends.intersection(graph.nodes[index].producers):
                depends.add(index)
        found.roles[found.first] = Role.SCORE
        found.axes[found.first] = tuple((d,) if size != 1 else () for d, size in enumerate(first.shape))
        for index in sorted(depends - {found.first}):
            if not self._classify(graph.nodes[index]):
                return None
        if found.exponential < 0 or not self._is_one_precision(depends) or not self._fits(first, second):
            return None
        self._grow(depends)
        found.members = sorted(depends)
        return found

    # --- axes --------------------------------------------------------------------------------------------------------

    def _viewed(self, node: Node, axes: Axes) -> Axes | None:
        """The axes of a transpose or reshape of a value with these axes, or of elementwise work on it."""
        if node.name == "transpose":
            return tuple(axes[int(d)] for d in node.attributes["permutation"])
        if node.name != "reshape":
            return axes
        sizes = self.graph.nodes[self.found.first].shape
        if any(part is None for part in axes):
            return None
        labels = [label for part in axes for label in part or ()]
        result: list[tuple[int, ...]] = []
        for size in node.shape:
            part, product = [], 1
            while product != size:
                if not labels or int(size) % (product * int(sizes[labels[0]])):
                    return None
                product *= int(sizes[labels[0]])
                part.append(labels.pop(0))
            result.append(tuple(part))
        return tuple(result) if not labels else None

    def _axes(self, node: Node) -> Axes | None:
        """Of an elementwise op on members, or a view of one: those of all of them that have some there."""
        found: Axes | None = None
        for producer in node.producers:
            if producer not in self.found.axes:
                continue
            axes = self._viewed(node, self.found.axes[producer])
            if axes is None:
                return None
            if found is not None:
                if any(a is not None and b is not None and a != b for a, b in zip(found, axes, strict=True)):
                    return None
                axes = tuple(b if a is None else a for a, b in zip(found, axes, strict=True))
            found = axes
        return found

    # --- roles -------------------------------------------------------------------------------------------------------

    def _classify(self, node: Node) -> bool:
        """Give a node its role and its axes, if it has a place in attention."""
        found = self.found
        inside = [producer for producer in node.producers if producer in found.roles]
        roles = {found.roles[producer] for producer in inside}
        if node.index == found.second:
            role = Role.RESULT if roles <= {Role.WEIGHT, Role.SCALED} and len(inside) == 1 else None
            axes: Axes | None = (None,) * len(node.shape)
        elif node.role == REDUCE:
            role, axes = self._reduced(node)
        elif node.name == "broadcast":
            role = Role.ROW if roles == {Role.ROW} else None
            axes = self._broadcast(node)
        elif node.work is Work.ELEMENTS or node.name in _VIEWS:
            axes = self._axes(node)
            role = self._elementwise(node, roles)
        else:
            return False
        if role is None or axes is None:
            return False
        found.roles[node.index], found.axes[node.index] = role, axes
        if node.name in _VIEWS:
            producer = node.producers[0]
            self.views[node.index] = self.views.get(producer, producer)
        return True

    def _reduced(self, node: Node) -> tuple[Role | None, Axes | None]:
        """The maximum of the scores, or the sum of the weights, over all keys."""
        found = self.found
        operand, kind = node.producers[0], text(node.op, "kind")
        if operand not in found.roles or node.producers[1] in found.roles:
            return None, None
        dimensions = {int(d) for d in node.attributes["dimensions"]}
        axes = found.axes[operand]
        keys = tuple(sorted(label for d in dimensions for label in axes[d] or ()))
        role = found.roles[operand]
        if None in axes:
            return None, None
        if kind == "maximum" and role is Role.SCORE and found.maximum < 0:
            found.maximum, found.scores, found.keys = node.index, self.views.get(operand, operand), keys
        elif kind == "add" and role is Role.WEIGHT and found.total < 0 and keys == found.keys:
            found.total = node.index
        else:
            return None, None
        return Role.ROW, tuple(part for d, part in enumerate(axes) if d not in dimensions)

    def _broadcast(self, node: Node) -> Axes | None:
        mapped = dict(zip(node.attributes["dimensions"], self.found.axes[node.producers[0]], strict=True))
        return tuple(mapped.get(d, None if size != 1 else ()) for d, size in enumerate(node.shape))

    def _elementwise(self, node: Node, roles: set[Role]) -> Role | None:
        found = self.found
        if len(roles) == 1:
            (role,) = roles
            if role in (Role.SCORE, Role.ROW):
                return role
            if role is Role.SHIFTED:
                if node.name != "exponential" or found.exponential >= 0:
                    return Role.SHIFTED if node.name in _VIEWS else None
                found.exponential = node.index
                return Role.WEIGHT
            return role if self._is_linear(node) else None
        by = [found.roles.get(producer) for producer in node.producers]
        if node.name == "subtract" and by == [Role.SCORE, Role.ROW]:
            scores = self.views.get(node.producers[0], node.producers[0])
            alike = scores == found.scores and self._is_same_type(node.index, scores)
            if not alike or found.shifted >= 0:
                return None
            found.shifted = node.index
            return Role.SHIFTED
        if node.name in ("divide", "multiply") and roles <= {Role.WEIGHT, Role.SCALED, Role.ROW}:
            if by[0] is not Role.ROW:
                found.factors.append((node.index, 1))
            elif node.name == "multiply":
                found.factors.append((node.index, 0))
            else:
                return None
            return Role.SCALED if by.count(Role.ROW) == 1 else None
        return None

    def _is_same_type(self, a: int, b: int) -> bool:
        return element_type(self.graph.nodes[a].op.results[0]) == element_type(self.graph.nodes[b].op.results[0])

    def _is_one_precision(self, nodes: Iterable[int]) -> bool:
        """Are all floats f64, or none of them? And are there only floats, and truth values of rows?"""
        types = {index: element_type(self.graph.nodes[index].op.results[0]) for index in nodes}
        others = [index for index, type_ in types.items() if not is_float(type_)]
        wide = {isinstance(type_, ir.F64Type) for index, type_ in types.items() if index not in others}
        return len(wide) == 1 and all(self.found.roles[index] is Role.ROW for index in others)

    def _is_linear(self, node: Node) -> bool:
        """Is an op with one weight among its operands linear in it, for every key alone, also where it is not finite?
        (A select is not: 0 in place of NaN.)"""
        inside = [position for position, each in enumerate(node.producers) if each in self.found.roles]
        if node.name in _VIEWS or node.name == "multiply":
            return len(inside) == 1
        if node.name == "convert":
            return is_float(element_type(node.op.results[0]))
        return False

    # --- products ----------------------------------------------------------------------------------------------------

    def _fits(self, first: Node, second: Node) -> bool:
        """Do both products agree on batches, queries and keys?"""
        found = self.found
        sides = (("lhs", "rhs"), ("rhs", "lhs"))[found.weights]
        batch, contracted = (second.attributes[f"{sides[0]}_{what}"] for what in ("batch", "contract"))
        axes = found.axes[second.producers[found.weights]]
        if None in axes:
            return False

        def labels(dimensions: Iterable[int]) -> list[int]:
            return [label for d in dimensions for label in axes[d] or ()]

        free = [d for d in range(len(axes)) if d not in batch and d not in contracted]
        batches = len(first.attributes["lhs_batch"])
        left = len(self.graph.shape(first.operands[0])) - len(first.attributes["lhs_contract"])
        parts = ((0, batches), (batches, left), (left, len(first.shape)))
        of_batch, *of_sides = ([d for d in range(*part) if first.shape[d] != 1] for part in parts)
        found.queries = 0 if labels(map(int, contracted)) == of_sides[1] else 1
        queries, keys = of_sides[found.queries], of_sides[1 - found.queries]
        found.rows = tuple(labels(free))
        alike = labels(map(int, batch)) == of_batch and labels(map(int, contracted)) == keys == list(found.keys)
        return alike and sorted(found.rows) == queries

    def _grow(self, depends: set[int]) -> None:
        """Take in what follows the second product: divisions by the sum, conversions, and a transpose of rows."""
        found, graph = self.found, self.graph
        last = graph.nodes[found.second]
        while True:
            users = graph.node_users(last)
            if len(users) != 1:
                return
            node = graph.nodes[users[0]]
            others = self._rows_behind(node, last.index, depends)
            if others is None or node.role != LOOP:
                return
            if node.name == "transpose":
                if node.attributes["permutation"][-1] != len(node.shape) - 1:
                    return
            elif node.work is not Work.ELEMENTS or node.shape != last.shape:
                return
            for index in sorted(others):
                if index not in found.roles and not self._classify(graph.nodes[index]):
                    return
            depends |= {*others, node.index}
            found.roles[node.index], found.axes[node.index] = Role.RESULT, (None,) * len(node.shape)
            last = node

    def _rows_behind(self, node: Node, last: int, depends: set[int]) -> set[int] | None:
        """What the other operands of an op need of attention that is not a member yet: the sum, and what becomes of it.
        None: they need something else than that and constants."""
        graph, reached = self.graph, set[int]()
        stack = [producer for producer in node.producers if producer != last]
        while stack:
            index = stack.pop()
            if index in reached or index in depends:
                continue
            if index < 0 or len(reached) > _MOST_OPS or graph.nodes[index].role not in (LOOP, REDUCE, CONSTANT):
                return None
            reached.add(index)
            stack += graph.nodes[index].producers
        rows: set[int] = set()
        for index in sorted(reached):
            each = graph.nodes[index]
            if not (depends | rows).isdisjoint(each.producers):
                rows.add(index)
            elif each.role != CONSTANT and not each.free:
                return None
        return rows
