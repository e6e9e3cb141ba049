"""Broadcasts under reshapes."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect.index_map import reshaped_roles
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.rewrite import Rewriter


def reshaped_dimensions(
    mapped: Sequence[int], sizes: tuple[IntLike, ...], target: tuple[IntLike, ...]
) -> list[int] | None:
    """Result dimensions (of size > 1) that a reshape of a broadcast maps, when the reshape of `sizes` to `target`
    splits and merges only dimensions that are all mapped or all free; else None."""
    roles = reshaped_roles(target, sizes, [dimension in mapped for dimension in range(len(sizes))])
    return None if roles is None else [dimension for dimension, is_mapped in enumerate(roles) if is_mapped]


def reshaped_broadcast(
    rewriter: Rewriter, x: ir.Value, mapped: Sequence[int], sizes: tuple[IntLike, ...], target: tuple[IntLike, ...]
) -> ir.Value | None:
    """reshape(broadcast(x, sizes, mapped), target) as a broadcast of a reshape of x; None when there is no such
    form."""
    dimensions = reshaped_dimensions(mapped, sizes, target)
    if dimensions is None:
        return None
    operand = rewriter.reshape(x, [target[dimension] for dimension in dimensions]) if x.type.rank else x
    return rewriter.broadcast(operand, target, dimensions)
