"""Attention by matrix units (attention.py says what it is): queries, keys and values of 16 bits, sums and softmax in
f32.

Each subgroup of a block has as many queries as the unit has rows, and keeps them in registers; in shared memory where
the sums of wide heads fill these. A tile of keys and one of values lie in shared memory; while the one is multiplied,
the other one is on its way. The sums of the first product have the places that the unit wants of its left operand, so
weights go from register to register (Dao, FlashAttention-2, 2023): threads exchange nothing but the largest scores of
their rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce

from stablehlo_py.backends.common.band import Band
from stablehlo_py.backends.gpu.kernels.attention_band import scored, skipping
from stablehlo_py.backends.gpu.kernels.attention_program import Parts, Program, Row, parts_of
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_function
from stablehlo_py.backends.gpu.kernels.product import FOUR, PIECE_BITS, Operand, Product
from stablehlo_py.backends.gpu.kernels.subgroup import Subgroup, takes_sums
from stablehlo_py.backends.gpu.kernels.tile import Tile
from stablehlo_py.codegen.builder import F32, I16, I32, Index, Value, VectorType
from stablehlo_py.codegen.matrix_units import MatrixUnit
from stablehlo_py.codegen.types import element, to_bits

#: Keys of a tile, and whether queries are held in registers, the best first.
CHOICES = ((64, True), (32, False), (16, False))
MOST_DEPTH = 256  # of queries, and columns of values
MOST_REGISTERS = 136  # of a thread, for queries, sums and scores
MOST_COLUMNS = 64  # of values that are read together where registers are few
SUBGROUPS = (8, 4)  # of a block, the largest first


def suits(p: Program, unit: MatrixUnit) -> bool:
    """Whether the unit can take the sums of a product as its left operand, and registers hold a row."""
    of = {element(value).name for value in (p.queries.value, p.keys.value, p.columns.value, p.weights)}
    results = p.values.of.name in ("f32", unit.operand) and p.of.compute == F32
    return (
        takes_sums(unit)
        and results
        and of == {unit.operand}
        and max(p.scores.depth, p.width) <= MOST_DEPTH
        and MatrixAttention(p, unit).fits
    )


class MatrixAttention:
    """The kernel."""

    def __init__(self, program: Program, unit: MatrixUnit) -> None:
        self.p, self.unit = program, unit
        self.subgroups = next((each for each in SUBGROUPS[:-1] if self._fills(each)), SUBGROUPS[-1])
        self.threads, self.rows = self.subgroups * unit.threads, self.subgroups * unit.rows
        self.keys, self.holds = next(
            (each for each in CHOICES[:-1] if self._registers(*each) <= MOST_REGISTERS), CHOICES[-1]
        )
        depth, width = (self._rounded(size, self.keys) for size in (program.scores.depth, program.width))
        self.q = self._tile(program.scores, program.queries, self.rows, depth)
        self.k = self._tile(program.scores, program.keys, self.keys, depth)
        self.v = self._tile(program.values, program.columns, width, self.keys)
        #: Rows of a thread, from the first of its subgroup and its outer part on.
        self.own = sorted({row for row, _ in unit.sums})

    @property
    def plan(self) -> str:
        """What it does otherwise than other kernels of this fusion."""
        return f"matrix {self.rows} queries, {self.keys} keys, {self.threads} threads"

    @property
    def fits(self) -> bool:
        """Whether registers, and shared memory, hold what a block has."""
        few = self._registers(self.keys, self.holds) <= MOST_REGISTERS
        return few and 4 * self._words <= self.p.target.shared_bytes

    @property
    def _words(self) -> int:
        """Shared memory for tiles, in words."""
        tiles = self.k.words + self.v.words
        return max(self.q.words, tiles) if self.holds else tiles + self.q.words

    def _registers(self, keys: int, holds: bool) -> float:
        """Of a thread, for queries, sums and scores."""
        depth, width = (self._rounded(size, keys) for size in (self.p.scores.depth, self.p.width))
        return self.unit.rows / self.unit.threads * (holds * depth / 2 + width + keys)

    def _rounded(self, size: int, keys: int) -> int:
        """Columns of a tile: a piece of it for each thread."""
        least = max(self.unit.depth, self.unit.columns, 8 * self.threads // keys)
        return max(least, 1 << (size - 1).bit_length())

    def _fills(self, subgroups: int) -> bool:
        """Whether such blocks are enough for the whole machine (two for a multiprocessor of 2048 threads), and their
        threads few enough."""
        threads, rows = subgroups * self.unit.threads, subgroups * self.unit.rows
        blocks = self.p.batch * -(-self.p.rows // rows)
        return threads <= 256 and blocks >= self.p.target.resident // 1024

    def _tile(self, product: Product, operand: Operand, rows: int, depth: int) -> Tile:
        copies = product.target.copies and product.lies_in_pieces(operand)
        return Tile(product, operand, I16, partial(product.bits, operand), rows, depth, self.threads, True, copies)

    def emit(self) -> GpuKernel:
        """One kernel, or one for parts of the keys and one that puts them together."""
        p, unit = self.p, self.unit
        down, tiles = -(-p.rows // self.rows), -(-p.count // self.keys)
        blocks = p.batch * down
        parts = parts_of(p, blocks, self.threads, tiles)
        skips = skipping(p, self.keys, self.threads)
        f = self.f = kernel_function(p.fusion, p.target, p.fusion.name, blocks * parts, self.threads)
        p.begin(f)
        part, number = f.idiv(f.block_number(), blocks), f.irem(f.block_number(), blocks)
        self.batch, tile = f.idiv(number, down), f.irem(number, down)
        if skips:
            tile = f.isub(down - 1, tile)  # where masks are causal, those with most work first
        self.first = f.imul(tile, self.rows)
        self.subgroup = Subgroup(f, unit)
        self.mine = f.imul(self.subgroup.number, unit.rows)
        self.at = [
            f.imin(f.iadd(self.first, f.iadd(self.mine, f.iadd(self.subgroup.outer, row))), p.rows - 1)
            for row in self.own
        ]
        in_pieces = element(p.output).bits == 16 and p.result_piece(self.batch, self.first, 0) is not None
        finish = self._finish_in_pieces if in_pieces else partial(self._finish, row_of=p.row)
        results = self.rows * self.v.rows // 2 if in_pieces else 0
        self.shared = f.shared_memory(max(self._words, results), I32, align=1024)
        self.behind = 0 if self.holds else self.k.size + self.v.size  # what queries are
        self._come(self.q, self.behind, self.first, 0)()
        self.queries = list[list[Value]]()
        if self.holds:  # else those of keys are barriers for queries, too
            f.barrier()
            self.queries = self._left()
            f.barrier()
        start = [f.const(-math.inf, F32)] * len(self.own) + [f.const(0.0, F32)] * len(self.own)
        start += [f.const(0.0, F32)] * (self.v.rows // unit.columns * len(unit.sums))
        self.band = Band(f, p.sides, skips.mask, self.keys, self.batch, self.first, self.rows) if skips else None

        def run(begin: Index, end: Index) -> list[Value]:
            self.last = f.isub(end, self.keys)
            self._come(self.k, 0, f.imin(begin, (tiles - 1) * self.keys), 0)()
            f.barrier()
            return f.loop(begin, end, self.keys, self._keys, start)

        if skips and self.band and parts == 1:
            carried = skips.run(self.band, tiles * self.keys, start, run, len(self.own))
            finish(carried)
            f.ret()
            return GpuKernel.of(skips.finite_values(), f, scratch_bytes=skips.bytes)
        if skips and self.band:
            begin, end = skips.part(self.band, tiles * self.keys, part, parts)
        else:
            begin, end = (f.imul(f.idiv(f.imul(f.iadd(part, more), tiles), parts), self.keys) for more in (0, 1))
        carried = run(begin, end)
        if parts == 1:
            finish(carried)
            f.ret()
            return GpuKernel.of(f)
        shared = Parts(p, parts, skips.bytes if skips else 0)
        self._finish(carried, partial(shared.row, part))
        f.ret()
        if skips:
            total = shared.total(partial(skips.masked_of, self.rows, self.keys))
            return GpuKernel.of(skips.finite_values(), f, total, scratch_bytes=shared.bytes)
        return GpuKernel.of(f, shared.total(), scratch_bytes=shared.bytes)

    def _left(self) -> list[list[Value]]:
        """The registers of the queries, for each depth of the unit."""
        depths, own, count = range(0, self.q.depth, self.unit.depth), self.mine, self.unit.rows
        return [self.subgroup.left(self.shared, self.behind, self.q, own, count, depth)[0] for depth in depths]

    def _come(self, tile: Tile, begin: int, first: Index, start: Index) -> Callable[[], None]:
        """Begin to bring a tile; what is returned ends that."""
        f = self.f
        put = tile.bring(f, self.shared, begin, self.batch, first, start)
        if tile.copies:
            f.commit_copies()

        def come() -> None:
            put()
            if tile.copies:
                f.await_copies(0)

        return come

    def _keys(self, begin: Value, *carried: Value) -> list[Value]:
        """A tile of keys: the largest scores, the sums of weights of this thread's keys, and of values."""
        f, p, unit, count = self.f, self.p, self.unit, len(self.own)
        largest, totals, sums = carried[:count], list(carried[count : 2 * count]), list(carried[2 * count :])
        come = self._come(self.v, self.k.size, 0, begin)
        scores = [f.const(0.0, F32)] * (self.keys // unit.columns * len(unit.sums))
        for number, left in enumerate(self.queries or self._left()):
            right = self.subgroup.right(self.shared, 0, self.k, 0, self.keys, number * unit.depth)
            scores = self.subgroup.multiplied([left], right, scores)
        come()
        f.barrier()  # all have read the keys, and the values are there
        come = self._come(self.k, 0, f.imin(f.iadd(begin, self.keys), self.last), 0)
        scores = scored(f, self.band, begin, scores, self._score)
        keys = [self._key(begin, number) for number in range(len(scores))]
        tops = [self._top(row, scores, top) for row, top in enumerate(largest)]
        references = [p.reference(top) for top in tops]
        scales = [p.scale(old, new) for old, new in zip(largest, tops, strict=True)]
        totals = [f.fmul(total, scale) for total, scale in zip(totals, scales, strict=True)]
        weights = []
        for number, (key, score) in enumerate(zip(keys, scores, strict=True)):
            row = self.subgroup.row_of(number)
            safe = f.imin(key, p.count - 1) if p.count % self.keys else key
            added, weight = p.weight(self.batch, self.at[row], safe, score, references[row])
            totals[row] = f.fadd(totals[row], added)
            weights.append(to_bits(f, element(p.weights), weight))
        sums = [f.fmul(sum_, scales[self.subgroup.row_of(number)]) for number, sum_ in enumerate(sums)]
        width = self.v.rows if self.holds else min(self.v.rows, MOST_COLUMNS)
        squares = width // unit.columns * len(unit.sums)
        for first in range(0, self.keys, unit.depth):
            left = self.subgroup.sums_as_left(weights, first)
            for column in range(0, self.v.rows, width):
                right = self.subgroup.right(self.shared, self.k.size, self.v, column, width, first)
                at = column // width * squares
                sums[at : at + squares] = self.subgroup.multiplied([left], right, sums[at : at + squares])
        come()
        f.barrier()  # all have read the values, and the next keys are there
        return [*tops, *totals, *sums]

    def _key(self, begin: Index, number: int) -> Index:
        return self.f.iadd(begin, self.subgroup.column_of(number))

    def _score(self, begin: Index, number: int, total: Value, is_seen: bool) -> Value:
        """-inf behind the last key. `is_seen`: the query sees the key, which is there."""
        f, p = self.f, self.p
        row, key = self.at[self.subgroup.row_of(number)], self._key(begin, number)
        if is_seen or p.count % self.keys == 0:
            return p.score(self.batch, row, key, total, is_seen=is_seen)
        score = p.score(self.batch, row, f.imin(key, p.count - 1), total)
        return f.select(f.cmp("slt", f.index(key), f.const(p.count)), score, f.const(-math.inf, score.type))

    def _top(self, row: int, scores: Sequence[Value], top: Value) -> Value:
        """The largest score of a row, those of other threads included."""
        for number, score in enumerate(scores):
            if self.subgroup.row_of(number) == row:
                top = self.p.larger(top, score)
        return self.subgroup.over_threads(top, self.p.larger)

    def _finish(self, carried: Sequence[Value], row_of: Row) -> None:
        """Store the results of the block's rows."""
        f, p, count = self.f, self.p, len(self.own)
        totals = [self.subgroup.over_threads(total, f.fadd) for total in carried[count : 2 * count]]
        for row, total in enumerate(totals):

            def put(row: int = row, total: Value = total) -> None:
                store = row_of(self.batch, self.at[row], carried[row], total)
                for column, sum_ in self._sums(carried, row):

                    def put_one(column: Index = column, sum_: Value = sum_) -> None:
                        store(column, sum_)

                    if p.width == self.v.rows:
                        put_one()
                    else:
                        f.if_(f.cmp("slt", f.index(column), f.const(p.width)), put_one)

            if p.rows % self.rows:
                f.if_(f.cmp("slt", f.index(f.iadd(self.first, self._local(row))), f.const(p.rows)), put)
            else:
                put()

    def _finish_in_pieces(self, carried: Sequence[Value]) -> None:
        """The same by way of shared memory, where results of 16 bits lie as they do in memory: then neighbouring
        threads store neighbouring pieces. They lie in the order of a tile, so the threads of a row, and those with the
        same columns, use different banks."""
        f, p, count, pack = self.f, self.p, len(self.own), self.unit.sum_pack
        of, width = element(p.output), self.v.rows
        wide = PIECE_BITS // of.bits

        def at(row: Index, column: Index) -> Index:
            piece = f.ixor(f.idiv(column, wide), f.irem(row, width // wide))
            return f.iadd(f.imul(row, width), f.iadd(f.imul(piece, wide), f.irem(column, wide)))

        for row, total in enumerate(carried[count : 2 * count]):
            total = self.subgroup.over_threads(total, f.fadd)
            made = p.results(self.batch, self.at[row], carried[row], total)
            if p.kept:
                exists = f.cmp("slt", f.index(f.iadd(self.first, self._local(row))), f.const(p.rows))
                is_first = f.cmp("eq", f.index(self.subgroup.inner), f.const(0))
                keep = partial(p.keep, self.batch, self.at[row], carried[row], total)
                f.if_(f.binary("and", exists, is_first), keep)
            mine = [(column, to_bits(f, of, made(column, sum_))) for column, sum_ in self._sums(carried, row)]
            for first in range(0, len(mine), pack):
                word = f.poison(VectorType(pack, I16))
                for lane, (_, bits) in enumerate(mine[first : first + pack]):
                    word = f.insert(word, bits, lane)
                f.store(word, self.shared, at(self._local(row), mine[first][0]), align=2 * pack)
        f.barrier()
        across = p.width // wide
        for part in range(-(-self.rows * across // self.threads)):
            number = f.iadd(f.thread_number(), part * self.threads)
            local, column = f.idiv(number, across), f.imul(f.irem(number, across), wide)
            query = f.iadd(self.first, local)

            def put(local: Index = local, query: Index = query, column: Index = column) -> None:
                found = f.load(FOUR, self.shared, f.idiv(at(local, column), 32 // of.bits), align=PIECE_BITS // 8)
                start = p.result_piece(self.batch, f.imin(query, p.rows - 1), column)
                assert start is not None
                f.store(found, p.out, start, align=PIECE_BITS // 8)

            tests = [f.cmp("slt", f.index(query), f.const(p.rows))] if p.rows % self.rows else []
            if self.rows * across % self.threads:
                tests.append(f.cmp("slt", f.index(local), f.const(self.rows)))
            if tests:
                f.if_(reduce(lambda a, b: f.binary("and", a, b), tests), put)
            else:
                put()

    def _local(self, row: int) -> Index:
        """One of the thread's rows, in the block."""
        return self.f.iadd(self.mine, self.f.iadd(self.subgroup.outer, self.own[row]))

    def _sums(self, carried: Sequence[Value], row: int) -> list[tuple[Index, Value]]:
        """Columns and sums of one of the thread's rows."""
        sums = enumerate(carried[2 * len(self.own) :])
        return [(self.subgroup.column_of(number), sum_) for number, sum_ in sums if self.subgroup.row_of(number) == row]
