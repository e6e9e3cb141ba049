"""Products in tiles: a block of threads computes a tile of the result.

Tiles of both operands lie in shared memory, `stages` of them one behind the other: while one is multiplied, the next
ones are on their way (tile.py). One barrier a step says that a tile has come, and that the one before it is free. A
product with fewer tiles than the machine has room for is split: several blocks add up parts of the sums of one tile,
and a second kernel adds these up, in order (split-K). Blocks whose numbers are neighbours share rows and columns, which
are then in the cache.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from stablehlo_py.backends.gpu.kernels.base import Candidate, GpuKernel, global_number
from stablehlo_py.backends.gpu.kernels.product import PIECE_BITS, Operand, Product
from stablehlo_py.backends.gpu.kernels.tile import Tile
from stablehlo_py.codegen.builder import F32, I32, Function, Index, ScalarType, Value, VectorType
from stablehlo_py.codegen.index import Affine

NEIGHBOURS = 8  # tiles of a column that follow one another
LEAST_STEPS, MOST_PARTS = 8, 128  # of a part of a split product; parts
BLOCK = 256  # threads of the kernel that adds up parts
STAGES = (2, 3, 4, 5)  # that are tried


@dataclass(frozen=True)
class Tiling:
    """How a product is shared out.

    Attributes:
        rows, columns, depth: of a tile; threads: of its block; stages: tiles in shared memory at once.
        speed: how fast such tiles are multiplied, next to the fastest ones.
        split: into how many parts a sum is split, where it is long enough; 0: as many as there is room for.
    """

    rows: int
    columns: int
    depth: int
    threads: int
    stages: int
    speed: float
    split: int = field(default=0, kw_only=True)

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.depth}, {self.threads} threads"

    def tiles(self, p: Product) -> int:
        """Of the whole result."""
        return p.batch * -(-p.rows // self.rows) * -(-p.columns // self.columns)

    def parts(self, p: Product) -> int:
        """Into how many a sum is split: unless given, so that there are blocks for the whole machine."""
        possible = -(-p.depth // self.depth) // LEAST_STEPS
        return max(1, min(MOST_PARTS, possible, self.split or self._room(p) // self.tiles(p)))

    def varied(self, p: Product) -> Iterator[Tiling]:
        """The same tiles with other numbers of stages, or of parts."""
        yield self
        yield from (replace(self, stages=stages) for stages in STAGES)
        parts = self.parts(p)
        yield from (replace(self, split=split) for split in (1, parts // 2, 2 * parts, 4 * parts) if split)

    def cost(self, p: Product) -> float:
        """What the product takes with such tiles, in multiplications of the whole machine: rounds of as many blocks as
        there is room for, and what parts take in memory."""
        room, parts = self._room(p), self.parts(p)
        rounds = -(-self.tiles(p) * parts // room)
        steps = -(-p.depth // self.depth // parts)
        multiplied = rounds * room * self.rows * self.columns * self.depth * (steps + self.stages) / self.speed
        moved = 2 * parts * p.batch * p.rows * p.columns if parts > 1 else 0
        return multiplied + moved * _MOVED

    def _room(self, p: Product) -> int:
        """Blocks that the machine has room for at once: a fourth of its threads, as sums fill registers."""
        return max(1, p.target.resident // 4 // self.threads)


_MOVED = 512.0  # multiplications in the time in which one number is written or read


Put = Callable[[Index, Index, Sequence[Value]], None]
Corner = tuple[Index, Index, Index]  # of a tile: its batch, first row and first column


class TiledProduct(ABC):
    """The kernel of a product in tiles.

    Attributes:
        p: the product; tiling: its tiles; a, b: those of the operands.
        held: integers as wide as the elements in shared memory; sum_type: of sums.
        lag: steps that multiplications may go on when the next one begins.
    """

    held: ScalarType
    sum_type: ScalarType = F32
    lag = 0

    def __init__(self, product: Product, tiling: Tiling) -> None:
        self.p, self.tiling, self.parts = product, tiling, tiling.parts(product)
        sides = ((product.a, tiling.rows), (product.b, tiling.columns))
        copied = [
            product.target.copies
            and self.as_stored(operand)
            and product.lies_in_pieces(operand)
            and not self.turns(operand)
            for operand, _ in sides
        ]
        self.copies = any(copied)
        self.stages = tiling.stages if self.copies else 2 + self.lag
        self.a, self.b = (
            Tile(
                product,
                operand,
                self.held,
                partial(self.bits, operand),
                rows,
                tiling.depth,
                tiling.threads,
                self.as_stored(operand),
                is_copied,
                self.turns(operand),
                self.swizzles(operand),
            )
            for (operand, rows), is_copied in zip(sides, copied, strict=True)
        )

    @abstractmethod
    def as_stored(self, operand: Operand) -> bool:
        """Whether an operand's elements lie in shared memory as in memory."""

    def turns(self, operand: Operand) -> bool:
        """Whether what lies along rows in memory is to lie along the products in shared memory."""
        return False

    def swizzles(self, operand: Operand) -> bool:
        """Whether threads read the same piece of neighbouring lines together."""
        return True

    @abstractmethod
    def bits(self, operand: Operand, batch: Index, row: Affine, k: Affine) -> Value:
        """An element of an operand as it lies in shared memory."""

    @abstractmethod
    def start(self, f: Function) -> list[Value]:
        """The sums of a thread before the first product."""

    @abstractmethod
    def multiply(self, f: Function, shared: Value, begin: Index, sums: Sequence[Value]) -> list[Value]:
        """The sums with the products of a step added, whose tiles begin at that element."""

    def prepare(self, f: Function, first: Index, last: Index) -> None:
        """What comes before the first tile. A block has the steps from `first` to `last`, which it has not."""
        self.first, self.last = first, last

    def bring(self, f: Function, shared: Value, begin: Index, corner: Corner, step: Index) -> Callable[[], None]:
        """Begin to bring the tiles of a step, which are to begin at that element; what is returned stores what came to
        registers."""
        batch, row, column = corner
        start = f.imul(step, self.tiling.depth)
        put_a = self.a.bring(f, shared, begin, batch, row, start)
        put_b = self.b.bring(f, shared, f.iadd(begin, self.a.size), batch, column, start)
        if self.copies:
            f.commit_copies()

        def put() -> None:
            put_a()
            put_b()

        return put

    def arrived(self, f: Function, step: Index, pending: int) -> None:
        """Wait until the tiles of a step have come, but not for those of the next `pending` ones; behind a barrier, all
        threads see them."""
        if self.copies:
            f.await_copies(pending)

    def free(self, f: Function) -> None:
        """Behind the last product, shared memory is free for other things."""
        if self.copies:
            f.await_copies(0)
        f.barrier()

    def finished(self, f: Function, sums: Sequence[Value]) -> list[Value]:
        """The sums when all multiplications have ended."""
        return list(sums)

    @abstractmethod
    def store(self, f: Function, shared: Value, sums: Sequence[Value], put: Put) -> None:
        """Give all sums to `put`, with their row and first column in the tile: so many columns as `p.neighbours` says,
        or one."""

    @abstractmethod
    def retiled(self, tiling: Tiling) -> TiledProduct:
        """The same with another tiling."""

    @property
    @abstractmethod
    def by(self) -> str:
        """What multiplies."""

    @property
    def plan(self) -> str:
        """What it does otherwise than other kernels of this product."""
        return f"{self.by} {self.tiling}, {self.stages} stages, {self.parts} parts"

    @property
    def is_possible(self) -> bool:
        """Whether there is shared memory for it, and a stage to bring while one is multiplied."""
        return self.shared_bytes <= self.p.target.shared_bytes and self.stages >= 2 + self.lag

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return 4 * max(self.stages * (self.a.words + self.b.words), self.staged)

    @property
    @abstractmethod
    def staged(self) -> int:
        """32-bit words of shared memory that `store` takes."""

    @property
    def sums_bytes(self) -> int:
        """Of scratch memory, for the parts of all sums."""
        return self.parts * self._results * self.sum_type.bits // 8 if self.parts > 1 else 0

    @property
    def more_scratch(self) -> int:
        """Bytes of scratch memory behind these."""
        return 0

    # --- the kernel --------------------------------------------------------------------------------------------------

    def emit(self) -> GpuKernel:
        """One kernel, or one for the parts and one that adds them up."""
        p, tiling = self.p, self.tiling
        tiles, steps = tiling.tiles(p), -(-p.depth // tiling.depth)
        f = p.begin(tiles * self.parts, tiling.threads)
        part, number = f.idiv(f.block_number(), tiles), f.irem(f.block_number(), tiles)
        corner = self._corner(f, number)
        size = self.a.size + self.b.size
        shared = f.shared_memory(self.shared_bytes // 4, I32, align=1024)
        first, last = (f.idiv(f.imul(f.iadd(part, more), steps), self.parts) for more in (0, 1))
        self.prepare(f, first, last)

        def begin(step: Index) -> Index:
            return f.imul(f.irem(step, self.stages), size)

        def bring(step: Index) -> Callable[[], None]:
            return self.bring(f, shared, begin(step), corner, step)

        ahead = self.stages - 1 - self.lag  # steps between bringing a tile and using it
        for number in range(ahead):
            bring(f.iadd(first, number))()

        def step(number: Index, *sums: Value) -> list[Value]:
            self.arrived(f, number, ahead - 1)
            f.barrier()
            if self.lag:
                sums = tuple(self.multiply(f, shared, begin(number), sums))
            put = bring(f.iadd(number, ahead))
            if not self.lag:
                sums = tuple(self.multiply(f, shared, begin(number), sums))
            put()
            return list(sums)

        sums = self.finished(f, f.loop(first, last, 1, step, self.start(f), nonempty=True))
        self.store(f, shared, sums, partial(self._put, f, part, *corner))
        f.ret()
        functions = [f] if self.parts == 1 else [f, self._total()]
        return GpuKernel.of(*functions, scratch_bytes=self.sums_bytes + self.more_scratch)

    def _corner(self, f: Function, number: Index) -> Corner:
        """The batch, the first row and the first column of a tile: columns of NEIGHBOURS tiles one beside the other."""
        p, tiling = self.p, self.tiling
        across, down = -(-p.columns // tiling.columns), -(-p.rows // tiling.rows)
        batch, number = f.idiv(number, across * down), f.irem(number, across * down)
        band, inside = f.idiv(number, NEIGHBOURS * across), f.irem(number, NEIGHBOURS * across)
        above = f.imul(band, NEIGHBOURS)
        height = f.imin(f.isub(down, above), NEIGHBOURS) if down % NEIGHBOURS else NEIGHBOURS
        row, column = f.iadd(above, f.irem(inside, height)), f.idiv(inside, height)
        return batch, f.imul(row, tiling.rows), f.imul(column, tiling.columns)

    def _put(
        self,
        f: Function,
        part: Index,
        batch: Index,
        row: Index,
        column: Index,
        down: Index,
        across: Index,
        sums: Sequence[Value],
    ) -> None:
        """What becomes of the sums of a row and of columns of the tile that begins there."""
        p, tiling = self.p, self.tiling
        at = (f.iadd(row, down), f.iadd(column, across))
        inside = [
            f.cmp("slt", f.index(each), f.const(size))
            for each, size, tile in zip(at, (p.rows, p.columns), (tiling.rows, tiling.columns), strict=True)
            if size % tile
        ]

        def store() -> None:
            if self.parts == 1:
                p.store(batch, *at, sums)
                return
            result = f.iadd(f.imul(f.iadd(f.imul(batch, p.rows), at[0]), p.columns), at[1])
            at_part = f.iadd(f.imul(part, self._results), result)
            wide = min(len(sums), 4)
            for first in range(0, len(sums), wide):
                f.store(
                    packed(f, sums[first : first + wide]),
                    f.scratch,
                    f.iadd(at_part, first),
                    align=self.sum_type.bits // 8 * wide,
                )

        if inside:
            f.if_(reduce(partial(f.binary, "and"), inside), store)
        else:
            store()

    @property
    def _results(self) -> int:
        return self.p.batch * self.p.rows * self.p.columns

    def _total(self) -> Function:
        """The kernel that adds up the parts of every sum."""
        p, results = self.p, self._results
        f = p.begin(-(-results // BLOCK), BLOCK, f"{p.fusion.name}_total")
        number = global_number(f)
        add = f.fadd if self.sum_type.is_float else partial(f.binary, "add")

        def store() -> None:
            first = f.load(self.sum_type, f.scratch, number)
            (sum_,) = f.loop(
                1,
                self.parts,
                1,
                lambda part, sum_: [add(sum_, f.load(self.sum_type, f.scratch, f.iadd(f.imul(part, results), number)))],
                [first],
            )
            inside, column = f.idiv(number, p.columns), f.irem(number, p.columns)
            p.store(f.idiv(inside, p.rows), f.irem(inside, p.rows), column, [sum_])

        f.if_(f.cmp("slt", number, f.const(results)), store)
        f.ret()
        return f


def fastest(kernels: Sequence[TiledProduct]) -> TiledProduct:
    """Of those that are possible, the one that takes the least time, as estimated."""
    return min((kernel for kernel in kernels if kernel.is_possible), key=lambda kernel: kernel.tiling.cost(kernel.p))


def ranked(first: TiledProduct, others: Callable[[], Sequence[TiledProduct]]) -> Iterator[Candidate]:
    """A kernel of a product, then others, each with several numbers of stages and of parts, those first that take the
    least time, as estimated."""
    yield Candidate(first.plan, first.emit)
    p, seen = first.p, {first.plan}
    varied = [kernel.retiled(tiling) for kernel in others() for tiling in kernel.tiling.varied(p)]
    for kernel in sorted(varied, key=lambda kernel: kernel.tiling.cost(p)):
        if kernel.is_possible and kernel.plan not in seen:
            seen.add(kernel.plan)
            yield Candidate(kernel.plan, kernel.emit)


def packed(f: Function, values: Sequence[Value]) -> Value:
    """A vector of scalars; a scalar where there is one."""
    if len(values) == 1:
        return values[0]
    vector = f.poison(VectorType(len(values), values[0].type.element))
    for number, value in enumerate(values):
        vector = f.insert(vector, value, number)
    return vector


def give(
    product: TiledProduct,
    f: Function,
    shared: Value,
    begin: Index,
    sizes: tuple[int, int, int],
    threads: tuple[Index, int],
    put: Put,
) -> None:
    """Give sums that lie in shared memory to `put`, neighbours to neighbouring threads.

    Args:
        sizes: rows, columns, and elements from row to row, the first at `begin`.
        threads: the number of this one of those that share the work, and how many they are.
    """
    (rows, columns, line), (thread, count), of = sizes, threads, product.sum_type
    wide = min(product.p.neighbours(), columns)
    lanes = min(wide, PIECE_BITS // of.bits)

    def some(number: Index) -> None:
        row, column = f.idiv(number, columns // wide), f.imul(f.irem(number, columns // wide), wide)
        at = f.iadd(begin, f.iadd(f.imul(row, line), column))
        found = list[Value]()
        for first in range(0, wide, lanes):
            if lanes == 1:
                found.append(f.load(of, shared, f.iadd(at, first)))
                continue
            loaded = f.load(VectorType(lanes, of), shared, f.iadd(at, first), align=lanes * of.bits // 8)
            found += [f.extract(loaded, lane) for lane in range(lanes)]
        put(row, column, found)

    f.loop(thread, rows * columns // wide, count, some)
