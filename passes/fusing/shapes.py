"""Questions about shapes that decide on fusions: prefix broadcasts, how a reduction splits its operand."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.passes.fusing.graph import Node


@dataclass(frozen=True)
class Split:
    """How a reduction sees its operand: `rows` results of `columns` elements each, adjacent in memory (`is_row`),
    or strided."""

    rows: IntLike
    columns: IntLike
    is_row: bool


def reduction_split(operand: tuple[IntLike, ...], dimensions: tuple[IntLike, ...]) -> Split:
    """The split of a reduction of `operand` over `dimensions`. Dimensions of size one fit anywhere."""
    reduced = {dimension for dimension in dimensions if operand[dimension] != 1}
    kept = [dimension for dimension, size in enumerate(operand) if size != 1 and dimension not in reduced]
    rows = math.prod(operand[dimension] for dimension in kept)
    columns = math.prod(operand[dimension] for dimension in reduced)
    return Split(rows, columns, not kept or not reduced or max(kept) < min(reduced))


def is_prefix_broadcast(node: Node, operand: tuple[IntLike, ...]) -> bool:
    """True when a broadcast repeats every operand element over adjacent result elements: operand index = result
    index // repetitions."""
    mapped = [dimension for dimension, size in zip(node.attributes["dimensions"], operand, strict=True) if size != 1]
    used = set(mapped)
    leading = [dimension for dimension, size in enumerate(node.shape) if size != 1][: len(mapped)]
    return mapped == leading and len(used) == len(mapped)


def moves_minor_dimension(node: Node) -> bool:
    """True when a transpose changes which dimension is adjacent in memory."""
    permutation = node.attributes["permutation"]
    large = [position for position, size in enumerate(node.shape) if size != 1]
    if not large:
        return False
    sources = [permutation[position] for position in large]
    return sources[-1] != max(sources)
