"""What overwritten carries start with is not computed.

    %z = call @fusion_7()  %r:2 = scf.while (%i = %c0, %ys = %z) {hlo.overwritten = [1]} ...
        ==>  %z = call @fusion_7() {hlo.unread}  ...

A program has no code for a call with that attribute: its result has its place in memory, and whatever is there. Each
carry gets a call of its own, for one that several carries start with would be copied for each. In a loop that is a
fusion, the broadcast that its carry starts with gets the attribute; kernels that make one in memory need not.

Relies on `mark-stacks`, and on `fusion`. Comes before `schedule`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.attributes import OVERWRITTEN, UNREAD
from stablehlo_py.dialect.types import i64s, operations
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import has_one_use
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.rewrite import defining


@dataclass(frozen=True)
class DropFills(Pass):
    """Marks calls of fusions, and broadcasts in fusions, that compute what nobody reads."""

    name: ClassVar[str] = "drop-fills"

    def roots(self) -> tuple[str, ...]:
        return ("scf.while",)

    def run(self, module: ir.Module) -> bool:
        changed = False
        for op in operations(module.operation):
            if op.name == "scf.while" and OVERWRITTEN in op.attributes:
                for number in i64s(op, OVERWRITTEN):
                    changed |= _drop(op, number)
                del op.attributes[OVERWRITTEN]
        return changed


def _drop(loop: ir.Operation, number: int) -> bool:
    """Let a carry start with a call that is not made, where a call without operands gives it only that, or with a
    broadcast that is not computed."""
    splat = defining(loop.operands[number], "hlo.broadcast")
    if splat is not None and has_one_use(splat.results[0]):
        splat.attributes[UNREAD] = ir.UnitAttr.get()
        return True
    fill = defining(loop.operands[number], "func.call")
    if fill is None or len(fill.operands) or len(fill.results) != 1:
        return False
    with ir.InsertionPoint(loop):
        call = fill.clone().operation
    call.attributes[UNREAD] = ir.UnitAttr.get()
    loop.operands[number] = call.results[0]
    if not any(True for _ in fill.results[0].uses):
        fill.erase()
    return True
