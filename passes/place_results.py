"""Results that a loop only writes into a stack are computed there.

    %y = call @fusion_1(...)                               %y = call @fusion_1(...) {hlo.placed = [0]}
    %s1 = call @update(%s, %y, %i)   yield %s1      ==>    %s1 = call @update(%s, %y, %i) {hlo.unread}   yield %s1

where `@update` writes %y to place %i of %s and does nothing else. A program has no code for the second call: the first
one has the address of that place for its result. So a scan, and the forward pass of its gradient, copy nothing of what
they stack; and where several threads compute a row, no single one copies it.

Relies on `schedule`: where the place is must be known when the row is computed. Comes before `buffer-assignment`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.attributes import FUSION, PLACED, UNREAD
from stablehlo_py.dialect.build import attribute
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.dialect.types import i64s, operations
from stablehlo_py.mlir import ir
from stablehlo_py.passes._functions import functions
from stablehlo_py.passes._matchers import has_one_use
from stablehlo_py.passes.buffers.windows import maker, updated_window
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.rewrite import defining, key_of

#: Kinds whose kernels write a result once, wherever it lies.
_KINDS = ("column", "dot", "loop", "row")


@dataclass(frozen=True)
class PlaceResults(Pass):
    """Marks results that are computed in their place in a stack, and the updates that have nothing left to do."""

    name: ClassVar[str] = "place-results"

    def roots(self) -> tuple[str, ...]:
        return ("scf.while",)

    def run(self, module: ir.Module) -> bool:
        fusions = functions(module)[1]
        loops = [op for op in operations(module.operation) if op.name == "scf.while"]
        changed = [_place(op.regions[1].blocks[0], fusions) for op in loops]
        return any(changed)


def _place(body: ir.Block, fusions: Mapping[str, ir.Operation]) -> bool:
    order = {key_of(view.operation): number for number, view in enumerate(body.operations)}
    changed = False
    for argument, stacked in zip(body.arguments, terminator(body).operands, strict=True):
        update = defining(stacked, "func.call")
        if update is None or update.block != body or not has_one_use(stacked) or not has_one_use(argument):
            continue
        found = updated_window(update, fusions)
        if found is None or found[0].value != argument:
            continue
        window, new = found
        result = maker(new)
        call = defining(result, "func.call")
        if call is None or call.block != body or not has_one_use(result) or UNREAD in update.attributes:
            continue
        if fusions[call.attributes["callee"].value].attributes[FUSION].value not in _KINDS:
            continue
        at = order[key_of(call)]
        if all(_is_there(start, body, order, at) for start, _, _ in window.starts):
            placed = i64s(call, PLACED) if PLACED in call.attributes else ()
            call.attributes[PLACED] = attribute([*placed, list(call.results).index(result)])
            update.attributes[UNREAD] = ir.UnitAttr.get()
            changed = True
    return changed


def _is_there(value: ir.Value, body: ir.Block, order: Mapping[object, int], at: int) -> bool:
    """Whether a value is known before an op of the body."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.block != body:
        return True
    return order[key_of(owner.operation)] < at
