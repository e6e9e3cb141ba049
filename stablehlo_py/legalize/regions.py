"""Regions of ops that stay StableHLO: they hold hlo ops and use no value from outside."""

from __future__ import annotations

from stablehlo_py.dialect.verify import REDUCTION_KINDS
from stablehlo_py.legalize.rules import Unsupported, block_of, terminator
from stablehlo_py.mlir import ir

# hlo ops that may be repeated inside a region, as far as they compute from nothing else.
_CHEAP = frozenset({"hlo.constant", "hlo.broadcast", "hlo.reshape", "hlo.convert"})


def isolate(op: ir.OpView) -> None:
    """Give every region of `op` its own copies of the constants it uses from outside. Raises Unsupported for other
    values."""
    for region in op.regions:
        for block in region.blocks:
            _isolate_block(block, block, set(), {})


def _isolate_block(
    block: ir.Block, outermost: ir.Block, inside: set[ir.Value], copies: dict[ir.Value, ir.Value]
) -> None:
    inside.update(block.arguments)
    for op in list(block.operations):
        operation = op.operation
        for number, operand in enumerate(operation.operands):
            if operand not in inside:
                if operand not in copies:
                    with ir.InsertionPoint.at_block_begin(outermost):
                        copies[operand] = _copy(operand)
                operation.operands[number] = copies[operand]
        inside.update(operation.results)
        for region in operation.regions:
            for nested in region.blocks:
                _isolate_block(nested, outermost, inside, copies)


def _copy(value: ir.Value) -> ir.Value:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in _CHEAP:
        raise Unsupported("uses a value from outside in its body", "pass the value as an operand")
    operands = [_copy(operand) for operand in owner.operands]
    copy = owner.clone()
    for number, operand in enumerate(operands):
        copy.operands[number] = operand
    return copy.results[0]


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
