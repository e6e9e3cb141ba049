"""Tiles of operands in shared memory, for products by multiplications and additions of single numbers."""

from __future__ import annotations

from dataclasses import dataclass

from stablehlo_py.backends.gpu.kernels.product import Operand, Product
from stablehlo_py.codegen.builder import Function, Index, Value

SIDE = 16  # threads along each side of a tile
DEPTH = 16  # products of scores between two barriers


@dataclass(frozen=True)
class Staging:
    """A block of SIDE x SIDE threads, and the memory through which tiles of operands go."""

    f: Function
    batch: Index
    memory: Value

    def bring(
        self, product: Product, operand: Operand, first: Index, start: Index, sizes: tuple[int, int], begin: int
    ) -> None:
        """Bring so many rows (columns, keys) of an operand from `first` on, and of its products from `start` on, to
        memory from `begin` on: the rows of a product after those of the one before, and an element between. What lies
        behind the last product counts as zero."""
        f = self.f
        rows, depth = sizes
        for part in range(-(-rows * depth // SIDE**2)):
            number = f.iadd(f.thread_number(), part * SIDE**2)
            if operand.contracts_last:
                k, place = f.irem(number, depth), f.idiv(number, depth)
            else:
                place, k = f.irem(number, rows), f.idiv(number, rows)

            def put(place: Index = place, k: Index = k) -> None:
                row, at = f.imin(f.iadd(first, place), operand.rows - 1), f.iadd(start, k)
                value = product.element(operand, self.batch, row, f.imin(at, operand.depth - 1))
                exists = f.cmp("slt", f.index(at), f.const(operand.depth))
                value = f.select(exists, value, f.const(0.0, value.type))
                f.store(value, self.memory, f.iadd(f.iadd(place, f.imul(k, rows + 1)), begin))

            if (part + 1) * SIDE**2 > rows * depth:
                f.if_(f.cmp("slt", f.index(number), f.const(rows * depth)), put)
            else:
                put()
