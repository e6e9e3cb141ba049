"""Calls and composites are replaced by the bodies they stand for, until `@main` is flat.

Before::

    func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.tanh %a : ...  return %0 : ... }
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { %0 = call @f(%x) : ...  return %0 : ... }

After::

    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.tanh %x : ...  return %0 : ... }

A `stablehlo.composite` is a call of its decomposition, except for those that legalization turns into one op
(`chlo.erf`, `chlo.top_k`): they stay, with their decomposition. So do fusions. An inlined op's location becomes
`callsite(callee at caller)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from stablehlo_py.dialect.attributes import FUSION
from stablehlo_py.dialect.calls import CALLS, inline_calls
from stablehlo_py.dialect.sharding import CONSTRAINT
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.base import Pass


@dataclass(frozen=True)
class Inline(Pass):
    """Inline all calls of functions, and composites through their decomposition.

    Raises UnsupportedError for recursion and for calls of functions without a body.
    """

    name: ClassVar[str] = "inline"
    required: ClassVar[bool] = True
    makes: ClassVar[tuple[str, ...]] = (CONSTRAINT,)

    keep: tuple[str, ...] | None = field(
        default=None, metadata={"help": "names of composites that stay; none: those that are one hlo op"}
    )

    def roots(self) -> Iterable[str]:
        return CALLS

    def run(self, module: ir.Module) -> None:
        """Inline until no call is left, then drop the functions that nobody uses."""
        fusions = {
            op.attributes["sym_name"].value
            for op in module.body
            if op.operation.name == "func.func" and FUSION in op.attributes
        }

        def keeps(op: ir.Operation) -> bool:
            if op.name == "func.call":
                return op.attributes["callee"].value in fusions
            if self.keep is not None:
                return op.attributes["name"].value in self.keep
            from stablehlo_py.legalize.composite import is_known_composite

            return is_known_composite(op)

        inline_calls(module, keeps)
