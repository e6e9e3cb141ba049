"""Regions of ops that stay StableHLO: they hold hlo ops and use no value from outside."""

from __future__ import annotations

from collections.abc import Iterable

from stablehlo_py.dialect import build
from stablehlo_py.dialect.edit import copied, inline_block, replace_op, terminator
from stablehlo_py.dialect.ops import REDUCTION_KINDS
from stablehlo_py.dialect.regions import replace_operands, used_values
from stablehlo_py.dialect.types import element_type
from stablehlo_py.legalize.rules import Unsupported, block_of
from stablehlo_py.mlir import ir

# hlo ops that may be repeated inside a region, as far as they compute from nothing else.
_CHEAP = frozenset({"hlo.constant", "hlo.broadcast", "hlo.reshape", "hlo.convert"})


def copyable(value: ir.Value) -> bool:
    """True for a constant, or what is computed from constants in ways that may be repeated."""
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name in _CHEAP and all(map(copyable, owner.operands))


def combined(op: ir.OpView, region: int = 0) -> list[ir.Value]:
    """The arguments of a body that combines, or compares, two values of each operand: (lefts..., rights...).

    Raises Unsupported where both are not of one type. StableHLO's verifier lets them differ, its specification does
    not.
    """
    arguments = list(block_of(op, region).arguments)
    count = len(arguments) // 2
    for left, right in zip(arguments[:count], arguments[count:], strict=True):
        if left.type != right.type:
            raise Unsupported(
                f"has a body that takes {left.type} and {right.type} for elements of one tensor",
                "let both have one type",
            )
    return arguments


def promoted(operand: ir.Value, argument: ir.Value) -> ir.Value:
    """The operand in the element type in which a body takes it as `argument` (spec, `is_promotable`)."""
    return build.convert(operand, element_type(argument))


def promote(op: ir.OpView, arguments: Iterable[tuple[int, ir.Value]]) -> None:
    """Convert operands (by number) to the element types of the arguments that a body takes them as. What follows may
    rely on it: operands, body and results of an op that is kept have one element type."""
    for number, argument in arguments:
        op.operation.operands[number] = promoted(op.operands[number], argument)


def isolate(op: ir.OpView) -> None:
    """Give every region of `op` its own copies of the constants it uses from outside (`closures` has seen to other
    values), and make its branches choices."""
    for block in (block for region in op.regions for block in region.blocks):
        _isolate_block(block)
        choose_in_branches(block)


def _isolate_block(block: ir.Block) -> None:
    inside, arguments = list(block.operations), set(block.arguments)
    copies: dict[ir.Value, ir.Value] = {}
    for value in used_values(inside):
        if value not in arguments:
            if not copyable(value):
                raise Unsupported("uses a value from outside in its body", "pass the value as an operand")
            with ir.InsertionPoint.at_block_begin(block):
                copies[value] = copied(value)
    for op in inside if copies else ():
        replace_operands(op, copies)


def choose_in_branches(block: ir.Block) -> None:
    """Replace the `scf.if` of a body that computes on scalars by both its branches and `hlo.select`. Nothing there has
    effects or traps."""
    for op in list(block.operations):
        operation = op.operation
        if operation.name != "scf.if":
            continue
        outcomes = []
        for region in operation.regions:
            choose_in_branches(region.blocks[0])
            outcomes.append(inline_block(region.blocks[0], [], operation))
        extract = operation.operands[0].owner
        (predicate,) = extract.operands
        with ir.InsertionPoint(operation), operation.location:
            pairs = zip(*outcomes, strict=True)
            replace_op(operation, [build.value("select", x.type, predicate, x, y) for x, y in pairs])
        if next(iter(extract.results[0].uses), None) is None:
            extract.erase()


def simple_combiner(block: ir.Block, left: int, right: int, result: int) -> str | None:
    """The hlo op that makes value `result` of the block's terminator from exactly the arguments `left` and `right`
    (any order), where it is a simple combiner; None otherwise."""
    value = terminator(block).operands[result]
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    kind = owner.name.removeprefix("hlo.")
    if kind not in REDUCTION_KINDS:
        return None
    arguments = [block.arguments[left], block.arguments[right]]
    operands = list(owner.operands)
    return kind if operands in (arguments, arguments[::-1]) else None


def single_combiner(op: ir.OpView) -> str | None:
    """`simple_combiner` of an op whose one region combines two values."""
    block = block_of(op)
    return simple_combiner(block, 0, 1, 0) if len(block.arguments) == 2 else None
