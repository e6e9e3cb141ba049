"""What a kept `stablehlo.custom_call` says: its target, its configuration, its buffers.

Legalization puts operands and results in the order in which they lie in memory (dense and row-major, as all tensors
here) and notes that order in `hlo.operand_orders` and `hlo.result_orders`, arrays of `array<i64>`: dimension k of the
tensor is dimension order[k] of what the call's layouts describe. A column-major matrix, as LAPACK has it, is a tensor
of type columns x rows with order [1, 0].
"""

from __future__ import annotations

from dataclasses import dataclass

from stablehlo_py.dialect.attributes import MHLO_CONFIGURATION, OPERAND_ORDERS, RESULT_ORDERS
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import element_type, entries, is_tensor, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.mlir import stablehlo as attributes


@dataclass(frozen=True)
class Buffer:
    """An operand or a result: its shape as the call was written, and the order of these dimensions in memory, slowest
    first."""

    shape: tuple[IntLike, ...]
    order: tuple[int, ...]
    element: ir.Type


@dataclass(frozen=True)
class CustomCall:
    """Attributes:
    target: the name of what is called.
    configuration: the entries of the typed backend configuration, or, where that is a string, one entry
        `backend_config`.
    operands, results: the buffers.
    aliases: (result, operand): the result takes the operand's memory, and holds its value when the call begins.
    """

    target: str
    configuration: dict[str, ir.Attribute]
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    aliases: tuple[tuple[int, int], ...]


def read_call(op: ir.OpView | ir.Operation) -> CustomCall:
    """Read a legalized custom call."""
    return CustomCall(
        text(op, "call_target_name"),
        configuration(op),
        _buffers(op, op.operands, OPERAND_ORDERS),
        _buffers(op, op.results, RESULT_ORDERS),
        aliases(op),
    )


def configuration(op: ir.OpView | ir.Operation) -> dict[str, ir.Attribute]:
    """The backend configuration: typed entries (API version 4), or the older string under its own name."""
    for key in (MHLO_CONFIGURATION, "backend_config"):
        if key in op.attributes:
            value = op.attributes[key]
            if isinstance(value, ir.DictAttr):
                return entries(value)
            if isinstance(value, ir.StringAttr) and value.value_bytes:  # of any bytes
                return {"backend_config": value}
    return {}


def aliases(op: ir.OpView | ir.Operation) -> tuple[tuple[int, int], ...]:
    """(result, operand) pairs that share memory."""
    if "output_operand_aliases" not in op.attributes:
        return ()
    pairs = []
    for attribute in op.attributes["output_operand_aliases"]:
        alias = attributes.OutputOperandAlias(attribute)
        indices = list(alias.output_tuple_indices)
        pairs.append((indices[0] if indices else 0, alias.operand_index))
    return tuple(pairs)


def _buffers(op: ir.OpView | ir.Operation, values: ir.OpOperandList | ir.OpResultList, key: str) -> tuple[Buffer, ...]:
    orders = [tuple(order) for order in op.attributes[key]] if key in op.attributes else [None] * len(values)
    return tuple(_buffer(value, order) for value, order in zip(values, orders, strict=True) if is_tensor(value))


def _buffer(value: ir.Value, order: tuple[int, ...] | None) -> Buffer:
    sizes = shape(value)
    if order is None:
        return Buffer(sizes, tuple(range(len(sizes))), element_type(value))
    return Buffer(tuple(sizes[order.index(number)] for number in range(len(sizes))), order, element_type(value))
