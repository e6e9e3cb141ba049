"""The mask of attention, as far as it says which keys a query sees by where both are: comparisons of their indices
(causal masks, sliding windows). Kernels bound their loops over keys by it.

    scores = select(row + 5 >= key && key < lengths[batch], products, -1e30)

has the bound `row - key + 5 >= 0`, and says more than that (`exact` is false).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stablehlo_py.dialect.constants import numpy_dtype, splat
from stablehlo_py.dialect.rounding import integer_info
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.types import element_type, is_bool, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.attention import Attention, Axes, Role
from stablehlo_py.passes.fusing.graph import LOOP, Graph, Node

_MOST_STEPS = 64  # of reading a mask
_INVERSE = {"GE": "LT", "LT": "GE", "GT": "LE", "LE": "GT", "EQ": "NE", "NE": "EQ"}


@dataclass(frozen=True)
class Linear:
    """`constant` and the sum of `factors` times the indices along dimensions of the first product."""

    factors: Mapping[int, int]
    constant: int

    def plus(self, other: Linear, times: int) -> Linear:
        """This and so many times another one."""
        labels = {*self.factors, *other.factors}
        factors = {label: self.factors.get(label, 0) + times * other.factors.get(label, 0) for label in labels}
        found = {label: factor for label, factor in sorted(factors.items()) if factor}
        return Linear(found, self.constant + times * other.constant)


@dataclass(frozen=True)
class Mask:
    """What a select makes of the products.

    Attributes:
        select: the op, whose result are the scores; seen: which operand has those of keys that a query sees.
        value: the score of all others.
        bounds: none is negative where a query sees a key; exact: and it sees all keys where none is.
        nodes: that compute the bounds, and what becomes of them.
    """

    select: int
    seen: int
    value: float
    bounds: tuple[Linear, ...]
    exact: bool
    nodes: frozenset[int]


def mask_of(graph: Graph, found: Attention) -> Mask | None:
    """The mask, if it bounds keys."""
    return mask_of_select(graph, found.scores, found.axes[found.scores], graph.nodes[found.first].shape)


def mask_of_select(graph: Graph, select: int, axes: Axes, sizes: Sequence[IntLike]) -> Mask | None:
    """The mask that a node is, if it is a select of what bounds keys; axes of its result, sizes of the first
    product."""
    node = graph.nodes[select]
    if node.name != "select" or not is_known(*sizes):
        return None
    for seen in (1, 2):
        value = splat(node.op.operands[3 - seen])
        if isinstance(value, float):
            reading = _Reading(graph, [int(size) for size in sizes])
            reading.read(node.producers[0], axes, holds=seen == 1)
            if reading.bounds:
                nodes = frozenset(reading.nodes)
                return Mask(select, seen, value, tuple(reading.bounds), reading.exact, nodes)
    return None


def drops_masked_values(graph: Graph, found: Attention) -> bool:
    """Does a key with a weight of zero count for nothing, if its values are finite? Its weight may be multiplied by
    what is the same for the row, but not by what may be infinite for this key."""
    by_row = {node for node, _ in found.factors}
    weights = (Role.WEIGHT, Role.SCALED)
    return all(
        graph.nodes[member].name != "multiply" or found.roles[member] not in weights or member in by_row
        for member in found.members
    )


class _Reading:
    """The bounds that a predicate implies."""

    def __init__(self, graph: Graph, sizes: list[int]) -> None:
        self.graph, self.sizes = graph, sizes  # of the first product
        self.bounds: list[Linear] = []
        self.nodes: set[int] = set()
        self.exact = True
        self.left = _MOST_STEPS

    def read(self, index: int, axes: Axes, *, holds: bool) -> None:
        """Note what is known where the predicate holds, or where it does not."""
        self.left -= 1
        known = len(self.bounds)
        node = self.graph.nodes[index] if index >= 0 and self.left > 0 else None
        if node is None or node.role != LOOP:
            self.exact = False
        elif node.name == ("and" if holds else "or"):
            for producer in node.producers:
                self.read(producer, axes, holds=holds)
        elif node.name == "not":
            self.read(node.producers[0], axes, holds=not holds)
        elif node.name == "compare":
            self._compare(node, axes, holds)
        elif (below := axes_below(self.graph, node, axes)) is not None:
            self.read(node.producers[0], below, holds=holds)
        else:
            self.exact = False
        if len(self.bounds) > known:
            self.nodes.add(index)

    def _compare(self, node: Node, axes: Axes, holds: bool) -> None:
        direction = text(node.op, "direction")
        direction = direction if holds else _INVERSE[direction]
        a, b = (self._linear(node, position, axes) for position in (0, 1))
        if a is None or b is None or direction == "NE":
            self.exact = False
            return
        self.nodes.update(self._above(node))
        if direction in ("GE", "GT", "EQ"):
            self.bounds.append(a.plus(b, -1).plus(Linear({}, int(direction == "GT")), -1))
        if direction in ("LE", "LT", "EQ"):
            self.bounds.append(b.plus(a, -1).plus(Linear({}, int(direction == "LT")), -1))

    def _above(self, node: Node) -> set[int]:
        """All nodes that one depends on: these are few, and read no memory."""
        found, stack = set[int](), list(node.producers)
        while stack:
            index = stack.pop()
            if index not in found:
                found.add(index)
                stack += self.graph.nodes[index].producers
        return found

    # --- indices -----------------------------------------------------------------------------------------------------

    def _linear(self, user: Node, position: int, axes: Axes) -> Linear | None:
        """An operand as a linear function of indices; None: it is none, or might overflow."""
        self.left -= 1
        value, producer = user.op.operands[position], user.producers[position]
        of = element_type(value)
        if producer < 0 or self.left <= 0 or not isinstance(of, ir.IntegerType) or is_bool(of):
            return None
        found = self._computed(self.graph.nodes[producer], axes)
        if found is None:
            return None
        _, low, high = integer_info(numpy_dtype(of))
        spans = [factor * (self.sizes[label] - 1) for label, factor in found.factors.items()]
        least, most = (found.constant + sum(pick(span, 0) for span in spans) for pick in (min, max))
        return found if low <= least and most <= high else None

    def _computed(self, node: Node, axes: Axes) -> Linear | None:
        constant = splat(node.op.results[0])
        if isinstance(constant, int):
            return Linear({}, constant)
        if node.name == "iota":
            return self._along(axes[int(node.op.attributes["dimension"])])
        if node.name in ("add", "subtract"):
            a, b = (self._linear(node, position, axes) for position in (0, 1))
            return None if a is None or b is None else a.plus(b, 1 if node.name == "add" else -1)
        if node.name == "convert":
            return self._linear(node, 0, axes)
        below = axes_below(self.graph, node, axes)
        return None if below is None else self._linear(node, 0, below)

    def _along(self, labels: tuple[int, ...] | None) -> Linear | None:
        """The index along a dimension that goes through these of the first product."""
        if labels is None:
            return None
        found, stride = Linear({}, 0), 1
        for label in reversed(labels):
            found, stride = found.plus(Linear({label: stride}, 0), 1), stride * self.sizes[label]
        return found


def axes_below(graph: Graph, node: Node, axes: Axes) -> Axes | None:
    """The axes of what is broadcast, transposed or reshaped to these; None: the node is none of that."""
    sizes = graph.shape(node.operands[0]) if node.operands else ()
    if node.name == "broadcast":
        places = node.attributes["dimensions"]
        return tuple(axes[int(d)] if size != 1 else () for d, size in zip(places, sizes, strict=True))
    if node.name == "transpose":
        return tuple(axes[[int(d) for d in node.attributes["permutation"]].index(d)] for d in range(len(axes)))
    if node.name != "reshape":
        return None
    solid = [(size, part) for size, part in zip(node.shape, axes, strict=True) if size != 1]
    if [size for size, _ in solid] != [size for size in sizes if size != 1]:
        return None
    parts = iter(part for _, part in solid)
    return tuple(next(parts) if size != 1 else () for size in sizes)
