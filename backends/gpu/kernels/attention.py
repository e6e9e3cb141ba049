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
from collections.abc import Iterator, Sequence
from functools import partial

from stablehlo_py.backends.common.band import Band
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.attention_band import scored, skipping
from stablehlo_py.backends.gpu.kernels.attention_matrix import MatrixAttention, suits
from stablehlo_py.backends.gpu.kernels.attention_program import Parts, Program, Row, parts_of
from stablehlo_py.backends.gpu.kernels.base import Candidate, GpuKernel, kernel_function
from stablehlo_py.backends.gpu.kernels.staging import DEPTH, SIDE, Staging
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.backends.gpu.triton import attention as triton
from stablehlo_py.codegen.builder import Index, Value
from stablehlo_py.codegen.types import element
from stablehlo_py.options import TRITON

SQUARES = (4, 2, 1)  # rows, and keys, of a thread, from the widest tile to the narrowest
MOST_COLUMNS = 256  # of the result, that a block computes


def candidates(fusion: Fusion, target: GpuTarget) -> Iterator[Candidate]:
    """The kernels of an `attention` fusion."""
    program = Program(fusion, target)
    own = _own(program)
    yield Candidate(own.plan, own.emit)
    if TRITON in target.generators:
        for kernel in triton.kernels(program):
            yield Candidate(kernel.plan, kernel.emit)


def _own(program: Program) -> MatrixAttention | _Tiled:
    queries, keys = (element(each.value).name for each in (program.queries, program.keys))
    for unit in program.target.units_for(queries, keys, program.scores.of.name):
        if not unit.is_warpgroup and suits(program, unit):
            return MatrixAttention(program, unit)
    return _Tiled(program)


class _Tiled:
    """A block for a tile of queries, by multiplications and additions of single numbers."""

    def __init__(self, program: Program) -> None:
        self.p = program
        self.type = program.scores.of.compute
        self.width = min(program.width, MOST_COLUMNS)
        self.across = -(-self.width // SIDE)
        squares = [each for each in SQUARES if self._bytes(each) <= program.target.shared_bytes]
        self.square = next((each for each in squares[:-1] if program.rows > SIDE * each // 2), squares[-1])
        self.tile, self.keys = SIDE * self.square, SIDE * squares[0]
        self.key_square = squares[0]

    @property
    def plan(self) -> str:
        """What it does otherwise than other kernels of this fusion."""
        return f"scalar {self.tile} queries, {self.keys} keys, {SIDE * SIDE} threads"

    def _bytes(self, square: int) -> int:
        tile = SIDE * square
        staged = max(2 * DEPTH * (tile + 1), SIDE // 2 * (self.across * SIDE + 1))
        return (staged + tile * (tile + 1) + tile * (SIDE + 1)) * self.type.bits // 8

    def emit(self) -> GpuKernel:
        """One kernel, or one for parts of the keys and one that puts them together."""
        p = self.p
        across, down, tiles = -(-p.width // self.width), -(-p.rows // self.tile), -(-p.count // self.keys)
        blocks = p.batch * down * across
        parts = parts_of(p, blocks, SIDE**2, tiles)
        skips = skipping(p, self.keys, SIDE**2)
        f = self.f = kernel_function(p.fusion, p.target, p.fusion.name, blocks * parts, SIDE * SIDE)
        p.begin(f)
        part, number = f.idiv(f.block_number(), blocks), f.irem(f.block_number(), blocks)
        self.batch, inside = f.idiv(number, down * across), f.irem(number, down * across)
        tile = f.idiv(inside, across)
        if skips:
            tile = f.isub(down - 1, tile)  # where masks are causal, those with most work first
        self.first = f.imul(tile, self.tile)
        self.column = f.imul(f.irem(inside, across), self.width)
        self.x, self.y = f.irem(f.thread_number(), SIDE), f.idiv(f.thread_number(), SIDE)
        self.rows = [f.imin(f.iadd(self.first, f.iadd(self.y, SIDE * i)), p.rows - 1) for i in range(self.square)]
        self.depth = SIDE if self.across <= SIDE // 2 else SIDE // 2  # keys whose values are staged together
        staged = max(DEPTH * (self.tile + self.keys + 2), self.depth * (self.across * SIDE + 1))
        self.staged = f.shared_memory(staged, self.type)
        self.staging = Staging(f, self.batch, self.staged)
        self.weights = f.shared_memory(self.tile * (self.keys + 1), self.type)
        self.extremes = f.shared_memory(self.tile * (SIDE + 1), self.type)
        lowest, zero = f.const(-math.inf, p.of.compute), f.const(0.0, self.type)
        start = [lowest] * self.square + [f.const(0.0, p.sums.compute)] * self.square
        start += [zero] * (self.square * self.across)
        self.band = Band(f, p.sides, skips.mask, self.keys, self.batch, self.first, self.tile) if skips else None

        def run(begin: Index, end: Index) -> list[Value]:
            return f.loop(begin, end, self.keys, self._keys, start)

        if skips and self.band and parts == 1:
            carried = skips.run(self.band, tiles * self.keys, start, run, self.square)
            self._finish(carried, p.row)
            f.ret()
            return GpuKernel.of(skips.finite_values(), f, scratch_bytes=skips.bytes)
        if skips and self.band:
            begin, end = skips.part(self.band, tiles * self.keys, part, parts)
        else:
            begin, end = (f.imul(f.idiv(f.imul(f.iadd(part, more), tiles), parts), self.keys) for more in (0, 1))
        carried = run(begin, end)
        if parts == 1:
            self._finish(carried, p.row)
            f.ret()
            return GpuKernel.of(f)
        shared = Parts(p, parts, skips.bytes if skips else 0)
        self._finish(carried, partial(shared.row, part))
        f.ret()
        if skips:
            total = shared.total(partial(skips.masked_of, self.tile, self.keys))
            return GpuKernel.of(skips.finite_values(), f, total, scratch_bytes=shared.bytes)
        return GpuKernel.of(f, shared.total(), scratch_bytes=shared.bytes)

    def _keys(self, begin: Value, *carried: Value) -> list[Value]:
        """A tile of keys: the largest scores, the sums of weights of this thread's keys, and of values."""
        f, p, square = self.f, self.p, self.square
        largest, totals, sums = carried[:square], carried[square : 2 * square], list(carried[2 * square :])
        scores = self._scores(begin)
        at = [self._key(begin, j) for j in range(self.key_square)]
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

    def _key(self, begin: Index, j: int) -> Index:
        return self.f.iadd(begin, self.f.iadd(self.x, SIDE * j))

    def _scores(self, begin: Value) -> list[list[Value]]:
        """Those of a thread, by rows."""
        f, p, square = self.f, self.p, self.square
        stride_a, stride_b = self.tile + 1, self.keys + 1
        keys = DEPTH * stride_a

        def step(start: Value, *sums: Value) -> list[Value]:
            f.barrier()
            self.staging.bring(p.scores, p.queries, self.first, start, (self.tile, DEPTH), 0)
            self.staging.bring(p.scores, p.keys, begin, start, (self.keys, DEPTH), keys)
            f.barrier()

            def multiply(k: Index, *inner: Value) -> list[Value]:
                a = [f.iadd(f.imul(k, stride_a), f.iadd(self.y, SIDE * i)) for i in range(square)]
                b = [f.iadd(f.imul(k, stride_b), f.iadd(self.x, keys + SIDE * j)) for j in range(self.key_square)]
                left, right = ([f.load(self.type, self.staged, each) for each in some] for some in (a, b))
                pairs = ((u, v) for u in left for v in right)
                return [f.fma(u, v, total) for (u, v), total in zip(pairs, inner, strict=True)]

            return f.loop(0, DEPTH, 1, multiply, sums)

        zero = f.const(0.0, self.type)
        totals = f.loop(0, p.scores.depth, DEPTH, step, [zero] * (square * self.key_square))
        scores = scored(f, self.band, begin, totals, self._score)
        return [scores[first : first + self.key_square] for first in range(0, len(scores), self.key_square)]

    def _score(self, begin: Index, number: int, total: Value, is_seen: bool) -> Value:
        """-inf behind the last key. `is_seen`: the query sees the key, which is there."""
        f, p = self.f, self.p
        i, j = divmod(number, self.key_square)
        key = self._key(begin, j)
        if is_seen or not p.count % self.keys:
            return p.score(self.batch, self.rows[i], f.imin(key, p.count - 1), total, is_seen=is_seen)
        score = p.score(self.batch, self.rows[i], f.imin(key, p.count - 1), total)
        exists = f.cmp("slt", f.index(key), f.const(p.count))
        return f.select(exists, score, f.const(-math.inf, score.type))

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
            self.staging.bring(p.values, p.columns, self.column, first, (self.across * SIDE, self.depth), 0)
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
