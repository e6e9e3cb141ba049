"""A subgroup that multiplies by a matrix unit: the registers of its threads, read from tiles in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.backends.gpu.kernels import matrix_emulation
from stablehlo_py.backends.gpu.kernels.tile import Tile
from stablehlo_py.codegen.builder import I16, I32, Function, Index, ScalarType, Value, VectorType
from stablehlo_py.codegen.matrix_units import INNERS, MatrixUnit, Places


def takes_sums(unit: MatrixUnit) -> bool:
    """Whether threads hold sums where they hold the same elements of a left operand."""
    return unit.pack == unit.sum_pack and all(product % unit.columns == 0 for _, product in unit.a)


class Subgroup:
    """The subgroup of the thread that runs.

    Attributes:
        number: in its block; thread: number in it; outer, inner: the parts of that (`MatrixUnit`).
    """

    def __init__(self, f: Function, unit: MatrixUnit) -> None:
        self.f, self.unit = f, unit
        self.number, self.thread = f.idiv(f.thread_number(), unit.threads), f.irem(f.thread_number(), unit.threads)
        low = unit.threads // unit.inners if unit.outer_is_low else unit.inners
        parts = f.irem(self.thread, low), f.idiv(self.thread, low)
        self.outer, self.inner = parts if unit.outer_is_low else parts[::-1]

    def multiplied(
        self, left: Sequence[Sequence[Value]], right: Sequence[Sequence[Value]], sums: Sequence[Value]
    ) -> list[Value]:
        """The sums of all squares of rows and columns with their products added."""
        f, unit, results, count = self.f, self.unit, list[Value](), len(self.unit.sums)
        if unit.architecture != f.architecture.name:
            return matrix_emulation.multiplied(f, unit, self.thread, left, right, sums)
        parts = (sums[first : first + count] for first in range(0, len(sums), count))
        for (a, b), part in zip(((a, b) for a in left for b in right), parts, strict=True):
            results += f.matrix_multiply(unit, a, b, part)
        return results

    def left(self, shared: Value, begin: Index, tile: Tile, own: Index, count: int, depth: Index) -> list[list[Value]]:
        """The registers of each square of the left operand: from row `own` on `count` rows, from product `depth` on."""
        return self._squares(shared, begin, tile, (own, depth), count, self.unit.a, self.unit.rows)

    def right(self, shared: Value, begin: Index, tile: Tile, own: Index, count: int, depth: Index) -> list[list[Value]]:
        """Those of the right operand: from column `own` on."""
        return self._squares(shared, begin, tile, (own, depth), count, self.unit.b, self.unit.columns)

    # --- sums, and what becomes of them ------------------------------------------------------------------------------

    @property
    def own(self) -> list[int]:
        """Rows of which a thread has sums, from the first of its subgroup and its outer part on."""
        return sorted({row for row, _ in self.unit.sums})

    def row_of(self, number: int) -> int:
        """Which of its `own` rows one of a thread's sums is of."""
        return self.own.index(self.unit.sums[number % len(self.unit.sums)][0])

    def column_of(self, number: int) -> Index:
        """The column of one of a thread's sums."""
        unit, f = self.unit, self.f
        square, place = divmod(number, len(unit.sums))
        return f.iadd(f.imul(self.inner, unit.sum_pack), square * unit.columns + unit.sums[place][1])

    def over_threads(self, a: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """What the threads with the same rows have, combined in a tree."""
        step = self.unit.threads // INNERS if self.unit.outer_is_low else 1
        distance = 1
        while distance < INNERS:
            a = combine(a, self.f.subgroup_shuffle(a, self.f.const(distance * step, I32)))
            distance *= 2
        return a

    def sums_as_left(self, bits: Sequence[Value], first: int) -> list[Value]:
        """The left operand's registers from product `first` on: what became of sums, of 16 bits each, with their
        columns as products. No thread needs those of others, if the unit `takes_sums`."""
        f, unit, results = self.f, self.unit, list[Value]()
        for row, product in unit.a:
            square = (first + product) // unit.columns * len(unit.sums)
            value = f.poison(VectorType(unit.pack, I16))
            for number in range(unit.pack):
                value = f.insert(value, bits[square + unit.sums.index((row, number))], number)
            results.append(f.bitcast(value, ScalarType(f"i{16 * unit.pack}", 16 * unit.pack)))
        return results

    # --- operands ----------------------------------------------------------------------------------------------------

    def _squares(
        self,
        shared: Value,
        begin: Index,
        tile: Tile,
        corner: tuple[Index, Index],
        count: int,
        registers: Places,
        size: int,
    ) -> list[list[Value]]:
        places = [(first + row, k) for first in range(0, count, size) for row, k in registers]
        turned = not tile.contracts_last
        if self.unit.moves and len(places) % 4 == 0 and (self.unit.bits == 16 or not turned):
            found = self._moved(shared, begin, tile, corner, places)
        else:
            found = [self._loaded(shared, begin, tile, corner, place) for place in places]
        return [found[first : first + len(registers)] for first in range(0, len(found), len(registers))]

    def _moved(
        self,
        shared: Value,
        begin: Index,
        tile: Tile,
        corner: tuple[Index, Index],
        places: Sequence[tuple[int, int]],
    ) -> list[Value]:
        """Four matrices of eight lines of 16 bytes at a time."""
        f, found = self.f, list[Value]()
        number, line = f.idiv(self.thread, 8), f.irem(self.thread, 8)
        turned = not tile.contracts_last
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
            at = f.iadd(begin, tile.at(f, f.iadd(corner[0], row), f.iadd(corner[1], k)))
            at = f.idiv(f.imul(at, self.unit.bits), 32)
            if self.unit.architecture == f.architecture.name:
                found += f.load_matrices(shared, at, 4, transposed=turned)
            else:
                found += matrix_emulation.load_matrices(f, self.thread, shared, at, 4, transposed=turned)
        return found

    def _loaded(
        self, shared: Value, begin: Index, tile: Tile, corner: tuple[Index, Index], place: tuple[int, int]
    ) -> Value:
        """One register, element by element where these are no neighbours."""
        f, unit = self.f, self.unit
        row = f.iadd(corner[0], f.iadd(self.outer, place[0]))
        k = f.iadd(corner[1], f.iadd(0 if unit.repeats else f.imul(self.inner, unit.pack), place[1]))
        size = unit.bits * unit.pack
        whole, part = ScalarType(f"i{size}", size), ScalarType(f"i{unit.bits}", unit.bits)
        if tile.contracts_last or unit.pack == 1:
            at = f.iadd(begin, tile.at(f, row, k))
            return f.load(whole, shared, f.idiv(at, unit.pack), align=size // 8)
        value = f.poison(VectorType(unit.pack, part))
        for number in range(unit.pack):
            at = f.iadd(begin, tile.at(f, row, f.iadd(k, number)))
            value = f.insert(value, f.load(part, shared, at), number)
        return f.bitcast(value, whole)
