"""All local rules in one worklist: folding, algebra, shapes, contractions, convolutions.

What one table uncovers, the next one finishes, without walking the module again: this is what a pipeline runs, and the
single passes (`fold`, `simplify`, `canonicalize-shapes`, `canonicalize-dot`, `canonicalize-convolution`) are for
looking at one table at a time.

A pipeline runs it again for what loop passes may have uncovered; where they changed nothing, that costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

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

    def roots(self) -> None:
        """None: there is hardly an op that no rule is about."""


@cache
def peephole_rules(allow_approximate: bool = False) -> RuleSet:
    """The tables of all local rewrites, added."""
    return simplify_rules(allow_approximate) + SHAPES + DOT + CONVOLUTION
