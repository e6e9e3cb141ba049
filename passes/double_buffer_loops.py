"""Loops whose carries would be copied in each trip run two trips at a time, in which their buffers change places.

    scf.while (%x = %x0) ... do { %y = call @stencil(%x)  yield copy of %y }
        ==>  scf.while (%x = %x0) ... do { %y = call @stencil(%x)  %z = call @stencil(%y)  yield %z }

A stencil cannot be written over what it reads, so its result lies elsewhere, and is copied to where the carry lies. The
second trip of a pair reads it there, and writes to where the first one read. The same holds for carries that hand
values on to each other. An odd number of trips has its first one before the loop. XLA's `DoubleBufferLoopUnrolling`
does so on GPUs.

Relies on `schedule`: which carries are copied depends on the order of the calls. The trips have to be known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.symint import size_hint
from stablehlo_py.dialect.trips import trip_count
from stablehlo_py.dialect.types import operations, tensor_bytes
from stablehlo_py.mlir import ir
from stablehlo_py.passes._functions import functions
from stablehlo_py.passes._loops import Loop
from stablehlo_py.passes.buffers.inplace import InPlace, in_place
from stablehlo_py.passes.buffers.plan import Plan
from stablehlo_py.passes.policy import policy_of
from stablehlo_py.passes.unroll_loops import clone_block
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.targets import DEFAULT_TARGET


@dataclass(frozen=True)
class DoubleBufferLoops(Pass):
    """Unrolls loops by two where that spares copies. `min_bytes`: of what a trip copies; `max_ops`: of a body."""

    name: ClassVar[str] = "double-buffer-loops"
    makes: ClassVar[tuple[str, ...]] = ()
    target: str = DEFAULT_TARGET
    min_bytes: int = 1024
    max_ops: int = 64

    def roots(self) -> tuple[str, ...]:
        return ("scf.while",)

    def run(self, module: ir.Module) -> bool:
        programs, fusions = functions(module)
        rules = policy_of(self.target).fusion.in_place
        pairs = {name: in_place(function, rules) for name, function in fusions.items()}
        changed = False
        for op, size in _copied(programs[0], pairs).items():
            loop, trips = Loop.of(op), trip_count(op, fusions)
            if size < self.min_bytes or loop is None or not trips or trips < 2 or len(operations(op)) > self.max_ops:
                continue
            _unroll(loop, odd=trips % 2 == 1)
            changed = True
        return changed


def _copied(main: ir.Operation, pairs: Mapping[str, InPlace]) -> dict[ir.Operation, int]:
    """Loops, and the bytes that each trip would copy."""
    found: dict[ir.Operation, int] = {}
    for copy in Plan(main, pairs, {}, reuse=False).copies:
        loop = copy.op.parent.operation
        if copy.op.name == "scf.yield" and loop.name == "scf.while":
            found[loop] = found.get(loop, 0) + size_hint(tensor_bytes(copy.op.operands[copy.position]))
    return found


def _unroll(loop: Loop, odd: bool) -> None:
    if odd:
        for position, value in enumerate(clone_block(loop.after, list(loop.op.operands), loop.op)):
            loop.op.operands[position] = value
    twice = clone_block(loop.after, list(loop.yielded.operands), loop.yielded)
    for position, value in enumerate(twice):
        loop.yielded.operands[position] = value
