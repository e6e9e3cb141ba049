"""Rules of `canonicalize-shapes`."""

from stablehlo_py.passes.shape_rules.slices import SLICES
from stablehlo_py.passes.shape_rules.through import THROUGH
from stablehlo_py.passes.shape_rules.views import VIEWS

__all__ = ["SHAPES", "SLICES", "THROUGH", "VIEWS"]

SHAPES = VIEWS + SLICES + THROUGH
SHAPES.name = "canonicalize-shapes"
