"""A pass file with a planted bug: `peephole` with one more rule, which forgets the sign of what it cancels."""

from dataclasses import dataclass

from stablehlo_py.passes.peephole import Peephole
from stablehlo_py.passmanager.rewrite import RuleSet, defining

WRONG = RuleSet("planted")


@WRONG.rule("hlo.subtract", needs="hlo.negate")
def planted_subtract_negate(op, rewriter):
    "x - (-y) -> x - y: wrong"
    inner = defining(op.operands[1], "hlo.negate")
    return rewriter.like("subtract", op.operands[0], inner.operands[0]) if inner else None


@dataclass(frozen=True)
class PlantedPeephole(Peephole):
    """The shipped pass and the wrong rule."""

    def rules(self) -> RuleSet:
        return WRONG + super().rules()  # the first rule that matches wins
