"""What a fusion of kind `attention` computes, as its kernels ask for it: where elements lie, what becomes of a product
of queries and keys, of a row's sums, and of parts of the keys that several blocks went through."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.attention import AttentionProgram
from stablehlo_py.backends.common.band import Sides
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import split
from stablehlo_py.backends.gpu.kernels.base import global_number, kernel_function
from stablehlo_py.backends.gpu.kernels.product import PIECE_BITS, DotProduct, Side
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import F32, Function, Index, Value
from stablehlo_py.codegen.index import (
    Affine,
    Variable,
    affine_of,
    known_multiple,
    linear_index,
    scalar,
)
from stablehlo_py.codegen.types import Lanes, element

LEAST_TILES, MOST_PARTS = 2, 64  # tiles of keys of a part; parts
BLOCK = 256  # threads of the kernel that puts parts together

Store = Callable[[Index, Value], None]
Row = Callable[[Index, Index, Value, Value], Store]


class Program(AttentionProgram):
    """What a fusion computes, by the numbers of batches, queries and keys.

    Attributes:
        scores, values: the two products; queries, keys: the operands of the first; columns: the one of the second that
            the weights multiply.
        batch, rows, count: how many there are of batches, queries in each, and keys.
    """

    def __init__(self, fusion: Fusion, target: GpuTarget) -> None:
        super().__init__(fusion, target)
        self.target: GpuTarget = target
        found = self.found
        self.scores, self.values = (DotProduct(fusion, target, self.op(each)) for each in (found.first, found.second))
        self.queries, self.keys = (
            (self.scores.a, self.scores.b) if found.queries == 0 else (self.scores.b, self.scores.a)
        )
        self.columns = self.values.b if found.weights == 0 else self.values.a
        self._order_rows()
        self.batch, self.rows, self.count = self.scores.batch, self.queries.rows, self.keys.rows

    def _order_rows(self) -> None:
        """Number queries in the order of the result."""
        side = self.queries
        assert isinstance(side, Side)
        first = len(self.batches) if side is self.scores.a else len(self.sizes) - len(side.free)
        place = {label: number for number, label in enumerate(self.found.rows)}
        side.free = tuple(sorted(side.free, key=lambda d: place.get(first + side.free.index(d), -1)))

    def begin(self, f: Function, lanes: int = 1) -> None:
        super().begin(f, lanes)
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

    def result_piece(self, batch: Index, row: Index, column: Index) -> Index | None:
        """Where neighbours of the result begin that are PIECE_BITS together, in words of 32 bits; None: its columns do
        not lie there so. The column is a multiple of their number."""
        f, wide = self.f, PIECE_BITS // element(self.output).bits
        if self.width % wide:
            return None
        first = Affine(0, ((Variable(f.index(column), 0, self.width - wide, wide), 1),), 1)
        offset = linear_index(f, self.result_place(self.places(batch, row, 0), first, wide))
        if not offset.contiguous or known_multiple(offset) % wide:
            return None
        return f.imul(f.idiv(scalar(f, Affine(offset.constant, offset.terms)), wide), PIECE_BITS // 32)

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def score(self, batch: Index, row: Index, key: Index, total: Value, *, is_seen: bool = False) -> Value:
        """`score_at` by numbers."""
        return self.score_at(self.places(batch, row, key), total, is_seen=is_seen)

    def weight(self, batch: Index, row: Index, key: Index, score: Value, reference: Value) -> tuple[Value, Value]:
        """`weight_at` by numbers."""
        return self.weight_at(self.places(batch, row, key), score, reference)

    def exponential(self, difference: Lanes) -> Lanes:
        """Of a score below the largest one. For weights of 16 bits the machine's estimate will do: what it lacks is
        2^-22, and 2^-24 for each unit of the difference, which is far below their rounding."""
        f = self.f
        if element(self.weights).bits > 16 or not f.emit.estimate_exp2 or not isinstance(difference, Value):
            return super().exponential(difference)
        scaled = f.fmul(difference, f.const(math.log2(math.e), F32))
        found = f.target_intrinsic(f.emit.estimate_exp2, scaled, result=F32)
        return arith.rounded(f, element(self.value_of(self.found.exponential)), found)

    def row(self, batch: Index, row: Index, largest: Value, total: Value) -> Store:
        """What stores an element of a row: gets its column, and the sum of weighted values."""
        result = self.results_at(self.places(batch, row, 0), largest, total)

        def store(column: Index, sum_: Value) -> None:
            place = self.result_place(self.places(batch, row, 0), affine_of(column, self.width - 1))
            self.e.write(element(self.output), self.out, place, result(column, sum_))
            if self.kept:
                first = self.f.cmp("eq", self.f.index(column), self.f.const(0))
                self.f.if_(first, lambda: self.keep(batch, row, largest, total))

        return store

    def results(self, batch: Index, row: Index, largest: Value, total: Value) -> Callable[[Index, Value], Value]:
        """`results_at` by numbers."""
        return self.results_at(self.places(batch, row, 0), largest, total)

    def keep(self, batch: Index, row: Index, largest: Value, total: Value) -> None:
        """`keep_at` by numbers."""
        self.keep_at(self.places(batch, row, 0), largest, total)


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
