"""Products of two matrices by matrix units.

Each subgroup of a block computes a part of its tile (tiled.py), in squares that the unit multiplies: its threads read
registers of both operands from shared memory. Units that read shared memory themselves (`wgmma`) multiply while the
threads bring the next tiles. The sums go through shared memory once more, that neighbours write neighbouring results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from stablehlo_py.backends.gpu.kernels import matrix_emulation
from stablehlo_py.backends.gpu.kernels.product import Operand, Product
from stablehlo_py.backends.gpu.kernels.subgroup import Subgroup
from stablehlo_py.backends.gpu.kernels.tile import LINE_BITS, Tile
from stablehlo_py.backends.gpu.kernels.tiled import Put, TiledProduct, Tiling, give, packed
from stablehlo_py.codegen.builder import F32, I32, Function, Index, ScalarType, Value
from stablehlo_py.codegen.index import Affine
from stablehlo_py.codegen.matrix_units import MATRIX_UNITS, MatrixUnit, SharedMatrix
from stablehlo_py.codegen.types import ELEMENTS, element

Squares: TypeAlias = Sequence[Sequence[Value]]  # registers of each
MOST_ROUNDED = (2 - 2.0**-11) * 2.0**127  # f32 below it have a nearest finite number of 11 bits


@dataclass(frozen=True)
class Shares(Tiling):
    """A tiling of which each of `across` times so many subgroups computes own_rows x own_columns results."""

    across: int
    own_rows: int
    own_columns: int

    @classmethod
    def of(cls, unit: MatrixUnit, down: int, across: int, own: tuple[int, int], speed: float) -> Shares:
        """For a unit: so many subgroups down and across."""
        line, threads = LINE_BITS // unit.bits, down * across * unit.threads
        depth = line if unit.is_warpgroup else line // 2
        return cls(down * own[0], across * own[1], depth, threads, 4, speed * unit.speed, across, *own)

    def __str__(self) -> str:
        return f"{super().__str__()}, {self.own_rows}x{self.own_columns} a subgroup"


# Subgroups down, columns of a tile, speed: of warpgroups. Subgroups down and across, rows of each, speed: of others.
WIDE = (8, 256, 1.0), (8, 128, 0.8), (4, 128, 0.7), (8, 64, 0.6), (4, 64, 0.5)
MORE_WIDE = (4, 256, 0.8), (16, 64, 0.6)
SHARED, MORE_SHARED = ((2, 4, 64, 0.6), (2, 2, 32, 0.4)), ((2, 2, 64, 0.5), (2, 4, 32, 0.5), (4, 4, 64, 0.6))


def tilings(unit: MatrixUnit, more: bool) -> list[Shares]:
    """Those of a unit's products, and `more`. Sums that are promoted are in registers twice."""
    if unit.is_warpgroup:
        wide = [each for each in WIDE + (MORE_WIDE if more else ()) if each[1] <= 128 or not unit.promoted]
        return [Shares.of(unit, down, 1, (unit.rows, columns), speed) for down, columns, speed in wide]
    shared = SHARED + (MORE_SHARED if more else ())
    return [Shares.of(unit, down, across, (rows, 32), speed) for down, across, rows, speed in shared]


def kernels(product: Product, units: Sequence[MatrixUnit], *, more: bool = False) -> list[TiledProduct]:
    """Those of a product whose operands' elements these units take, and `more`."""
    return [_road(unit)(product, tiling, unit) for unit in units for tiling in tilings(unit, more)]


def _road(unit: MatrixUnit) -> type[MatrixProduct]:
    if unit.is_warpgroup:
        return WarpgroupProduct
    return RoundedProduct if unit.rounded_to else MatrixProduct


def split_kernels(product: Product, *, more: bool = False) -> list[TiledProduct]:
    """Those of a product of f32 in three of TF32."""
    unit = MATRIX_UNITS["mma.m16n8k8.tf32"]
    # A sixth of the products of 16 bits.
    return [SplitProduct(product, replace(tiling, speed=tiling.speed / 6), unit) for tiling in tilings(unit, more)]


class MatrixProduct(TiledProduct):
    """By a unit that takes registers."""

    tiling: Shares

    def __init__(self, product: Product, tiling: Shares, unit: MatrixUnit) -> None:
        self.unit = unit
        self.held, self.sum_type = ScalarType(f"i{unit.bits}", unit.bits), ELEMENTS[unit.total].compute
        super().__init__(product, tiling)

    def retiled(self, tiling: Tiling) -> MatrixProduct:
        assert isinstance(tiling, Shares)
        return type(self)(self.p, tiling, self.unit)

    @property
    def by(self) -> str:
        return self.unit.name

    def as_stored(self, operand: Operand) -> bool:
        return element(operand.value).name == self._type_of(operand)

    def _type_of(self, operand: Operand) -> str:
        """The element type that the unit takes of an operand."""
        return self.unit.operands[operand is self.p.b]

    def bits(self, operand: Operand, batch: Index, row: Affine, k: Affine) -> Value:
        return self.p.bits(operand, batch, row, k, ELEMENTS[self._type_of(operand)])

    @property
    def _squares(self) -> int:
        return self.tiling.own_rows // self.unit.rows * (self.tiling.own_columns // self.unit.columns)

    def start(self, f: Function) -> list[Value]:
        unit = self.unit
        self.subgroup = Subgroup(f, unit)
        self.own_row = f.imul(f.idiv(self.subgroup.number, self.tiling.across), self.tiling.own_rows)
        self.own_column = f.imul(f.irem(self.subgroup.number, self.tiling.across), self.tiling.own_columns)
        return [f.const(0, self.sum_type)] * (self._squares * len(unit.sums))

    def multiply(self, f: Function, shared: Value, begin: Index, sums: Sequence[Value]) -> list[Value]:
        unit, tiling, totals = self.unit, self.tiling, list(sums)
        for depth in range(0, tiling.depth, unit.depth):
            left = self.subgroup.left(shared, begin, self.a, self.own_row, tiling.own_rows, depth)
            columns = f.iadd(begin, self.a.size)
            right = self.subgroup.right(shared, columns, self.b, self.own_column, tiling.own_columns, depth)
            totals = self.added(f, left, right, totals)
        return totals

    def added(self, f: Function, left: Squares, right: Squares, sums: Sequence[Value]) -> list[Value]:
        """The sums with the products of some registers added."""
        return self.subgroup.multiplied(left, right, sums)

    # --- results -----------------------------------------------------------------------------------------------------

    @property
    def _line(self) -> int:
        """Elements of a row of sums in shared memory: threads that store pairs find different banks."""
        return self.tiling.own_columns + 8

    @property
    def _staged(self) -> int:
        """Elements for the sums of some rows of a subgroup."""
        return self.unit.rows * self._line

    @property
    def staged(self) -> int:
        return self.tiling.threads // self.unit.threads * self._staged * self.sum_type.bits // 32

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
                    f.store(pack, shared, f.iadd(begin, at), align=self.sum_type.bits // 8 * unit.sum_pack)
            f.barrier()

            def put_own(row: Index, column: Index, found: Sequence[Value], band: int = band) -> None:
                down = f.iadd(self.own_row, f.iadd(row, unit.rows * band))
                put(down, f.iadd(self.own_column, column), found)

            sizes = (unit.rows, width, self._line)
            give(self, f, shared, begin, sizes, (self.subgroup.thread, unit.threads), put_own)


class RoundedProduct(MatrixProduct):
    """Of f32 by a unit that cuts operands to 11 bits (TF32): they are rounded before."""

    def added(self, f: Function, left: Squares, right: Squares, sums: Sequence[Value]) -> list[Value]:
        a, b = (_each(partial(_rounded, f), side) for side in (left, right))
        return self.subgroup.multiplied(a, b, sums)


class SplitProduct(MatrixProduct):
    """Of f32 by the same unit, as exact as without one: x = high + low, each of 11 bits, and x * y is low * high +
    high * low + high * high. What is left out is 2^-22 of a product. The unit rounds sums towards zero, so it adds up
    those of a step only. (H. Ootomo and R. Yokota, "Recovering single precision accuracy from Tensor Cores while
    surpassing the FP32 theoretical peak performance", 2022.) Infinities are in high * high alone: with a low part of
    zero they would be NaN. Results that round to the largest finite numbers may be infinite, and the products of
    infinities with numbers below 2^-137 NaN."""

    @property
    def by(self) -> str:
        return f"3 x {self.unit.name}"

    def multiply(self, f: Function, shared: Value, begin: Index, sums: Sequence[Value]) -> list[Value]:
        products = super().multiply(f, shared, begin, [f.const(0.0, F32)] * len(sums))
        return [f.fadd(sum_, more) for sum_, more in zip(sums, products, strict=True)]

    def added(self, f: Function, left: Squares, right: Squares, sums: Sequence[Value]) -> list[Value]:
        (a, a_finite, a_low), (b, b_finite, b_low) = (
            [_each(partial(part, f), side) for part in (_rounded, _finite, _rest)] for side in (left, right)
        )
        total = list(sums)
        for x, y in ((a_low, b_finite), (a_finite, b_low), (a, b)):
            total = self.subgroup.multiplied(x, y, total)
        return total


def _each(function: Callable[[Value], Value], squares: Squares) -> Squares:
    return [[function(register) for register in square] for square in squares]


def _rounded(f: Function, register: Value) -> Value:
    """The nearest number of 11 bits; of what has none, that is finite, the next one towards zero."""
    has_one = f.cmp("olt", f.intrinsic("fabs", f.bitcast(register, F32)), f.const(MOST_ROUNDED, F32))
    nearest = f.select(has_one, f.binary("add", register, f.const(1 << 12, I32)), register)
    return f.binary("and", nearest, f.const(-1 << 13, I32))


def _finite(f: Function, register: Value) -> Value:
    """The rounded number; zero, where it is infinite."""
    return f.select(_is_infinite(f, register), f.const(0, I32), _rounded(f, register))


def _rest(f: Function, register: Value) -> Value:
    """What a number has more than the rounded one, rounded; zero, where it is infinite."""
    rest = f.fsub(f.bitcast(register, F32), f.bitcast(_rounded(f, register), F32))
    nearest = f.binary(
        "add", f.bitcast(rest, I32), f.const(1 << 12, I32)
    )  # NaN may become a number: the other part is NaN
    return f.select(_is_infinite(f, register), f.const(0, I32), nearest)


def _is_infinite(f: Function, register: Value) -> Value:
    return f.cmp("oeq", f.intrinsic("fabs", f.bitcast(register, F32)), f.const(math.inf, F32))


class WarpgroupProduct(MatrixProduct):
    """By a unit that takes what lies in shared memory: four subgroups together, a row of theirs for all columns. Where
    it keeps fewer bits of sums than their type has, these are added to others in registers every so many products."""

    def __init__(self, product: Product, tiling: Shares, unit: MatrixUnit) -> None:
        self.lag = 0 if unit.promoted else 1
        super().__init__(product, tiling, unit)

    def turns(self, operand: Operand) -> bool:
        return self.unit.bits < 16 and not operand.contracts_last

    def arrived(self, f: Function, step: Index, pending: int) -> None:
        super().arrived(f, step, pending)
        f.publish_shared()

    def multiply(self, f: Function, shared: Value, begin: Index, sums: Sequence[Value]) -> list[Value]:
        promoted, depth = self.unit.promoted, self.tiling.depth
        if not promoted:
            return self._multiplied(f, shared, begin, sums, (0, depth))
        totals = list(sums)
        for first in range(0, depth, promoted):
            fresh = [f.const(0.0, self.sum_type)] * len(totals)
            parts = self._multiplied(f, shared, begin, fresh, (first, min(depth, first + promoted)))
            totals = [f.fadd(total, part) for total, part in zip(totals, parts, strict=True)]
        return totals

    def _multiplied(
        self, f: Function, shared: Value, begin: Index, sums: Sequence[Value], products: tuple[int, int]
    ) -> list[Value]:
        """The sums with some products of a step added."""
        unit, totals = self.unit, list(sums)
        f.begin_warpgroup()
        group = f.imul(f.idiv(self.subgroup.number, 4), 4 * unit.rows)
        for depth in range(*products, unit.depth):
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
        turned = not tile.contracts_last
        line, along = (depth, row) if turned else (row, depth)
        size = tile.line
        part = tile.lines * size
        offset = f.iadd(f.imul(f.idiv(along, size), part), f.iadd(f.imul(line, size), f.irem(along, size)))
        return SharedMatrix(shared, f.iadd(begin, offset), turned, part * self.unit.bits // 8)

    def finished(self, f: Function, sums: Sequence[Value]) -> list[Value]:
        return f.await_warpgroup(sums, 0)
