"""Windows of `reduce_window` and `select_and_scatter`, and the values that their loops carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import Value
from stablehlo_py.codegen.types import Lanes
from stablehlo_py.dialect.types import i64s, shape
from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class Window:
    """One dimension of a window: sizes of the operand and the window, steps, dilations, low padding."""

    size: int
    width: int
    stride: int = 1
    base_dilation: int = 1
    dilation: int = 1
    low: int = 0
    high: int = 0

    @property
    def trivial(self) -> bool:
        """The output position is the operand position."""
        return self.width == 1 and self.stride == 1 and self.base_dilation == 1 and self.low == 0 and self.high == 0


def windows_of(op: ir.OpView) -> list[Window]:
    """The window of an hlo.reduce_window or of a kept StableHLO op, per dimension."""
    sizes = shape(op.operands[0])
    rank = len(sizes)

    def numbers(name: str, other: str, default: int) -> tuple[int, ...]:
        for candidate in (name, other):
            if candidate in op.attributes:
                return i64s(op, candidate)
        return (default,) * rank

    width = numbers("window", "window_dimensions", 1)
    stride = numbers("strides", "window_strides", 1)
    base, dilation = numbers("base_dilation", "base_dilations", 1), numbers("window_dilation", "window_dilations", 1)
    flat = [*i64s(op, "padding")] if "padding" in op.attributes else [0] * (2 * rank)
    return [
        Window(sizes[d], width[d], stride[d], base[d], dilation[d], flat[2 * d], flat[2 * d + 1]) for d in range(rank)
    ]


def flattened(values: Sequence[Lanes]) -> list[Value]:
    """The values behind Lanes, as a loop carries them."""
    return [part for value in values for part in types.parts(value)]


def grouped(flat: Sequence[Value], template: Sequence[Lanes]) -> list[Lanes]:
    """The inverse of `flattened`: Lanes like those of the template."""
    rest = iter(flat)
    return [(next(rest), next(rest)) if isinstance(one, tuple) else next(rest) for one in template]
