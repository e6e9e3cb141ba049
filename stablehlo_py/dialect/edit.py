"""Edits of ops where they are, as MLIR's `RewriterBase` has them: for whoever needs no worklist. Objects that
`replace_op` and `inline_block` get may be of any copy of MLIR's bindings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.mlir import ir


def terminator(block: ir.Block) -> ir.Operation:
    """The last op of a block."""
    return block.operations[len(block.operations) - 1].operation


def replace_op(op: ir.Operation | ir.OpView, values: Sequence[ir.Value]) -> None:
    """Let the uses of each result use the value at its position, and erase the op."""
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    op.operation.erase()


def inline_block(block: ir.Block, operands: Sequence[ir.Value], where: ir.Operation | ir.Block) -> list[ir.Value]:
    """Move the ops of a block before another op, or to the end of another block, with `operands` for the block's
    arguments. The terminator stays; returns what it has."""
    for argument, operand in zip(block.arguments, operands, strict=True):
        argument.replace_all_uses_with(operand)
    *moved, last = [view.operation for view in block.operations]
    for op in moved:
        if isinstance(where, ir.Block):
            where.append(op)
        else:
            op.move_before(where)
    return list(last.operands)


def end_with(block: ir.Block, name: str, operands: Sequence[ir.Value] | None = None) -> None:
    """Replace the terminator of a block by one of another name, which has the same operands or others."""
    last = terminator(block)
    operands = list(last.operands if operands is None else operands)
    ir.Operation.create(name, operands=operands, loc=last.location, ip=ir.InsertionPoint(last))
    last.erase()


def fix_argument(argument: ir.BlockArgument, number: int) -> None:
    """Let the uses of an integer scalar argument use a `stablehlo.constant`, where the block begins."""
    element = argument.type.element_type
    with argument.location, ir.InsertionPoint.at_block_begin(argument.owner):
        constant = build.stablehlo.constant(np.array(number).astype(numpy_dtype(element)), element)
    argument.replace_all_uses_with(constant)


def copied(value: ir.Value) -> ir.Value:
    """A copy of the op that makes a value, and of those that make its operands, at the insertion point."""
    operands = [copied(operand) for operand in value.owner.operands]
    copy = value.owner.clone()
    for number, operand in enumerate(operands):
        copy.operands[number] = operand
    return copy.results[0]
