"""What a fusion of kind `scores` computes, as kernels of any machine ask for it: products of two sides, work on each
score, and sums. The outer side is that of reductions' results, the inner side what they sum over; without reductions,
of the first sum. Values are scalars, or lanes along one dimension of the outer side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, partial

from stablehlo_py.backends.common.band import Sides
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import split
from stablehlo_py.backends.common.reduction import Reduction, finish
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.conversions import convert
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.elemental.core import TargetLike
from stablehlo_py.codegen.index import Affine, Delinearized, affine_of, digits
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.types import i64s, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.graph import DOT, REDUCE, Graph
from stablehlo_py.passes.fusing.scores import Label, ScoresOf, Sum
from stablehlo_py.passes.fusing.scores_mask import masked_scores
from stablehlo_py.passes.policy import Costs

Part = tuple[tuple[int, Affine], ...]  # of an index: sizes and indices, the last fastest
Places = Mapping[Label, Affine]  # the index along each label


class End:
    """What the fusion writes of a sum: the sum, or what conversions and transposes behind it make of it."""

    def __init__(self, program: ScoresProgram, result: ir.Value) -> None:
        self.program, self.result, self.output = program, result, result
        self.behind = list[ir.OpView]()
        while self.output not in program.outputs:
            (use,) = self.output.uses
            self.behind.append(use.owner)
            self.output = use.owner.results[0]
        self.number = program.outputs.index(self.output)

    def write(self, parts: Sequence[Part], value: Lanes, mask: Value | None = None) -> None:
        """Write an element, by its place in the sum's result."""
        e, f = self.program.e, self.program.f
        for op in self.behind:
            if op.operation.name == "hlo.transpose":
                parts = [parts[d] for d in i64s(op, "permutation")]
        place = digits(pair for part in parts for pair in part)
        e.bind(self.result, partial(given, value))
        e.write(element(self.output), f.parameters[f"out{self.number}"], place, e.value(self.output, place), mask)
        e.bind(self.result, None)


class WeightedSum:
    """A product of scores' weights and of what is for each place of the side that is summed over: rows of columns.

    Attributes:
        weights: the operand with scores; column_operand: the other one; column_sizes: its dimensions that go along a
            row of the result, and their sizes; width: of all of them.
        axes: of the weights; batch, summed: their dimensions that are batches', and those that are summed over.
        end: what is written.
    """

    def __init__(self, program: ScoresProgram, sum_: Sum) -> None:
        self.program, self.sum = program, sum_
        self.op = program.op(sum_.node)
        self.weights, self.column_operand = self.op.operands[sum_.operand], self.op.operands[1 - sum_.operand]
        side, other = ("lhs", "rhs")[sum_.operand], ("rhs", "lhs")[sum_.operand]
        self.axes = program.scores.axes[program.graph.nodes[sum_.node].producers[sum_.operand]]
        self.batch, self.summed = i64s(self.op, f"{side}_batch"), i64s(self.op, f"{side}_contract")
        taken = {*i64s(self.op, f"{other}_batch"), *i64s(self.op, f"{other}_contract")}
        sizes = ir.RankedTensorType(self.column_operand.type).shape
        self.column_sizes = {d: int(size) for d, size in enumerate(sizes) if d not in taken}
        self.width = math.prod(self.column_sizes.values())
        self.end = End(program, self.op.results[0])

    def weight(self, value: Lanes) -> Value:
        """In the type of the sums."""
        found = convert(self.program.f, element(self.weights), element(self.op.results[0]), value)
        assert isinstance(found, Value)
        return found

    def store_at(self, at: Places, column: Affine, total: Value, lanes: int = 1, mask: Value | None = None) -> None:
        """What becomes of the sum of a column, or of neighbouring ones."""
        p, f = self.program, self.program.f
        across = split(f, column, self.column_sizes, lanes)
        rows = [p.part(self.axes[d], at) for d in range(len(self.axes)) if d not in (*self.batch, *self.summed)]
        columns: list[Part] = [((size, across[d]),) for d, size in self.column_sizes.items()]
        sides = (rows, columns) if self.sum.operand == 0 else (columns, rows)
        parts = [*(p.part(self.axes[d], at) for d in self.batch), *sides[0], *sides[1]]
        # +0 for -0: sums begin at +0, and only underflows could give another sign, which parts that a mask leaves out
        # would take from it.
        total = f.fadd(total, f.const(0.0, total.type))
        self.end.write(parts, arith.rounded(f, element(self.op.results[0]), total), mask)

    def store(self, batch: Index, outer: Index, column: Index, total: Value) -> None:
        """The same by numbers."""
        self.store_at(self.program.places(batch, outer, 0), affine_of(column, self.width - 1), total)


class RowReduction:
    """A reduction of scores over the inner side."""

    def __init__(self, program: ScoresProgram, sum_: Sum) -> None:
        self.program, self.sum = program, sum_
        op = program.op(sum_.node)
        self.result, self.weights = op.results[0], op.operands[0]
        self.item = Reduction(self.result, op.operands[0], op.operands[1], text(op, "kind"), (), element(self.result))
        axes = program.scores.axes[program.graph.nodes[sum_.node].producers[0]]
        self.axes = [part for d, part in enumerate(axes) if d not in i64s(op, "dimensions")]

    @cached_property
    def end(self) -> End:
        """What is written."""
        return End(self.program, self.result)

    def identity(self, f: Function) -> Value:
        """What leaves others as they are."""
        found = arith.identity(f, self.item.kind, self.item.of)
        assert isinstance(found, Value)
        return found

    def combined(self, f: Function, a: Value, b: Value) -> Value:
        """Two accumulators."""
        found = arith.combine(f, self.item.kind, self.item.of, a, b)
        assert isinstance(found, Value)
        return found

    def finished(self, total: Value) -> Value:
        """The result from a row's accumulator."""
        f = self.program.f
        if self.item.kind == "add":
            total = f.fadd(total, f.const(0.0, total.type))
        found = finish(self.program.e, self.item, total)
        assert isinstance(found, Value)
        return found

    def store(self, batch: Index, outer: Index, total: Value) -> None:
        """What becomes of a row's accumulator."""
        p = self.program
        at = p.places(batch, outer, 0)
        self.end.write([p.part(part, at) for part in self.axes], self.finished(total))


class ScoresProgram:
    """What a fusion computes.

    Attributes:
        weighted, reductions: what ends the work on scores: products, and reductions, which are over the inner side.
        outer, inner: the labels of both sides, in the order in which places along them are numbered.
        batch, rows, count: how many there are of batches, of places of the outer and of the inner side.
        masked: what a mask leaves nothing of, if one bounds the inner side: by the index along the label `key`.
    """

    def __init__(self, fusion: Fusion, target: TargetLike) -> None:
        self.fusion, self.target = fusion, target
        self.graph = Graph(fusion.inputs[0].owner, Costs())
        self.outputs = list(fusion.outputs)
        first = next(node.index for node in self.graph.nodes if node.role == DOT)
        scores = ScoresOf(self.graph)(first)
        assert scores is not None
        self.scores = scores
        by_role = {role: [each for each in scores.sums if self.graph.nodes[each.node].role == role] for role in _ENDS}
        self.weighted = by_role[DOT]
        over_left = (by_role[REDUCE] or by_role[DOT])[0].left
        self.outer, self.inner = (scores.right, scores.left) if over_left else (scores.left, scores.right)
        self.masked = masked_scores(self.graph, scores)
        self.key = self._order_inner()
        self.reductions = [RowReduction(self, each) for each in by_role[REDUCE]]
        self.batch, self.rows, self.count = (
            math.prod(self.size(label) for label in labels) for labels in (scores.batch, self.outer, self.inner)
        )
        self.type = element(self.value_of(scores.products[0])).compute

    def _order_inner(self) -> int:
        """The dimension of the first product that bounds of the mask have of the inner side, which its places go
        through slowest from here on; -1: they have none, or others, too, or operands have it only together with
        others."""
        if self.masked is None:
            return -1
        bounded = {d for bound in self.masked.mask.bounds for d in bound.factors}
        keys = [label for label in self.inner if label[1] in bounded]
        ordered = (*keys, *(label for label in self.inner if label not in keys))
        inner = set(self.inner)
        if len(keys) == 1 and ordered != self.inner:
            parts = [part for axes in self.scores.axes.values() for part in axes]
            if any(len(inner.intersection(part)) > 1 for part in parts):
                keys = []
        if len(keys) != 1:
            self.masked = None
            return -1
        self.inner = ordered
        return keys[0][1]

    @property
    def sides(self) -> Sides:
        """What a kernel goes through."""

        def places(batch: Index, outer: Index) -> dict[int, Affine]:
            return {d: at for (_, d), at in self.places(batch, outer, 0).items()}

        labels = (*self.scores.batch, *self.outer, *self.inner)
        sizes = {label[1]: self.size(label) for label in labels}
        each = self.count // sizes[self.key]
        return Sides(tuple(d for _, d in self.outer), self.key, sizes, self.rows, self.count, each, places)

    def op(self, node: int) -> ir.OpView:
        """The op of a node."""
        return self.graph.nodes[node].op

    def value_of(self, node: int) -> ir.Value:
        """The result of a node."""
        return self.graph.nodes[node].op.results[0]

    # --- places ------------------------------------------------------------------------------------------------------

    def size(self, label: Label) -> int:
        """How many places it has."""
        return int(self.graph.nodes[label[0]].shape[label[1]])

    def places(self, batch: Index, outer: Index, inner: Index) -> dict[Label, Affine]:
        """The index along each label."""
        found: dict[Label, Affine] = {}
        for labels, number in ((self.scores.batch, batch), (self.outer, outer), (self.inner, inner)):
            sizes = dict(enumerate(map(self.size, labels)))
            parts = split(self.f, affine_of(number, math.prod(sizes.values()) - 1), sizes)
            found |= {label: parts[d] for d, label in enumerate(labels)}
        return found

    def part(self, labels: Sequence[Label], at: Places) -> Part:
        """What a dimension goes through."""
        return tuple((self.size(label), at[label]) for label in labels)

    def _place(self, value: ir.Value, at: Places) -> Delinearized:
        axes = self.scores.axes[self.graph.producer[self.graph.values.index(value)]]
        return digits(pair for part in axes for pair in self.part(part, at))

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def begin(self, f: Function, e: Elemental | None = None) -> None:
        """Evaluate in a kernel from here on: scalars, or what `e` does."""
        self.f, self.e = f, e or Elemental(f, self.fusion, self.target, 1)

    def evaluated_at(self, at: Places, totals: Sequence[Value], ends: Sequence[ir.Value]) -> list[Lanes]:
        """Values of a score, by the sums of all products."""
        results = [self.value_of(node) for node in self.scores.products]
        for result, total in zip(results, totals, strict=True):
            self.e.bind(result, partial(given, arith.rounded(self.f, element(result), total)))
        found = [self.e.value(value, self._place(value, at)) for value in ends]
        for result in results:
            self.e.bind(result, None)
        return found


_ENDS = (DOT, REDUCE)


def given(value: Lanes, e: Elemental, place: Delinearized) -> Lanes:
    """As what a value is computed by: one that is there already."""
    return value
