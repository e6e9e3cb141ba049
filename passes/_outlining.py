"""Loops as functions that become kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.dialect.attributes import FUSION
from stablehlo_py.dialect.calls import new_call, new_function
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.edit import copied
from stablehlo_py.dialect.regions import captured_values, replace_operands
from stablehlo_py.mlir import ir


def outline(
    module: ir.Module,
    loop: ir.Operation,
    name: str,
    kind: str,
    is_cloned: Callable[[ir.Value], bool],
    wanted: Sequence[ir.Value],
) -> None:
    """Move an `scf.while` to a fusion function of that name and kind, which returns the `wanted` ones of its results,
    and call it instead. What the loop starts with and captures is passed; but the function has its own splat constants
    to start with, and of what it captures those that `is_cloned`."""
    captured = captured_values(loop)
    starts = [value for value in loop.operands if splat(value) is not None]
    constants = [*(value for value in captured if is_cloned(value)), *starts]
    passed = [value for value in loop.operands if splat(value) is None]
    inputs = list(dict.fromkeys([*passed, *(value for value in captured if not is_cloned(value))]))
    results, location = [result.type for result in wanted], loop.location
    types, point = [value.type for value in inputs], ir.InsertionPoint(module.body)
    fused = {FUSION: ir.StringAttr.get(kind)}
    block = new_function(name, types, results, point, location=location, private=True, attributes=fused)
    call = new_call(name, inputs, results, ir.InsertionPoint(loop), location)
    for old, new in zip(wanted, list(call.results), strict=True):
        old.replace_all_uses_with(new)
    inside: dict[ir.Value, ir.Value] = dict(zip(inputs, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for value in constants:
            if value not in inside:
                inside[value] = copied(value)
    loop.detach_from_parent()
    block.append(loop)
    replace_operands(loop, inside)
    ir.Operation.create("func.return", operands=list(wanted), ip=ir.InsertionPoint(block), loc=location)
