"""What a fusion of kind `attention` computes, as kernels of any machine ask for it: where elements lie, what becomes of
a product of queries and keys, and of a row's sums. Values are scalars, or lanes along one dimension of the queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import split
from stablehlo_py.backends.common.reduction import Reduction, finish
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.conversions import convert
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.elemental.core import TargetLike
from stablehlo_py.codegen.index import Affine, Delinearized, affine_of, digits
from stablehlo_py.codegen.math import exp
from stablehlo_py.codegen.types import Element, Lanes, element
from stablehlo_py.dialect.types import i64s, shape, text
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.attention import Attention, Axes, attention_of
from stablehlo_py.passes.fusing.attention_mask import drops_masked_values, mask_of
from stablehlo_py.passes.fusing.graph import DOT, Graph
from stablehlo_py.passes.policy import Costs

Places = Mapping[int, Affine]  # the index along each dimension of the first product


class AttentionProgram:
    """What a fusion computes, as kernels ask for it.

    Attributes:
        output: the result; kept: what else is written, the maximum of the scores and the sum of the weights, by the
            number of the output. out: where the result goes.
        of: the element type of scores; weights: the operand of the second product that they are; column_operand: the
            one that they multiply.
        sizes: of the first product; batches: its dimensions that are no side's.
        mask: which keys a query sees, where indices say that.
    """

    def __init__(self, fusion: Fusion, target: TargetLike) -> None:
        self.fusion, self.target = fusion, target
        self.graph = Graph(fusion.inputs[0].owner, Costs())
        self.found = found = self._read()
        self.output = self.value_of(found.output)
        self.kept = {number: value for number, value in enumerate(fusion.outputs) if value != self.output}
        self.sizes = [int(size) for size in shape(self.value_of(found.first))]
        self.batches = range(len(i64s(self.op(found.first), "lhs_batch")))
        self.of = element(self.value_of(found.scores))
        self.weights = self.op(found.second).operands[found.weights]
        self.column_operand = self.op(found.second).operands[1 - found.weights]
        self.mask = mask_of(self.graph, found) if len(found.keys) == 1 else None

    def _read(self) -> Attention:
        for node in reversed(self.graph.nodes):
            found = attention_of(self.graph, node) if node.role == DOT else None
            if found is not None:
                return found
        raise InternalError("an attention fusion holds no attention")

    def op(self, node: int) -> ir.OpView:
        """The op of a node."""
        return self.graph.nodes[node].op

    def value_of(self, node: int) -> ir.Value:
        """The result of a node."""
        return self.graph.nodes[node].op.results[0]

    def begin(self, f: Function, lanes: int = 1) -> None:
        """Evaluate in a kernel from here on."""
        self.f, self.lanes = f, lanes
        self.out = f.parameters[f"out{list(self.fusion.outputs).index(self.output)}"]
        self.e = Elemental(f, self.fusion, self.target, lanes)

    # --- places ------------------------------------------------------------------------------------------------------

    @cached_property
    def column_sizes(self) -> dict[int, int]:
        """The dimensions of the columns' operand that go along a row of the result, and their sizes."""
        op, side = self.op(self.found.second), ("rhs", "lhs")[self.found.weights]
        others = {*i64s(op, f"{side}_batch"), *i64s(op, f"{side}_contract")}
        sizes = shape(self.column_operand)
        return {d: int(size) for d, size in enumerate(sizes) if d not in others}

    @property
    def width(self) -> int:
        """Columns of the result."""
        return math.prod(self.column_sizes.values())

    def _place(self, axes: Axes, at: Places) -> Delinearized:
        return digits((self.sizes[label], at[label]) for part in axes for label in part or ())

    def result_place(self, at: Places, column: Affine, lanes: int = 1) -> Delinearized:
        """An element of the result, or neighbouring ones of a row."""
        op, found, f = self.op(self.found.second), self.found, self.f
        sides = ("lhs", "rhs")
        axes = found.axes[self.graph.nodes[found.second].producers[found.weights]]
        shared, summed = (i64s(op, f"{sides[found.weights]}_{what}") for what in ("batch", "contract"))
        of_rows = [axes[d] for d in range(len(axes)) if d not in shared and d not in summed]
        rows = [tuple((self.sizes[label], at[label]) for label in part or ()) for part in of_rows]
        split_column = split(f, column, self.column_sizes, lanes)
        across = [((size, split_column[d]),) for d, size in self.column_sizes.items()]
        outer = [tuple((self.sizes[label], at[label]) for label in axes[d] or ()) for d in shared]
        parts = [*outer, *rows, *across] if found.weights == 0 else [*outer, *across, *rows]
        for member in found.members[found.members.index(found.second) :]:
            node = self.graph.nodes[member]
            if node.name == "transpose" and found.axes[member] == found.axes[found.second]:
                parts = [parts[int(d)] for d in node.attributes["permutation"]]
        return digits(pair for part in parts for pair in part)

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def score_at(self, at: Places, total: Value, *, is_seen: bool = False) -> Value:
        """What a sum of products becomes before the softmax; `is_seen`: the query is known to see the key."""
        product = arith.rounded(self.f, element(self.value_of(self.found.first)), total)
        mask = self.mask if is_seen else None
        if mask is not None:
            seen = self.op(mask.select).operands[mask.seen]
            self.e.bind(self.value_of(mask.select), lambda e, place: e.value(seen, place))
        self.e.bind(self.value_of(self.found.first), lambda e, place: product)
        place = self._place(self.found.axes[self.found.scores], at)
        score = self.e.value(self.value_of(self.found.scores), place)
        self.e.bind(self.value_of(self.found.first), None)
        if mask is not None:
            self.e.bind(self.value_of(mask.select), None)
        assert isinstance(score, Value)
        return score

    def is_finite(self, a: Value) -> Value:
        """Whether a float is."""
        return self.f.cmp("olt", self.f.intrinsic("fabs", a), self.f.const(math.inf, a.type))

    def larger(self, a: Value, b: Value) -> Value:
        """The maximum of two scores; NaN where one is."""
        result = arith.combine(self.f, "maximum", self.of, a, b)
        assert isinstance(result, Value)
        return result

    def reference(self, largest: Value) -> Value:
        """What is subtracted of scores while they come: the largest so far, 0 where that is not finite."""
        return self.f.select(self.is_finite(largest), largest, self.f.const(0.0, largest.type))

    def scale(self, before: Value, after: Value) -> Value:
        """What sums by one largest score are multiplied with to be by another, larger one. They are 0, or what no
        scaling changes, where the one before is not finite."""
        f = self.f
        factor = exp(f, f.fsub(self.reference(before), self.reference(after)))
        return f.select(self.is_finite(before), factor, f.const(1.0, factor.type))

    def weight_at(self, at: Places, score: Value, reference: Value, *, rounds: bool = True) -> tuple[Value, Value]:
        """What a score adds to the sum, and with which weight its value counts, before divisions by what is the same
        for the whole row. `rounds`: to the element type of weights; else that may be left to the caller."""
        e, f, found = self.e, self.f, self.found
        difference = e.elementwise(self.op(found.shifted), [score, reference])
        exponential = self.exponential(difference)
        e.bind(self.value_of(found.exponential), lambda e, place: exponential)
        bound = [self.op(node).operands[position] for node, position in found.factors]
        one = f.const(1.0, self.of.compute)
        for value in bound:
            e.bind(value, lambda e, place: one)
        results = []
        for node, position in ((found.total, 0), (found.second, found.weights)):
            if node < 0:
                results.append(exponential)
                continue
            place = self._place(found.axes[self.graph.nodes[node].producers[position]], at)
            operand = self.op(node).operands[position]
            if not rounds and node == found.second:
                operand = self._unrounded(operand)
            results.append(e.value(operand, place))
        for value in (*bound, self.value_of(found.exponential)):
            e.bind(value, None)
        added, weight = results
        if rounds:
            weight = convert(f, element(self.weights), element(self.value_of(found.second)), weight)
        assert isinstance(added, Value) and isinstance(weight, Value)
        return added, weight

    def _unrounded(self, weight: ir.Value) -> ir.Value:
        """What is rounded to bf16 to be the weight, if it was f32."""
        op = weight.owner
        is_rounding = op.name == "hlo.convert" and element(op.operands[0]).name == "f32"
        return op.operands[0] if is_rounding and element(weight).name == "bf16" else weight

    def exponential(self, difference: Lanes) -> Lanes:
        """Of a score below the largest one."""
        return self.e.elementwise(self.op(self.found.exponential), [difference])

    @cached_property
    def drops_masked(self) -> bool:
        """Whether keys with a weight of zero count for nothing, if their values are finite."""
        return drops_masked_values(self.graph, self.found)

    @property
    def sums(self) -> Element:
        """The type of the sum of the weights."""
        return element(self.value_of(self.found.total if self.found.total >= 0 else self.found.exponential))

    def results_at(self, at: Places, largest: Value, total: Value) -> Callable[[Index, Value], Value]:
        """What makes an element of a row, by its column and the sum of weighted values. `largest` is the largest score
        of the row, `total` the sum of weights by what `reference` gives for it."""
        f, found = self.f, self.found
        e, factor = self._of_row(at, largest, total)
        values = [self._row_value(e, node, position, at) for node, position in found.factors]
        # The sum of exponentials below the largest score is 1 or more, or not finite: all that its reciprocal costs is
        # a rounding.
        by_total = [self._is_division_by_total(node, position) for node, position in found.factors]
        values = [
            f.fdiv(f.const(1.0, value.type), value) if is_total else value
            for value, is_total in zip(values, by_total, strict=True)
        ]

        def element_of(column: Index, sum_: Value) -> Value:
            result = f.fmul(sum_, factor)
            for (node, position), value, is_total in zip(found.factors, values, by_total, strict=True):
                if is_total:
                    result = f.fmul(result, value)
                    continue
                pair = [result, value] if position == 1 else [value, result]
                made = e.elementwise(self.op(node), pair)
                assert isinstance(made, Value)
                result = made
            product = arith.rounded(f, element(self.value_of(found.second)), result)
            e.bind(self.value_of(found.second), lambda e, place: product)
            stored = e.value(self.output, self.result_place(at, affine_of(column, self.width - 1)))
            e.bind(self.value_of(found.second), None)
            assert isinstance(stored, Value)
            return stored

        return element_of

    def _is_division_by_total(self, node: int, position: int) -> bool:
        """Whether a factor divides by the sum of the exponentials as they are."""
        nodes, found = self.graph.nodes, self.found
        by, views = nodes[node].producers[position], ("broadcast", "reshape")
        while nodes[by].name in views:
            by = nodes[by].producers[0]
        summed = nodes[found.total].producers[0] if found.total >= 0 else -1
        return nodes[node].name == "divide" and by == found.total and summed == found.exponential

    def _of_row(self, at: Places, largest: Value, total: Value) -> tuple[Elemental, Value]:
        """What evaluates values of a row; with what sums by `reference` are multiplied to be those of the program."""
        f, found = self.f, self.found
        e = Elemental(f, self.fusion, self.target, self.lanes)
        self._bind_reduction(e, found.maximum, largest)
        subtracted = self._row_value(e, found.shifted, 1, at)
        factor = exp(f, f.fsub(self.reference(largest), subtracted))
        if found.total >= 0:
            self._bind_reduction(e, found.total, f.fmul(total, factor))
        return e, factor

    def keep_at(self, at: Places, largest: Value, total: Value, mask: Value | None = None) -> None:
        """Write what others read of a row, the maximum of its scores, and the sum of its weights."""
        if not self.kept:
            return
        e, _ = self._of_row(at, largest, total)
        for number, value in self.kept.items():
            place = self._place(self.found.axes[self.graph.producer[self.graph.values.index(value)]], at)
            with e.predicated(mask):
                kept = e.value(value, place)
            self.e.write(element(value), self.f.parameters[f"out{number}"], place, kept, mask)

    def reduction(self, node: int) -> Reduction:
        """The maximum of the scores, or the sum of the weights."""
        op = self.op(node)
        result = op.results[0]
        return Reduction(result, op.operands[0], op.operands[1], text(op, "kind"), (), element(result))

    def _bind_reduction(self, e: Elemental, node: int, total: Value) -> None:
        item = self.reduction(node)
        finished = finish(e, item, total)
        e.bind(item.result, lambda e, place: finished)

    def _row_value(self, e: Elemental, node: int, position: int, at: Places) -> Value:
        """An operand of an op on all scores that is the same for the row."""
        value = e.value(self.op(node).operands[position], self._place(self.found.axes[node], at))
        assert isinstance(value, Value)
        return value
