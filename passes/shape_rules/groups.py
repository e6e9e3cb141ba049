"""Broadcasts under reshapes."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect.index_map import long, reshape_groups
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.rewrite import Rewriter


def reshaped_dimensions(mapped: Sequence[int], sizes: tuple[int, ...], target: tuple[int, ...]) -> list[int] | None:
    """Result dimensions (of size > 1) that a reshape of a broadcast maps, when the reshape of `sizes` to `target`
    splits and merges only dimensions that are all mapped or all free; else None."""
    groups = reshape_groups(sizes, target)
    if groups is None:
        return None
    dimensions: list[int] = []
    for source_dims, target_dims in groups:
        inside = long(source_dims, sizes)
        count = sum(dimension in mapped for dimension in inside)
        if count not in (0, len(inside)):
            return None
        if count:
            dimensions += long(target_dims, target)
    return dimensions


def reshaped_broadcast(
    rewriter: Rewriter, x: ir.Value, mapped: Sequence[int], sizes: tuple[int, ...], target: tuple[int, ...]
) -> ir.Value | None:
    """reshape(broadcast(x, sizes, mapped), target) as a broadcast of a reshape of x; None when there is no such
    form."""
    dimensions = reshaped_dimensions(mapped, sizes, target)
    if dimensions is None:
        return None
    operand = rewriter.reshape(x, [target[dimension] for dimension in dimensions]) if x.type.rank else x
    return rewriter.broadcast(operand, target, dimensions)
