"""Depthwise convolutions whose padded input is large, slab by slab: an iteration copies the lines that some lines of
the result read, with the padding around them, to scratch of its own, and computes these lines. The copy stays in the
cache, and there is never one of the whole input.

    for image, slab:                      the phase's range
        copy lines of the input, padded
        for line of the slab, ...:        the contraction's other axes (depthwise.py)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stablehlo_py.backends.common.contraction import UNIT, Axis, Contraction, Operand
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.padding import PaddedCopy, PaddedDimension
from stablehlo_py.backends.cpu.kernels.product import KernelBuilder
from stablehlo_py.codegen.builder import Function, Index
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.window import SpatialWindow

WHOLE = 1 / 2  # of the L2 cache: a copy of the whole input that is no larger is as good
SLAB = 1 / 4  # of the L2 cache: the rest is for weights and results
REPEATED = 1.3  # lines that slabs copy, of those that there are


@dataclass(frozen=True)
class Slabs:
    """A slab is `lines` lines of the padded input, `step` lines from one to the next; `room` has place for one."""

    copy: PaddedCopy
    room: Operand
    lines: int
    step: int

    def emit(self, f: Function, image: Index, slab: Index) -> None:
        """Copy one."""
        first, base = f.imul(slab, self.step), self.room.at(f)

        def line(number: Index) -> None:
            to = f.gep(base, f.imul(number, self.copy.row), self.copy.arithmetic.accumulator)
            self.copy.place(f, [image, f.iadd(first, number)], to)

        f.loop(0, self.lines, 1, line)


def cut_into_slabs(
    builder: KernelBuilder,
    contraction: Contraction,
    arithmetic: Arithmetic,
    placed: Operand,
    source: Operand,
    dimensions: Sequence[PaddedDimension],
    window: SpatialWindow,
) -> tuple[Contraction, Slabs] | None:
    """A contraction over a padded copy of image, line, pixel, feature, with images and slabs as its two first axes. It
    reads the copy of `source` at `placed`; `window` is that along lines. None where one copy of all is as good, or
    lines are no axis of their own."""
    images, lines, pixels, features = dimensions
    row, size = int(pixels.padded * features.padded), arithmetic.accumulator.bits // 8
    ours, other = ("a", "b") if contraction.a == placed else ("b", "a")

    def axis_of(step: IntLike, axes: Sequence[Axis]) -> Axis | None:
        return next((axis for axis in axes if getattr(axis, ours) == step and not getattr(axis, other)), None)

    line = axis_of(row * window.stride, (*contraction.outer, contraction.m))
    image = axis_of(row * lines.padded, contraction.outer)
    if line is None or line is image or (image or UNIT).size != images.size:
        return None
    cache = builder.target.l2
    if int(images.size * lines.padded * row) * size <= WHOLE * cache:
        return None
    reach = (window.width - 1) * window.dilation + 1

    def needed(count: int) -> int:
        return (count - 1) * int(window.stride) + int(reach)

    fitting = [n for n in range(1, int(line.size)) if line.size % n == 0 and needed(n) * row * size <= SLAB * cache]
    count = max(fitting, default=0)
    step = count * int(window.stride)
    if not count or needed(count) > REPEATED * step:
        return None
    slab, short = Axis(line.size // count, c=line.c * count), replace(line, size=count)
    others = [short if axis is line else axis for axis in contraction.outer if axis is not image]
    m = short if contraction.m is line else contraction.m
    room = builder.private.take(needed(count) * row, arithmetic.element)
    cut = replace(contraction, outer=(replace(image or UNIT, a=0, b=0), slab, *others), m=m)
    cut = replace(cut, a=room) if ours == "a" else replace(cut, b=room)
    return cut, Slabs(PaddedCopy(arithmetic, source, dimensions, builder.target), room, needed(count), step)
