"""The `hlo.reduce` ops of a fusion, and how accumulators become their results."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function
from stablehlo_py.codegen.elemental import Elemental, Provider
from stablehlo_py.codegen.index import Affine, linear_index, same
from stablehlo_py.codegen.types import Element, Lanes, element, parts, splat
from stablehlo_py.dialect.symint import always_at_most
from stablehlo_py.dialect.types import element_type, i64, i64s, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.rewrite import defining


@dataclass(frozen=True)
class Reduction:
    """One `hlo.reduce` of a fusion."""

    result: ir.Value
    operand: ir.Value
    init: ir.Value
    kind: str
    dimensions: tuple[int, ...]
    of: Element


def reductions(fusion: Fusion) -> list[Reduction]:
    """Every `hlo.reduce` of the fusion, in order."""
    return [
        Reduction(
            op.operation.results[0],
            op.operation.operands[0],
            op.operation.operands[1],
            text(op, "kind"),
            i64s(op, "dimensions"),
            element(op.operation.results[0]),
        )
        for op in fusion.ops
        if op.operation.name == "hlo.reduce"
    ]


def first_condition(item: Reduction) -> ir.Value | None:
    """The condition of a reduction that finds the first place where it holds (argmax): a minimum of places, with the
    initial value for those where it does not. None: of another reduction."""
    choice = defining(item.operand, "hlo.select")
    if choice is None or item.kind != "minimum" or len(item.dimensions) != 1:
        return None
    condition, places, other = choice.operands
    fill = defining(other, "hlo.broadcast")
    fills = fill is not None and fill.operands[0] == item.init
    return condition if fills and _counts(places, item.dimensions[0]) else None


def _counts(value: ir.Value, dimension: int) -> bool:
    """Whether an element is the number of its place along a dimension."""
    size, spread = shape(value)[dimension], defining(value, "hlo.broadcast")
    if spread is not None and i64s(spread, "dimensions") == (dimension,):
        value, dimension = spread.operands[0], 0
    iota = defining(value, "hlo.iota")
    counts = iota is not None and i64(iota, "dimension") == dimension
    return counts and always_at_most(size, 1 << element_type(value).width - 1)


def finish(e: Elemental, reduction: Reduction, total: Lanes) -> Lanes:
    """The result from an accumulator: lanes combined where `total` has lanes of one result, the initial value, the
    rounding.
    """
    start = splat(e.f, e.value(reduction.init, ()), parts(total)[0].type.lanes)
    combined = arith.combine(e.f, reduction.kind, reduction.of, start, total)
    return arith.rounded(e.f, reduction.of, combined)


def combined(f: Function, items: Sequence[Reduction], a: Sequence[Lanes], b: Sequence[Lanes]) -> list[Lanes]:
    """Two accumulators of each reduction, lane by lane."""
    return [arith.combine(f, item.kind, item.of, x, y) for item, x, y in zip(items, a, b, strict=True)]


def lanes_combined(f: Function, items: Sequence[Reduction], totals: Sequence[Lanes]) -> list[Lanes]:
    """The accumulators' lanes, combined to scalars."""
    return [arith.reduce_lanes(f, item.kind, item.of, total) for item, total in zip(items, totals, strict=True)]


def at_place(here: Affine, result: Lanes) -> Provider:
    """Provides a result at one element number; other places are computed."""
    return lambda e, place: result if same(e.f, linear_index(e.f, place), here) else None


def reduction_levels(items: Sequence[Reduction]) -> list[list[Reduction]]:
    """Reductions by the number of reductions that they depend on."""
    results = {item.result for item in items}
    known: dict[ir.Value, int] = {}
    levels: list[list[Reduction]] = []
    for item in items:
        level = _depth(item.result, results, known)
        levels += [[] for _ in range(level - len(levels))]
        levels[level - 1].append(item)
    return levels


def _depth(value: ir.Value, results: Collection[ir.Value], known: dict[ir.Value, int]) -> int:
    """How many of the results come one after the other on the way to a value."""
    if isinstance(value.owner, ir.Block):
        return 0
    if value not in known:
        below = max((_depth(operand, results, known) for operand in value.owner.operands), default=0)
        known[value] = below + (value in results)
    return known[value]
