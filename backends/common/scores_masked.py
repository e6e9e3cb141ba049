"""What sums over scores have of a place that a mask leaves nothing of: zero, where this file says so.

There, a select gives what the mask says (passes/fusing/scores_mask.py), and what becomes of that is exact, as long as
nothing else enters than values of one side: the exponential of a mask's score less the row's maximum. Of all else,
products above all, a magnitude is known which they do not exceed. Rounding is monotone, so sums, products and quotients
of magnitudes, rounded as the op rounds, are magnitudes of its results; one that is NaN or infinite says nothing. A
magnitude of zero says that a weight is zero, whatever the products are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from stablehlo_py.backends.common.scores import ScoresProgram
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Index, Value
from stablehlo_py.codegen.index import digits
from stablehlo_py.codegen.types import Element, Lanes, element
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.ops import Work
from stablehlo_py.dialect.types import text
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.attention import Axes
from stablehlo_py.passes.fusing.attention_mask import axes_below
from stablehlo_py.passes.fusing.graph import Node
from stablehlo_py.passes.fusing.scores import VIEWS, Sum
from stablehlo_py.passes.fusing.scores_mask import MaskedScores, dimensions_of, masked_extreme

#: What products may be, as large as they get: their products with values of rows are still numbers.
LARGEST = {"f16": 2.0**14, "bf16": 2.0**60, "f32": 2.0**60, "f64": 2.0**500}
FINITE = {32: 2.0**127, 64: 2.0**1023}  # magnitudes of columns up to here, by the width of sums
_GROWING = ("add", "multiply", "maximum", "minimum")  # in the magnitudes of their operands
_BELOW_TWO = ("tanh", "logistic")  # whatever their last bits are


@dataclass(frozen=True)
class _Known:
    """A value, where it is exact, or a magnitude that it does not exceed."""

    exact: Lanes | None
    magnitude: Value


class MaskedPlaces:
    """What is known of masked places.

    Args:
        program, masked: what is computed; by_outer: whether values of rows are those of the outer side.

    Attributes:
        used: nodes of products whose magnitudes count, once something was evaluated.
        extremes: what reductions that take a maximum or a minimum have, by their number among all reductions.
    """

    def __init__(self, program: ScoresProgram, masked: MaskedScores, *, by_outer: bool) -> None:
        self.p, self.masked, self.by_outer = program, masked, by_outer
        self.axes: dict[int, Axes] = {index: dimensions_of(axes) for index, axes in program.scores.axes.items()}
        #: Dimensions of the first product along which values are the same.
        self.others = {d for _, d in (program.inner if by_outer else program.outer)}
        #: Reductions, which are the same for a row.
        self.rows = {each.sum.node for each in program.reductions} if by_outer else set()
        self.used: set[int] = set()
        extremes = (self._extreme(each.sum) for each in program.reductions)
        self.extremes = {number: value for number, value in enumerate(extremes) if value is not None}

    def _extreme(self, sum_: Sum) -> float | None:
        return masked_extreme(self.p.graph, self.p.scores, self.masked, sum_)

    def magnitudes(self, batch: Index, place: Index) -> list[Value] | None:
        """What weights, and what reductions sum up, do not exceed where the mask leaves nothing of a place; None: not
        all of that is known."""
        places = (batch, place, 0) if self.by_outer else (batch, 0, place)
        self.at = {d: at for (_, d), at in self.p.places(*places).items()}
        self.known: dict[int, _Known | None] = {}
        ends = [self.p.op(each.node).operands[each.operand] for each in self.p.weighted]
        for number, each in enumerate(self.p.reductions):
            if number in self.extremes:
                continue
            if text(self.p.op(each.sum.node), "kind") != "add":
                return None
            ends.append(each.weights)
        graph = self.p.graph
        found = [self._of_node(graph.producer[graph.values.index(value)]) for value in ends]
        known = [each.magnitude for each in found if each is not None]
        return known if len(known) == len(ends) else None

    # --- one value ---------------------------------------------------------------------------------------------------

    def _of_node(self, index: int) -> _Known | None:
        if index not in self.known:
            self.known[index] = self._evaluated(self.p.graph.nodes[index])
        return self.known[index]

    def _evaluated(self, node: Node) -> _Known | None:
        p, op = self.p, node.op
        of = element(op.results[0])
        if node.index in p.scores.products:
            if of.name not in LARGEST:
                return None
            self.used.add(node.index)
            return _Known(None, p.f.const(LARGEST[of.name], of.compute))
        if node.index in self.masked.taken:
            return self._operand(node, self.masked.taken[node.index])
        if node.name in VIEWS:
            return self._operand(node, 0)
        operands = [self._operand(node, position) for position in range(len(node.producers))]
        known = [each for each in operands if each is not None]
        if node.name == "select" and len(known) < len(operands):
            known = [each for each in operands[1:] if each is not None]
            return self._either(of, known) if len(known) == 2 else None
        if len(known) < len(operands):
            return None
        exact = [each.exact for each in known if each.exact is not None]
        if len(exact) == len(known):
            return self._exactly(of, p.e.elementwise(op, exact))
        magnitude = self._bounded(node, known)
        return None if magnitude is None else _Known(None, magnitude)

    def _operand(self, node: Node, position: int) -> _Known | None:
        """An operand; of what does not come from products, that which is the same along the other side."""
        value, producer = node.op.operands[position], node.producers[position]
        if producer in self.axes:
            return self._of_node(producer)
        axes, of = self.axes[node.index], element(value)
        if of.is_complex or not self._is_of_row(value, axes):
            return None
        sizes = dict(enumerate(self.p.graph.nodes[self.p.scores.products[0]].shape))
        place = digits((int(sizes[d]), self.at[d]) for part in axes for d in part or ())
        return self._exactly(of, self.p.e.value(value, place))

    def _exactly(self, of: Element, value: Lanes) -> _Known:
        f = self.p.f
        assert isinstance(value, Value)
        return _Known(value, f.intrinsic("fabs", value) if of.is_float else f.const(math.inf, self.p.type))

    def _is_of_row(self, value: ir.Value, axes: Axes) -> bool:
        """Whether a value outside of all work on products is the same along the other side."""
        if self.others.isdisjoint(d for part in axes for d in part or ()) or splat(value) is not None:
            return True
        producer = self.p.graph.producer[self.p.graph.values.index(value)]
        if producer < 0:
            return False
        if producer in self.rows:
            return True
        node = self.p.graph.nodes[producer]
        below = axes_below(self.p.graph, node, axes)
        if below is not None:
            return self._is_of_row(node.op.operands[0], below)
        if node.name == "iota":
            return self.others.isdisjoint(axes[int(node.op.attributes["dimension"])] or ())
        return node.work is Work.ELEMENTS and all(self._is_of_row(each, axes) for each in node.op.operands)

    # --- magnitudes --------------------------------------------------------------------------------------------------

    def _either(self, of: Element, known: list[_Known]) -> _Known:
        """What two values do not exceed."""
        a, b = (each.magnitude for each in known)
        larger = arith.combine(self.p.f, "maximum", of, a, b)
        assert isinstance(larger, Value)
        return _Known(None, larger)

    def _bounded(self, node: Node, known: list[_Known]) -> Value | None:
        f, of = self.p.f, element(node.op.results[0])
        sizes: list[Lanes] = [each.magnitude for each in known]
        first = known[0].magnitude
        found: Lanes | None = None
        if node.name in _GROWING or (node.name == "divide" and known[1].exact is not None):
            found = self.p.e.elementwise(node.op, sizes)
        elif node.name == "subtract":
            found = self.p.e.elementwise(node.op, [first, f.fneg(known[1].magnitude)])
        elif node.name == "convert" and element(node.op.operands[0]).is_float and of.is_float:
            found = self.p.e.elementwise(node.op, sizes)
        elif node.name in ("negate", "abs"):
            found = first
        elif node.name == "select":
            found = self._either(of, known[1:]).magnitude
        elif node.name in _BELOW_TWO:
            is_number = f.cmp("olt", first, f.const(math.inf, first.type))
            found = f.select(is_number, f.const(2.0, first.type), f.const(math.inf, first.type))
        assert found is None or isinstance(found, Value)
        return found


def largest_product(of: Element, depth: int) -> float:
    """What the magnitudes of both operands of a product may be together, that no sum of so many products is larger than
    LARGEST: with a half left for the rounding of sums."""
    return LARGEST[of.name] / 2 / depth
