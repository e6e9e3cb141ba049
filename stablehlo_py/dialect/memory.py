"""Memory as a scheduled program has it: spaces and slices (docs/architecture.md, Memory)."""

from __future__ import annotations

from dataclasses import dataclass

from stablehlo_py.dialect.attributes import LIVE_ENDS, SLICES
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import symints
from stablehlo_py.mlir import ir

ARENA, INPUT, OUTPUT, CONSTANT = range(4)  # spaces


@dataclass(frozen=True)
class Slice:
    """Where a value lies: space, number within the space, offset and size in bytes."""

    space: int
    number: int
    offset: IntLike
    size: IntLike

    @property
    def buffer(self) -> tuple[int, int]:
        """Space and number."""
        return self.space, self.number

    def overlaps(self, other: Slice) -> bool:
        """Do two slices have a byte in common?"""
        if self.buffer != other.buffer or not self.size or not other.size:
            return False
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size


def live_ends(module: ir.Module) -> dict[str, int]:
    """By fusion: where in the planned arena all ends that lives at its calls, if that is before the arena does."""
    attributes = module.operation.attributes
    return {each.name: each.attr.value for each in attributes[LIVE_ENDS]} if LIVE_ENDS in attributes else {}


def slices_of(op: ir.OpView | ir.Operation) -> list[Slice]:
    """The slices of an op's results, as `buffer-assignment` wrote them; none for an op without."""
    numbers = symints(op, SLICES) if SLICES in op.attributes else ()
    return [
        Slice(int(space), int(number), offset, size)
        for space, number, offset, size in zip(*(numbers[field::4] for field in range(4)), strict=True)
    ]
