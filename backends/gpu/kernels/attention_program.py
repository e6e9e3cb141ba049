"""What a fusion of kind `attention` computes, as its kernels ask for it: where elements lie, what becomes of a product
of queries and keys, of a row's sums, and of parts of the keys that several blocks went through."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.reduction import Reduction, finish
from stablehlo_py.backends.gpu.kernels.band import Sides
from stablehlo_py.backends.gpu.kernels.base import global_number, kernel_function
from stablehlo_py.backends.gpu.kernels.product import PIECE_BITS, DotProduct, Side, split
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import F32, Function, Index, Value
from stablehlo_py.codegen.conversions import convert
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import (
    Affine,
    Delinearized,
    Variable,
    affine_of,
    digits,
    known_multiple,
    linear_index,
    scalar,
)
from stablehlo_py.codegen.math import exp
from stablehlo_py.codegen.types import Element, Lanes, element
from stablehlo_py.dialect.types import i64s, shape, text
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.attention import Attention, Axes, attention_of
from stablehlo_py.passes.fusing.attention_mask import drops_masked_values, mask_of
from stablehlo_py.passes.fusing.graph import DOT, Graph
from stablehlo_py.passes.policy import Costs

LEAST_TILES, MOST_PARTS = 2, 64  # tiles of keys of a part; parts
BLOCK = 256  # threads of the kernel that puts parts together

Store = Callable[[Index, Value], None]
Row = Callable[[Index, Index, Value, Value], Store]


class Program:
    """What a fusion computes, as kernels ask for it.

    Attributes:
        scores, values: the two products; queries, keys: the operands of the first; columns: the one of the second that
            the weights multiply.
        batch, rows, count, width: how many there are of batches, queries in each, keys, and columns of the result.
        of: the element type of scores; weights: the operand of the second product that they are.
        output: the result; kept: what else is written, the maximum of the scores and the sum of the weights, by the
            number of the output. out: where the result goes.
        sizes: of the first product; mask: which keys a query sees, where indices say that.
    """

    def __init__(self, fusion: Fusion, target: GpuTarget) -> None:
        self.fusion, self.target = fusion, target
        self.graph = Graph(fusion.inputs[0].owner, Costs())
        self.found = found = self._read()
        self.output = self._value(found.output)
        self.kept = {number: value for number, value in enumerate(fusion.outputs) if value != self.output}
        self.scores, self.values = (DotProduct(fusion, target, self._op(each)) for each in (found.first, found.second))
        self.queries, self.keys = (
            (self.scores.a, self.scores.b) if found.queries == 0 else (self.scores.b, self.scores.a)
        )
        self.columns = self.values.b if found.weights == 0 else self.values.a
        self.sizes = [int(size) for size in shape(self.scores.result)]
        self.batches = range(len(i64s(self._op(found.first), "lhs_batch")))
        self._order_rows()
        self.batch, self.rows, self.count = self.scores.batch, self.queries.rows, self.keys.rows
        self.width = self.columns.rows
        self.of = element(self._value(found.scores))
        self.weights = self._op(found.second).operands[found.weights]
        self.mask = mask_of(self.graph, found) if len(found.keys) == 1 else None

    def _read(self) -> Attention:
        for node in reversed(self.graph.nodes):
            found = attention_of(self.graph, node) if node.role == DOT else None
            if found is not None:
                return found
        raise InternalError("an attention fusion holds no attention")

    def _op(self, node: int) -> ir.OpView:
        return self.graph.nodes[node].op

    def _value(self, node: int) -> ir.Value:
        return self.graph.nodes[node].op.results[0]

    def _order_rows(self) -> None:
        """Number queries in the order of the result."""
        side = self.queries
        assert isinstance(side, Side)
        first = len(self.batches) if side is self.scores.a else len(self.sizes) - len(side.free)
        place = {label: number for number, label in enumerate(self.found.rows)}
        side.free = tuple(sorted(side.free, key=lambda d: place.get(first + side.free.index(d), -1)))

    def begin(self, f: Function) -> None:
        """Evaluate in a kernel from here on."""
        self.f = f
        self.out = f.parameters[f"out{list(self.fusion.outputs).index(self.output)}"]
        self.e = Elemental(f, self.fusion, self.target, 1)
        self.scores.e = self.values.e = self.e

    # --- places ------------------------------------------------------------------------------------------------------

    def places(self, batch: Index, row: Index, key: Index) -> dict[int, Affine]:
        """The index along each dimension of the first product."""
        parts = ((self.batches, batch), (self.found.rows, row), (self.found.keys, key))
        found: dict[int, Affine] = {}
        for dimensions, number in parts:
            sizes = {d: self.sizes[d] for d in dimensions}
            found |= split(self.f, affine_of(number, math.prod(sizes.values()) - 1), sizes)
        return found

    @property
    def sides(self) -> Sides:
        """Queries, and the keys that they go through; these have one dimension."""
        found, sizes = self.found, dict(enumerate(self.sizes))
        (key,) = found.keys
        return Sides(found.rows, key, sizes, self.rows, self.count, 1, lambda batch, row: self.places(batch, row, 0))

    def _place(self, axes: Axes, at: dict[int, Affine]) -> Delinearized:
        return digits((self.sizes[label], at[label]) for part in axes for label in part or ())

    def _result_place(self, batch: Index, row: Index, column: Affine, lanes: int = 1) -> Delinearized:
        """An element of the result, or neighbouring ones."""
        op, found, f = self._op(self.found.second), self.found, self.f
        at, sides = self.places(batch, row, 0), ("lhs", "rhs")
        axes = found.axes[self.graph.nodes[found.second].producers[found.weights]]
        shared, summed = (i64s(op, f"{sides[found.weights]}_{what}") for what in ("batch", "contract"))
        of_rows = [axes[d] for d in range(len(axes)) if d not in shared and d not in summed]
        rows = [tuple((self.sizes[label], at[label]) for label in part or ()) for part in of_rows]
        assert isinstance(self.columns, Side)
        sizes = {d: self.columns.sizes[d] for d in self.columns.free}
        split_column = split(f, column, sizes, lanes)
        across = [((sizes[d], split_column[d]),) for d in self.columns.free]
        outer = [tuple((self.sizes[label], at[label]) for label in axes[d] or ()) for d in shared]
        parts = [*outer, *rows, *across] if found.weights == 0 else [*outer, *across, *rows]
        for member in found.members[found.members.index(found.second) :]:
            node = self.graph.nodes[member]
            if node.name == "transpose" and found.axes[member] == found.axes[found.second]:
                parts = [parts[int(d)] for d in node.attributes["permutation"]]
        return digits(pair for part in parts for pair in part)

    def result_piece(self, batch: Index, row: Index, column: Index) -> Index | None:
        """Where neighbours of the result begin that are PIECE_BITS together, in words of 32 bits; None: its columns do
        not lie there so. The column is a multiple of their number."""
        f, wide = self.f, PIECE_BITS // element(self.output).bits
        if self.width % wide:
            return None
        first = Affine(0, ((Variable(f.index(column), 0, self.width - wide, wide), 1),), 1)
        offset = linear_index(f, self._result_place(batch, row, first, wide))
        if not offset.contiguous or known_multiple(offset) % wide:
            return None
        return f.imul(f.idiv(scalar(f, Affine(offset.constant, offset.terms)), wide), PIECE_BITS // 32)

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def score(self, batch: Index, row: Index, key: Index, total: Value, *, is_seen: bool = False) -> Value:
        """What a sum of products becomes before the softmax; `is_seen`: the query is known to see the key."""
        product = arith.rounded(self.f, self.scores.of, total)
        mask = self.mask if is_seen else None
        if mask is not None:
            seen = self._op(mask.select).operands[mask.seen]
            self.e.bind(self._value(mask.select), lambda e, place: e.value(seen, place))
        self.e.bind(self._value(self.found.first), lambda e, place: product)
        place = self._place(self.found.axes[self.found.scores], self.places(batch, row, key))
        score = self.e.value(self._value(self.found.scores), place)
        self.e.bind(self._value(self.found.first), None)
        if mask is not None:
            self.e.bind(self._value(mask.select), None)
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

    def weight(self, batch: Index, row: Index, key: Index, score: Value, reference: Value) -> tuple[Value, Value]:
        """What a score adds to the sum, and with which weight its value counts, before divisions by what is the same
        for the whole row."""
        e, f, found = self.e, self.f, self.found
        difference = e.elementwise(self._op(found.shifted), [score, reference])
        exponential = self._exponential(difference)
        e.bind(self._value(found.exponential), lambda e, place: exponential)
        bound = [self._op(node).operands[position] for node, position in found.factors]
        one = f.const(1.0, self.of.compute)
        for value in bound:
            e.bind(value, lambda e, place: one)
        at = self.places(batch, row, key)
        results = []
        for node, position in ((found.total, 0), (found.second, found.weights)):
            if node < 0:
                results.append(exponential)
                continue
            place = self._place(found.axes[self.graph.nodes[node].producers[position]], at)
            results.append(e.value(self._op(node).operands[position], place))
        for value in (*bound, self._value(found.exponential)):
            e.bind(value, None)
        added, weight = results
        weight = convert(f, element(self.weights), self.values.of, weight)
        assert isinstance(added, Value) and isinstance(weight, Value)
        return added, weight

    def _exponential(self, difference: Lanes) -> Lanes:
        """Of a score below the largest one. For weights of 16 bits the machine's estimate will do: what it lacks is
        2^-22, and 2^-24 for each unit of the difference, which is far below their rounding."""
        f, op = self.f, self._op(self.found.exponential)
        if element(self.weights).bits > 16 or not f.emit.estimate_exp2 or not isinstance(difference, Value):
            return self.e.elementwise(op, [difference])
        scaled = f.fmul(difference, f.const(math.log2(math.e), F32))
        found = f.target_intrinsic(f.emit.estimate_exp2, scaled, result=F32)
        return arith.rounded(f, element(op.results[0]), found)

    @cached_property
    def drops_masked(self) -> bool:
        """Whether keys with a weight of zero count for nothing, if their values are finite."""
        return drops_masked_values(self.graph, self.found)

    @property
    def sums(self) -> Element:
        """The type of the sum of the weights."""
        return element(self._value(self.found.total if self.found.total >= 0 else self.found.exponential))

    def row(self, batch: Index, row: Index, largest: Value, total: Value) -> Store:
        """What stores an element of a row: gets its column, and the sum of weighted values."""
        result = self.results(batch, row, largest, total)

        def store(column: Index, sum_: Value) -> None:
            place = self._result_place(batch, row, affine_of(column, self.width - 1))
            self.e.write(element(self.output), self.out, place, result(column, sum_))
            if self.kept:
                first = self.f.cmp("eq", self.f.index(column), self.f.const(0))
                self.f.if_(first, lambda: self.keep(batch, row, largest, total))

        return store

    def results(self, batch: Index, row: Index, largest: Value, total: Value) -> Callable[[Index, Value], Value]:
        """What makes an element of a row, by its column and the sum of weighted values. `largest` is the largest score
        of the row, `total` the sum of weights by what `reference` gives for it."""
        f, found = self.f, self.found
        at = self.places(batch, row, 0)
        e, factor = self._of_row(at, largest, total)
        values = [self._row_value(e, node, position, at) for node, position in found.factors]

        def made(column: Index, sum_: Value) -> Value:
            result: Lanes = f.fmul(sum_, factor)
            for (node, position), value in zip(found.factors, values, strict=True):
                pair = [result, value] if position == 1 else [value, result]
                result = e.elementwise(self._op(node), pair)
            product = arith.rounded(f, self.values.of, result)
            e.bind(self._value(found.second), lambda e, place: product)
            stored = e.value(self.output, self._result_place(batch, row, affine_of(column, self.width - 1)))
            e.bind(self._value(found.second), None)
            assert isinstance(stored, Value)
            return stored

        return made

    def _of_row(self, at: dict[int, Affine], largest: Value, total: Value) -> tuple[Elemental, Value]:
        """What evaluates values of a row; with what sums by `reference` are multiplied to be those of the program."""
        f, found = self.f, self.found
        e = Elemental(f, self.fusion, self.target, 1)
        self._bind_reduction(e, found.maximum, largest)
        subtracted = self._row_value(e, found.shifted, 1, at)
        factor = exp(f, f.fsub(self.reference(largest), subtracted))
        if found.total >= 0:
            self._bind_reduction(e, found.total, f.fmul(total, factor))
        return e, factor

    def keep(self, batch: Index, row: Index, largest: Value, total: Value) -> None:
        """Write what others read of a row, the maximum of its scores, and the sum of its weights."""
        at = self.places(batch, row, 0)
        e, _ = self._of_row(at, largest, total)
        for number, value in self.kept.items():
            place = self._place(self.found.axes[self.graph.producer[self.graph.values.index(value)]], at)
            self.e.write(element(value), self.f.parameters[f"out{number}"], place, e.value(value, place))

    def reduction(self, node: int) -> Reduction:
        """The maximum of the scores, or the sum of the weights."""
        op = self._op(node)
        result = op.results[0]
        return Reduction(result, op.operands[0], op.operands[1], text(op, "kind"), (), element(result))

    def _bind_reduction(self, e: Elemental, node: int, total: Value) -> None:
        item = self.reduction(node)
        finished = finish(e, item, total)
        e.bind(item.result, lambda e, place: finished)

    def _row_value(self, e: Elemental, node: int, position: int, at: dict[int, Affine]) -> Value:
        """An operand of an op on all scores that is the same for the row."""
        value = e.value(self._op(node).operands[position], self._place(self.found.axes[node], at))
        assert isinstance(value, Value)
        return value


def parts_of(p: Program, blocks: int, threads: int, tiles: int) -> int:
    """Into how many parts so many tiles of keys are split, that the machine has blocks to do: a fourth of its threads,
    as sums fill registers."""
    return max(1, min(MOST_PARTS, tiles // LEAST_TILES, p.target.resident // 4 // threads // blocks))


@dataclass(frozen=True)
class Masked:
    """What keys that no block went through make of a row's largest score, and of the sums of weights and of weighted
    values."""

    larger: Callable[[Value], Value]
    add: Callable[[Value, Sequence[Value]], list[Value]]


class Parts:
    """What blocks with a part of the keys leave in scratch memory for each row: the largest score, the sum of the
    weights, and those of values."""

    def __init__(self, program: Program, parts: int, before: int = 0) -> None:
        self.p, self.parts, self.type = program, parts, program.of.compute
        self.rows, self.line = program.batch * program.rows, program.width + 2
        self.first = before * 8 // self.type.bits  # bytes before them are others'

    @property
    def bytes(self) -> int:
        """Scratch memory, that before them included."""
        return (self.first + self.parts * self.rows * self.line) * self.type.bits // 8

    def _begin(self, part: Index, batch: Index, row: Index) -> Index:
        f = self.p.f
        number = f.iadd(f.imul(part, self.rows), f.iadd(f.imul(batch, self.p.rows), row))
        return f.iadd(f.imul(number, self.line), self.first)

    def row(self, part: Index, batch: Index, row: Index, largest: Value, total: Value) -> Store:
        """As `Program.row`."""
        f, begin = self.p.f, self._begin(part, batch, row)

        def store(column: Index, sum_: Value) -> None:
            f.store(sum_, f.scratch, f.iadd(f.iadd(begin, 2), column))

            def once() -> None:
                f.store(largest, f.scratch, begin)
                f.store(total, f.scratch, f.iadd(begin, 1))

            f.if_(f.cmp("eq", f.index(column), f.const(0)), once)

        return store

    def total(self, masked: Callable[[Index, Index, Index], Masked] | None = None) -> Function:
        """The kernel that puts the parts together: a thread for each element of the result. `masked`: what keys add to
        a batch, a row and a column that no part went through."""
        p, results = self.p, self.rows * self.p.width
        symbol = f"{p.fusion.name}_total"
        f = kernel_function(p.fusion, p.target, symbol, -(-results // BLOCK), BLOCK)
        p.begin(f)
        number = f.imin(global_number(f), results - 1)
        column, row = f.irem(number, p.width), f.idiv(number, p.width)
        batch, row = f.idiv(row, p.rows), f.irem(row, p.rows)

        def read(part: Index, offset: Index) -> Value:
            return f.load(self.type, f.scratch, f.iadd(self._begin(part, batch, row), offset))

        def larger(part: Index, largest: Value) -> list[Value]:
            return [p.larger(largest, read(part, 0))]

        def add(part: Index, *sums: Value) -> list[Value]:
            scale = p.scale(read(part, 0), largest)
            offsets = (1, f.iadd(column, 2))
            return [f.fma(read(part, at), scale, sum_) for at, sum_ in zip(offsets, sums, strict=True)]

        others = masked(batch, row, column) if masked else None
        (largest,) = f.loop(0, self.parts, 1, larger, [f.const(-math.inf, self.type)])
        largest = others.larger(largest) if others else largest
        sums = f.loop(0, self.parts, 1, add, [f.const(0.0, self.type)] * 2)
        total, sum_ = others.add(largest, sums) if others else sums
        exists = f.cmp("slt", f.index(global_number(f)), f.const(results))
        f.if_(exists, lambda: p.row(batch, row, largest, total)(column, sum_))
        f.ret()
        return f
