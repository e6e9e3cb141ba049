"""Functions of hlo ops run op by op on NumPy arrays: the reference that tests of passes compare with, and what
`shlo-bisect` follows a program with.

Slow and plain on purpose; never part of what runs a user's model. Loops and branches (`scf`) are followed, and calls of
fusions (`func.call`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from stablehlo_py.dialect.calls import functions_of
from stablehlo_py.dialect.evaluate import evaluate_op
from stablehlo_py.dialect.ops.reduction import Body
from stablehlo_py.dialect.regions import TERMINATORS
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

Array = np.ndarray
_NOTHING: Mapping[ir.Value, Array] = MappingProxyType({})


class Interpreter:
    """Runs functions. Subclasses see or change what ops compute: `leaf` for one op without control flow, `call` for the
    call of a fusion.

    Attributes:
        functions: what `func.call` may call, by name.
        max_steps: iterations after which a loop is given up.
    """

    def __init__(self, module: ir.Module | None = None, max_steps: int = 10_000) -> None:
        self.max_steps = max_steps
        self.functions = functions_of(module) if module is not None else {}

    def leaf(self, op: ir.Operation, operands: Sequence[Array], values: Mapping[ir.Value, Array]) -> list[Array]:
        """Results of an op that is no control flow; `values` holds what its regions use from outside."""

        def body(number: int) -> Body:
            block = op.regions[number].blocks[0]
            return lambda *lanes: self.block(block, {**values, **dict(zip(block.arguments, lanes, strict=True))})

        return evaluate_op(op, operands, body)

    def call(self, op: ir.Operation, operands: Sequence[Array]) -> list[Array]:
        """Results of the call of a fusion. Raises UnsupportedError where the function is not known."""
        name = op.attributes["callee"].value
        if name not in self.functions:
            raise UnsupportedError(f"the function '{name}' is not known", op=op.name)
        return self.function(self.functions[name], operands)

    def function(self, function: ir.Operation | ir.OpView, arguments: Sequence[Array]) -> list[Array]:
        """Results of a `func.func` on arrays of its argument types. Raises UnsupportedError for ops without an
        evaluation and for loops of more than `max_steps` iterations."""
        block = function.operation.regions[0].blocks[0]
        return self.block(block, dict(zip(block.arguments, arguments, strict=True)))

    def block(self, block: ir.Block, environment: Mapping[ir.Value, Array]) -> list[Array]:
        """Operands of the block's terminator, given the values of its arguments and of everything it uses from
        outside."""
        values = dict(environment)
        for view in block:
            op = view.operation
            operands = [values[operand] for operand in op.operands]
            if op.name in TERMINATORS:
                return operands
            for result, array in zip(op.results, self.op(op, operands, values), strict=True):
                values[result] = array
        raise AssertionError("a block without a terminator")

    def op(
        self, op: ir.Operation, operands: Sequence[Array], values: Mapping[ir.Value, Array] = _NOTHING
    ) -> list[Array]:
        """Results of one op; `values` holds what its regions use from outside."""
        name = op.name
        if name == "scf.while":
            return self._while(op, operands, values)
        if name == "scf.if":
            return self.block(op.regions[0 if operands[0] else 1].blocks[0], values)
        if name == "scf.index_switch":
            cases = list(op.attributes["cases"])
            region = cases.index(int(operands[0])) + 1 if int(operands[0]) in cases else 0
            return self.block(op.regions[region].blocks[0], values)
        if name == "func.call":
            return self.call(op, operands)
        if name == "stablehlo.optimization_barrier":
            return list(operands)
        if name == "tensor.extract":
            return [operands[0][tuple(int(index) for index in operands[1:])]]
        if name == "arith.constant":
            return [np.asarray(op.attributes["value"].value)]
        if name in ("arith.index_cast", "arith.index_castui"):
            return [np.asarray(operands[0]).astype(np.int64)]
        return self.leaf(op, operands, values)

    def _while(self, op: ir.Operation, carried: Sequence[Array], values: Mapping[ir.Value, Array]) -> list[Array]:
        before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
        for _ in range(self.max_steps):
            predicate, *forwarded = self.block(before, {**values, **dict(zip(before.arguments, carried, strict=True))})
            if not predicate:
                return forwarded
            carried = self.block(after, {**values, **dict(zip(after.arguments, forwarded, strict=True))})
        raise UnsupportedError(f"a loop of more than {self.max_steps} iterations", op="scf.while")
