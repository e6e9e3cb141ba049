"""Products in tiles without matrix units: a thread multiplies a square of the tile in registers.

Of the operand that lies in memory along rows, a thread reads neighbouring rows from shared memory at once; of one that
lies along the products, neighbouring products of rows that are SIDE apart. Products and sums are rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.gpu.kernels.product import Operand, Product
from stablehlo_py.backends.gpu.kernels.tile import Tile
from stablehlo_py.backends.gpu.kernels.tiled import Put, TiledProduct, Tiling, give, packed
from stablehlo_py.codegen.builder import Function, Index, ScalarType, Value, VectorType
from stablehlo_py.codegen.index import Affine
from stablehlo_py.codegen.types import element

SIDE = 16  # threads along each side of a tile
# Rows and columns of a thread, products between two barriers, and how fast that is next to matrix units.
SQUARES = ((8, 16, 0.07), (4, 16, 0.045), (2, 32, 0.02))
MORE_SQUARES = ((8, 8, 0.07), (4, 32, 0.045))  # that are tried
MOST_OPS = 128  # on all sums of a thread, for them to be stored from registers
BLOCKS = 2  # that a multiprocessor has room for: one multiplies while the other waits for its tiles
PADDING = 16  # elements between rows of sums in shared memory


def kernels(product: Product, *, more: bool = False) -> list[TiledProduct]:
    """Those of a product of floats, and `more`."""
    return [
        ScalarProduct(product, Tiling(SIDE * square, SIDE * square, depth, SIDE**2, 4, speed))
        for square, depth, speed in SQUARES + (MORE_SQUARES if more else ())
        if square**2 * product.of.compute.bits <= 64 * 32  # registers of the sums
    ]


class ScalarProduct(TiledProduct):
    """By multiplications and additions of a thread."""

    def __init__(self, product: Product, tiling: Tiling) -> None:
        self.sum_type = product.of.compute
        self.held = ScalarType(f"i{self.sum_type.bits}", self.sum_type.bits)
        self.square = tiling.rows // SIDE
        super().__init__(product, tiling)

    def retiled(self, tiling: Tiling) -> ScalarProduct:
        return ScalarProduct(self.p, tiling)

    @property
    def by(self) -> str:
        return "scalar"

    def as_stored(self, operand: Operand) -> bool:
        of = element(operand.value)
        return of.compute == self.sum_type and of.bits == self.held.bits

    def swizzles(self, operand: Operand) -> bool:
        return operand is self.p.b and operand.contracts_last

    def bits(self, operand: Operand, batch: Index, row: Affine, k: Affine) -> Value:
        return self.p.e.f.bitcast(self.p.element(operand, batch, row, k), self.held)

    def start(self, f: Function) -> list[Value]:
        f.leave_room(BLOCKS)
        self.places = (f.idiv(f.thread_number(), SIDE), f.irem(f.thread_number(), SIDE))
        return [f.const(0.0, self.sum_type)] * self.square**2

    def _row(self, f: Function, tile: Tile, thread: Index, number: int) -> Index:
        """The row of the tile that is the number-th one of a thread."""
        if tile.operand.contracts_last:
            return f.iadd(thread, SIDE * number)
        together = min(tile.wide, self.square)
        part, within = divmod(number, together)
        return f.iadd(f.imul(thread, together), SIDE * together * part + within)

    def multiply(self, f: Function, shared: Value, begin: Index, sums: Sequence[Value]) -> list[Value]:
        results, square = list(sums), self.square
        # Products of all rows and columns do not fit in registers together.
        count = square // 2 if self.a.operand.contracts_last and self.b.operand.contracts_last else square
        for k in range(0, self.tiling.depth, self.a.wide):  # no loop: where numbers lie is computed before all steps
            right = self._registers(f, shared, f.iadd(begin, self.a.size), self.b, self.places[1], k, range(square))
            for first in range(0, square, count):
                rows = range(first, first + count)
                left = self._registers(f, shared, begin, self.a, self.places[0], k, rows)
                for number in range(self.a.wide):
                    for i, p in zip(rows, left[number], strict=True):
                        for j, q in enumerate(right[number]):
                            place = square * i + j
                            results[place] = f.fma(p, q, results[place])
        return results

    def _registers(
        self, f: Function, shared: Value, begin: Index, tile: Tile, thread: Index, k: int, numbers: range
    ) -> list[list[Value]]:
        """Some of a thread's rows of an operand, for each of some products from k on."""
        wide = tile.wide

        def load(number: int, k: int, count: int) -> list[Value]:
            bits = count * self.held.bits
            found = f.load(VectorType(count, self.sum_type), shared, at(number, k), align=bits // 8)
            return [f.extract(found, lane) for lane in range(count)]

        def at(number: int, k: int) -> Index:
            # Further rows lie as far from the first one in all threads: offsets of instructions.
            start = k if tile.swizzled else 0
            own = tile.at(f, self._row(f, tile, thread, 0), start)
            away = f.isub(tile.at(f, self._row(f, tile, 0, number), k), tile.at(f, self._row(f, tile, 0, 0), start))
            return f.iadd(f.iadd(begin, own), away)

        if tile.operand.contracts_last:
            rows = [load(number, k, wide) for number in numbers]
            return [[row[number] for row in rows] for number in range(wide)]
        together = min(wide, self.square)
        return [
            [each for first in numbers[::together] for each in load(first, k + number, together)]
            for number in range(wide)
        ]

    # --- results -----------------------------------------------------------------------------------------------------

    @property
    def _line(self) -> int:
        return self.tiling.columns + PADDING

    @property
    def staged(self) -> int:
        return SIDE * self._line * self.held.bits // 32

    def store(self, f: Function, shared: Value, sums: Sequence[Value], put: Put) -> None:
        """A row of every thread after the other, by way of shared memory: neighbours write neighbours. At once, where
        threads have neighbours and little is left to do."""
        y, x = self.places
        together = 1 if self.b.operand.contracts_last else min(self.b.wide, self.square)
        wide = self.p.neighbours()
        is_short = len(sums) * len(self.p.fusion.ops) <= MOST_OPS or self.square == together == wide
        if together % wide == 0 and is_short:
            for number in range(0, len(sums), wide):
                i, j = divmod(number, self.square)
                put(self._row(f, self.a, y, i), self._row(f, self.b, x, j), sums[number : number + wide])
            return
        self.free(f)
        for band in range(self.square):
            if band:
                f.barrier()
            mine = sums[self.square * band : self.square * (band + 1)]
            for first in range(0, self.square, together):
                at = f.iadd(f.imul(y, self._line), self._row(f, self.b, x, first))
                size = together * self.held.bits // 8
                f.store(packed(f, mine[first : first + together]), shared, at, align=size)
            f.barrier()

            def put_row(row: Index, column: Index, found: Sequence[Value], band: int = band) -> None:
                put(self._row(f, self.a, row, band), column, found)

            sizes = (SIDE, self.tiling.columns, self._line)
            give(self, f, shared, 0, sizes, (f.thread_number(), self.tiling.threads), put_row)
