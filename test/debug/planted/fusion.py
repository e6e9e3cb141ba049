"""A pass file with a planted bug: a vector that is broadcast along the columns of a square inside a larger fusion runs
along its rows instead."""

from dataclasses import dataclass

from stablehlo_py.dialect.build import attribute
from stablehlo_py.dialect.types import i64s, shape
from stablehlo_py.passes.fusion import Fusion


@dataclass(frozen=True)
class PlantedFusion(Fusion):
    """The shipped pass, and bodies that iterate wrongly."""

    def run(self, module):
        super().run(module)
        for function in module.body.operations:
            ops = [view.operation for view in function.regions[0].blocks[0]]
            if "hlo.fusion" in function.attributes and len(ops) > 2:
                for op in ops:
                    if op.name == "hlo.broadcast" and i64s(op, "dimensions") == (0,) and _is_square(op):
                        op.attributes["dimensions"] = attribute([1])


def _is_square(op):
    return len(shape(op.result)) == 2 and len(set(shape(op.result))) == 1
