"""Regions that compute on scalars, done on whole tensors."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import element_type, rank
from stablehlo_py.mlir import ir

# Between scalars these change nothing.
_NOTHING = frozenset({"hlo.broadcast", "hlo.reshape", "hlo.transpose"})


def not_elementwise(block: ir.Block) -> str | None:
    """The name of the first op of a block that does not work element by element; None where all do."""
    *body, _ = block.operations
    return next((inner.operation.name for inner in body if not _is_elementwise(inner.operation)), None)


def _is_elementwise(op: ir.Operation) -> bool:
    """True for ops that mean the same on tensors, one scalar beside the other."""
    if op.name in _NOTHING or op.name in ("hlo.constant", "hlo.bitcast_convert"):
        return all(rank(value) == 0 for value in (*op.operands, *op.results))
    record = record_of(op.name)
    return record is not None and record.elementwise


def on_tensors(block: ir.Block, operands: Sequence[ir.Value], sizes: Sequence[IntLike]) -> list[ir.Value]:
    """What a block returns, whose ops work element by element, for every element of `operands`, one tensor of these
    sizes for each of its arguments. A value from outside is one number for all elements."""
    values: dict[ir.Value, ir.Value] = dict(zip(block.arguments, operands, strict=True))

    def whole(scalar: ir.Value) -> ir.Value:
        if scalar not in values:
            values[scalar] = build.broadcast(scalar, sizes, [])
        return values[scalar]

    *body, last = list(block.operations)
    for inner in body:
        operation = inner.operation
        if operation.name == "hlo.constant":
            values[operation.result] = build.broadcast(operation.clone().result, sizes, [])
        elif operation.name in _NOTHING:
            values[operation.result] = whole(operation.operands[0])
        else:
            results = [build.tensor(sizes, element_type(operation.result))]
            attributes = {name: operation.attributes[name] for name in operation.attributes}
            made = build.op(operation.name, results, [whole(operand) for operand in operation.operands], attributes)
            values[operation.result] = made.result
    return [whole(value) for value in last.operands]
