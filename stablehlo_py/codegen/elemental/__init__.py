"""hlo values at an index: the body of every kernel. `core` walks, the other modules say what each op means there."""

from stablehlo_py.codegen.elemental import compute, convolution, shape  # noqa: F401 - they fill the table of rules
from stablehlo_py.codegen.elemental.core import NEAR, Elemental, Provider

__all__ = ["NEAR", "Elemental", "Provider"]
