"""Windows of values in memory: where a result lies that is computed in the place where an update would put it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from stablehlo_py.dialect.alignment import ALIGNMENT
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import element_type, shape, tensor_bytes
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import has_one_use
from stablehlo_py.passmanager.rewrite import defining


@dataclass(frozen=True)
class Window:
    """A part of a value that lies in one piece. For each dimension that is not whole: the operand with its start, the
    bytes from one start to the next, the last start."""

    value: ir.Value
    starts: tuple[tuple[ir.Value, int, int], ...]


def updated_window(call: ir.Operation, functions: Mapping[str, ir.Operation]) -> tuple[Window, ir.Value] | None:
    """The window that the call of a fusion overwrites, and what with; None where it does anything else."""
    function = functions.get(call.attributes["callee"].value)
    if function is None:
        return None
    block = function.regions[0].blocks[0]
    *constants, update, _ = (view.operation for view in block.operations)
    if update.name != "hlo.dynamic_update_slice" or any(op.name != "hlo.constant" for op in constants):
        return None
    outside = dict(zip(block.arguments, call.operands, strict=True))
    target, new, *starts = update.operands
    if target not in outside or new not in outside or target == new:
        return None
    sizes, window = shape(target), shape(new)
    if not is_known(*sizes) or not is_known(*window):
        return None
    parted = [at for at, (size, part) in enumerate(zip(sizes, window, strict=True)) if size != part]
    first = max(parted, default=0)  # before it, only one of each dimension
    if any(window[at] != 1 for at in range(first)):
        return None
    item = tensor_bytes(target) // max(1, math.prod(sizes))
    found = []
    for at in parted:
        start = outside.get(starts[at])
        if start is None or not isinstance(type_ := element_type(start), ir.IntegerType) or type_.is_unsigned:
            return None
        stride = int(item * math.prod(sizes[at + 1 :]))
        if stride % ALIGNMENT:
            return None
        found.append((start, stride, int(sizes[at] - window[at])))
    return Window(outside[target], tuple(found)), outside[new]


def maker(value: ir.Value) -> ir.Value:
    """The result that a value shows, of which nobody else reads anything; else the value."""
    while has_one_use(value) and (view := defining(value, "hlo.reshape")) is not None:
        value = view.operands[0]
    return value


def reader(value: ir.Value) -> ir.Operation:
    """The one op that reads a result, or what shows it."""
    (use,) = value.uses
    op = use.owner.operation
    return reader(op.results[0]) if op.name == "hlo.reshape" else op
