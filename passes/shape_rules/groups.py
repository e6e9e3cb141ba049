"""How a reshape regroups dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.rewrite import Rewriter

Group = tuple[list[int], list[int]]


def reshape_groups(source: Sequence[int], target: Sequence[int]) -> list[Group] | None:
    """Smallest runs (dimensions of source, dimensions of target) of equal size that a reshape maps onto each other;
    None when there are no elements. A run may be empty on one side when the other holds dimensions of size 1."""
    if 0 in source or math.prod(source) != math.prod(target):
        return None
    groups: list[Group] = []
    i = j = 0
    while i < len(source) or j < len(target):
        left, right = 1, 1
        start_i, start_j = i, j
        if i < len(source):
            left, i = source[i], i + 1
        if j < len(target):
            right, j = target[j], j + 1
        while left != right:
            if left < right:
                left, i = left * source[i], i + 1
            else:
                right, j = right * target[j], j + 1
        groups.append((list(range(start_i, i)), list(range(start_j, j))))
    return groups


def long(dimensions: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Those dimensions whose size is not 1."""
    return [dimension for dimension in dimensions if sizes[dimension] != 1]


def is_degenerate(source: Sequence[int], target: Sequence[int]) -> bool:
    """True when a reshape only adds and drops dimensions of size 1."""
    return [size for size in source if size != 1] == [size for size in target if size != 1]


def reshaped_dimensions(mapped: Sequence[int], sizes: Sequence[int], target: Sequence[int]) -> list[int] | None:
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
    rewriter: Rewriter, x: ir.Value, mapped: Sequence[int], sizes: Sequence[int], target: Sequence[int]
) -> ir.Value | None:
    """reshape(broadcast(x, sizes, mapped), target) as a broadcast of a reshape of x; None when there is no such
    form."""
    dimensions = reshaped_dimensions(mapped, sizes, target)
    if dimensions is None:
        return None
    operand = rewriter.reshape(x, [target[dimension] for dimension in dimensions]) if x.type.rank else x
    return rewriter.broadcast(operand, target, dimensions)
