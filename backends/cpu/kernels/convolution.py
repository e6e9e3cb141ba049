"""Fusions of kind `convolution`: one `hlo.convolution`, an elementwise epilogue on its result.

A convolution over an input that has its padding written out is an affine contraction (contraction.py): output pixels
and kernel positions step through the same memory. So the plan is: a phase that copies the input, with zeros around it
(and between its elements for a dilated input), then the phases of a contraction, whose register tile holds
neighbouring output pixels times output channels. Feature and batch groups are batch axes; depthwise convolutions end
up with lanes along their channels. StableHLO spec, section `convolution`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from stablehlo_py.backends.cpu.kernels import loop
from stablehlo_py.backends.cpu.kernels.base import Fusion, Kernel
from stablehlo_py.backends.cpu.kernels.contraction import Axis
from stablehlo_py.backends.cpu.kernels.padding import PaddedDimension, emit_padded_copy
from stablehlo_py.backends.cpu.kernels.pairs import pairs_pay, use_pairs
from stablehlo_py.backends.cpu.kernels.rooted import (
    Axes,
    Dimensions,
    Frame,
    NoLoops,
    Rooted,
    Source,
    emit_rooted,
    scaled,
    shared_axes,
)
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.dialect.index_map import Digits, digits_of, regroup_digits
from stablehlo_py.dialect.size import UndecidedSize, typical_order
from stablehlo_py.dialect.types import i64, i64s, shape
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """The kernel of a `convolution` fusion: the padded copy where one is needed, packing, compute. Sizes that a call
    brings along may ask for a decision that it alone could make: then element by element."""
    if fusion.sizes is not None:
        try:
            with typical_order():  # decisions here are about cost
                return _emit(fusion, target)
        except UndecidedSize:
            return loop.emit(fusion, target)
    return _emit(fusion, target)


def _emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    try:
        return emit_rooted(fusion, target, "hlo.convolution", partial(_phases, may_phase=True))
    except NoLoops:
        # The only axis that could be lanes is one that phases take apart (one image, one feature).
        return emit_rooted(fusion, target, "hlo.convolution", partial(_phases, may_phase=False))


@dataclass(frozen=True)
class Window:
    """One spatial dimension: dimensions of input, kernel and output, and how the window moves over the (padded)
    input."""

    input: int
    kernel: int
    output: int
    stride: int
    low: int
    high: int
    input_dilation: int
    kernel_dilation: int
    reversed: bool

    @property
    def phased(self) -> bool:
        """The dilated input is not written out: see `Phases`."""
        return self.input_dilation != 1 and self.stride == 1 and self.kernel_dilation == 1

    @property
    def copies(self) -> bool:
        """The input must be copied for this dimension."""
        return bool(self.low or self.high) or self.input_dilation != 1


@dataclass(frozen=True)
class Phases:
    """A transposed convolution along one dimension, without multiplying the zeros between input elements.

    With dilation d, output pixel d * q + p meets input elements only at kernel places d - 1 - p, 2 d - 1 - p, ...
    (after the output was shifted by `shift` to make it so): place j of them meets input element q + j - `low`. So p
    becomes an axis of the result, and the kernel is read in steps of d.
    """

    dilation: int
    shift: int
    pixels: int  # places of q
    taps: int  # places of j
    low: int
    high: int
    padded_kernel: int
    long_from: int  # phases before it have one tap less

    @staticmethod
    def of(window: Window, size: int, kernel: int, output: int) -> Phases:
        """For an input of `size` elements."""
        d = window.input_dilation
        shift = (d - 1 - window.low) % d
        pixels, taps = -(-(output + shift) // d), -(-kernel // d)
        low = (window.low + shift - d + 1) // d
        high = pixels + taps - 1 - low - size
        return Phases(d, shift, pixels, taps, low, high, taps * d, -kernel % d)


def windows_of(op: ir.OpView) -> list[Window]:
    """The spatial dimensions of an `hlo.convolution`."""
    padding, reversal = i64s(op, "padding"), i64s(op, "reversal")
    columns = zip(
        i64s(op, "input_dims")[2:],
        i64s(op, "kernel_dims")[2:],
        i64s(op, "output_dims")[2:],
        i64s(op, "strides"),
        padding[::2],
        padding[1::2],
        i64s(op, "lhs_dilation"),
        i64s(op, "rhs_dilation"),
        map(bool, reversal),
        strict=True,
    )
    return [Window(*column) for column in columns]


def _phases(rooted: Rooted, may_phase: bool) -> None:
    op = rooted.root
    windows = windows_of(op)
    a, b = rooted.source(op.operands[0]), rooted.source(op.operands[1])
    if any(len(digits) > 1 for digits in a.dimensions):
        a = rooted.materialized(op.operands[0])
    if any(len(digits) > 1 for digits in b.dimensions):
        b = rooted.materialized(op.operands[1])
    sizes, kernel, result = (list(shape(value)) for value in (*op.operands, op.results[0]))
    if _pairs(op, rooted):
        features = i64s(op, "input_dims")[1], i64s(op, "kernel_dims")[0]
        a, b = use_pairs(rooted, a, b, features)
        sizes[features[0]] = kernel[features[1]] = -(-kernel[features[1]] // 2)
    phases = {
        window: Phases.of(window, sizes[window.input], kernel[window.kernel], result[window.output])
        for window in windows
        if window.phased and may_phase
    }
    edges: dict[int, tuple[int, int, int]] = {}
    kernel_edges: dict[int, tuple[int, int, int]] = {}
    frame, origin = list(result), [0] * len(result)
    for window in windows:
        if window in phases:
            phase = phases[window]
            edges[window.input] = phase.low, phase.high, 1
            frame[window.output], origin[window.output] = phase.pixels * phase.dilation, phase.shift
            more = phase.padded_kernel - kernel[window.kernel]
            if more:
                kernel_edges[window.kernel] = (more, 0, 1) if window.reversed else (0, more, 1)
        elif window.copies:
            edges[window.input] = window.low, window.high, window.input_dilation
    if edges:
        a = _padded(rooted, a, sizes, edges, "pad")
    if kernel_edges:
        b = _padded(rooted, b, kernel, kernel_edges, "taps")
    b = _turned(b, windows, phases)
    numbered = [(window, phases.get(window)) for window in windows]
    rooted.emit(
        a, b, lambda left, right, out: _axes(op, numbered, left, right, out), Frame(tuple(frame), tuple(origin))
    )


def _pairs(op: ir.OpView, rooted: Rooted) -> bool:
    """Whether pairs of neighbouring features pay."""
    if i64(op, "feature_groups") * i64(op, "batch_groups") != 1:
        return False  # a pair may not reach over the edge of a group
    kernel_in, kernel_out = i64s(op, "kernel_dims")[:2]
    kernel, result = shape(op.operands[1]), shape(op.results[0])
    columns = kernel[kernel_out]
    rows, depth = math.prod(result) // columns, math.prod(kernel) // columns
    return kernel[kernel_in] > 1 and pairs_pay(op.operands, rooted.arithmetic, rows, columns, depth)


def _padded(
    rooted: Rooted, source: Source, sizes: Sequence[int], edges: Mapping[int, tuple[int, int, int]], name: str
) -> Source:
    """An operand copied to scratch with its `edges` (low, high, dilation by dimension) written out; the copy keeps the
    order in which memory holds the dimensions."""
    strides = [digits[0][1] if digits else 0 for digits in source.dimensions]
    # Dimensions of size one go outside: they step nowhere.
    order = sorted(range(len(sizes)), key=lambda d: (sizes[d] == 1 and d not in edges, abs(strides[d])), reverse=True)
    dimensions = [PaddedDimension(sizes[d], strides[d], *edges.get(d, (0, 0, 1))) for d in order]
    parts = rooted.arithmetic.parts
    room = rooted.builder.scratch.take(math.prod(d.padded for d in dimensions) * parts, rooted.arithmetic.element)
    emit_padded_copy(rooted.builder, rooted.arithmetic, source.operand, dimensions, room, name)
    dense = scaled(digits_of([dimension.padded for dimension in dimensions]), parts)
    back: list[Digits] = [()] * len(sizes)
    for digits, d in zip(dense, order, strict=True):
        back[d] = digits
    return Source(room, tuple(back))


def _turned(b: Source, windows: Sequence[Window], phases: Mapping[Window, Phases]) -> Source:
    """The kernel read backwards along reversed dimensions, and from place d - 1 on where phases step through it."""
    offset, dimensions = b.operand.offset, list(b.dimensions)
    for window in windows:
        if not dimensions[window.kernel]:
            continue
        ((size, stride),) = dimensions[window.kernel]
        if window.reversed:
            offset += (size - 1) * stride
            stride = -stride
            dimensions[window.kernel] = ((size, stride),)
        if window in phases:
            offset += (phases[window].dilation - 1) * stride
    return Source(replace(b.operand, offset=offset), tuple(dimensions))


def _split(digits: Digits, groups: int, size: int) -> tuple[Digits, Digits]:
    """A dimension as (group, place in the group)."""
    split = regroup_digits([digits], [groups, size // groups])
    if split is None:
        raise InternalError("the groups of a convolution do not divide its features", op="hlo.convolution")
    return split[0], split[1]


def _axes(
    op: ir.OpView, windows: Sequence[tuple[Window, Phases | None]], a: Dimensions, b: Dimensions, c: Dimensions
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
        k.append(shared_axes("ab", ((taps, step * window.kernel_dilation),), b[window.kernel]))
    return Axes.of(outer, m, n, k)
