"""The memory of a call: how much, and where and when every intermediate value lives in the arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stablehlo_py.interrupts import deferred
from stablehlo_py.runtime.program import CompiledProgram


@dataclass(frozen=True)
class PlanEntry:
    """One value of the memory plan: its place in the arena (bytes), first and last step that it lives in, the user's
    source line."""

    value: str
    offset: int
    size: int
    first: int
    last: int
    source: str | None

    def __str__(self) -> str:
        line = f", {self.source}" if self.source else ""
        return f"{self.size} bytes at {self.offset}, steps {self.first} to {self.last}: {self.value}{line}"


@dataclass(frozen=True)
class MemoryPlan:
    """The memory of a call, in bytes. An output that takes over a donated input's memory counts in both sums.

    Attributes:
        arena_bytes: intermediate values and scratch; the runtime keeps it for the next call.
        input_bytes, output_bytes: arguments and results.
        constant_bytes: what the program holds itself, however often it is called.
        entries: the values in the arena, largest first. Their places overlap where their steps do not.
    """

    arena_bytes: int
    input_bytes: int
    output_bytes: int
    constant_bytes: int
    entries: tuple[PlanEntry, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        head = (
            f"arena {self.arena_bytes} bytes, inputs {self.input_bytes}, outputs {self.output_bytes}, "
            f"constants {self.constant_bytes}"
        )
        return "\n".join([head, *(f"  {entry}" for entry in self.entries)])


@deferred()
def arena_entries(program: CompiledProgram, symbols: Mapping[str, int]) -> tuple[PlanEntry, ...]:
    """The values that the scheduled stage places in the arena; `symbols` are what dynamic dimensions are in a call."""
    from stablehlo_py.dialect.context import make_context
    from stablehlo_py.dialect.symint import substitute
    from stablehlo_py.mlir import ir
    from stablehlo_py.passes.buffer_assignment import memory_plan

    stage = program.stages.get("scheduled")
    if not isinstance(stage, bytes):  # a model with large constants keeps its stages as text
        return ()
    with make_context():
        entries = [
            PlanEntry(
                e.value, int(substitute(e.offset, symbols)), int(substitute(e.size, symbols)), e.first, e.last, e.source
            )
            for e in memory_plan(ir.Module.parse(stage))
        ]
    return tuple(sorted(entries, key=lambda entry: (-entry.size, entry.first)))
