"""Products of two matrices of 16-bit floats by matrix units, which keep their sums in f32.

Each subgroup of a block computes a part of its tile (tiled.py), in squares that the unit multiplies: its threads read
registers of both operands from shared memory. Units that read shared memory themselves (`wgmma`) multiply while the
threads bring the next tiles. The sums go through shared memory once more, that neighbours write neighbouring results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.backends.gpu.kernels import matrix_emulation
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.kernels.product import Operand, Product
from stablehlo_py.backends.gpu.kernels.tile import Tile
from stablehlo_py.backends.gpu.kernels.tiled import Put, TiledProduct, Tiling, packed
from stablehlo_py.codegen.builder import F32, I16, Function, Index, ScalarType, Value, VectorType
from stablehlo_py.codegen.matrix_units import INNERS, MatrixUnit, SharedMatrix

LINE = 64  # elements of a line of shared memory that a warpgroup reads


@dataclass(frozen=True)
class Shares(Tiling):
    """A tiling of which each of `across` times so many subgroups computes own_rows x own_columns results."""

    across: int
    own_rows: int
    own_columns: int

    @classmethod
    def of(cls, unit: MatrixUnit, down: int, across: int, own: tuple[int, int], speed: float) -> Shares:
        """For a unit: so many subgroups down and across."""
        depth, threads = LINE if unit.is_warpgroup else LINE // 2, down * across * unit.threads
        return cls(down * own[0], across * own[1], depth, threads, 4, speed, across, *own)


def tilings(unit: MatrixUnit) -> list[Shares]:
    """All that a unit's products may have."""
    if unit.is_warpgroup:
        shapes = ((8, 256, 1.0), (8, 128, 0.8), (4, 128, 0.7), (4, 64, 0.5))
        return [Shares.of(unit, down, 1, (unit.rows, columns), speed) for down, columns, speed in shapes]
    return [Shares.of(unit, 2, 4, (64, 32), 0.6), Shares.of(unit, 2, 2, (32, 32), 0.4)]


def emit(product: Product, units: Sequence[MatrixUnit]) -> GpuKernel:
    """The kernel of a product whose operands' elements these units take."""
    kernels = [
        (WarpgroupProduct if unit.is_warpgroup else MatrixProduct)(product, tiling, unit)
        for unit in units
        for tiling in tilings(unit)
    ]
    fitting = [kernel for kernel in kernels if kernel.shared_bytes <= product.target.shared_bytes]
    return min(fitting, key=lambda kernel: kernel.tiling.cost(product)).emit()


class MatrixProduct(TiledProduct):
    """By a unit that takes registers."""

    held = I16
    tiling: Shares

    def __init__(self, product: Product, tiling: Shares, unit: MatrixUnit) -> None:
        self.unit = unit
        super().__init__(product, tiling)

    def bits(self, operand: Operand, batch: Index, row: Index, k: Index) -> Value:
        return self.p.bits(operand, batch, row, k)

    @property
    def _squares(self) -> int:
        return self.tiling.own_rows // self.unit.rows * (self.tiling.own_columns // self.unit.columns)

    def start(self, f: Function) -> list[Value]:
        unit = self.unit
        subgroup = f.idiv(f.thread_number(), unit.threads)
        self.thread = f.irem(f.thread_number(), unit.threads)
        self.subgroup = subgroup
        self.own_row = f.imul(f.idiv(subgroup, self.tiling.across), self.tiling.own_rows)
        self.own_column = f.imul(f.irem(subgroup, self.tiling.across), self.tiling.own_columns)
        return [f.const(0.0, F32)] * (self._squares * len(unit.sums))

    def multiply(self, f: Function, shared: Value, begin: Index, sums: Sequence[Value]) -> list[Value]:
        unit, tiling, totals = self.unit, self.tiling, list(sums)
        for depth in range(0, tiling.depth, unit.depth):
            left = self._registers(f, shared, begin, self.a, (self.own_row, tiling.own_rows, depth))
            right = self._registers(
                f, shared, f.iadd(begin, self.a.size), self.b, (self.own_column, tiling.own_columns, depth)
            )
            totals = self._multiplied(f, left, right, totals)
        return totals

    def _multiplied(
        self, f: Function, left: Sequence[Sequence[Value]], right: Sequence[Sequence[Value]], sums: Sequence[Value]
    ) -> list[Value]:
        """The sums of all squares of a subgroup with their products added."""
        unit, results, count = self.unit, [], len(self.unit.sums)
        parts = (sums[first : first + count] for first in range(0, len(sums), count))
        for (a, b), part in zip(((a, b) for a in left for b in right), parts, strict=True):
            if unit.architecture == f.architecture.name:
                results += f.matrix_multiply(unit, a, b, part)
            else:
                results += matrix_emulation.multiply(f, unit, self.thread, a, b, part)
        return results

    # --- operands ----------------------------------------------------------------------------------------------------

    def _registers(
        self, f: Function, shared: Value, begin: Index, tile: Tile, part: tuple[Index, int, int]
    ) -> list[list[Value]]:
        """The registers of each of a subgroup's squares of an operand: from a row on so many, from some product on."""
        own, count, depth = part
        registers, size = (self.unit.a, self.unit.rows) if tile is self.a else (self.unit.b, self.unit.columns)
        places = [(first + row, depth + k) for first in range(0, count, size) for row, k in registers]
        if self.unit.moves and len(places) % 4 == 0:
            found = self._moved(f, shared, begin, tile, own, places)
        else:
            found = [self._loaded(f, shared, begin, tile, own, place) for place in places]
        return [found[first : first + len(registers)] for first in range(0, len(found), len(registers))]

    def _moved(
        self, f: Function, shared: Value, begin: Index, tile: Tile, own: Index, places: Sequence[tuple[int, int]]
    ) -> list[Value]:
        """Four matrices of 8 x 8 elements at a time."""
        number, line, found = f.idiv(self.thread, 8), f.irem(self.thread, 8), list[Value]()
        turned = not tile.operand.contracts_last
        for first in range(0, len(places), 4):
            origin, low, high, last = places[first : first + 4]
            assert (origin[0] + last[0], origin[1] + last[1]) == (low[0] + high[0], low[1] + high[1])
            # Each eight threads say where the lines of one of the matrices are.
            row, k = (
                f.iadd(
                    origin[d],
                    f.iadd(
                        f.imul(f.irem(number, 2), low[d] - origin[d]), f.imul(f.idiv(number, 2), high[d] - origin[d])
                    ),
                )
                for d in range(2)
            )
            row, k = (row, f.iadd(k, line)) if turned else (f.iadd(row, line), k)
            at = f.iadd(begin, tile.at(f, f.iadd(own, row), k))
            if self.unit.architecture == f.architecture.name:
                found += f.load_matrices(shared, at, 4, transposed=turned)
            else:
                found += matrix_emulation.load_matrices(f, self.thread, shared, at, 4, transposed=turned)
        return found

    def _loaded(
        self, f: Function, shared: Value, begin: Index, tile: Tile, own: Index, place: tuple[int, int]
    ) -> Value:
        """One register, element by element where these are no neighbours."""
        outer, inner = self.parts_of_thread(f)
        unit = self.unit
        row, k = f.iadd(own, f.iadd(outer, place[0])), f.iadd(f.imul(inner, unit.pack), place[1])
        whole = ScalarType(f"i{16 * unit.pack}", 16 * unit.pack)
        if tile.operand.contracts_last:
            at = f.iadd(begin, tile.at(f, row, k))
            return f.load(whole, shared, f.idiv(at, unit.pack), align=2 * unit.pack)
        value = f.poison(VectorType(unit.pack, I16))
        for number in range(unit.pack):
            at = f.iadd(begin, tile.at(f, row, f.iadd(k, number)))
            value = f.insert(value, f.load(I16, shared, at), number)
        return f.bitcast(value, whole)

    def parts_of_thread(self, f: Function) -> tuple[Index, Index]:
        """The outer and the inner part of the thread's number."""
        if self.unit.outer_is_low:
            outers = self.unit.threads // INNERS
            return f.irem(self.thread, outers), f.idiv(self.thread, outers)
        return f.idiv(self.thread, INNERS), f.irem(self.thread, INNERS)

    # --- results -----------------------------------------------------------------------------------------------------

    @property
    def _line(self) -> int:
        """Words of a row of sums in shared memory: threads that store pairs find different banks."""
        return self.tiling.own_columns + 8

    @property
    def _staged(self) -> int:
        """Words for the sums of some rows of a subgroup."""
        return self.unit.rows * self._line

    @property
    def staged(self) -> int:
        return self.tiling.threads // self.unit.threads * self._staged

    def store(self, f: Function, shared: Value, sums: Sequence[Value], put: Put) -> None:
        """Some rows of a subgroup after the other."""
        unit, width, begin = self.unit, self.tiling.own_columns, f.imul(self.subgroup, self._staged)
        outer, inner = self.parts_of_thread(f)
        bands, wide = self.tiling.own_rows // unit.rows, self.p.neighbours()
        count = len(sums) // bands
        for band in range(bands):
            if band:
                f.barrier()
            mine = iter(sums[count * band : count * (band + 1)])
            for first in range(0, width, unit.columns):
                for row, column in unit.sums[:: unit.sum_pack]:
                    pack = packed(f, [next(mine) for _ in range(unit.sum_pack)])
                    across = f.iadd(f.imul(inner, unit.sum_pack), first + column)
                    at = f.iadd(f.imul(f.iadd(outer, row), self._line), across)
                    f.store(pack, shared, f.iadd(begin, at), align=4 * unit.sum_pack)
            f.barrier()

            def give(number: Index, band: int = band) -> None:
                row, column = f.idiv(number, width // wide), f.imul(f.irem(number, width // wide), wide)
                at = f.iadd(begin, f.iadd(f.imul(row, self._line), column))
                parts = min(wide, 4)
                found = [
                    f.load(VectorType(parts, F32), shared, f.iadd(at, first), align=4 * parts)
                    if parts > 1
                    else f.load(F32, shared, at)
                    for first in range(0, wide, parts)
                ]
                totals = [f.extract(each, lane) for each in found for lane in range(parts)] if parts > 1 else found
                down = f.iadd(self.own_row, f.iadd(row, unit.rows * band))
                put(down, f.iadd(self.own_column, column), totals)

            f.loop(self.thread, unit.rows * width // wide, unit.threads, give)


class WarpgroupProduct(MatrixProduct):
    """By a unit that takes what lies in shared memory: four subgroups together, a row of theirs for all columns."""

    lag = 1

    def multiply(self, f: Function, shared: Value, begin: Index, sums: Sequence[Value]) -> list[Value]:
        unit, totals = self.unit, list(sums)
        f.begin_warpgroup()
        group = f.imul(f.idiv(self.subgroup, 4), 4 * unit.rows)
        for depth in range(0, self.tiling.depth, unit.depth):
            a = self._matrix(f, shared, begin, self.a, group, depth)
            b = self._matrix(f, shared, f.iadd(begin, self.a.size), self.b, 0, depth)
            if unit.architecture == f.architecture.name:
                totals = f.warpgroup_multiply(unit, a, b, totals)
            else:
                thread = f.irem(f.thread_number(), 4 * unit.threads)
                totals = matrix_emulation.warpgroup_multiply(f, unit, thread, a, b, totals)
        f.commit_warpgroup()
        return f.await_warpgroup(totals, self.lag)

    def _matrix(self, f: Function, shared: Value, begin: Index, tile: Tile, row: Index, depth: int) -> SharedMatrix:
        """An operand from a row and a product on, whose lines begin at a multiple of eight."""
        turned = not tile.operand.contracts_last
        line, along = (depth, row) if turned else (row, depth)
        part = tile.lines * LINE
        offset = f.iadd(f.imul(f.idiv(along, LINE), part), f.iadd(f.imul(line, LINE), f.irem(along, LINE)))
        return SharedMatrix(shared, f.iadd(begin, offset), turned, 2 * part)

    def finished(self, f: Function, sums: Sequence[Value]) -> list[Value]:
        return f.await_warpgroup(sums, 0)
