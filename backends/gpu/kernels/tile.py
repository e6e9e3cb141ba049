"""An operand's tile in shared memory: so many rows (of the right operand: columns), so many products deep.

It stays as it lies in memory, with neighbours along the products or along rows; for units that want neighbours along
the products it is turned on its way. Threads bring it in pieces of 16 bytes: by asynchronous copies where it lies in
memory so, by way of registers where it is computed or turned. Lines of up to 128 bytes lie one behind the other, and
the pieces of a line in an order that depends on its number (a swizzle): threads that read the same piece of
neighbouring lines read from different banks. `wgmma` finds them so, too (PTX ISA, 9.7.15.5.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.gpu.kernels.product import FOUR, PIECE_BITS, Operand, Piece, Product
from stablehlo_py.codegen.builder import I32, Function, Index, ScalarType, Value, VectorType
from stablehlo_py.codegen.index import Affine, add, affine_of

LINE_BITS = 1024


@dataclass(frozen=True)
class Tile:
    """Where elements lie in shared memory, in elements from the tile's begin.

    Attributes:
        held: integers as wide as an element; rows, depth: of the tile; threads: that bring it.
        bits: of one element, by its batch, row and product; as_stored: whether these are the bits in memory; copies:
            whether they may be copied asynchronously; turned: whether neighbours along rows in memory are to be
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
    turned: bool = False
    swizzled: bool = True

    @property
    def contracts_last(self) -> bool:
        """Whether neighbours are neighbours in the sum."""
        return self.operand.contracts_last or self.turned

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
        return (self.rows, self.depth) if self.contracts_last else (self.depth, self.rows)

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
        number, inner = (row, k) if self.contracts_last else (k, row)
        wide, pieces = self.wide, self.line // self.wide
        part, within = f.idiv(inner, self.line), f.irem(inner, self.line)
        piece = f.idiv(within, wide)
        if self.swizzled:
            piece = f.ixor(piece, f.irem(f.idiv(number, 8 // pieces), pieces))
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
            found.append((outer, inner) if self.contracts_last else (inner, outer))
        return found

    def bring(
        self, f: Function, shared: Value, begin: Index, batch: Index, first: Index, start: Index
    ) -> Callable[[], None]:
        """Begin to bring the tile whose first row and product these are; what is returned stores what came to
        registers."""
        came: list[tuple[Index, Value]] = []
        turned = self._turned_blocks(f, batch, first, start) if self.turned and self.as_stored else None
        for row, k in self._places(f) if turned is None else ():
            at = self._word(f, begin, row, k)
            row, k = f.iadd(first, row), f.iadd(start, k)
            piece = self._piece(f, batch, row, k) if self.as_stored and not self.turned else None
            if piece is not None and self.copies:
                f.copy_async(shared, at, piece.base, piece.start, piece.exists)
            else:
                came.append((at, piece.load(f) if piece is not None else self._gathered(f, batch, row, k)))
        came += [(self._word(f, begin, row, k), value) for row, k, value in turned or ()]

        def put() -> None:
            for at, value in came:
                f.store(value, shared, at, align=PIECE_BITS // 8)

        return put

    def _word(self, f: Function, begin: Index, row: Index, k: Index) -> Index:
        """The word of shared memory at which a piece begins."""
        return f.idiv(f.imul(f.iadd(begin, self.at(f, row, k)), self.held.bits), 32)

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
        operand, wide, last = self.operand, self.wide, self.contracts_last
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

    # --- turned ------------------------------------------------------------------------------------------------------

    def _turned_blocks(
        self, f: Function, batch: Index, first: Index, start: Index
    ) -> list[tuple[Index, Index, Value]] | None:
        """Pieces along the products, with their rows and first products, of what lies along rows in memory; of 8 bits.
        A thread reads words of four rows, one for each product of a piece, and has four pieces then. Of 32 threads,
        four times eight read 32 bytes side by side, and eight that store pieces find different banks. None: blocks are
        too few for the threads, or do not lie in words."""
        together, wide = 32 // self.held.bits, self.wide
        groups, across = self.rows // together, self.depth // wide
        if self.held.bits != 8 or self.size % (together * wide * self.threads) or groups % 2 or across % 4:
            return None
        found: list[tuple[Index, Index, Value]] = []
        for part in range(self.size // (together * wide * self.threads)):
            number = f.iadd(f.thread_number(), part * self.threads)
            rest = f.idiv(number, 8)
            group = f.iadd(f.imul(f.irem(rest, groups // 2), 2), f.irem(number, 2))
            block = f.iadd(f.imul(f.idiv(rest, groups // 2), 4), f.irem(f.idiv(number, 2), 4))
            row, k = f.imul(group, together), f.imul(block, wide)
            words = [
                self._word_of_rows(f, batch, f.iadd(first, row), f.iadd(start, f.iadd(k, each))) for each in range(wide)
            ]
            if None in words:
                return None
            squares = [
                _turned(f, [word for word in words[at : at + 4] if word is not None]) for at in range(0, wide, 4)
            ]
            for each in range(together):
                value = f.poison(FOUR)
                for place, square in enumerate(squares):
                    value = f.insert(value, square[each], place)
                found.append((f.iadd(row, each), k, value))
        return found

    def _word_of_rows(self, f: Function, batch: Index, row: Index, k: Index) -> Value | None:
        """Neighbouring rows of one product, in a word; zeros behind the last product."""
        operand, together = self.operand, 32 // self.held.bits
        piece = self.product.piece(
            operand,
            batch,
            f.imin(row, operand.rows - together) if operand.rows % self.rows else row,
            f.imin(k, operand.depth - 1),
            32,
        )
        if piece is None:
            return None
        if operand.depth % self.depth:  # what is brought behind the last tile is not used
            piece = piece.only_if(f, f.cmp("slt", f.index(k), f.const(operand.depth)))
        return piece.load(f)


def _turned(f: Function, words: Sequence[Value]) -> list[Value]:
    """The transpose of 4 x 4 bytes: word i has the i-th byte of each word."""

    def mixed(low: Value, high: Value, mask: int, by: int) -> list[Value]:
        """Of two words, what lies in the mask, and what lies in it when moved down."""
        kept, count = f.const(mask, I32), f.const(by, I32)
        moved = f.binary("or", f.binary("and", low, kept), f.binary("shl", f.binary("and", high, kept), count))
        others = f.binary("and", f.binary("lshr", low, count), kept)
        return [moved, f.binary("or", others, f.binary("and", high, f.const(~mask, I32)))]

    (a, b), (c, d) = (mixed(words[at], words[at + 1], 0x00FF00FF, 8) for at in (0, 2))
    (first, third), (second, fourth) = (mixed(*pair, 0x0000FFFF, 16) for pair in ((a, c), (b, d)))
    return [first, second, third, fourth]
