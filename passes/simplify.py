"""Algebraic simplification: a table of small rules, tried until none matches.

    %0 = hlo.multiply %x, %one          ==>     uses of %0 become %x
    %1 = hlo.power %x, %two             ==>     %1 = hlo.multiply %x, %x
    %2 = hlo.dynamic_slice %x, %c0      ==>     %2 = hlo.slice %x

The rules are in `simplify_rules/`, one function each with its pattern, its side condition and a test that runs it on
NaN, infinities, zeros of both signs and integer extremes. By default every rule keeps every bit (but for the payload of
a NaN, the accuracy of `pow`, where a product takes its place, and the order of summation in `reduce`, which the spec
leaves open). `allow-approximate` adds those that round once more. Constants that rules make are folded by the rule of
`fold`, which is part of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.passes.fold import fold_rules
from stablehlo_py.passes.simplify_rules import APPROXIMATE, EXACT
from stablehlo_py.passmanager.rewrite import RulePass, RuleSet


@dataclass(frozen=True)
class Simplify(RulePass):
    """Applies algebraic rules and constant folding until none matches."""

    name: ClassVar[str] = "simplify"
    allow_approximate: bool = False

    def rules(self) -> RuleSet:
        return simplify_rules(self.allow_approximate)


def simplify_rules(allow_approximate: bool = False) -> RuleSet:
    """The whole table: folding first, then the rules of `simplify_rules/`."""
    rules = fold_rules() + EXACT
    return rules + APPROXIMATE if allow_approximate else rules
