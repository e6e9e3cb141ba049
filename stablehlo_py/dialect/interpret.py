"""Functions of hlo ops run op by op on NumPy arrays: the reference that tests of passes compare with.

Slow and plain on purpose; never part of what runs a user's model. Loops and branches (`scf`) are followed; `func.call`
is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from stablehlo_py.dialect.evaluate import evaluate_op
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

Array = np.ndarray
_TERMINATORS = ("scf.yield", "scf.condition", "func.return", "stablehlo.return")


def run_function(
    function: ir.Operation | ir.OpView, arguments: Sequence[Array], max_steps: int = 10_000
) -> list[Array]:
    """Results of a `func.func` on arrays of its argument types. Raises UnsupportedError for ops without an evaluation
    and for loops of more than `max_steps` iterations."""
    block = function.operation.regions[0].blocks[0]
    return run_block(block, dict(zip(block.arguments, arguments, strict=True)), max_steps)


def run_block(block: ir.Block, environment: Mapping[ir.Value, Array], max_steps: int = 10_000) -> list[Array]:
    """Operands of the block's terminator, given the values of its arguments and of everything it uses from outside."""
    values = dict(environment)
    for view in block:
        op = view.operation
        operands = [values[operand] for operand in op.operands]
        if op.name in _TERMINATORS:
            return operands
        for result, array in zip(op.results, run_op(op, operands, values, max_steps), strict=True):
            values[result] = array
    raise AssertionError("a block without a terminator")


def run_op(
    op: ir.Operation,
    operands: Sequence[Array],
    values: Mapping[ir.Value, Array] = MappingProxyType({}),
    max_steps: int = 10_000,
) -> list[Array]:
    """Results of one op; `values` holds what its regions use from outside."""
    name = op.name
    if name == "scf.while":
        return _run_while(op, operands, values, max_steps)
    if name == "scf.if":
        return run_block(op.regions[0 if operands[0] else 1].blocks[0], values, max_steps)
    if name == "scf.index_switch":
        cases = list(op.attributes["cases"])
        region = cases.index(int(operands[0])) + 1 if int(operands[0]) in cases else 0
        return run_block(op.regions[region].blocks[0], values, max_steps)
    if name == "tensor.extract":
        return [operands[0][tuple(int(index) for index in operands[1:])]]
    if name == "arith.constant":
        return [np.asarray(op.attributes["value"].value)]
    if name in ("arith.index_cast", "arith.index_castui"):
        return [np.asarray(operands[0]).astype(np.int64)]
    return evaluate_op(op, operands)


def _run_while(
    op: ir.Operation, carried: Sequence[Array], values: Mapping[ir.Value, Array], max_steps: int
) -> list[Array]:
    before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
    for _ in range(max_steps):
        predicate, *forwarded = run_block(
            before, {**values, **dict(zip(before.arguments, carried, strict=True))}, max_steps
        )
        if not predicate:
            return forwarded
        carried = run_block(after, {**values, **dict(zip(after.arguments, forwarded, strict=True))}, max_steps)
    raise UnsupportedError(f"a loop of more than {max_steps} iterations", op="scf.while")
