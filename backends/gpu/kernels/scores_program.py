"""What a fusion of kind `scores` computes, as its kernels ask for it: products of two sides, of which one has the
results (the outer side) and the other one is summed over (the inner side), work on each score, and sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from stablehlo_py.backends.common.band import Sides
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import split
from stablehlo_py.backends.common.reduction import Reduction, finish
from stablehlo_py.backends.gpu.kernels.product import DotProduct, Side
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.conversions import convert
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, Delinearized, affine_of, digits
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.types import i64s, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.graph import DOT, Graph
from stablehlo_py.passes.fusing.scores import Label, Sum, scores_of, sorted_parts
from stablehlo_py.passes.fusing.scores_mask import masked_scores
from stablehlo_py.passes.policy import Costs

Part = tuple[tuple[int, Affine], ...]  # of an index: sizes and indices, the last fastest


class ScoreProduct:
    """A product of scores: `product`, and which operand is of the outer and of the inner side."""

    def __init__(self, program: Program, node: int) -> None:
        self.product = product = program.dot(node)
        axes, sides = program.scores.axes[node], (product.a, product.b)
        assert isinstance(product.a, Side) and isinstance(product.b, Side)
        batches = len(product.a.batch)
        order = [d for d, _ in sorted_parts(axes[:batches], program.scores.batch)]
        begin, is_outer = batches, []
        for side in sides:
            assert isinstance(side, Side)
            free = axes[begin : begin + len(side.free)]
            begin += len(side.free)
            labels = {label for part in free for label in part}
            is_outer.append(labels == set(program.outer))
            ordered = sorted_parts(free, program.outer if is_outer[-1] else program.inner)
            side.free = tuple(side.free[d] for d, _ in ordered)
            side.batch = tuple(side.batch[d] for d in order)
        self.outer, self.inner = sides if is_outer[0] else sides[::-1]


class _End:
    """What the fusion writes of a sum: the sum, or what conversions and transposes behind it make of it."""

    def __init__(self, program: Program, result: ir.Value) -> None:
        self.program, self.result, self.output = program, result, result
        self.behind = list[ir.OpView]()
        while self.output not in program.outputs:
            (use,) = self.output.uses
            self.behind.append(use.owner)
            self.output = use.owner.results[0]
        self.number = program.outputs.index(self.output)

    def write(self, parts: Sequence[Part], value: Lanes) -> None:
        """Write an element, by its place in the sum's result."""
        e, f = self.program.e, self.program.f
        for op in self.behind:
            if op.operation.name == "hlo.transpose":
                parts = [parts[d] for d in i64s(op, "permutation")]
        place = digits(pair for part in parts for pair in part)
        e.bind(self.result, partial(_given, value))
        e.write(element(self.output), f.parameters[f"out{self.number}"], place, e.value(self.output, place))
        e.bind(self.result, None)


class WeightedSum:
    """A product of scores' weights and of what is for each place of the inner side: rows of `columns`.

    Attributes:
        weights: the operand with scores; end: what is written.
    """

    def __init__(self, program: Program, sum_: Sum) -> None:
        self.program, self.sum = program, sum_
        self.product = program.dot(sum_.node)
        self.op = program.op(sum_.node)
        self.weights = self.op.operands[sum_.operand]
        columns = self.product.b if sum_.operand == 0 else self.product.a
        assert isinstance(columns, Side)
        self.columns, self.width = columns, columns.rows
        side = ("lhs", "rhs")[sum_.operand]
        self.axes = program.scores.axes[program.graph.nodes[sum_.node].producers[sum_.operand]]
        self.batch, self.summed = i64s(self.op, f"{side}_batch"), i64s(self.op, f"{side}_contract")
        for name, dimensions, labels in (
            ("batch", self.batch, program.scores.batch),
            ("contracted", self.summed, program.inner),
        ):
            order = sorted_parts([self.axes[d] for d in dimensions], labels)
            given = getattr(columns, name)
            setattr(columns, name, tuple(given[d] for d, _ in order))
        self.end = _End(program, self.op.results[0])

    def weight(self, value: Lanes) -> Value:
        """In the type of the sums."""
        found = convert(self.program.f, element(self.weights), self.product.of, value)
        assert isinstance(found, Value)
        return found

    def store(self, batch: Index, outer: Index, column: Index, total: Value) -> None:
        """What becomes of the sum of a column."""
        p, f = self.program, self.program.f
        at = p.places(batch, outer, 0)
        free = {d: self.columns.sizes[d] for d in self.columns.free}
        across = split(f, affine_of(column, self.width - 1), free)
        rows = [p.part(self.axes[d], at) for d in range(len(self.axes)) if d not in (*self.batch, *self.summed)]
        columns: list[Part] = [((free[d], across[d]),) for d in self.columns.free]
        sides = (rows, columns) if self.sum.operand == 0 else (columns, rows)
        parts = [*(p.part(self.axes[d], at) for d in self.batch), *sides[0], *sides[1]]
        total = f.fadd(total, f.const(0.0, total.type))  # +0 for -0 (scores_band.py)
        self.end.write(parts, arith.rounded(f, self.product.of, total))


class RowReduction:
    """A reduction of scores over the inner side."""

    def __init__(self, program: Program, sum_: Sum) -> None:
        self.program, self.sum = program, sum_
        op = program.op(sum_.node)
        self.result, self.weights = op.results[0], op.operands[0]
        self.item = Reduction(self.result, op.operands[0], op.operands[1], text(op, "kind"), (), element(self.result))
        axes = program.scores.axes[program.graph.nodes[sum_.node].producers[0]]
        self.axes = [part for d, part in enumerate(axes) if d not in i64s(op, "dimensions")]
        self.end = _End(program, self.result)

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

    def store(self, batch: Index, outer: Index, total: Value) -> None:
        """What becomes of a row's accumulator."""
        p = self.program
        at = p.places(batch, outer, 0)
        if self.item.kind == "add":
            total = p.f.fadd(total, p.f.const(0.0, total.type))
        self.end.write([p.part(part, at) for part in self.axes], finish(p.e, self.item, total))


class Program:
    """What a fusion computes.

    Attributes:
        products: of scores; sums, reductions: what ends the work on them.
        outer, inner: the labels of both sides, in the order in which places along them are numbered.
        batch, rows, count: how many there are of batches, of places of the outer and of the inner side.
        masked: what a mask leaves nothing of, if one bounds the inner side: by the index along the label `key`.
    """

    def __init__(self, fusion: Fusion, target: GpuTarget) -> None:
        self.fusion, self.target = fusion, target
        self.graph = Graph(fusion.inputs[0].owner, Costs())
        self.outputs = list(fusion.outputs)
        first = next(node.index for node in self.graph.nodes if node.role == DOT)
        scores = scores_of(self.graph, first)
        assert scores is not None
        self.scores = scores
        over_left = scores.sums[0].left
        self.outer, self.inner = (scores.right, scores.left) if over_left else (scores.left, scores.right)
        self.masked = masked_scores(self.graph, scores)
        self.key = self._order_inner()
        self.products = [ScoreProduct(self, node) for node in scores.products]
        roles = [(each, self.graph.nodes[each.node].role == DOT) for each in scores.sums]
        self.sums = [WeightedSum(self, each) for each, is_dot in roles if is_dot]
        self.reductions = [RowReduction(self, each) for each, is_dot in roles if not is_dot]
        self.batch, self.rows, self.count = (
            math.prod(self._size(label) for label in labels) for labels in (scores.batch, self.outer, self.inner)
        )
        self.type = self.products[0].product.of.compute

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
        """What blocks go through."""

        def places(batch: Index, outer: Index) -> dict[int, Affine]:
            return {d: at for (_, d), at in self.places(batch, outer, 0).items()}

        labels = (*self.scores.batch, *self.outer, *self.inner)
        sizes = {label[1]: self._size(label) for label in labels}
        each = self.count // sizes[self.key]
        return Sides(tuple(d for _, d in self.outer), self.key, sizes, self.rows, self.count, each, places)

    def op(self, node: int) -> ir.OpView:
        """The op of a node."""
        return self.graph.nodes[node].op

    def dot(self, node: int) -> DotProduct:
        """The product of a node."""
        return DotProduct(self.fusion, self.target, self.op(node))

    def begin(self, f: Function) -> None:
        """Evaluate in a kernel from here on."""
        self.f = f
        self.e = Elemental(f, self.fusion, self.target, 1)
        for product in (*(each.product for each in self.products), *(each.product for each in self.sums)):
            product.e = self.e

    # --- places ------------------------------------------------------------------------------------------------------

    def _size(self, label: Label) -> int:
        return int(self.graph.nodes[label[0]].shape[label[1]])

    def places(self, batch: Index, outer: Index, inner: Index) -> dict[Label, Affine]:
        """The index along each label."""
        found: dict[Label, Affine] = {}
        for labels, number in ((self.scores.batch, batch), (self.outer, outer), (self.inner, inner)):
            sizes = dict(enumerate(map(self._size, labels)))
            parts = split(self.f, affine_of(number, math.prod(sizes.values()) - 1), sizes)
            found |= {label: parts[d] for d, label in enumerate(labels)}
        return found

    def part(self, labels: Sequence[Label], at: dict[Label, Affine]) -> Part:
        """What a dimension goes through."""
        return tuple((self._size(label), at[label]) for label in labels)

    def _place(self, value: ir.Value, at: dict[Label, Affine]) -> Delinearized:
        axes = self.scores.axes[self.graph.producer[self.graph.values.index(value)]]
        return digits(pair for part in axes for pair in self.part(part, at))

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def evaluated(self, batch: Index, outer: Index, inner: Index, totals: Sequence[Value]) -> list[Lanes]:
        """What each of the sums, then of the reductions, has of a score, by the sums of all products."""
        at = self.places(batch, outer, inner)
        for each, total in zip(self.products, totals, strict=True):
            made = arith.rounded(self.f, each.product.of, total)
            self.e.bind(each.product.result, partial(_given, made))
        ends: list[ir.Value] = [each.weights for each in self.sums] + [each.weights for each in self.reductions]
        found = [self.e.value(value, self._place(value, at)) for value in ends]
        for each in self.products:
            self.e.bind(each.product.result, None)
        return found


def _given(value: Lanes, e: Elemental, place: Delinearized) -> Lanes:
    return value
