"""All local rules in one worklist: folding, algebra, shapes, contractions, convolutions.

What one table uncovers, the next one finishes, without walking the module again: this is what a pipeline runs, and the
single passes (`fold`, `simplify`, `canonicalize-shapes`, `canonicalize-dot`, `canonicalize-convolution`) are for
looking at one table at a time.

The pass remembers the module as it left it (`hlo.fixpoint`, a fingerprint of the ops): a second run, for what loop
passes may have uncovered, costs nothing where they changed nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from stablehlo_py.dialect.attributes import FIXPOINT
from stablehlo_py.dialect.types import operations
from stablehlo_py.mlir import ir
from stablehlo_py.passes.canonicalize_convolution import CONVOLUTION
from stablehlo_py.passes.canonicalize_dot import DOT
from stablehlo_py.passes.fold import fold_rules
from stablehlo_py.passes.shape_rules import SHAPES
from stablehlo_py.passes.simplify import simplify_rules
from stablehlo_py.passes.simplify_rules import APPROXIMATE, EXACT
from stablehlo_py.passmanager.rewrite import RulePass, RuleSet


@dataclass(frozen=True)
class Peephole(RulePass):
    """Applies the rules of fold, simplify and the canonicalize passes together, until none matches."""

    name: ClassVar[str] = "peephole"
    allow_approximate: bool = False

    def rules(self) -> RuleSet:
        return peephole_rules(self.allow_approximate)

    def tables(self) -> dict[str, RuleSet]:
        return {
            "fold": fold_rules(),
            "simplify": EXACT + APPROXIMATE if self.allow_approximate else EXACT,
            "canonicalize-shapes": SHAPES,
            "canonicalize-dot": DOT,
            "canonicalize-convolution": CONVOLUTION,
        }

    def run(self, module: ir.Module) -> None:
        attributes = module.operation.attributes
        if FIXPOINT in attributes:
            fingerprint = attributes[FIXPOINT].value
            del attributes[FIXPOINT]
            if fingerprint == self._fingerprint(module):
                return
        super().run(module)
        attributes[FIXPOINT] = ir.StringAttr.get(self._fingerprint(module))

    def _fingerprint(self, module: ir.Module) -> str:
        """Changes with the ops, their order, operands, attributes and types, and with the rules."""
        functions = (function.operation for function in module.body.operations)
        hashes = [hash(self), *(hash(op) for function in functions for op in operations(function))]
        return f"{hash(tuple(hashes)):x}"


@cache
def peephole_rules(allow_approximate: bool = False) -> RuleSet:
    """The tables of all local rewrites, added."""
    return simplify_rules(allow_approximate) + SHAPES + DOT + CONVOLUTION
