"""Fusions of kind `scores`: sums over one side of work on the products of two, without an array of all scores. The
gradient of attention is three of them (passes/fusing/scores.py).

A block of threads has a tile of the outer side of one batch, and goes through the inner side tile by tile (Dao et al.,
FlashAttention, 2022, algorithm 4). The products of a tile are sums in registers, a square of them in each thread; tiles
of their operands go through shared memory, DEPTH products deep. Work on scores is done on these sums. What a reduction
has of them is added up by each thread, and over the threads of a row at the end; weights of a sum go through shared
memory to be the left operand of its product.

Nothing is added atomically: every sum over queries has a block of its own that computes the scores again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.band import Band
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_function
from stablehlo_py.backends.gpu.kernels.product import Operand, Product
from stablehlo_py.backends.gpu.kernels.scores_band import Skipping, skipping
from stablehlo_py.backends.gpu.kernels.scores_matrix import MatrixScores, suits
from stablehlo_py.backends.gpu.kernels.scores_program import Program, RowReduction, WeightedSum
from stablehlo_py.backends.gpu.kernels.staging import DEPTH, SIDE, Staging
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.types import element

SQUARES = (4, 2, 1)  # places of a thread on both sides, from the widest tile to the narrowest
MOST_COLUMNS = 256  # of results, that a block computes


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernels of a `scores` fusion: one, or one for each sum where they are wide."""
    program = Program(fusion, target)
    product = program.products[0].product
    left, right = (element(each.value).name for each in (product.a, product.b))
    for unit in target.units_for(left, right, product.of.name):
        if not unit.is_warpgroup and suits(program, unit):
            return MatrixScores(program, unit).emit()
    widths = [-(-each.width // SIDE) * SIDE for each in program.sums]
    jobs: list[Sequence[WeightedSum]] = [program.sums]
    if sum(widths) > MOST_COLUMNS:
        jobs = [[each] for each in program.sums]
    kernels = [_Tiled(program, sums, number) for number, sums in enumerate(jobs)]
    skips = skipping(program, max(each.shape.tile for each in kernels))
    functions = [each.emit(skips) for each in kernels]
    return GpuKernel.of(skips.front(), *functions, scratch_bytes=skips.bytes) if skips else GpuKernel.of(*functions)


@dataclass(frozen=True)
class _Shape:
    """How large tiles are, and how many columns of each sum a thread has."""

    square: int
    across: tuple[int, ...]

    @property
    def tile(self) -> int:
        return SIDE * self.square

    @property
    def depth(self) -> int:
        """Places of the inner side whose columns are staged together."""
        return SIDE if max(self.across, default=0) <= SIDE // 2 else SIDE // 2

    @property
    def staged(self) -> int:
        return max(2 * DEPTH * (self.tile + 1), self.depth * (max(self.across, default=0) * SIDE + 1))

    def words(self, reductions: int) -> int:
        weights = self.tile * (self.tile + 1) if self.across else 0
        return self.staged + weights + reductions * self.tile * (SIDE + 1)


class _Tiled:
    """A kernel of some of the sums; the first one has the reductions, too."""

    def __init__(self, program: Program, sums: Sequence[WeightedSum], number: int) -> None:
        self.p, self.sums, self.number = program, sums, number
        self.reductions = program.reductions if number == 0 else []
        self.widths = [min(each.width, MOST_COLUMNS) for each in sums]
        shapes = [_Shape(square, tuple(-(-width // SIDE) for width in self.widths)) for square in SQUARES]
        bytes_ = program.type.bits // 8
        fits = [each for each in shapes if each.words(len(self.reductions)) * bytes_ <= program.target.shared_bytes]
        self.shape = (fits or shapes[-1:])[0]

    def emit(self, skips: Skipping | None) -> Function:
        """The kernel."""
        p, shape = self.p, self.shape
        tile = shape.tile
        down = -(-p.rows // tile)
        blocks_across = max(
            (-(-each.width // width) for each, width in zip(self.sums, self.widths, strict=True)), default=1
        )
        symbol = p.fusion.name if self.number == 0 else f"{p.fusion.name}_{self.number}"
        f = self.f = kernel_function(p.fusion, p.target, symbol, p.batch * down * blocks_across, SIDE * SIDE)
        p.begin(f)
        number = f.block_number()
        self.batch, inside = f.idiv(number, down * blocks_across), f.irem(number, down * blocks_across)
        block = f.idiv(inside, blocks_across)
        if skips and skips.from_end:
            block = f.isub(down - 1, block)  # those with most work first
        self.first = f.imul(block, tile)
        self.column = f.imul(f.irem(inside, blocks_across), MOST_COLUMNS)
        self.x, self.y = f.irem(f.thread_number(), SIDE), f.idiv(f.thread_number(), SIDE)
        self.rows = [f.imin(f.iadd(self.first, self._local(i)), p.rows - 1) for i in range(shape.square)]
        self.staged = f.shared_memory(shape.staged, p.type)
        self.staging = Staging(f, self.batch, self.staged)
        if self.sums:
            self.weights = f.shared_memory(tile * (tile + 1), p.type)
        start = [each.identity(f) for each in self.reductions for _ in range(shape.square)]
        zeros = sum(shape.across) * shape.square
        start += [f.const(0.0, p.type)] * zeros
        if skips:
            band = Band(f, p.sides, skips.mask, tile, self.batch, self.first, tile)
            low, end = skips.tiles_of(band, self.first)
            carried = f.loop(f.imul(low, tile), f.imul(end, tile), tile, self._tile, start)
            carried = skips.with_masked(band, low, end, carried, shape.square if self.reductions else 0)
        else:
            carried = f.loop(0, p.count, tile, self._tile, start)
        self._finish(carried)
        f.ret()
        return f

    def _local(self, i: int) -> Index:
        """One of the thread's places of the outer side, in the tile."""
        return self.f.iadd(self.y, SIDE * i)

    def _tile(self, begin: Value, *carried: Value) -> list[Value]:
        """What a tile of the inner side adds to the reductions and to the sums."""
        f, p, square = self.f, self.p, self.shape.square
        totals = [self._product(each.product, each.outer, each.inner, begin) for each in p.products]
        weights: list[list[Value]] = [[] for _ in self.sums]
        reduced, sums = list(carried[: len(self.reductions) * square]), list(carried[len(self.reductions) * square :])
        for i in range(square):
            for j in range(square):
                inner = f.iadd(begin, f.iadd(self.x, SIDE * j))
                exists = f.cmp("slt", f.index(inner), f.const(p.count))
                safe = f.imin(inner, p.count - 1)
                score = [each[i * square + j] for each in totals]
                found = p.evaluated(self.batch, self.rows[i], safe, score)
                for number, sum_ in enumerate(self.sums):
                    value = sum_.weight(found[p.sums.index(sum_)])
                    weights[number].append(f.select(exists, value, f.const(0.0, value.type)))
                for number, item in enumerate(self.reductions):
                    score_of, at = found[len(p.sums) + number], number * square + i
                    assert isinstance(score_of, Value)
                    reduced[at] = item.combined(f, reduced[at], f.select(exists, score_of, item.identity(f)))
        results, begin_of = list[Value](), 0
        for number, sum_ in enumerate(self.sums):
            across = self.shape.across[number]
            mine = sums[begin_of : begin_of + across * square]
            results += self._summed(sum_, number, begin, weights[number], mine)
            begin_of += across * square
        return [*reduced, *results]

    def _product(self, product: Product, outer: Operand, inner: Operand, begin: Value) -> list[Value]:
        """Scores of a thread, by places of the outer side."""
        f, shape = self.f, self.shape
        square, stride = shape.square, shape.tile + 1
        other = DEPTH * stride

        def step(start: Value, *sums: Value) -> list[Value]:
            f.barrier()
            self.staging.bring(product, outer, self.first, start, (shape.tile, DEPTH), 0)
            self.staging.bring(product, inner, begin, start, (shape.tile, DEPTH), other)
            f.barrier()

            def multiply(k: Index, *held: Value) -> list[Value]:
                at = f.imul(k, stride)
                left = [f.load(self.p.type, self.staged, f.iadd(at, self._local(i))) for i in range(square)]
                places = [f.iadd(at, f.iadd(self.x, other + SIDE * j)) for j in range(square)]
                right = [f.load(self.p.type, self.staged, place) for place in places]
                pairs = ((u, v) for u in left for v in right)
                return [f.fma(u, v, total) for (u, v), total in zip(pairs, held, strict=True)]

            return f.loop(0, DEPTH, 1, multiply, sums)

        return f.loop(0, outer.depth, DEPTH, step, [f.const(0.0, self.p.type)] * square**2)

    def _summed(
        self, sum_: WeightedSum, number: int, begin: Value, weights: Sequence[Value], sums: Sequence[Value]
    ) -> list[Value]:
        """Sums of columns with a tile of the inner side added."""
        f, shape = self.f, self.shape
        square, across, line = shape.square, shape.across[number], shape.tile + 1
        stride = across * SIDE + 1
        if number:
            f.barrier()  # all have read the weights of the sum before
        for position, weight in enumerate(weights):
            i, j = divmod(position, square)
            f.store(weight, self.weights, f.iadd(f.imul(self._local(i), line), f.iadd(self.x, SIDE * j)))

        def step(start: Value, *totals: Value) -> list[Value]:
            f.barrier()
            first = f.iadd(begin, start)
            self.staging.bring(sum_.product, sum_.columns, self.column, first, (across * SIDE, shape.depth), 0)
            f.barrier()

            def multiply(k: Index, *held: Value) -> list[Value]:
                inner = f.iadd(start, k)
                a = [f.iadd(f.imul(self._local(i), line), inner) for i in range(square)]
                b = [f.iadd(f.imul(k, stride), f.iadd(self.x, SIDE * j)) for j in range(across)]
                left = [f.load(self.p.type, self.weights, each) for each in a]
                right = [f.load(self.p.type, self.staged, each) for each in b]
                pairs = ((u, v) for u in left for v in right)
                return [f.fma(u, v, total) for (u, v), total in zip(pairs, held, strict=True)]

            return f.loop(0, shape.depth, 1, multiply, totals)

        return f.loop(0, shape.tile, shape.depth, step, sums)

    def _finish(self, carried: Sequence[Value]) -> None:
        """Store the results of the block."""
        f, p, square = self.f, self.p, self.shape.square
        for number, item in enumerate(self.reductions):
            mine = carried[number * square : (number + 1) * square]
            parts = f.shared_memory(self.shape.tile * (SIDE + 1), p.type)
            for i, value in enumerate(mine):
                f.store(value, parts, f.iadd(f.imul(self._local(i), SIDE + 1), self.x))
            f.barrier()
            for i in range(square):
                begin = f.imul(self._local(i), SIDE + 1)
                total = f.load(p.type, parts, begin)
                for other in range(1, SIDE):
                    total = item.combined(f, total, f.load(p.type, parts, f.iadd(begin, other)))

                def put(i: int = i, total: Value = total, item: RowReduction = item) -> None:
                    item.store(self.batch, self.rows[i], total)

                exists = f.cmp("slt", f.index(f.iadd(self.first, self._local(i))), f.const(p.rows))
                f.if_(f.binary("and", exists, f.cmp("eq", f.index(self.x), f.const(0))), put)
        begin_of = len(self.reductions) * square
        for number, sum_ in enumerate(self.sums):
            across = self.shape.across[number]
            for i in range(square):
                mine = carried[begin_of + i * across : begin_of + (i + 1) * across]

                def put_row(i: int = i, mine: Sequence[Value] = mine, sum_: WeightedSum = sum_) -> None:
                    for j, total in enumerate(mine):
                        column = f.iadd(self.column, f.iadd(self.x, SIDE * j))

                        def put_one(column: Index = column, total: Value = total) -> None:
                            sum_.store(self.batch, self.rows[i], column, total)

                        f.if_(f.cmp("slt", f.index(column), f.const(sum_.width)), put_one)

                f.if_(f.cmp("slt", f.index(f.iadd(self.first, self._local(i))), f.const(p.rows)), put_row)
            begin_of += across * square
