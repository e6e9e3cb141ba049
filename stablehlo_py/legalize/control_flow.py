"""Loops and branches become `scf` on tensors. Blocks move, nothing in them is copied."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.edit import end_with, inline_block, terminator
from stablehlo_py.legalize.rules import Results, block_of, rule
from stablehlo_py.mlir import ir


@rule("stablehlo.return", "stablehlo.optimization_barrier")
def kept(op: ir.OpView) -> None:
    """Part of the normal form (docs/architecture.md)."""


def _scalar(tensor: ir.Value) -> ir.Value:
    """The element of a rank-0 tensor."""
    return build.op("tensor.extract", [tensor.type.element_type], [tensor]).result


def _move_branches(op: ir.OpView, regions: Sequence[ir.Region]) -> None:
    for number, region in enumerate(regions):
        block = block_of(op, number)
        block.append_to(region)
        end_with(block, "scf.yield")


@rule("stablehlo.while")
def while_(op: ir.OpView) -> Sequence[ir.Value]:
    """`scf.while`; the condition passes its arguments on unchanged."""
    loop = build.op("scf.while", [result.type for result in op.results], list(op.operands), regions=2)
    condition, body = block_of(op, 0), block_of(op, 1)
    condition.append_to(loop.regions[0])
    body.append_to(loop.regions[1])
    last = terminator(condition)
    with ir.InsertionPoint(last), last.location:
        go_on = _scalar(last.operands[0])
    end_with(condition, "scf.condition", [go_on, *condition.arguments])
    end_with(body, "scf.yield")
    return list(loop.results)


@rule("stablehlo.if")
def if_(op: ir.OpView) -> Sequence[ir.Value]:
    """`scf.if`."""
    branch = build.op("scf.if", [result.type for result in op.results], [_scalar(op.operands[0])], regions=2)
    _move_branches(op, branch.regions)
    return list(branch.results)


@rule("stablehlo.case")
def case(op: ir.OpView) -> Results:
    """`scf.index_switch` whose default is the last branch (spec, section case: an index out of range takes the
    last)."""
    count = len(op.regions)
    if count == 1:
        return inline_block(block_of(op), [], op.operation)
    index = build.op("arith.index_cast", [ir.IndexType.get()], [_scalar(op.operands[0])]).result
    switch = build.op(
        "scf.index_switch",
        [result.type for result in op.results],
        [index],
        {"cases": list(range(count - 1))},
        regions=count,
    )
    default, *others = switch.regions
    _move_branches(op, [*others, default])
    return list(switch.results)
