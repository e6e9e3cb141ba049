"""Constant weights lie as the matrix units of the target read them.

    %w = hlo.constant {value = dense<..> : tensor<128x64xi8>}
    %0 = hlo.dot %x, %w
        ==>  %tiles = hlo.constant {value = dense<..> : tensor<2x2x2x16x16x4xi8>}
             %w = hlo.reshape (hlo.transpose %tiles)
             %0 = hlo.dot %x, %w

A dot reads the reshape and the transpose as a view; one that knows the layout copies nothing. Others would be
slower for it, so a constant stays as it is unless every reader is a dot that wants the same layout, which the policy of
`target` says. This runs right before `fusion`: the rules that fold views into dots would undo it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.types import element_type, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes.policy import policy_of
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RulePass, RuleSet
from stablehlo_py.targets import DEFAULT_TARGET


@dataclass(frozen=True)
class TileWeights(RulePass):
    """Stores constant right operands of dots as the target's matrix units read them, where the machine has units for
    elements of these `types`."""

    name: ClassVar[str] = "tile-weights"
    sweeps: ClassVar[bool] = False
    target: str = DEFAULT_TARGET
    types: tuple[str, ...] = ("i8", "bf16")

    def rules(self) -> RuleSet:
        rules = RuleSet("tile-weights")
        wanted = policy_of(self.target).fusion.weights

        @rules.rule("hlo.constant", where="all readers are dots that want their right operand so")
        def tile_constant(op: ir.Operation, rewriter: Rewriter) -> Replacement:
            "constant -> reshape(transpose(constant of tiles))"
            if len(shape(op.result)) != 2 or str(element_type(op.result)).removeprefix("u") not in self.types:
                return None
            uses = list(op.result.uses)
            if not uses or any(use.owner.operation.name != "hlo.dot" or use.operand_number != 1 for use in uses):
                return None
            layouts = {wanted(use.owner.operation) for use in uses}
            layout = layouts.pop()
            if layout is None or layouts:
                return None
            array = constant_value(op).reshape(layout.split).transpose(layout.permutation)
            tiles = rewriter.constant(np.ascontiguousarray(array), element_type(op.result))
            back = [layout.permutation.index(d) for d in range(len(layout.split))]
            return rewriter.reshape(rewriter.transpose(tiles, back), shape(op.result))

        return rules

    def run(self, module: ir.Module) -> bool | None:
        return super().run(module) if self.types else False
