"""Reading helpers over the attributes of StableHLO ops, which are written in other ways than those of hlo."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect.constants import to_numpy
from stablehlo_py.mlir import ir


def keyword(attribute: ir.Attribute) -> str:
    """The word of an enum attribute: TOTALORDER of `#stablehlo<comparison_type TOTALORDER>`."""
    return str(attribute).rstrip(">").rsplit(" ", 1)[-1]


def optional_i64s(op: ir.OpView, name: str, default: Sequence[int]) -> list[int]:
    """An optional `array<i64>` attribute as a list."""
    return list(op.attributes[name]) if name in op.attributes else list(default)


def optional_pairs(op: ir.OpView, name: str, rows: int) -> list[int]:
    """An optional `[rows, 2]` dense integer attribute (paddings), flattened; zeros when absent."""
    return to_numpy(op.attributes[name]).reshape(-1).tolist() if name in op.attributes else [0] * (2 * rows)
