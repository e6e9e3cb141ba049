"""Memory as a scheduled program has it: spaces, slices, alignment (docs/architecture.md, Memory)."""

from __future__ import annotations

from dataclasses import dataclass

from stablehlo_py.dialect.attributes import SLICES
from stablehlo_py.dialect.types import i64s
from stablehlo_py.mlir import ir

ARENA, INPUT, OUTPUT, CONSTANT = range(4)  # spaces
ALIGNMENT = 64  # in bytes, of every buffer and of every slice in the arena


@dataclass(frozen=True)
class Slice:
    """Where a value lies: space, number within the space, offset and size in bytes."""

    space: int
    number: int
    offset: int
    size: int

    @property
    def buffer(self) -> tuple[int, int]:
        """Space and number."""
        return self.space, self.number

    def overlaps(self, other: Slice) -> bool:
        """Do two slices have a byte in common?"""
        if self.buffer != other.buffer or not self.size or not other.size:
            return False
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size


def slices_of(op: ir.OpView | ir.Operation) -> list[Slice]:
    """The slices of an op's results, as `buffer-assignment` wrote them; none for an op without."""
    numbers = i64s(op, SLICES) if SLICES in op.attributes else ()
    return [Slice(*numbers[begin : begin + 4]) for begin in range(0, len(numbers), 4)]


def aligned(size: int) -> int:
    """A number of bytes, rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT
