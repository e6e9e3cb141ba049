"""A pass file with a planted bug: the code of `atan2` takes its operands the other way round."""

from dataclasses import dataclass

from stablehlo_py.codegen import arith
from stablehlo_py.passes.dce import Dce

_atan2 = arith.ARITH["atan2"]
arith.ARITH["atan2"] = lambda f, op, operands: _atan2(f, op, operands[::-1])


@dataclass(frozen=True)
class UnchangedDce(Dce):
    """The shipped pass."""
