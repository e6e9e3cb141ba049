"""Fusions of kind `attention`: softmax(scores of queries and keys) times values, without an array of all scores.

A block of threads has a tile of the queries of one batch (a head of an image or a text), and goes through the keys tile
by tile (Dao et al., FlashAttention, 2022; FlashAttention-2, 2023). Of each row it keeps the largest score so far, the
sum of the exponentials of what scores are below it, and the sum of values with these as weights; where a tile has a
larger score, both sums are scaled. What a program makes of the products before their softmax (scales, masks, biases) is
evaluated at each score; divisions by the sum are done on the result.

Scores of a tile are sums in registers, a square of them in each thread; tiles of queries and keys go through shared
memory, DEPTH products deep. The weights go through shared memory to be the left operand of the second product.

Where there are fewer tiles than the machine has room for (one query and many keys, as text is generated), several
blocks take a part of the keys each, and a second kernel puts these together in their order (flash decoding).

A row whose largest score is not finite is computed as the program would: its scores are taken as they are, and the last
scaling is by the exponential of what the program subtracts, which gives NaN, or what a guard in it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.reduction import Reduction, finish
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, global_number, kernel_function
from stablehlo_py.backends.gpu.kernels.product import DotProduct, Operand, Product, Side, split
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.conversions import convert
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, Delinearized, affine_of, digits
from stablehlo_py.codegen.math import exp
from stablehlo_py.codegen.types import Element, Lanes, element
from stablehlo_py.dialect.types import i64s, shape, text
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.attention import Attention, Axes, attention_of
from stablehlo_py.passes.fusing.graph import DOT, Graph
from stablehlo_py.passes.policy import Costs

SIDE = 16  # threads along each side of a tile
DEPTH = 16  # products between two barriers
SQUARES = (4, 2, 1)  # rows, and keys, of a thread, from the widest tile to the narrowest
MOST_COLUMNS = 256  # of the result, that a block computes
LEAST_TILES, MOST_PARTS = 2, 64  # tiles of keys of a part; parts
BLOCK = 256  # threads of the kernel that puts parts together


Store = Callable[[Index, Value], None]
Row = Callable[[Index, Index, Value, Value], Store]


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel of an `attention` fusion."""
    return _Tiled(_Program(fusion, target)).emit()


class _Program:
    """What a fusion computes, as kernels ask for it.

    Attributes:
        scores, values: the two products; queries, keys: the operands of the first; columns: the one of the second that
            the weights multiply.
        batch, rows, count, width: how many there are of batches, queries in each, keys, and columns of the result.
        of: the element type of scores.
    """

    def __init__(self, fusion: Fusion, target: GpuTarget) -> None:
        self.fusion, self.target = fusion, target
        self.graph = Graph(fusion.inputs[0].owner, Costs())
        self.found = found = self._read()
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
        self.e = Elemental(f, self.fusion, self.target, 1)
        self.scores.e = self.values.e = self.e

    # --- places ------------------------------------------------------------------------------------------------------

    def _digits(self, batch: Index, row: Index, key: Index) -> dict[int, Affine]:
        """The index along each dimension of the first product."""
        parts = ((self.batches, batch), (self.found.rows, row), (self.found.keys, key))
        found: dict[int, Affine] = {}
        for dimensions, number in parts:
            sizes = {d: self.sizes[d] for d in dimensions}
            found |= split(self.f, affine_of(number, math.prod(sizes.values()) - 1), sizes)
        return found

    def _place(self, axes: Axes, at: dict[int, Affine]) -> Delinearized:
        return digits((self.sizes[label], at[label]) for part in axes for label in part or ())

    def _result_place(self, batch: Index, row: Index, column: Index) -> Delinearized:
        """An element of the result."""
        op, found, f = self._op(self.found.second), self.found, self.f
        at, sides = self._digits(batch, row, 0), ("lhs", "rhs")
        axes = found.axes[self.graph.nodes[found.second].producers[found.weights]]
        shared, summed = (i64s(op, f"{sides[found.weights]}_{what}") for what in ("batch", "contract"))
        of_rows = [axes[d] for d in range(len(axes)) if d not in shared and d not in summed]
        rows = [tuple((self.sizes[label], at[label]) for label in part or ()) for part in of_rows]
        assert isinstance(self.columns, Side)
        sizes = {d: self.columns.sizes[d] for d in self.columns.free}
        split_column = split(f, affine_of(column, self.width - 1), sizes)
        across = [((sizes[d], split_column[d]),) for d in self.columns.free]
        outer = [tuple((self.sizes[label], at[label]) for label in axes[d] or ()) for d in shared]
        parts = [*outer, *rows, *across] if found.weights == 0 else [*outer, *across, *rows]
        for member in found.members[found.members.index(found.second) :]:
            node = self.graph.nodes[member]
            if node.name == "transpose" and found.axes[member] == found.axes[found.second]:
                parts = [parts[int(d)] for d in node.attributes["permutation"]]
        return digits(pair for part in parts for pair in part)

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def score(self, batch: Index, row: Index, key: Index, total: Value) -> Value:
        """What a sum of products becomes before the softmax."""
        product = arith.rounded(self.f, self.scores.of, total)
        self.e.bind(self._value(self.found.first), lambda e, place: product)
        place = self._place(self.found.axes[self.found.scores], self._digits(batch, row, key))
        score = self.e.value(self._value(self.found.scores), place)
        self.e.bind(self._value(self.found.first), None)
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
        exponential = e.elementwise(self._op(found.exponential), [difference])
        e.bind(self._value(found.exponential), lambda e, place: exponential)
        bound = [self._op(node).operands[position] for node, position in found.factors]
        one = f.const(1.0, self.of.compute)
        for value in bound:
            e.bind(value, lambda e, place: one)
        at = self._digits(batch, row, key)
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
        weight = convert(f, element(self._op(found.second).operands[found.weights]), self.values.of, weight)
        assert isinstance(added, Value) and isinstance(weight, Value)
        return added, weight

    @property
    def sums(self) -> Element:
        """The type of the sum of the weights."""
        return element(self._value(self.found.total if self.found.total >= 0 else self.found.exponential))

    def row(self, batch: Index, row: Index, largest: Value, total: Value) -> Store:
        """What stores an element of a row: gets its column, and the sum of weighted values. `largest` is the largest
        score of the row, `total` the sum of weights by what `reference` gives for it."""
        f, found = self.f, self.found
        e = Elemental(f, self.fusion, self.target, 1)
        at = self._digits(batch, row, 0)
        self._bind_reduction(e, found.maximum, largest)
        subtracted = self._row_value(e, found.shifted, 1, at)
        factor = exp(f, f.fsub(self.reference(largest), subtracted))
        if found.total >= 0:
            self._bind_reduction(e, found.total, f.fmul(total, factor))
        values = [self._row_value(e, node, position, at) for node, position in found.factors]

        def store(column: Index, sum_: Value) -> None:
            result: Lanes = f.fmul(sum_, factor)
            for (node, position), value in zip(found.factors, values, strict=True):
                pair = [result, value] if position == 1 else [value, result]
                result = e.elementwise(self._op(node), pair)
            product = arith.rounded(f, self.values.of, result)
            e.bind(self._value(found.second), lambda e, place: product)
            e.write_outputs(self.fusion.outputs, self._result_place(batch, row, column))
            e.bind(self._value(found.second), None)

        return store

    def _bind_reduction(self, e: Elemental, node: int, total: Value) -> None:
        op = self._op(node)
        result = op.results[0]
        item = Reduction(result, op.operands[0], op.operands[1], text(op, "kind"), (), element(result))
        finished = finish(e, item, total)
        e.bind(result, lambda e, place: finished)

    def _row_value(self, e: Elemental, node: int, position: int, at: dict[int, Affine]) -> Value:
        """An operand of an op on all scores that is the same for the row."""
        value = e.value(self._op(node).operands[position], self._place(self.found.axes[node], at))
        assert isinstance(value, Value)
        return value


class _Tiled:
    """A block for a tile of queries, by multiplications and additions of single numbers."""

    def __init__(self, program: _Program) -> None:
        self.p = program
        self.type = program.scores.of.compute
        self.width = min(program.width, MOST_COLUMNS)
        self.across = -(-self.width // SIDE)
        squares = [each for each in SQUARES if self._bytes(each) <= program.target.shared_bytes]
        self.square = next((each for each in squares[:-1] if program.rows > SIDE * each // 2), squares[-1])
        self.tile, self.keys = SIDE * self.square, SIDE * squares[0]
        self.key_square = squares[0]

    def _bytes(self, square: int) -> int:
        tile = SIDE * square
        staged = max(2 * DEPTH * (tile + 1), SIDE // 2 * (self.across * SIDE + 1))
        return (staged + tile * (tile + 1) + tile * (SIDE + 1)) * self.type.bits // 8

    def emit(self) -> GpuKernel:
        """One kernel, or one for parts of the keys and one that puts them together."""
        p = self.p
        across, down, tiles = -(-p.width // self.width), -(-p.rows // self.tile), -(-p.count // self.keys)
        blocks = p.batch * down * across
        parts = max(1, min(MOST_PARTS, tiles // LEAST_TILES, p.target.resident // 4 // SIDE**2 // blocks))
        f = self.f = kernel_function(p.fusion, p.target, p.fusion.name, blocks * parts, SIDE * SIDE)
        p.begin(f)
        part, number = f.idiv(f.block_number(), blocks), f.irem(f.block_number(), blocks)
        self.batch, inside = f.idiv(number, down * across), f.irem(number, down * across)
        self.first = f.imul(f.idiv(inside, across), self.tile)
        self.column = f.imul(f.irem(inside, across), self.width)
        self.x, self.y = f.irem(f.thread_number(), SIDE), f.idiv(f.thread_number(), SIDE)
        self.rows = [f.imin(f.iadd(self.first, f.iadd(self.y, SIDE * i)), p.rows - 1) for i in range(self.square)]
        self.depth = SIDE if self.across <= SIDE // 2 else SIDE // 2  # keys whose values are staged together
        staged = max(DEPTH * (self.tile + self.keys + 2), self.depth * (self.across * SIDE + 1))
        self.staged = f.shared_memory(staged, self.type)
        self.weights = f.shared_memory(self.tile * (self.keys + 1), self.type)
        self.extremes = f.shared_memory(self.tile * (SIDE + 1), self.type)
        lowest, zero = f.const(-math.inf, p.of.compute), f.const(0.0, self.type)
        start = [lowest] * self.square + [f.const(0.0, p.sums.compute)] * self.square
        begin, end = (f.imul(f.idiv(f.imul(f.iadd(part, more), tiles), parts), self.keys) for more in (0, 1))
        carried = f.loop(begin, end, self.keys, self._keys, [*start, *[zero] * (self.square * self.across)])
        if parts == 1:
            self._finish(carried, p.row)
            f.ret()
            return GpuKernel.of(f)
        shared = _Parts(p, parts)
        self._finish(carried, partial(shared.row, part))
        f.ret()
        return GpuKernel.of(f, shared.total(), scratch_bytes=shared.bytes)

    def _keys(self, begin: Value, *carried: Value) -> list[Value]:
        """A tile of keys: the largest scores, the sums of weights of this thread's keys, and of values."""
        f, p, square = self.f, self.p, self.square
        largest, totals, sums = carried[:square], carried[square : 2 * square], list(carried[2 * square :])
        at = [f.iadd(begin, f.iadd(self.x, SIDE * j)) for j in range(self.key_square)]
        scores = self._scores(begin, at)
        tops = self._row_maxima(scores, largest)
        news = []
        for i in range(square):
            new, scaled = p.reference(tops[i]), p.scale(largest[i], tops[i])
            total = f.fmul(totals[i], scaled)
            for j in range(self.key_square):
                safe = f.imin(at[j], p.count - 1)
                added, weight = p.weight(self.batch, self.rows[i], safe, scores[i][j], new)
                total = f.fadd(total, added)
                place = f.iadd(f.imul(f.iadd(self.y, SIDE * i), self.keys + 1), f.iadd(self.x, SIDE * j))
                f.store(weight, self.weights, place)
            news.append(total)
            for j in range(self.across):
                sums[i * self.across + j] = f.fmul(sums[i * self.across + j], scaled)
        return [*tops, *news, *self._values(begin, sums)]

    def _scores(self, begin: Value, at: Sequence[Index]) -> list[list[Value]]:
        """Those of a thread, by rows; -inf behind the last key."""
        f, p, square = self.f, self.p, self.square
        stride_a, stride_b = self.tile + 1, self.keys + 1
        keys = DEPTH * stride_a

        def step(start: Value, *sums: Value) -> list[Value]:
            f.barrier()
            self._fill(p.scores, p.queries, self.first, start, (self.tile, DEPTH), 0, (1, stride_a))
            self._fill(p.scores, p.keys, begin, start, (self.keys, DEPTH), keys, (1, stride_b))
            f.barrier()

            def multiply(k: Index, *inner: Value) -> list[Value]:
                a = [f.iadd(f.imul(k, stride_a), f.iadd(self.y, SIDE * i)) for i in range(square)]
                b = [f.iadd(f.imul(k, stride_b), f.iadd(self.x, keys + SIDE * j)) for j in range(self.key_square)]
                left, right = ([f.load(self.type, self.staged, each) for each in some] for some in (a, b))
                pairs = ((u, v) for u in left for v in right)
                return [f.fma(u, v, total) for (u, v), total in zip(pairs, inner, strict=True)]

            return f.loop(0, DEPTH, 1, multiply, sums)

        zero = f.const(0.0, self.type)
        totals = iter(f.loop(0, p.scores.depth, DEPTH, step, [zero] * (square * self.key_square)))
        results = []
        for i in range(square):
            row = []
            for key in at:
                score = p.score(self.batch, self.rows[i], f.imin(key, p.count - 1), next(totals))
                if p.count % self.keys:
                    exists = f.cmp("slt", f.index(key), f.const(p.count))
                    score = f.select(exists, score, f.const(-math.inf, score.type))
                row.append(score)
            results.append(row)
        return results

    def _row_maxima(self, scores: Sequence[Sequence[Value]], largest: Sequence[Value]) -> list[Value]:
        """The largest scores of the thread's rows, those of the other threads included."""
        f, p = self.f, self.p
        for i, row in enumerate(scores):
            top = row[0]
            for score in row[1:]:
                top = p.larger(top, score)
            f.store(top, self.extremes, self._partial(i, self.x))
        f.barrier()
        results = []
        for i, top in enumerate(largest):
            for number in range(SIDE):
                top = p.larger(top, f.load(top.type, self.extremes, self._partial(i, number)))
            results.append(top)
        return results

    def _partial(self, i: int, number: Index) -> Index:
        """Where a thread of a row keeps what it has of it."""
        f = self.f
        return f.iadd(f.imul(f.iadd(self.y, SIDE * i), SIDE + 1), number)

    def _values(self, begin: Value, sums: Sequence[Value]) -> list[Value]:
        """The sums with a tile of keys added."""
        f, p = self.f, self.p
        stride = self.across * SIDE + 1

        def step(start: Value, *totals: Value) -> list[Value]:
            f.barrier()
            first = f.iadd(begin, start)
            self._fill(p.values, p.columns, self.column, first, (self.across * SIDE, self.depth), 0, (1, stride))
            f.barrier()

            def multiply(k: Index, *inner: Value) -> list[Value]:
                key = f.iadd(start, k)
                a = [f.iadd(f.imul(f.iadd(self.y, SIDE * i), self.keys + 1), key) for i in range(self.square)]
                b = [f.iadd(f.imul(k, stride), f.iadd(self.x, SIDE * j)) for j in range(self.across)]
                left = [f.load(self.type, self.weights, each) for each in a]
                right = [f.load(self.type, self.staged, each) for each in b]
                pairs = ((u, v) for u in left for v in right)
                return [f.fma(u, v, total) for (u, v), total in zip(pairs, inner, strict=True)]

            return f.loop(0, self.depth, 1, multiply, totals)

        return f.loop(0, self.keys, self.depth, step, sums)

    def _fill(
        self,
        product: Product,
        operand: Operand,
        first: Index,
        start: Index,
        sizes: tuple[int, int],
        offset: int,
        steps: tuple[int, int],
    ) -> None:
        """Bring rows (columns, keys) of an operand from `first` on, and products from `start` on, to shared memory.
        What lies behind the last product counts as zero."""
        f = self.f
        rows, depth = sizes
        for part in range(-(-rows * depth // SIDE**2)):
            number = f.iadd(f.thread_number(), part * SIDE**2)
            if operand.contracts_last:
                k, place = f.irem(number, depth), f.idiv(number, depth)
            else:
                place, k = f.irem(number, rows), f.idiv(number, rows)
            row, at = f.imin(f.iadd(first, place), operand.rows - 1), f.iadd(start, k)
            value = product.element(operand, self.batch, row, f.imin(at, operand.depth - 1))
            exists = f.cmp("slt", f.index(at), f.const(operand.depth))
            value = f.select(exists, value, f.const(0.0, value.type))
            f.store(value, self.staged, f.iadd(f.iadd(f.imul(place, steps[0]), f.imul(k, steps[1])), offset))

    def _finish(self, carried: Sequence[Value], row_of: Row) -> None:
        """Add up the weights of the threads of each row, and store its results."""
        f, p, square = self.f, self.p, self.square
        for i, total in enumerate(carried[square : 2 * square]):
            f.store(total, self.extremes, self._partial(i, self.x))
        f.barrier()
        for i in range(square):
            total = f.load(p.sums.compute, self.extremes, self._partial(i, 0))
            for number in range(1, SIDE):
                total = f.fadd(total, f.load(total.type, self.extremes, self._partial(i, number)))
            row = f.iadd(self.first, f.iadd(self.y, SIDE * i))
            mine = carried[2 * square + i * self.across : 2 * square + (i + 1) * self.across]

            def put(i: int = i, total: Value = total, mine: Sequence[Value] = mine) -> None:
                store = row_of(self.batch, self.rows[i], carried[i], total)
                for j, sum_ in enumerate(mine):
                    local = f.iadd(self.x, SIDE * j)
                    column = f.iadd(self.column, local)

                    def put_one(column: Index = column, sum_: Value = sum_) -> None:
                        store(column, sum_)

                    exists = f.cmp("slt", f.index(column), f.const(p.width))
                    f.if_(exists, put_one)

            f.if_(f.cmp("slt", f.index(row), f.const(p.rows)), put)


class _Parts:
    """What blocks with a part of the keys leave in scratch memory for each row: the largest score, the sum of the
    weights, and those of values."""

    def __init__(self, program: _Program, parts: int) -> None:
        self.p, self.parts, self.type = program, parts, program.of.compute
        self.rows, self.line = program.batch * program.rows, program.width + 2

    @property
    def bytes(self) -> int:
        """Scratch memory."""
        return self.parts * self.rows * self.line * self.type.bits // 8

    def _begin(self, part: Index, batch: Index, row: Index) -> Index:
        f = self.p.f
        number = f.iadd(f.imul(part, self.rows), f.iadd(f.imul(batch, self.p.rows), row))
        return f.imul(number, self.line)

    def row(self, part: Index, batch: Index, row: Index, largest: Value, total: Value) -> Store:
        """As `_Program.row`."""
        f, begin = self.p.f, self._begin(part, batch, row)

        def store(column: Index, sum_: Value) -> None:
            f.store(sum_, f.scratch, f.iadd(f.iadd(begin, 2), column))

            def once() -> None:
                f.store(largest, f.scratch, begin)
                f.store(total, f.scratch, f.iadd(begin, 1))

            f.if_(f.cmp("eq", f.index(column), f.const(0)), once)

        return store

    def total(self) -> Function:
        """The kernel that puts the parts together: a thread for each element of the result."""
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

        (largest,) = f.loop(0, self.parts, 1, larger, [f.const(-math.inf, self.type)])
        total, sum_ = f.loop(0, self.parts, 1, add, [f.const(0.0, self.type)] * 2)
        exists = f.cmp("slt", f.index(global_number(f)), f.const(results))
        f.if_(exists, lambda: p.row(batch, row, largest, total)(column, sum_))
        f.ret()
        return f
