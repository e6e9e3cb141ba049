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
from stablehlo_py.backends.gpu.kernels.subgroup import Subgroup
from stablehlo_py.backends.gpu.kernels.tile import Tile
from stablehlo_py.backends.gpu.kernels.tiled import Put, TiledProduct, Tiling, give, packed
from stablehlo_py.codegen.builder import F32, I16, Function, Index, Value
from stablehlo_py.codegen.matrix_units import MatrixUnit, SharedMatrix

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

    def as_stored(self, operand: Operand) -> bool:
        return True

    def bits(self, operand: Operand, batch: Index, row: Index, k: Index) -> Value:
        return self.p.bits(operand, batch, row, k)

    @property
    def _squares(self) -> int:
        return self.tiling.own_rows // self.unit.rows * (self.tiling.own_columns // self.unit.columns)

    def start(self, f: Function) -> list[Value]:
        unit = self.unit
        self.subgroup = Subgroup(f, unit)
        self.own_row = f.imul(f.idiv(self.subgroup.number, self.tiling.across), self.tiling.own_rows)
        self.own_column = f.imul(f.irem(self.subgroup.number, self.tiling.across), self.tiling.own_columns)
        return [f.const(0.0, F32)] * (self._squares * len(unit.sums))

    def multiply(self, f: Function, shared: Value, begin: Index, sums: Sequence[Value]) -> list[Value]:
        unit, tiling, totals = self.unit, self.tiling, list(sums)
        for depth in range(0, tiling.depth, unit.depth):
            left = self.subgroup.left(shared, begin, self.a, self.own_row, tiling.own_rows, depth)
            columns = f.iadd(begin, self.a.size)
            right = self.subgroup.right(shared, columns, self.b, self.own_column, tiling.own_columns, depth)
            totals = self.subgroup.multiplied(left, right, totals)
        return totals

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
        unit, width, begin = self.unit, self.tiling.own_columns, f.imul(self.subgroup.number, self._staged)
        outer, inner = self.subgroup.outer, self.subgroup.inner
        bands = self.tiling.own_rows // unit.rows
        count = len(sums) // bands
        self.free(f)
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

            def put_own(row: Index, column: Index, found: Sequence[Value], band: int = band) -> None:
                down = f.iadd(self.own_row, f.iadd(row, unit.rows * band))
                put(down, f.iadd(self.own_column, column), found)

            sizes = (unit.rows, width, self._line)
            give(self, f, shared, begin, sizes, (self.subgroup.thread, unit.threads), put_own)


class WarpgroupProduct(MatrixProduct):
    """By a unit that takes what lies in shared memory: four subgroups together, a row of theirs for all columns."""

    lag = 1

    def multiply(self, f: Function, shared: Value, begin: Index, sums: Sequence[Value]) -> list[Value]:
        unit, totals = self.unit, list(sums)
        f.begin_warpgroup()
        group = f.imul(f.idiv(self.subgroup.number, 4), 4 * unit.rows)
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
