"""Carries that a loop overwrites whole are marked: nobody reads what they start with.

    %r:2 = scf.while (%i = %c0, %ys = %zeros) ... do { ... yield ..., dynamic_update_slice %ys, %y, %i }
        ==>  the same {hlo.overwritten = [1]}

A scan starts its stacks as zeros. Each trip writes a place of its own, and there are as many trips as places.
`drop-fills` spares the zeros. The mark is made before fusions are formed, which hide what is written where.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.attributes import OVERWRITTEN
from stablehlo_py.dialect.build import attribute
from stablehlo_py.dialect.trips import trip_count
from stablehlo_py.dialect.types import operations, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes._loops import Loop, Trips
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.rewrite import defining


@dataclass(frozen=True)
class MarkStacks(Pass):
    """Writes down which carries of `scf.while` are overwritten whole before anybody reads them."""

    name: ClassVar[str] = "mark-stacks"
    makes: ClassVar[tuple[str, ...]] = ()

    def roots(self) -> tuple[str, ...]:
        return ("scf.while",)

    def run(self, module: ir.Module) -> bool:
        changed = False
        for op in operations(module.operation):
            if op.name == "scf.while" and (numbers := _overwritten(op)):
                op.attributes[OVERWRITTEN] = attribute(numbers)
                changed = True
        return changed


def _overwritten(op: ir.Operation) -> list[int]:
    loop = Loop.of(op)
    if loop is None:
        return []
    updated = [
        number
        for number, value in enumerate(loop.yielded.operands)
        if defining(value, "hlo.dynamic_update_slice") is not None and shape(value)
    ]
    count = trip_count(op, {}) if updated else None
    if not count:
        return []
    trips = Trips(loop, count)
    return [
        number
        for number in updated
        if len(list(loop.before.arguments[number].uses)) == 1 and trips.filling(number) is not None
    ]
