"""Reductions: `hlo.reduce` and `hlo.reduce_window` where the combiner is simple, else the StableHLO op with hlo ops
inside."""

from __future__ import annotations

from stablehlo_py.dialect import build
from stablehlo_py.dialect.types import element_type, i64s, rank, shape
from stablehlo_py.legalize.captures import close_reduction, close_sort, kept
from stablehlo_py.legalize.regions import isolate, simple_combiner, single_combiner
from stablehlo_py.legalize.rules import Results, block_of, optional_i64s, optional_pairs, rule
from stablehlo_py.mlir import ir


def _promote(op: ir.OpView) -> list[ir.Value]:
    """Operands and inits in the element type that the body computes in (spec: bodies may compute in a wider type)."""
    block = block_of(op)
    operands = []
    for number, operand in enumerate(op.operands):
        element = element_type(block.arguments[number])
        if element_type(operand) != element:
            operand = build.value("convert", build.tensor(shape(operand), element), operand)
            op.operation.operands[number] = operand
        operands.append(operand)
    return operands


@rule("stablehlo.reduce")
def reduce(op: ir.OpView) -> Results:
    """One `hlo.reduce` per operand when each is combined by itself, simply."""
    block = block_of(op)
    count = len(op.operands) // 2
    operands = _promote(op)
    kinds = [simple_combiner(block, i, count + i, i) for i in range(count)]
    if None in kinds:
        return kept(op, close_reduction(op))
    dimensions = i64s(op, "dimensions")
    results = []
    for kind, operand, init, result in zip(kinds, operands[:count], operands[count:], op.results, strict=True):
        if dimensions:
            results.append(build.value("reduce", result.type, operand, init, kind=kind, dimensions=dimensions))
        else:
            results.append(build.like(str(kind), operand, build.broadcast(init, shape(operand), [])))
    return results


@rule("stablehlo.reduce_window")
def reduce_window(op: ir.OpView) -> Results:
    """Absent attributes get their defaults."""
    operands = _promote(op)
    kind = single_combiner(op)
    if kind is None:
        return kept(op, close_reduction(op))
    dimensions = rank(operands[0])
    ones = [1] * dimensions
    return build.value(
        "reduce_window",
        op.results[0].type,
        *operands,
        kind=kind,
        window=op.attributes["window_dimensions"],
        strides=optional_i64s(op, "window_strides", ones),
        base_dilation=optional_i64s(op, "base_dilations", ones),
        window_dilation=optional_i64s(op, "window_dilations", ones),
        padding=optional_pairs(op, "padding", dimensions),
    )


@rule("stablehlo.sort")
def sort(op: ir.OpView) -> Results:
    """Kept, with hlo ops in its region."""
    return kept(op, close_sort(op))


@rule("stablehlo.select_and_scatter")
def select_and_scatter(op: ir.OpView) -> None:
    """Kept, with hlo ops in the regions."""
    isolate(op)
