"""Memory as a scheduled program has it: spaces and slices (docs/architecture.md, Memory)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from stablehlo_py.dialect.alignment import aligned
from stablehlo_py.dialect.attributes import FREE_MEMORY, SLICES
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.types import symints
from stablehlo_py.mlir import ir

ARENA, INPUT, OUTPUT, CONSTANT, WINDOW = range(5)  # spaces; windows are of other values (`PLACED`)


class Slice(NamedTuple):
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


@dataclass(frozen=True)
class FreeMemory:
    """What nothing lives in of the arena: `gaps` from begin to end, in ascending order, and all from `end` on."""

    gaps: tuple[tuple[int, int], ...]
    end: IntLike

    def place_for(self, size: IntLike) -> IntLike:
        """Where so many bytes, aligned, may begin."""
        if is_known(size):
            for begin, end in self.gaps:
                if aligned(begin) + size <= end:
                    return aligned(begin)
        return aligned(self.end)


def free_memory(module: ir.Module) -> dict[str, FreeMemory]:
    """By fusion: what nothing lives in of the planned arena at its calls, if there is such memory."""
    attributes = module.operation.attributes
    found = {}
    if FREE_MEMORY in attributes:
        for each in attributes[FREE_MEMORY]:
            *gaps, end = each.attr
            found[each.name] = FreeMemory(tuple(zip(gaps[::2], gaps[1::2], strict=True)), end)
    return found


def slices_of(op: ir.OpView | ir.Operation) -> list[Slice]:
    """The slices of an op's results, as `buffer-assignment` wrote them; none for an op without."""
    numbers = symints(op, SLICES) if SLICES in op.attributes else ()
    return [Slice._make(numbers[at : at + 4]) for at in range(0, len(numbers), 4)]
