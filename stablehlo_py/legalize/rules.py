"""The table of legalization rules and what a rule may say.

A rule is a plain function from a StableHLO op to the values that replace its results:

    @rule("stablehlo.floor")
    def floor(op: ir.OpView) -> ir.Value:
        return build.like("floor", op.operands[0])

The driver sets the insertion point and the location, has legalized the op's regions already, replaces the results and
erases the op. A rule that answers None keeps the op, as it is or changed in place. A rule that cannot go on raises
`Unsupported`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from stablehlo_py.dialect.types import i64
from stablehlo_py.mlir import ir
from stablehlo_py.rules import Rules

Results: TypeAlias = ir.Value | Sequence[ir.Value] | None
Rule: TypeAlias = Callable[[ir.OpView], Results]

RULES: Rules[Rule] = Rules()
rule = RULES.rule
# Ops that become the hlo op of another name (or the same) with the same operands, result types and no attributes. What
# commutes gets a constant, which its left operand is, on the right, where rules look for one.
RENAMED: dict[str, str] = {}
# What some of them are on booleans. Spec, sections add, multiply, maximum, minimum; subtraction modulo 2 is xor.
ON_BOOLEANS = {
    "hlo.add": "hlo.or",
    "hlo.multiply": "hlo.and",
    "hlo.maximum": "hlo.or",
    "hlo.minimum": "hlo.and",
    "hlo.subtract": "hlo.xor",
}


class Unsupported(Exception):
    """What a rule raises: why an op cannot be legalized, and what the user can do about it."""

    def __init__(self, reason: str, remedy: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


def refuse(reason: str, remedy: str, *names: str) -> None:
    """Ops that are known and not supported, with a reason of their own."""

    def refused(op: ir.OpView) -> None:
        raise Unsupported(reason, remedy)

    RULES.enter(refused, *names)


def by_rule(legalize: Rule, op: ir.OpView) -> Sequence[ir.Value]:
    """The values for the results of an op that another rule has made."""
    values = legalize(op)
    if values is None:
        return list(op.results)
    op.operation.erase()
    return [values] if isinstance(values, ir.Value) else values


def dimension_of(op: ir.OpView, name: str, rank: int) -> int:
    """An attribute that is the number of one of `rank` dimensions. Raises Unsupported for any other."""
    return as_dimension(i64(op, name), name, rank)


def as_dimension(number: int, name: str, rank: int) -> int:
    """The number, which an attribute of this name holds, if it is that of one of `rank` dimensions. Upstream's
    verifiers do not look at all of them. Raises Unsupported for any other."""
    if not 0 <= number < rank:
        raise Unsupported(f"has {name} = {number}, and there are {rank} dimensions", f"use 0 to {rank - 1}")
    return number


def block_of(op: ir.OpView, region: int = 0) -> ir.Block:
    """The only block of a region of a StableHLO op."""
    return op.regions[region].blocks[0]
