"""A pass file with a planted bug: `cse` takes slices of one operand and one size for equal, wherever they start."""

from dataclasses import dataclass

from stablehlo_py.passes.cse import Cse


@dataclass(frozen=True)
class PlantedCse(Cse):
    """The shipped pass, and slices that are merged though they start elsewhere."""

    def run(self, module):
        super().run(module)
        known = {}
        for view in list(module.body.operations[0].regions[0].blocks[0]):
            op = view.operation
            if op.name == "hlo.slice":
                first = known.setdefault((op.operands[0], op.result.type), op)
                if first is not op:
                    op.result.replace_all_uses_with(first.result)
                    op.erase()
