"""Ops with a body on scalars: reductions, scatter, sort, map.

The body's arguments say how it computes: operands that are quantized another way are requantized to them
(specification, `is_promotable`). The ops of the body are legalized after the op itself, by their own rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from stablehlo_py.dialect import build
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.dialect.quantized import Quantized
from stablehlo_py.dialect.types import i64s, shape
from stablehlo_py.legalize.quantized import emit
from stablehlo_py.legalize.quantized.affine import center, offset, requantize, saturate
from stablehlo_py.legalize.quantized.movement import remember_zeros
from stablehlo_py.legalize.quantized.rules import Reading, Results, described, rule
from stablehlo_py.legalize.rules import Unsupported, block_of
from stablehlo_py.mlir import ir


def _promote(op: ir.OpView, of: Reading, pairs: Iterable[tuple[int, ir.Value]]) -> None:
    """Requantize operands (by number) that a body takes as an argument quantized another way."""
    for number, argument in pairs:
        operand = op.operands[number]
        source, target = of(operand), of(argument)
        if source != target:
            if source is None or target is None:
                raise Unsupported(
                    f"operand {number} is {described(source)}, its body takes it {described(target)}",
                    "quantize both or none",
                )
            op.operation.operands[number] = requantize(operand, source, target)


def _check_results(op: ir.OpView, of: Reading, region: int = 0) -> None:
    """Results are what the body returns (specification: `element_type(results[i]) = Ei`)."""
    for result, returned in zip(op.results, terminator(block_of(op, region)).operands, strict=True):
        if of(result) != of(returned):
            raise Unsupported(
                f"its body returns a value {described(of(returned))}, its result is {described(of(result))}",
                "requantize the result with stablehlo.uniform_quantize instead",
            )


@rule("stablehlo.reduce", "stablehlo.reduce_window")
def reduce(op: ir.OpView, of: Reading) -> Results:
    """Sums are formed in integers; other combiners become integer or float ops in the body."""
    block = block_of(op)
    _promote(op, of, enumerate(block.arguments))
    _check_results(op, of)
    quantized = of(op.results[0])
    if quantized is not None and len(op.results) == 1 and quantized.dimension is None and _is_sum(block):
        return _sum(op, quantized)
    return None


def _is_sum(block: ir.Block) -> bool:
    first, *rest = block.operations
    arguments = list(block.arguments)
    return (
        len(rest) == 1
        and first.operation.name == "stablehlo.add"
        and list(first.operation.operands) in (arguments, arguments[::-1])
        and list(rest[0].operands) == list(first.operation.results)
    )


def _sum(op: ir.OpView, quantized: Quantized) -> ir.Value:
    """The exact sum, clamped once. The specification clamps after every addition, in any order; there is always an
    order in which the partial sums of an exact sum stay in range."""
    operand, init = op.operands
    if op.operation.name == "stablehlo.reduce":
        count = math.prod(shape(operand)[d] for d in i64s(op, "dimensions"))
    else:
        count = math.prod(i64s(op, "window_dimensions"))
    magnitude = max(abs(bound) for bound in quantized.centered)
    bits = 32 if (count + 1) * magnitude + abs(quantized.zero_points[0]) < 2**31 else 64
    wide = ir.IntegerType.get_signless(bits)
    total = emit.again(op, [center(value, quantized, wide) for value in (operand, init)], wide)
    block = total.regions[0].blocks[0]
    for value in (*block.arguments, *block.operations[0].operation.results):
        value.set_type(build.tensor((), wide))
    return saturate(offset("add", total.results[0], quantized), quantized)


@rule("stablehlo.scatter")
def scatter(op: ir.OpView, of: Reading) -> None:
    """Operands are inputs, indices, updates; the body takes inputs, then updates."""
    count = len(op.results)
    numbers = [*range(count), *range(count + 1, 2 * count + 1)]
    _promote(op, of, zip(numbers, block_of(op).arguments, strict=True))
    _check_results(op, of)


@rule("stablehlo.select_and_scatter")
def select_and_scatter(op: ir.OpView, of: Reading) -> None:
    """One body chooses among operands, the other adds up sources, from the initial value on."""
    chosen, added = block_of(op, 0).arguments, block_of(op, 1).arguments
    _promote(op, of, [(0, chosen[0]), (1, added[0]), (2, added[1])])
    _check_results(op, of, 1)


@rule("stablehlo.map", "stablehlo.all_reduce", "stablehlo.collective_reduce", "stablehlo.reduce_scatter")
def mapped(op: ir.OpView, of: Reading) -> None:
    """The body takes operands in order (all_reduce: pairs of them)."""
    arguments = list(block_of(op).arguments)[: len(op.operands)]
    _promote(op, of, enumerate(arguments))
    _check_results(op, of)
    if op.operation.name == "stablehlo.collective_reduce":
        remember_zeros(op, of)


@rule("stablehlo.sort")
def sort(op: ir.OpView, of: Reading) -> None:
    """The comparator takes two values of each operand."""
    arguments = list(block_of(op).arguments)
    _promote(op, of, enumerate(arguments[::2]))
