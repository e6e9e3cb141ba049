"""Places that a loop gathers in every trip are clamped once, before it.

    scf.while ... do { %1 = hlo.gather %table, %places ... }
        ==>  %c = hlo.minimum (hlo.maximum %places, 0), last
             scf.while ... do { %1 = hlo.gather %table, %c {hlo.in_bounds} ... }

A gather clamps where it begins: of the twenty instructions for an edge of a graph (gather, product, sum) that is six.
Code of a gather with that attribute does not. Nothing else may write it, as it says what memory is read.

Relies on `licm`: places that do not change are computed before the loop. Comes before `fusion`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import IN_BOUNDS
from stablehlo_py.dialect.regions import defined_values
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import i64s, shape, symints
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.rewrite import defining


@dataclass(frozen=True)
class ClampBeforeLoops(Pass):
    """Clamps the start indices of gathers before the loops that these are in."""

    name: ClassVar[str] = "clamp-before-loops"

    def roots(self) -> tuple[str, ...]:
        return "scf.while", "hlo.gather"

    def run(self, module: ir.Module) -> bool:
        loops: list[ir.Operation] = []
        changed = False

        def visit(op: ir.Operation) -> ir.WalkResult:
            nonlocal changed
            name = op.name
            if name == "scf.while":
                loops.append(op.operation)
            elif name == "hlo.gather" and IN_BOUNDS in op.attributes:
                del op.attributes[IN_BOUNDS]
                changed = True
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        clamped = [_clamp(loop) for loop in loops]
        return changed or any(clamped)


def _clamp(loop: ir.Operation) -> bool:
    inside, clamped = defined_values(loop), dict[tuple[ir.Value, int], ir.Value]()
    changed = False
    for op in [view.operation for view in loop.regions[1].blocks[0]]:
        if op.name != "hlo.gather":
            continue
        places, last = _unshaped(op.operands[1], inside), _last(op)
        if places in inside or last is None:
            continue
        if (places, last) not in clamped:
            with ir.InsertionPoint(loop), loop.location:
                least = build.like("maximum", places, build.splat(0, places.type))
                clamped[places, last] = build.like("minimum", least, build.splat(last, places.type))
        with ir.InsertionPoint(op), op.location:
            op.operands[1] = build.reshape(clamped[places, last], shape(op.operands[1]))
        op.attributes[IN_BOUNDS] = ir.UnitAttr.get()
        changed = True
    return changed


def _unshaped(value: ir.Value, inside: set[ir.Value]) -> ir.Value:
    """What a value is a reshape of, in or before a loop."""
    while value in inside and (reshape := defining(value, "hlo.reshape")) is not None:
        value = reshape.operands[0]
    return value


def _last(op: ir.Operation) -> int | None:
    """The last place of a gather's windows along the one dimension that its indices number, where that can be told."""
    numbers = i64s(op, "start_index_map")
    if len(numbers) != 1:
        return None
    size, window = shape(op.operands[0])[numbers[0]], symints(op, "slice_sizes")[numbers[0]]
    if not isinstance(size, int) or not isinstance(window, int) or not is_known(*shape(op.operands[1])):
        return None
    element = ir.IntegerType(op.operands[1].type.element_type)
    most = 1 << (element.width - (not element.is_unsigned))
    return size - window if 0 < size - window < most else None
