"""Products of two matrices of 16-bit floats by matrix units, which keep their sums in f32.

A block of threads computes a tile of the result, each of its subgroups a part of that. Tiles of both operands, DEPTH
products deep, lie in shared memory twice: while the units multiply what is there, the next tiles come from global
memory into registers, 16 bytes a thread at a time, and then go to the other half; so there is one barrier a step. An
operand stays as it lies in memory, with neighbours along the products or along rows and columns. Rows of shared memory
are longer than the tile by 16 bytes, so that the threads of a subgroup read from different banks. The sums go through
shared memory once more, that neighbours write neighbouring results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.gpu.kernels import matrix_emulation
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.kernels.product import FOUR, WIDE, Operand, Product
from stablehlo_py.codegen.builder import F32, I16, I32, Function, Index, ScalarType, Value, VectorType
from stablehlo_py.codegen.matrix_units import INNERS, MatrixUnit

DEPTH = 32  # products between two barriers


@dataclass(frozen=True)
class Tiling:
    """How a tile of the result is shared out: subgroups down and across, and what each computes."""

    down: int
    across: int
    rows: int
    columns: int

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows and columns of a block's tile."""
        return self.down * self.rows, self.across * self.columns


TILINGS = (Tiling(2, 4, 64, 32), Tiling(2, 2, 32, 32))  # the largest first


class MatrixProduct:
    """The kernel of a product whose operands' elements a matrix unit takes."""

    def __init__(self, product: Product, unit: MatrixUnit) -> None:
        self.p, self.unit = product, unit
        self.tiling = next((each for each in TILINGS[:-1] if self._fits(each)), TILINGS[-1])
        self.threads = self.tiling.down * self.tiling.across * unit.threads

    def _fits(self, tiling: Tiling) -> bool:
        """Whether there are enough tiles for the whole machine (an eighth of its threads: a block for every
        multiprocessor), and there is enough shared memory."""
        threads = self._blocks(tiling) * tiling.down * tiling.across * self.unit.threads
        tiles = 4 * sum((size + WIDE) * (DEPTH + WIDE) for size in tiling.sizes)
        return threads >= self.p.target.resident // 8 and tiles <= self.p.target.shared_bytes

    def _blocks(self, tiling: Tiling) -> int:
        rows, columns = tiling.sizes
        return self.p.batch * -(-self.p.rows // rows) * -(-self.p.columns // columns)

    def emit(self) -> GpuKernel:
        """Its one kernel."""
        p, unit, tiling = self.p, self.unit, self.tiling
        f = p.begin(self._blocks(tiling), self.threads)
        rows, columns = tiling.sizes
        across, down = -(-p.columns // columns), -(-p.rows // rows)
        batch, tile = f.idiv(f.block_number(), across * down), f.irem(f.block_number(), across * down)
        row, column = f.imul(f.idiv(tile, across), rows), f.imul(f.irem(tile, across), columns)
        subgroup = f.idiv(f.thread_number(), unit.threads)
        self.thread = f.irem(f.thread_number(), unit.threads)
        own_row = f.imul(f.idiv(subgroup, tiling.across), tiling.rows)
        own_column = f.imul(f.irem(subgroup, tiling.across), tiling.columns)

        a, b = _Tile(self, p.a, rows, unit.a, unit.rows), _Tile(self, p.b, columns, unit.b, unit.columns)
        half = a.size + b.size
        staged = unit.rows * (tiling.columns + 1)  # sums of a subgroup
        subgroups = tiling.down * tiling.across
        shared = f.shared_memory(max(half, subgroups * staged), I32)  # twice `half` elements of two bytes
        fetch_a, fetch_b = a.fetcher(f, batch, row), b.fetcher(f, batch, column)

        def put(start: Index, parts: Sequence[Value]) -> None:
            begin = f.imul(f.irem(f.idiv(start, DEPTH), 2), half)
            count = a.parts(self.threads)
            a.put(f, shared, begin, parts[:count])
            b.put(f, shared, f.iadd(begin, a.size), parts[count:])

        def step(start: Index, *sums: Value) -> list[Value]:
            following = f.iadd(start, DEPTH)
            coming = [*fetch_a(following), *fetch_b(following)] if p.depth > DEPTH else []
            begin = f.imul(f.irem(f.idiv(start, DEPTH), 2), half)
            totals = list(sums)
            for depth in range(0, DEPTH, unit.depth):
                left = a.registers(f, shared, begin, own_row, tiling.rows, depth)
                right = b.registers(f, shared, f.iadd(begin, a.size), own_column, tiling.columns, depth)
                totals = self._multiplied(f, left, right, totals)
            if coming:
                put(following, coming)
                f.barrier()
            return totals

        put(0, [*fetch_a(0), *fetch_b(0)])
        f.barrier()
        count = tiling.rows // unit.rows * (tiling.columns // unit.columns) * len(unit.sums)
        totals = f.loop(0, p.depth, DEPTH, step, [f.const(0.0, F32)] * count)
        if p.depth <= DEPTH:
            f.barrier()
        self._store(
            f, shared, f.imul(subgroup, staged), totals, batch, (f.iadd(row, own_row), f.iadd(column, own_column))
        )
        f.ret()
        return GpuKernel.of(f)

    def _multiplied(
        self, f: Function, left: Sequence[Sequence[Value]], right: Sequence[Sequence[Value]], sums: Sequence[Value]
    ) -> list[Value]:
        """The sums of all tiles of a subgroup with their products added."""
        unit, results, count = self.unit, [], len(self.unit.sums)
        parts = (sums[first : first + count] for first in range(0, len(sums), count))
        for a, b, part in zip(*zip(*((a, b) for a in left for b in right), strict=True), parts, strict=True):
            if unit.architecture == f.architecture.name:
                results += f.matrix_multiply(unit, a, b, part)
            else:
                results += matrix_emulation.multiply(f, unit, self.thread, a, b, part)
        return results

    def _store(
        self,
        f: Function,
        shared: Value,
        begin: Index,
        totals: Sequence[Value],
        batch: Index,
        corner: tuple[Index, Index],
    ) -> None:
        """What becomes of the sums, some rows of a subgroup after the other."""
        p, unit, width = self.p, self.unit, self.tiling.columns
        outer, inner = self.parts_of_thread(f)
        bands = self.tiling.rows // unit.rows
        count = len(totals) // bands
        for band in range(bands):
            if band:
                f.barrier()
            mine = iter(totals[count * band : count * (band + 1)])
            for first in range(0, width, unit.columns):
                for row, column in unit.sums:
                    across = f.iadd(f.imul(inner, unit.sum_pack), first + column)
                    f.store(next(mine), shared, f.iadd(begin, f.iadd(f.imul(f.iadd(outer, row), width + 1), across)))
            f.barrier()

            def put(number: Index, band: int = band) -> None:
                row, column = f.idiv(number, width), f.irem(number, width)
                total = f.load(F32, shared, f.iadd(begin, f.iadd(f.imul(row, width + 1), column)))
                at_row, at_column = f.iadd(corner[0], f.iadd(row, unit.rows * band)), f.iadd(corner[1], column)
                inside = [
                    f.cmp("slt", f.index(at), f.const(size))
                    for at, size, tile in zip((at_row, at_column), (p.rows, p.columns), self.tiling.sizes, strict=True)
                    if size % tile
                ]

                def store() -> None:
                    p.store(batch, at_row, at_column, total)

                if inside:
                    f.if_(inside[0] if len(inside) == 1 else f.binary("and", *inside), store)
                else:
                    store()

            f.loop(self.thread, unit.rows * width, unit.threads, put)

    def parts_of_thread(self, f: Function) -> tuple[Index, Index]:
        """The outer and the inner part of the thread's number."""
        if self.unit.outer_is_low:
            outers = self.unit.threads // INNERS
            return f.irem(self.thread, outers), f.idiv(self.thread, outers)
        return f.idiv(self.thread, INNERS), f.irem(self.thread, INNERS)


class _Tile:
    """DEPTH products of `count` rows or columns of an operand, in shared memory as they lie in memory.

    Attributes:
        size: elements in shared memory.
    """

    def __init__(
        self, kernel: MatrixProduct, operand: Operand, count: int, registers: Sequence[tuple[int, int]], unit: int
    ) -> None:
        self.kernel, self.operand, self.count, self.places, self.unit = kernel, operand, count, registers, unit
        inner, outer = (DEPTH, count) if operand.contracts_last else (count, DEPTH)
        self.stride = inner + WIDE
        self.size = outer * self.stride
        # From one row or column to the next, and from one product to the next.
        self.steps = (self.stride, 1) if operand.contracts_last else (1, self.stride)

    def parts(self, threads: int) -> int:
        """How often every thread brings WIDE elements."""
        return self.count * DEPTH // WIDE // threads

    def _at(self, f: Function, part: int) -> tuple[Index, Index]:
        """The first row (column) and product of what a thread brings."""
        number = f.iadd(f.thread_number(), part * self.kernel.threads)
        across = (DEPTH if self.operand.contracts_last else self.count) // WIDE
        outer, inner = f.idiv(number, across), f.imul(f.irem(number, across), WIDE)
        return (outer, inner) if self.operand.contracts_last else (inner, outer)

    def put(self, f: Function, shared: Value, begin: Index, parts: Sequence[Value]) -> None:
        """Store what was brought."""
        for part, value in enumerate(parts):
            place, k = self._at(f, part)
            at = f.iadd(begin, f.iadd(f.imul(place, self.steps[0]), f.imul(k, self.steps[1])))
            f.store(value, shared, f.idiv(at, 2), align=16)

    def fetcher(self, f: Function, batch: Index, first: Index) -> Callable[[Index], list[Value]]:
        """What brings elements to registers, from some product on. `first` is the first row or column of the tile."""

        def fetch(start: Index) -> list[Value]:
            results = []
            for part in range(self.parts(self.kernel.threads)):
                place, k = self._at(f, part)
                results.append(self._brought(f, batch, f.iadd(first, place), f.iadd(start, k)))
            return results

        return fetch

    def _brought(self, f: Function, batch: Index, place: Index, k: Index) -> Value:
        """WIDE neighbours: all at once where they lie so in memory, else one by one; zeros behind the last product."""
        p, operand, last = self.kernel.p, self.operand, self.operand.contracts_last
        depth, rows = operand.depth - 1, operand.rows - 1
        wide = WIDE - 1
        value = p.wide(
            operand,
            batch,
            f.imin(place, rows if last else rows - wide),
            f.imin(k, depth - wide if last else depth),
        )
        if value is not None:
            return f.select(f.cmp("slt", f.index(k), f.const(operand.depth)), value, f.const(0, FOUR))
        halves = []
        for number in range(WIDE):
            at, row = (f.iadd(k, number), place) if last else (k, f.iadd(place, number))
            bits = p.bits(operand, batch, f.imin(row, rows), f.imin(at, depth))
            exists = f.cmp("slt", f.index(at), f.const(operand.depth))
            halves.append(f.cast("zext", f.select(exists, bits, f.const(0, I16)), I32))
        value = f.poison(FOUR)
        for number in range(WIDE // 2):
            low, high = halves[2 * number : 2 * number + 2]
            value = f.insert(value, f.binary("or", low, f.binary("shl", high, f.const(16, I32))), number)
        return value

    def registers(
        self, f: Function, shared: Value, begin: Index, own: Index, count: int, depth: int
    ) -> list[list[Value]]:
        """The registers of each of a subgroup's tiles, from `own` on, for the products from `depth` on."""
        places = [(first + row, depth + k) for first in range(0, count, self.unit) for row, k in self.places]
        begin = f.iadd(begin, f.imul(own, self.steps[0]))
        if self.kernel.unit.moves and len(places) % 4 == 0:
            found = self._moved(f, shared, begin, places)
        else:
            found = [self._loaded(f, shared, begin, place) for place in places]
        return [found[first : first + len(self.places)] for first in range(0, len(found), len(self.places))]

    def _moved(self, f: Function, shared: Value, begin: Index, places: Sequence[tuple[int, int]]) -> list[Value]:
        """Four matrices of 8 x 8 elements at a time."""
        kernel = self.kernel
        thread, found = kernel.thread, []
        number, row = f.idiv(thread, 8), f.irem(thread, 8)
        offsets = [sum(at * step for at, step in zip(place, self.steps, strict=True)) for place in places]
        for first in range(0, len(places), 4):
            four = offsets[first : first + 4]
            low, high = four[1] - four[0], four[2] - four[0]
            assert four[3] - four[0] == low + high
            mine = f.iadd(f.imul(f.irem(number, 2), low), f.imul(f.idiv(number, 2), high))
            at = f.iadd(begin, f.iadd(four[0], f.iadd(mine, f.imul(row, self.stride))))
            turned = not self.operand.contracts_last
            if kernel.unit.architecture == f.architecture.name:
                found += f.load_matrices(shared, at, 4, transposed=turned)
            else:
                found += matrix_emulation.load_matrices(f, thread, shared, at, 4, transposed=turned)
        return found

    def _loaded(self, f: Function, shared: Value, begin: Index, place: tuple[int, int]) -> Value:
        """One register, element by element where these are no neighbours."""
        outer, inner = self.kernel.parts_of_thread(f)
        unit = self.kernel.unit
        row, k = f.iadd(outer, place[0]), f.iadd(f.imul(inner, unit.pack), place[1])
        at = f.iadd(begin, f.iadd(f.imul(row, self.steps[0]), f.imul(k, self.steps[1])))
        whole = ScalarType(f"i{16 * unit.pack}", 16 * unit.pack)
        if self.steps[1] == 1:
            return f.load(whole, shared, f.idiv(at, unit.pack), align=2 * unit.pack)
        value = f.poison(VectorType(unit.pack, I16))
        for number in range(unit.pack):
            value = f.insert(value, f.load(I16, shared, f.iadd(at, number * self.stride)), number)
        return f.bitcast(value, whole)
