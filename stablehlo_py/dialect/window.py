"""Windows: how many positions they have; the window of a `reduce_window` or `select_and_scatter`, hlo's or StableHLO's,
and of a convolution.

A `stablehlo.reduce_window` whose window depends on dynamic dimensions has it in `hlo.window`, in place of its own
attributes, which cannot hold SymInts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.dialect.attributes import WINDOW
from stablehlo_py.dialect.symint import IntLike, always_at_most, floordiv, maximum
from stablehlo_py.dialect.types import i64s, rank, shape, symints
from stablehlo_py.mlir import ir

Shape = Sequence[IntLike]


def dilated(size: IntLike, dilation: IntLike) -> IntLike:
    """Size with `dilation - 1` holes between elements."""
    return (size - 1) * dilation + 1 if size else 0


def window_shape(
    sizes: Shape, window: Shape, strides: Shape, padding: Shape, base_dilation: Shape, window_dilation: Shape
) -> tuple[IntLike, ...]:
    """Number of window positions per dimension (spec, section reduce_window, C15). `padding` is low, high per
    dimension."""
    result = []
    for i, size in enumerate(sizes):
        padded = dilated(size, base_dilation[i]) + padding[2 * i] + padding[2 * i + 1]
        positions = floordiv(padded - dilated(window[i], window_dilation[i]), strides[i]) + 1
        result.append(0 if always_at_most(padded, 0) else maximum(positions, 0))
    return tuple(result)


NAMES = ("window", "strides", "base_dilation", "window_dilation", "padding")
STABLEHLO_NAMES = ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding")


def window_of(op: ir.OpView | ir.Operation) -> dict[str, tuple[IntLike, ...]]:
    """By the names that hlo has: dimensions, strides and dilations, R numbers each, and low, high padding of each
    dimension. What the op does not say has its default."""
    count = rank(op.operands[0])
    if WINDOW in op.attributes:
        numbers = symints(op, WINDOW)
        ends = [count, 2 * count, 3 * count, 4 * count, 6 * count]
        return {name: numbers[begin:end] for name, begin, end in zip(NAMES, [0, *ends], ends, strict=False)}
    found = {}
    for name, other in zip(NAMES, STABLEHLO_NAMES, strict=True):
        present = next((each for each in (name, other) if each in op.attributes), None)
        default = (0,) * (2 * count) if name == "padding" else (1,) * count
        found[name] = symints(op, present) if present else default
    return found


@dataclass(frozen=True)
class Window:
    """One dimension of a window: sizes of the operand and of the window, steps, dilations, padding (negative: what is
    cut off). `reversed`: the places of the window count from its end."""

    size: IntLike
    width: IntLike
    stride: IntLike
    base_dilation: IntLike
    dilation: IntLike
    low: IntLike
    high: IntLike
    reversed: bool

    @property
    def trivial(self) -> bool:
        """The output position is the operand position."""
        return self.width == 1 and self.stride == 1 and self.base_dilation == 1 and self.low == 0 and self.high == 0


def beyond_one(windows: Sequence[Window]) -> list[int]:
    """The dimensions that have more than one place, or windows that reach further."""
    return [dimension for dimension, window in enumerate(windows) if window.size != 1 or not window.trivial]


def windows_of(op: ir.OpView) -> list[Window]:
    """The window of a `reduce_window` or `select_and_scatter`, per dimension."""
    window = window_of(op)
    edges = window.pop("padding")
    sizes = shape(op.operands[0])
    rows = zip(sizes, *window.values(), edges[::2], edges[1::2], [False] * len(sizes), strict=True)
    return [Window(*row) for row in rows]


@dataclass(frozen=True)
class SpatialWindow(Window):
    """One spatial dimension of a convolution: the window that the kernel is on the input; which dimensions of input,
    kernel and output it is."""

    input: int
    kernel: int
    output: int

    @property
    def copies(self) -> bool:
        """The input has padding or holes along it."""
        return bool(self.low or self.high) or self.base_dilation != 1


def spatial_windows(op: ir.OpView) -> list[SpatialWindow]:
    """The spatial dimensions of an `hlo.convolution`."""
    inputs, kernels, outputs = (i64s(op, f"{name}_dims")[2:] for name in ("input", "kernel", "output"))
    sizes, widths, padding = shape(op.operands[0]), shape(op.operands[1]), symints(op, "padding")
    columns = zip(
        (sizes[dimension] for dimension in inputs),
        (widths[dimension] for dimension in kernels),
        symints(op, "strides"),
        symints(op, "lhs_dilation"),
        symints(op, "rhs_dilation"),
        padding[::2],
        padding[1::2],
        map(bool, i64s(op, "reversal")),
        inputs,
        kernels,
        outputs,
        strict=True,
    )
    return [SpatialWindow(*column) for column in columns]
