"""Sines, cosines and tangents of angles that are known to be small say so.

    %0 = hlo.constant {value = dense<[0.0, ..., 6.28]> : tensor<400xf32>}
    %1 = hlo.cosine %0              ==>  %1 = hlo.cosine %0 {hlo.small_angle}

A window of a Fourier transform and the rotations of positions are functions of constants and indices, and the angle of
a logarithm of the gamma function is one of x - floor(x). What reduces large angles is most of the code of a sine, and
these never need it. Results have the same bits; a NaN is one.

Nothing else may write the attribute, as code believes it. Relies on `peephole`: constants are folded. Comes before
`fusion`, after which a kernel does not see what its operands are made of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.attributes import SMALL_ANGLE
from stablehlo_py.mlir import ir
from stablehlo_py.passes.simplify_rules.ranges import float_range
from stablehlo_py.passmanager.base import Pass

_CIRCULAR = ("hlo.cosine", "hlo.sine", "hlo.tan")
_SMALL = 0.99 * 2.0**14  # rounding may add to what is computed


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
                if low >= -_SMALL and high <= _SMALL:
                    op.attributes[SMALL_ANGLE] = ir.UnitAttr.get()
                    changed = True
                elif SMALL_ANGLE in op.attributes:
                    del op.attributes[SMALL_ANGLE]
                    changed = True
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        return changed
