"""Loop-invariant code motion: what every iteration computes alike is computed once, before the loop.

    scf.while ... do { %1 = hlo.dot %w, %v ; %2 = hlo.add %carry, %1 ... }
        ==>  %1 = hlo.dot %w, %v ; scf.while ... do { %2 = hlo.add %carry, %1 ... }

All hlo ops are pure and total, so computing one that a loop of zero iterations would not have reached does no harm.
Constants, iotas, broadcasts and reshapes cost nothing inside a kernel: they move only along with what needs them, as
does what would write far more memory than it reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.ops import Work, records
from stablehlo_py.dialect.regions import defined_values
from stablehlo_py.dialect.symint import size_hint
from stablehlo_py.dialect.types import is_tensor, num_elements, operations
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.effects import PURE, effect_kind, is_pure
from stablehlo_py.passmanager.rewrite import defining

# A slice reads memory: one that does not change is worth its place.
_FREE = frozenset(
    [record.name for record in records() if record.work is Work.INDICES and record.name != "hlo.slice"]
    + ["arith.constant", "tensor.extract", "arith.index_cast"]
)
# Dear enough to be worth memory at any size.
EXPENSIVE = frozenset(record.name for record in records() if record.work is Work.WHOLE or record.random_access)


@dataclass(frozen=True)
class Licm(Pass):
    """Moves ops that do not depend on the iteration out of `scf.while`. `max_growth`: elements written per element
    read."""

    name: ClassVar[str] = "licm"
    makes: ClassVar[tuple[str, ...]] = ()
    max_growth: int = 4

    def roots(self) -> tuple[str, ...]:
        return ("scf.while",)

    def run(self, module: ir.Module) -> bool:
        # Inner loops first: what leaves them may leave the outer loop too. Ops only move, so the references stay good.
        loops = [op for op in operations(module.operation) if op.name == "scf.while"]
        hoisted = [self._hoist(loop) for loop in loops]
        return any(hoisted)

    def _hoist(self, loop: ir.Operation) -> bool:
        variant, moved = defined_values(loop), False
        for region in loop.regions:
            for op in [view.operation for view in region.blocks[0]]:
                if op.name in _FREE or not len(op.results) or not _is_invariant(op, variant):
                    continue
                if op.name in EXPENSIVE or self._pays(op, variant):
                    _move(op, loop, variant)
                    moved = True
        return moved

    def _pays(self, op: ir.Operation, variant: set[ir.Value]) -> bool:
        written = sum(size_hint(num_elements(result)) for result in op.results)
        return written <= max(1, self.max_growth * _elements_read(op, variant))


def _is_invariant(op: ir.Operation, variant: set[ir.Value]) -> bool:
    """True for a pure op whose operands are defined outside, or by free ops whose operands are."""
    if op.name.startswith("scf.") or not (effect_kind(op.name) == PURE or is_pure(op)):
        return False
    return all(_is_available(operand, variant) for operand in op.operands)


def _is_available(value: ir.Value, variant: set[ir.Value]) -> bool:
    if value not in variant:
        return True
    made = defining(value)
    return made is not None and made.name in _FREE and all(_is_available(operand, variant) for operand in made.operands)


def _elements_read(op: ir.Operation, variant: set[ir.Value]) -> int:
    """Elements that the op reads from memory, looking through free ops."""
    total = 0
    for operand in op.operands:
        made = defining(operand) if operand in variant else None
        if made is not None:
            total += _elements_read(made, variant)
        elif is_tensor(operand):
            total += size_hint(num_elements(operand))
    return total


def _move(op: ir.Operation, loop: ir.Operation, variant: set[ir.Value]) -> None:
    for operand in op.operands:
        if operand in variant:
            made = defining(operand)
            assert made is not None
            _move(made, loop, variant)
    op.move_before(loop)
    variant.difference_update(op.results)
