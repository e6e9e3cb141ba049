"""Algebraic rules of `simplify`, by subject. Every rule keeps every bit of the result unless its set says
approximate; those on calls of libraries keep what the call means."""

from stablehlo_py.passes.simplify_rules.arithmetic import APPROXIMATE, ARITHMETIC
from stablehlo_py.passes.simplify_rules.choose import CHOOSE
from stablehlo_py.passes.simplify_rules.collectives import COLLECTIVES
from stablehlo_py.passes.simplify_rules.combine import COMBINE
from stablehlo_py.passes.simplify_rules.convert import CONVERT
from stablehlo_py.passes.simplify_rules.index import INDEX
from stablehlo_py.passes.simplify_rules.library import LIBRARY
from stablehlo_py.passes.simplify_rules.logic import LOGIC
from stablehlo_py.passes.simplify_rules.move import MOVE
from stablehlo_py.passes.simplify_rules.reduce import REDUCE
from stablehlo_py.passes.simplify_rules.sort import SORT

__all__ = ["APPROXIMATE", "EXACT"]

EXACT = COMBINE + ARITHMETIC + LOGIC + CHOOSE + CONVERT + REDUCE + MOVE + SORT + INDEX + COLLECTIVES + LIBRARY
EXACT.name = "simplify"
