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
from functools import cached_property, partial
from typing import TypeAlias

from stablehlo_py.backends.common.contraction import Axes, Dimensions, Operand, Source, scaled
from stablehlo_py.backends.common.convolution import OutputPhases, convolution_axes
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels import loop
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.kernels.padding import PaddedDimension, emit_padded_copy
from stablehlo_py.backends.cpu.kernels.pairs import pairs_pay, use_pairs
from stablehlo_py.backends.cpu.kernels.rooted import AxesOf, Frame, NoLoops, Rooted, emit_rooted
from stablehlo_py.backends.cpu.kernels.slabs import cut_into_slabs
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.types import ELEMENTS
from stablehlo_py.dialect.index_map import Digits, digits_of
from stablehlo_py.dialect.symint import GuardError, IntLike, is_known, size_hint
from stablehlo_py.dialect.types import i64, i64s, shape
from stablehlo_py.dialect.window import SpatialWindow, spatial_windows
from stablehlo_py.mlir import ir

Edges: TypeAlias = dict[int, tuple[IntLike, IntLike, IntLike]]


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """The kernel of a `convolution` fusion: the padded copy where one is needed, packing, compute. Sizes that a call
    brings along may ask for a decision that it alone could make: then element by element."""
    try:
        return _emit(fusion, target)
    except GuardError:
        return loop.emit(fusion, target)


def _emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    try:
        return emit_rooted(fusion, target, "hlo.convolution", partial(_phases, may_phase=True))
    except NoLoops:
        # The only axis that could be lanes is one that phases take apart (one image, one feature).
        return emit_rooted(fusion, target, "hlo.convolution", partial(_phases, may_phase=False))


def _phases(rooted: Rooted, may_phase: bool) -> None:
    op = rooted.root
    windows = spatial_windows(op)
    a, b = rooted.source(op.operands[0]), rooted.source(op.operands[1])
    if any(len(digits) > 1 for digits in a.dimensions):
        a = rooted.materialized(op.operands[0])
    if any(len(digits) > 1 for digits in b.dimensions):
        b = rooted.materialized(op.operands[1])
    sizes, kernel, result = (list(shape(value)) for value in (*op.operands, op.results[0]))
    made = {window: OutputPhases.of(window, result[window.output]) for window in windows if may_phase}
    phases = {window: phase for window, phase in made.items() if phase is not None}
    edges: Edges = {}
    kernel_edges: Edges = {}
    frame: list[IntLike] = list(result)
    origin: list[IntLike] = [0] * len(result)
    for window in windows:
        if window in phases:
            phase = phases[window]
            edges[window.input] = phase.low, phase.high, 1
            frame[window.output], origin[window.output] = phase.pixels * phase.dilation, phase.shift
            more = phase.padded_kernel - kernel[window.kernel]
            if more:
                kernel_edges[window.kernel] = (more, 0, 1) if window.reversed else (0, more, 1)
        elif window.copies:
            edges[window.input] = window.low, window.high, window.base_dilation
    numbered = [(window, phases.get(window)) for window in windows]
    whole = Frame(tuple(frame), tuple(origin))

    def axes(left: Dimensions, right: Dimensions, out: Dimensions) -> Axes | None:
        return convolution_axes(op, numbered, left, right, out)

    copies = [_Copy(a, sizes, edges, "pad"), _Copy(b, kernel, kernel_edges, "taps")]
    left, right = (copy.as_it_is() for copy in copies)
    if rooted.has_unit(left, _turned(right, windows, phases), axes, whole):
        left, right = (copy.emit(rooted, as_it_is=True) for copy in copies)
    else:
        if _pairs(op, rooted):
            features = i64s(op, "input_dims")[1], i64s(op, "kernel_dims")[0]
            a, b = use_pairs(rooted, a, b, features, None)
            sizes[features[0]] = kernel[features[1]] = -(-kernel[features[1]] // rooted.arithmetic.packed)
            copies = [replace(copies[0], source=a), replace(copies[1], source=b)]
        right = copies[1].emit(rooted, as_it_is=False)
        if _emit_in_slabs(rooted, copies[0], _turned(right, windows, phases), windows, axes, whole):
            return
        left = copies[0].emit(rooted, as_it_is=False)
    rooted.emit(left, _turned(right, windows, phases), axes, whole)


def _emit_in_slabs(
    rooted: Rooted, copy: _Copy, right: Source, windows: Sequence[SpatialWindow], axes: AxesOf, frame: Frame
) -> bool:
    """Add the phase of a depthwise convolution whose padded input is copied slab by slab, if that is better than one
    copy of all."""
    op, arithmetic = rooted.root, rooted.arithmetic
    if i64(op, "feature_groups") == 1 or not copy.edges or arithmetic.complex or len(copy.order) != 4:
        return False
    image, line, _, feature = copy.order
    if (image, feature) != i64s(op, "input_dims")[:2] or not is_known(*copy.sizes, *shape(op.results[0])):
        return False
    lines = next(window for window in windows if window.input == line)
    if lines.base_dilation != 1:
        return False
    placed = copy.placed(arithmetic)
    contraction, layout = rooted.chosen(placed, right, axes, frame)
    if not (contraction.n.a and contraction.n.b):
        return False
    places = placed.operand, copy.source.operand
    cut = cut_into_slabs(rooted.builder, contraction, arithmetic, *places, copy.dimensions, lines)
    if cut is None:
        return False
    rooted.emit_chosen(cut[0], layout, frame, cut[1])
    return True


def _pairs(op: ir.OpView, rooted: Rooted) -> bool:
    """Whether pairs of neighbouring features pay."""
    if i64(op, "feature_groups") * i64(op, "batch_groups") != 1:
        return False  # a pair may not reach over the edge of a group
    kernel_in, kernel_out = i64s(op, "kernel_dims")[:2]
    kernel, result = shape(op.operands[1]), shape(op.results[0])
    columns = kernel[kernel_out]
    rows, depth = math.prod(result) // columns, math.prod(kernel) // columns
    pay = pairs_pay(op.operands, rooted.arithmetic, rows, columns, depth)
    return pay and size_hint(kernel[kernel_in]) > 1


@dataclass(frozen=True)
class _Copy:
    """An operand that is copied to scratch, where it has `edges` (low, high, dilation by dimension), with these written
    out; the copy keeps the order in which memory holds the dimensions."""

    source: Source
    sizes: Sequence[IntLike]
    edges: Edges
    name: str

    @cached_property
    def order(self) -> list[int]:
        """Its dimensions, from slow to fast."""
        strides = [digits[0][1] if digits else 0 for digits in self.source.dimensions]
        # Dimensions of size one go outside: they step nowhere.
        steps = [
            (self.sizes[d] == 1 and d not in self.edges, abs(size_hint(stride))) for d, stride in enumerate(strides)
        ]
        return sorted(range(len(self.sizes)), key=steps.__getitem__, reverse=True)

    @cached_property
    def dimensions(self) -> list[PaddedDimension]:
        """In that order."""
        strides = [digits[0][1] if digits else 0 for digits in self.source.dimensions]
        return [PaddedDimension(self.sizes[d], strides[d], *self.edges.get(d, (0, 0, 1))) for d in self.order]

    def _at(self, room: Operand, parts: int) -> Source:
        dense = scaled(digits_of([dimension.padded for dimension in self.dimensions]), parts)
        back: list[Digits] = [()] * len(self.sizes)
        for digits, d in zip(dense, self.order, strict=True):
            back[d] = digits
        return Source(room, tuple(back))

    def as_it_is(self) -> Source:
        """The copy with elements as they are in memory, somewhere: to decide by."""
        if not self.edges:
            return self.source
        return self._at(Operand("shared", 0, self.source.operand.element), 1)

    def placed(self, arithmetic: Arithmetic) -> Source:
        """The copy with elements of the accumulator, somewhere: to decide by."""
        return self._at(Operand("shared", 0, arithmetic.element), arithmetic.parts)

    def emit(self, rooted: Rooted, *, as_it_is: bool) -> Source:
        """Add the phase, if it has edges; elements become the accumulator's if they are not to stay `as_it_is`."""
        if not self.edges:
            return self.source
        arithmetic, operand = rooted.arithmetic, self.source.operand
        stored = arithmetic.element
        if as_it_is:
            stored, bits = operand.element, ELEMENTS[f"ui{operand.element.storage.bits}"]
            arithmetic, operand = Arithmetic(bits), replace(operand, element=bits)
        room = rooted.builder.scratch.take(math.prod(d.padded for d in self.dimensions) * arithmetic.parts, stored)
        to = replace(room, element=arithmetic.element)
        emit_padded_copy(rooted.builder, arithmetic, operand, self.dimensions, to, self.name)
        return self._at(room, arithmetic.parts)


def _turned(b: Source, windows: Sequence[SpatialWindow], phases: Mapping[SpatialWindow, OutputPhases]) -> Source:
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
