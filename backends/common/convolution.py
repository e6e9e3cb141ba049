"""Convolutions as contractions (contraction.py): over an input that has its padding written out, output pixels and
kernel positions step through the same memory. StableHLO spec, section `convolution`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.contraction import Axes, Axis, Dimensions, shared_axes
from stablehlo_py.dialect.index_map import Digits, regroup_digits
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import i64, i64s, shape
from stablehlo_py.dialect.window import SpatialWindow
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class OutputPhases:
    """A transposed convolution along one dimension, without multiplying the zeros between input elements.

    With dilation d, output pixel d * q + p meets input elements only at kernel places d - 1 - p, 2 d - 1 - p, ...
    (after the output was shifted by `shift` to make it so): place j of them meets input element q + j - `low`. So p
    becomes an axis of the result, and the kernel is read in steps of d.
    """

    dilation: IntLike
    shift: IntLike
    pixels: IntLike  # places of q
    taps: IntLike  # places of j
    low: IntLike
    high: IntLike
    padded_kernel: IntLike
    long_from: IntLike  # phases before it have one tap less

    @staticmethod
    def of(window: SpatialWindow, output: IntLike) -> OutputPhases | None:
        """For `output` pixels; None where a dilated input is written out, or none is."""
        if window.base_dilation == 1 or window.stride != 1 or window.dilation != 1:
            return None
        d, size, kernel = window.base_dilation, window.size, window.width
        shift = (d - 1 - window.low) % d
        pixels, taps = -(-(output + shift) // d), -(-kernel // d)
        low = (window.low + shift - d + 1) // d
        high = pixels + taps - 1 - low - size
        return OutputPhases(d, shift, pixels, taps, low, high, taps * d, -kernel % d)


def _split(digits: Digits, groups: int, size: IntLike) -> tuple[Digits, Digits]:
    """A dimension as (group, place in the group)."""
    split = regroup_digits([digits], [groups, size // groups])
    if split is None:
        raise InternalError("the groups of a convolution do not divide its features", op="hlo.convolution")
    return split[0], split[1]


def convolution_axes(
    op: ir.OpView,
    windows: Sequence[tuple[SpatialWindow, OutputPhases | None]],
    a: Dimensions,
    b: Dimensions,
    c: Dimensions,
) -> Axes | None:
    """The loops of a convolution. Operands have one digit per dimension."""
    batch_in, feature_in = i64s(op, "input_dims")[:2]
    kernel_in, kernel_out = i64s(op, "kernel_dims")[:2]
    batch_out, feature_out = i64s(op, "output_dims")[:2]
    features, batches = i64(op, "feature_groups"), i64(op, "batch_groups")
    groups = features * batches  # at most one of them is not 1
    input_, kernel, result = (shape(value) for value in (*op.operands, op.results[0]))
    group_b, column_b = _split(b[kernel_out], groups, kernel[kernel_out])
    split_c = regroup_digits([c[feature_out]], [groups, result[feature_out] // groups])
    if split_c is None:
        return None
    group_c, column_c = split_c
    group_a: Digits = ()
    row_a, depth_a = a[batch_in], a[feature_in]
    if features > 1:
        group_a, depth_a = _split(a[feature_in], features, input_[feature_in])
    elif batches > 1:
        group_a, row_a = _split(a[batch_in], batches, input_[batch_in])
    outer = [shared_axes("abc", group_a, group_b, group_c)]
    m = [shared_axes("ac", row_a, c[batch_out])]
    n = [shared_axes("bc", column_b, column_c)]
    k = [shared_axes("ab", depth_a, b[kernel_in])]
    for number, (window, phases) in enumerate(windows, 1):
        step = a[window.input][0][1] if a[window.input] else 0
        if phases:
            stride = b[window.kernel][0][1] if b[window.kernel] else 0
            split = regroup_digits([c[window.output]], [phases.pixels, phases.dilation])
            if split is None or len(split[1]) > 1:
                return None
            m.append(shared_axes("ac", ((phases.pixels, step),), split[0]))
            place = split[1][0][1]
            outer.append([Axis(phases.dilation, b=-stride, c=place, tag=number)])
            k.append([Axis(phases.taps, step, stride * phases.dilation, tag=number, long_from=phases.long_from)])
            continue
        pixels, taps = result[window.output], kernel[window.kernel]
        m.append(shared_axes("ac", ((pixels, step * window.stride),), c[window.output]))
        k.append(shared_axes("ab", ((taps, step * window.dilation),), b[window.kernel]))
    return Axes.of(outer, m, n, k)
