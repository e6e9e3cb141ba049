"""Dead code elimination: ops without side effects whose results nobody uses are erased.

Before::

    %0 = "hlo.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "hlo.abs"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %x : tensor<4xf32>

After::

    return %x : tensor<4xf32>

Loops and branches go when all of their results are unused and their regions are pure; otherwise their regions are
swept. A call goes when the called function is pure. Results of loops that only feed themselves are the business of
`simplify-loops`; functions that nobody calls, of `symbol-dce`. Relies on nothing; works on StableHLO too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.ops import Effects
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.effects import IMPURE, PURE, effect_kind, has_uses, is_pure, pure_functions


@dataclass(frozen=True)
class Dce(Pass):
    """Erase pure ops without uses."""

    name: ClassVar[str] = "dce"
    idempotent: ClassVar[bool] = True
    only_erases: ClassVar[bool] = True
    stays_settled: ClassVar[bool] = True

    def run(self, module: ir.Module) -> bool:
        """One backward sweep over every block: a use always stands after (or inside) what it uses. Where nothing is
        dead, which is usual, no op is kept to find that out."""
        pure = pure_functions(module)
        regions = [region for function in module.body for region in function.regions]
        dead = [region for region in regions if _has_dead(region, pure)]
        for region in dead:
            _sweep(region, pure)
        return bool(dead)


def _is_dead(op: ir.Operation, kind: Effects, pure: Collection[str]) -> bool:
    return kind != IMPURE and not has_uses(op) and is_pure(op, pure)


def _has_dead(region: ir.Region, pure: Collection[str]) -> bool:
    for block in region:
        for view in block:
            op = view.operation
            kind = effect_kind(op.name)
            if _is_dead(op, kind, pure):
                return True
            if kind != PURE and any(_has_dead(nested, pure) for nested in op.regions):  # only these have regions
                return True
    return False


def _sweep(region: ir.Region, pure: Collection[str]) -> None:
    for block in region:
        for view in reversed(list(block)):
            op = view.operation
            kind = effect_kind(op.name)
            if _is_dead(op, kind, pure):
                op.erase()
            elif kind != PURE:
                for nested in op.regions:
                    _sweep(nested, pure)
