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

from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.effects import IMPURE, PURE, effect_kind, has_uses, is_pure, pure_functions


@dataclass(frozen=True)
class Dce(Pass):
    """Erase pure ops without uses."""

    name: ClassVar[str] = "dce"

    def run(self, module: ir.Module) -> None:
        """One backward sweep over every block: a use always stands after (or inside) what it uses."""
        pure = pure_functions(module)
        for function in module.body:
            for region in function.regions:
                _sweep(region, pure)


def _sweep(region: ir.Region, pure: Collection[str]) -> None:
    for block in region:
        for view in reversed(list(block)):
            op = view.operation
            kind = effect_kind(op.name)
            if kind != IMPURE and not has_uses(op) and is_pure(op, pure):
                op.erase()
            elif kind != PURE:  # only these have regions
                for nested in op.regions:
                    _sweep(nested, pure)
