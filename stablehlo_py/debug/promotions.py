"""Bodies that compute in another type than that of the operands (specification, `is_promotable`), for oracles that run
only ops of one type: operands are converted before the op."""

from __future__ import annotations

from stablehlo_py.debug.ops import typed
from stablehlo_py.dialect.types import operations
from stablehlo_py.mlir import ir

PROMOTING = (
    "stablehlo.reduce",
    "stablehlo.reduce_window",
    "stablehlo.scatter",
    "stablehlo.select_and_scatter",
    "stablehlo.all_reduce",
    "stablehlo.collective_reduce",
    "stablehlo.reduce_scatter",
)


def convert_all_operands(module: ir.Module) -> None:
    """`convert_operands` of all ops of a module."""
    for op in operations(module.operation):
        if op.name in PROMOTING:
            convert_operands(op)


def convert_operands(op: ir.Operation) -> None:
    """Convert the operands of a reduction, scatter or collective to the types that its bodies compute in."""
    if op.name == "stablehlo.select_and_scatter":
        _choose_among_sums(op)
    for number, (region, argument) in _places(op).items():
        operand = op.operands[number]
        element = op.regions[region].blocks[0].arguments[argument].type.element_type
        type_ = ir.RankedTensorType.get(operand.type.shape, element)
        if type_ != operand.type:
            op.operands[number] = typed("convert", type_, ir.InsertionPoint(op), operand)


def _places(op: ir.Operation) -> dict[int, tuple[int, int]]:
    """The operands by number, with the region and the argument of it that each is."""
    if op.name == "stablehlo.scatter":  # inputs, indices, updates
        count = len(op.operands) // 2
        numbers = [*range(count), *range(count + 1, 2 * count + 1)]
        return {number: (0, argument) for argument, number in enumerate(numbers)}
    if op.name == "stablehlo.select_and_scatter":
        return {0: (0, 0), 1: (1, 1), 2: (1, 0)}
    if op.name in ("stablehlo.reduce", "stablehlo.reduce_window"):
        return {number: (0, number) for number in range(len(op.operands))}
    return dict.fromkeys(range(len(op.results)), (0, 0))  # a collective's operands, one by one


def _choose_among_sums(op: ir.Operation) -> None:
    """Let a choice take the type of the sums, and convert back: StableHLO's verifier wants source and operand to be of
    one type (of floats it does not)."""
    choice, wide = op.regions[0].blocks[0], op.regions[1].blocks[0].arguments[0].type
    narrow = choice.arguments[0].type
    if isinstance(narrow.element_type, ir.FloatType) or narrow == wide:
        return
    for argument in choice.arguments:
        back = typed("convert", narrow, ir.InsertionPoint.at_block_begin(choice), argument)
        argument.replace_all_uses_except(back, back.owner.operation)
        argument.set_type(wide)
