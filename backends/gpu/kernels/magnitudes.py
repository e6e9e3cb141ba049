"""The largest magnitude among the elements of an operand, batch by batch, in parts: what a kernel in front of another
one finds out, so that this one knows what zeros times these are, or how large their products get."""

from __future__ import annotations

from stablehlo_py.backends.gpu.kernels.product import PIECE_BITS, Operand, Product
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import I16, I32, Index, Value
from stablehlo_py.codegen.types import element, from_bits

BLOCK, PART, MOST_PARTS = 256, 1 << 16, 16  # threads, elements of a block at least, and blocks for those of a batch
WORDS = {"f32": (32, 0x7FFFFFFF), "bf16": (16, 0x7FFF), "f16": (16, 0x7FFF)}  # bits, and those of a magnitude


class Magnitudes:
    """Of an operand.

    Args:
        product, operand: that elements are read as; along: whether parts are cut along the product's depth.

    Attributes:
        parts: of a batch.
    """

    def __init__(self, product: Product, operand: Operand, *, along_depth: bool) -> None:
        self.product, self.operand, self.along_depth = product, operand, along_depth
        self.count, self.width = operand.rows, operand.depth
        if along_depth:
            self.count, self.width = self.width, self.count
        part = max(PART // self.width, -(-self.count // MOST_PARTS))
        self.part = -(-part // PIECE_BITS) * PIECE_BITS  # whole pieces
        self.parts = -(-self.count // self.part)

    def largest(self, batch: Index, part: Index) -> Value:
        """The largest that a thread finds of a part, which the threads of a block share out; NaN where one is."""
        p, f = self.product, self.product.e.f
        wide = self._piece_width(batch)
        first = f.imul(part, self.part)
        count = self.part * self.width // wide
        if wide == 1:

            def take(number: Value, found: Value) -> list[Value]:
                row, k = self._at(first, number, 1)
                size = f.intrinsic("fabs", p.element(self.operand, batch, row, k))
                larger = arith.combine(f, "maximum", p.of, found, size)
                assert isinstance(larger, Value)
                return [larger]

            return f.loop(f.thread_number(), count, BLOCK, take, [f.const(0.0, p.of.compute)])[0]
        (bits,) = f.loop(
            f.thread_number(), count, BLOCK, lambda at, found: [self._of_piece(batch, first, at, found)],
            [f.const(0, I32)],
        )  # fmt: skip
        of = element(self.operand.value)
        return from_bits(f, of, bits if of.bits == 32 else f.cast("trunc", bits, I16))

    def _piece_width(self, batch: Index) -> int:
        """Elements that a thread reads together."""
        of = element(self.operand.value)
        if of.name not in WORDS or self.product.of.compute.bits != 32:
            return 1
        return 1 if self.product.piece(self.operand, batch, 0, 0) is None else PIECE_BITS // of.bits

    def _at(self, first: Index, number: Index, wide: int) -> tuple[Index, Index]:
        """Row and product of so many neighbours, by their number in the part."""
        f = self.product.e.f
        if self.operand.contracts_last == self.along_depth:  # neighbours are along what is cut
            across, step = self.part // wide, wide
            along, other = f.imul(f.irem(number, across), wide), f.idiv(number, across)
        else:
            across, step = self.width // wide, 1
            along, other = f.idiv(number, across), f.imul(f.irem(number, across), wide)
        along = f.imin(f.iadd(first, along), self.count - step)
        return (other, along) if self.along_depth else (along, other)

    def _of_piece(self, batch: Index, first: Index, number: Index, found: Value) -> Value:
        """As bits, whose order is that of magnitudes."""
        f, of = self.product.e.f, element(self.operand.value)
        bits, ones = WORDS[of.name]
        piece = self.product.piece(self.operand, batch, *self._at(first, number, PIECE_BITS // of.bits))
        assert piece is not None
        words = piece.load(f)
        for word in range(PIECE_BITS // 32):
            for shift in range(0, 32, bits):
                part = f.extract(words, word)
                part = f.binary("lshr", part, f.const(shift, I32)) if shift else part
                part = f.binary("and", part, f.const(ones, I32))
                found = f.select(f.cmp("ugt", part, found), part, found)
        return found
