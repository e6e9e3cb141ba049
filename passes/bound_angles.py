"""Sines, cosines and tangents of angles that are known to be small say so.

    %0 = hlo.constant {value = dense<[0.0, ..., 6.28]> : tensor<400xf32>}
    %1 = hlo.cosine %0              ==>  %1 = hlo.cosine %0 {hlo.small_angle}

A window of a Fourier transform and the rotations of positions are functions of constants and indices, the angle of a
logarithm of the gamma function is one of x - floor(x), and that of digamma is small wherever a selection takes what is
made of its sine. What reduces large angles is most of the code of a sine, and these never need it. Results have the
same bits; a NaN is one.

Nothing else may write the attribute, as code believes it. Relies on `peephole`: constants are folded. Comes before
`fusion`, after which a kernel does not see what its operands are made of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.attributes import SMALL_ANGLE
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.types import text
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import ELEMENTWISE_OPS, operand_of
from stablehlo_py.passes.simplify_rules.ranges import float_range
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.rewrite import defining

_CIRCULAR = ("hlo.cosine", "hlo.sine", "hlo.tan")
_SMALL = 0.99 * 2.0**14  # rounding may add to what is computed
_MOST_STEPS = 8  # from a sine to a selection


@dataclass(frozen=True)
class BoundAngles(Pass):
    """Marks sines, cosines and tangents of small angles."""

    name: ClassVar[str] = "bound-angles"
    idempotent: ClassVar[bool] = True

    def roots(self) -> Iterable[str]:
        return _CIRCULAR

    def run(self, module: ir.Module) -> bool:
        changed = False

        def visit(op: ir.Operation) -> ir.WalkResult:
            nonlocal changed
            if op.name in _CIRCULAR:
                low, high = float_range(op.operands[0])
                if (low >= -_SMALL and high <= _SMALL) or _is_taken_where_small(op):
                    op.attributes[SMALL_ANGLE] = ir.UnitAttr.get()
                    changed = True
                elif SMALL_ANGLE in op.attributes:
                    del op.attributes[SMALL_ANGLE]
                    changed = True
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        return changed


def _is_taken_where_small(op: ir.Operation) -> bool:
    """Whether the angle is x + |floor(x + h)| times a small number, and the result counts where x < 1 - h alone: there
    it is x - floor(x + h), at most 2."""
    product, predicate = defining(op.operands[0], "hlo.multiply"), _predicate_of(op.results[0])
    below = None if predicate is None else defining(predicate, "hlo.compare")
    turns = None if product is None else defining(product.operands[0], "hlo.add")
    if product is None or below is None or turns is None or text(below, "direction") != "LT":
        return False
    x, size = turns.operands
    floor = operand_of(size, "hlo.abs")
    shifted = operand_of(floor, "hlo.floor") if floor is not None else None
    total = defining(shifted, "hlo.add") if shifted is not None else None
    if total is None or total.operands[0] != x or below.operands[0] != x:
        return False
    factor, shift, bound = (splat(each.operands[1]) for each in (product, total, below))
    if not isinstance(factor, float) or not isinstance(shift, float) or not isinstance(bound, float):
        return False
    return bound + shift <= 1.0 and 2.0 * abs(factor) <= _SMALL


def _predicate_of(value: ir.Value) -> ir.Value | None:
    """Where a value counts: the predicate of the selection whose first choice is all that it is part of."""
    for _ in range(_MOST_STEPS):
        uses = list(value.uses)
        if len(uses) != 1:
            return None
        op, number = uses[0].owner, uses[0].operand_number
        if op.name == "hlo.select":
            return op.operands[0] if number == 1 else None
        if op.name not in ELEMENTWISE_OPS:
            return None
        value = op.results[0]
    return None
