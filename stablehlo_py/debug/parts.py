"""A module run in parts: the reference interpreter for all ops that it knows, NumPy for the others (`numpy_ops.py`).

A block falls into steps: a module for the interpreter, of all ops whose operands are there, then the ops that stand
alone: those of `numpy_ops.py`, and loops and branches around such, which are followed from here, region by region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stablehlo_py.debug.numpy_ops import EVALUATORS, evaluate
from stablehlo_py.dialect.calls import MAIN, new_function
from stablehlo_py.dialect.regions import replace_operands, used_values
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

Array = np.ndarray
# Runs `@main` of a module.
Interpreter = Callable[[ir.Module, Sequence[Array]], Sequence[Array]]
# Arrays of values; None for a token.
Values = dict[ir.Value, "Array | None"]
_FOLLOWED = frozenset(("stablehlo.while", "stablehlo.if", "stablehlo.case"))


def run_in_parts(module: ir.Module, main: Any, inputs: Sequence[Array], interpreter: Interpreter) -> list[Array]:
    """The results of `main`, a function of the module. Where every op is known that is one run of the interpreter.

    Raises:
        UnsupportedError: a tuple is used on both sides of an op that NumPy evaluates.
    """
    block = main.regions[0].blocks[0]
    if not any(_in_numpy(view.operation) for view in block.operations):
        return list(interpreter(module, inputs))
    functions = [op for op in module.body.operations if op.operation != main.operation]
    return [
        result
        for result in _Parts(functions, interpreter).run(block, dict(zip(block.arguments, inputs, strict=True)))
        if result is not None
    ]


def _in_numpy(op: ir.Operation) -> bool:
    if op.name in _FOLLOWED:
        return any(_in_numpy(view.operation) for region in op.regions for block in region for view in block)
    return op.name in EVALUATORS


class _Parts:
    """Runs blocks; `functions` are what their ops may call."""

    def __init__(self, functions: Sequence[ir.OpView], interpreter: Interpreter) -> None:
        self.functions, self.interpreter = functions, interpreter

    def run(self, block: ir.Block, values: Values) -> list[Array | None]:
        """The operands of the block's terminator, given its arguments and what it uses from outside."""
        *ops, terminator = [view.operation for view in block.operations]
        values = dict(values)
        places, last = _places(ops, terminator)
        for place in sorted(set(places)):
            here = [op for op, of in zip(ops, places, strict=True) if of == place]
            if place % 2:
                for op in here:
                    values.update(zip(op.results, self._run_alone(op, values), strict=True))
            else:
                wanted = [result for op in here for result in op.results if last.get(result, 0) > place]
                values |= self._interpret(here, wanted, values)
        return [values[value] for value in terminator.operands]

    def _interpret(self, ops: Sequence[ir.Operation], wanted: Sequence[ir.Value], values: Values) -> Values:
        """Run ops as a module of their own; the wanted ones of their results."""
        needed = used_values(ops)
        for value in (*needed, *wanted):
            if isinstance(value.type, ir.TupleType):
                raise UnsupportedError(
                    "a tuple is used before and after an op that the reference interpreter does not know",
                    remedy="use the tuple's elements instead, or another oracle: jax, opt0",
                )
        tensors = [value for value in needed if values[value] is not None]
        tokens = [value for value in needed if values[value] is None]
        results = [value for value in wanted if isinstance(value.type, ir.RankedTensorType)]
        module = self._module(ops, tensors, tokens, results)
        found = self.interpreter(module, [np.asarray(values[value]) for value in tensors])
        return dict.fromkeys(wanted) | dict(zip(results, found, strict=True))

    def _module(
        self,
        ops: Sequence[ir.Operation],
        arguments: Sequence[ir.Value],
        tokens: Sequence[ir.Value],
        results: Sequence[ir.Value],
    ) -> ir.Module:
        module = ir.Module.create()
        point = ir.InsertionPoint(module.body)
        for function in self.functions:
            function.operation.clone(ip=point)
        inputs, outputs = [value.type for value in arguments], [value.type for value in results]
        block = new_function(MAIN, inputs, outputs, point)
        point = ir.InsertionPoint(block)
        copies = dict(zip(arguments, block.arguments, strict=True))
        for token in tokens:
            copies[token] = ir.Operation.create("stablehlo.after_all", results=[token.type], ip=point).result
        for op in ops:
            copy = op.clone(ip=point)
            replace_operands(copy, copies)
            copies.update(zip(op.results, copy.results, strict=True))
        ir.Operation.create("func.return", operands=[copies[value] for value in results], ip=point)
        return module

    def _run_alone(self, op: ir.Operation, values: Values) -> Sequence[Array | None]:
        operands = [values[operand] for operand in op.operands]
        if op.name not in _FOLLOWED:
            return evaluate(op, [np.asarray(operand) for operand in operands])
        blocks = [region.blocks[0] for region in op.regions]
        if op.name == "stablehlo.while":
            condition, body = blocks
            while self.run(condition, values | dict(zip(condition.arguments, operands, strict=True)))[0]:
                operands = self.run(body, values | dict(zip(body.arguments, operands, strict=True)))
            return operands
        chosen = int(np.asarray(operands[0]))
        if op.name == "stablehlo.if":
            return self.run(blocks[0 if chosen else 1], values)
        # An index out of range means the last branch.
        return self.run(blocks[chosen if 0 <= chosen < len(blocks) else -1], values)


def _places(ops: Sequence[ir.Operation], terminator: ir.Operation) -> tuple[list[int], dict[ir.Value, int]]:
    """The place of every op: 2 n in the module of step n, 2 n + 1 after it; and of each value the last one that uses
    it."""
    places: list[int] = []
    made: dict[ir.Value, int] = {}
    last: dict[ir.Value, int] = {}
    for op in ops:
        used = used_values([op])
        after = max((made[value] for value in used if value in made), default=0)
        apart = _in_numpy(op)
        # Ops of one module see each other; an op that NumPy evaluates sees the module before, and the next one sees it.
        place = after + after % 2 + apart
        places.append(place)
        made.update(dict.fromkeys(op.results, place))
        last.update((value, max(place, last.get(value, 0))) for value in used)
    last.update(dict.fromkeys(terminator.operands, max(places, default=0) + 1))
    return places, last
