"""An operand's tile in shared memory: so many rows (of the right operand: columns), so many products deep.

It stays as it lies in memory, with neighbours along the products or along rows. Threads bring it in pieces of 16 bytes:
by asynchronous copies where it lies in memory so, by way of registers where it is computed. Lines of up to 128 bytes
lie one behind the other, and the pieces of a line in an order that depends on its number (a swizzle): threads that read
the same piece of neighbouring lines read from different banks. `wgmma` finds them so, too (PTX ISA, 9.7.15.5.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stablehlo_py.backends.gpu.kernels.product import FOUR, PIECE_BITS, Operand, Piece, Product
from stablehlo_py.codegen.builder import Function, Index, ScalarType, Value, VectorType
from stablehlo_py.codegen.index import Affine, add, affine_of

LINE_BITS = 1024


@dataclass(frozen=True)
class Tile:
    """Where elements lie in shared memory, in elements from the tile's begin.

    Attributes:
        held: integers as wide as an element; rows, depth: of the tile; threads: that bring it.
        bits: of one element, by its batch, row and product; as_stored: whether these are the bits in memory; copies:
            whether they may be copied asynchronously.
    """

    product: Product
    operand: Operand
    held: ScalarType
    bits: Callable[[Index, Affine, Affine], Value]
    rows: int
    depth: int
    threads: int
    as_stored: bool
    copies: bool

    @property
    def size(self) -> int:
        """Elements."""
        return self.rows * self.depth

    @property
    def words(self) -> int:
        """32-bit words."""
        return self.size * self.held.bits // 32

    @property
    def wide(self) -> int:
        """Elements of a piece."""
        return PIECE_BITS // self.held.bits

    @property
    def _sizes(self) -> tuple[int, int]:
        """Lines before they are cut, and elements of one."""
        return (self.rows, self.depth) if self.operand.contracts_last else (self.depth, self.rows)

    @property
    def lines(self) -> int:
        """Lines, of which each may go on in further ones, one behind another `lines` later."""
        return self._sizes[0]

    @property
    def line(self) -> int:
        """Elements of a line."""
        return min(self._sizes[1], LINE_BITS // self.held.bits)

    def at(self, f: Function, row: Index, k: Index) -> Index:
        """Where an element lies."""
        number, inner = (row, k) if self.operand.contracts_last else (k, row)
        wide, pieces = self.wide, self.line // self.wide
        part, within = f.idiv(inner, self.line), f.irem(inner, self.line)
        piece = f.ixor(f.idiv(within, wide), f.irem(f.idiv(number, 8 // pieces), pieces))
        line = f.iadd(f.imul(part, self.lines), number)
        return f.iadd(f.iadd(f.imul(line, self.line), f.imul(piece, wide)), f.irem(within, wide))

    # --- on its way from memory --------------------------------------------------------------------------------------

    def _places(self, f: Function) -> list[tuple[Index, Index]]:
        """First row and product of each piece that a thread brings."""
        found: list[tuple[Index, Index]] = []
        across = self._sizes[1] // self.wide
        for part in range(self.size // self.wide // self.threads):
            number = f.iadd(f.thread_number(), part * self.threads)
            outer, inner = f.idiv(number, across), f.imul(f.irem(number, across), self.wide)
            found.append((outer, inner) if self.operand.contracts_last else (inner, outer))
        return found

    def bring(
        self, f: Function, shared: Value, begin: Index, batch: Index, first: Index, start: Index
    ) -> Callable[[], None]:
        """Begin to bring the tile whose first row and product these are; what is returned stores what came to
        registers."""
        came: list[tuple[Index, Value]] = []
        for row, k in self._places(f):
            at = f.idiv(f.imul(f.iadd(begin, self.at(f, row, k)), self.held.bits), 32)
            row, k = f.iadd(first, row), f.iadd(start, k)
            piece = self._piece(f, batch, row, k) if self.as_stored else None
            if piece is not None and self.copies:
                f.copy_async(shared, at, piece.base, piece.start, piece.exists)
            else:
                came.append((at, piece.load(f) if piece is not None else self._gathered(f, batch, row, k)))

        def put() -> None:
            for at, value in came:
                f.store(value, shared, at, align=PIECE_BITS // 8)

        return put

    def _piece(self, f: Function, batch: Index, row: Index, k: Index) -> Piece | None:
        """A piece that lies in memory as it is; None: it does not."""
        operand, last, wide = self.operand, self.operand.contracts_last, self.wide
        rows, depth = operand.rows, operand.depth
        piece = self.product.piece(
            operand,
            batch,
            f.imin(row, rows - (1 if last else wide)) if rows % self.rows else row,
            f.imin(k, depth - (wide if last else 1)),
        )
        if piece is None or not depth % self.depth:  # what is brought behind the last tile is not used
            return piece
        return piece.only_if(f, f.cmp("slt", f.index(k), f.const(depth)))

    def _gathered(self, f: Function, batch: Index, row: Index, k: Index) -> Value:
        """A piece, element by element; zeros behind the last product. Neighbours of which all are there or none are
        read side by side."""
        operand, wide, last = self.operand, self.wide, self.operand.contracts_last
        rows, depth = operand.rows, operand.depth
        (first, size), (other, others) = ((k, depth), (row, rows)) if last else ((row, rows), (k, depth))
        across = affine_of(f.imin(other, others - 1), others - 1)
        is_whole = size % wide == 0
        value = f.poison(VectorType(wide, self.held))
        for number in range(wide):
            if is_whole:
                along = add(f, affine_of(f.imin(first, size - wide), size - wide, wide), number)
            else:
                along = affine_of(f.imin(f.iadd(first, number), size - 1), size - 1)
            bits = self.bits(batch, across, along) if last else self.bits(batch, along, across)
            if depth % self.depth:
                at = k if is_whole or not last else f.iadd(k, number)
                bits = f.select(f.cmp("slt", f.index(at), f.const(depth)), bits, f.const(0, self.held))
            value = f.insert(value, bits, number)
        return f.bitcast(value, FOUR)
