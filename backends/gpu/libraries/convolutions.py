"""Which convolutions of a program a library may compute: plain ones, and those that are gradients of plain ones.

A gradient is a convolution too. That of the images has holes between the elements of its operand, as many as the
convolution has strides, and a filter that is reversed in space. That of the filter has images and features exchanged,
and a window as large as the result that it is the gradient of. Libraries have algorithms of their own for both.

Libraries pad both ends of a dimension alike. Where a model does not, they see images that have their padding with them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.views import output_digits
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.index_map import digits_of, merge_digits, row_major_strides
from stablehlo_py.dialect.types import i64, i64s, static_shape, user_location
from stablehlo_py.dialect.window import SpatialWindow, dilated, spatial_windows
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.mlir import ir
from stablehlo_py.options import CUDNN
from stablehlo_py.runtime.library_calls import (
    CONVOLVED,
    FILTER,
    IMAGES,
    IN_WORKSPACE,
    RESULT,
    LibraryConvolution,
    Place,
    StoredTensor,
)

# Fewer products take a GPU less time than a launch does, by whatever kernel, and a call of the library may be several
# launches: 4 Mi of them are 3 us at a twentieth of 60 TFLOP/s.
LEAST_PRODUCTS = 1 << 22
MOST_ELEMENTS = 1 << 31  # of a tensor, which libraries count by 32 bits
TYPES = frozenset(("f64", "f32", "f16", "bf16"))
ALIGNMENT = 256  # bytes, of what lies in the workspace
# The library may bring all that it reads and writes into another order.
_LEAST_WORKSPACE, _MOST_WORKSPACE = 8 << 20, 256 << 20


@dataclass(frozen=True)
class Space:
    """A spatial dimension, as a library has it: pixels of the images, taps of the filter, pixels of the result;
    `front`, `back`: how many of the images' pixels are padding that they have with them."""

    images: int
    filter: int
    result: int
    stride: int
    dilation: int
    padding: int
    front: int = 0
    back: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether the result is as large as with that padding at both ends: what a model pads at the other end, no
        pixel of the result looks at."""
        room = self.images + 2 * self.padding - int(dilated(self.filter, self.dilation))
        return self.padding >= 0 <= room and room // self.stride + 1 == self.result

    @property
    def padded(self) -> Space:
        """The same with images that have the padding with them, where it is not plain."""
        if self.is_plain or self.padding < 0:
            return self
        seen = (self.result - 1) * self.stride + int(dilated(self.filter, self.dilation))
        front, back = self.padding, max(0, seen - self.padding - self.images)
        return replace(self, images=front + self.images + back, padding=0, front=front, back=back)


class Convolution:
    """An `hlo.convolution` as a library has it.

    Attributes:
        op: of `images`, `filter` and `result`, two are its operands, and `computes` says which is its result.
        groups: of features. space: spatial dimensions.
    """

    def __init__(self, op: ir.OpView) -> None:
        self.op = op
        self.groups = i64(op, "feature_groups")
        self._windows = spatial_windows(op)
        self._pixels = [int(static_shape(op.results[0])[window.output]) for window in self._windows]
        self.computes = self._computed()
        self.space = [self._space(*each).padded for each in zip(self._windows, self._pixels, strict=True)]

    def _computed(self) -> str:
        """Both operands of a gradient of the filter have images for features: so these come first in memory, and the
        window, another result, is wider than its own. Without strides, a gradient of images is a plain convolution
        too, and called a gradient where that leaves the filter as it lies."""
        windows, wide = self._windows, [window for window in self._windows if window.width != 1]
        if any(window.base_dilation != 1 for window in windows):
            return IMAGES
        is_wide = math.prod(int(window.width) for window in windows) > math.prod(self._pixels)
        if is_wide and i64s(self.op, "input_dims")[1] == 0:
            return FILTER
        reversed_ = wide and all(window.reversed for window in wide)
        return IMAGES if reversed_ and all(window.stride == 1 for window in windows) else RESULT

    def _space(self, window: SpatialWindow, pixels: int) -> Space:
        size, width, stride, base, dilation, low = map(
            int, (window.size, window.width, window.stride, window.base_dilation, window.dilation, window.low)
        )
        if self.computes == RESULT:
            return Space(size, width, pixels, stride, dilation, low)
        if self.computes == FILTER:
            return Space(size, pixels, width, dilation, stride, low)
        return Space(pixels, width, size, base, dilation, (width - 1) * dilation - low)

    @property
    def is_plain(self) -> bool:
        """Whether libraries have it."""
        exact = self.computes != IMAGES or all(window.stride == 1 for window in self._windows)
        is_one = self.computes != FILTER or (self.groups == 1 and not any(self.turned))
        return exact and is_one and i64(self.op, "batch_groups") == 1 and all(each.is_plain for each in self.space)

    @property
    def turned(self) -> list[bool]:
        """Along which spatial dimensions the filter that the library wants is that of the op, reversed."""
        straight = self.computes == IMAGES
        return [window.width != 1 and window.reversed != straight for window in self._windows]

    @cached_property
    def dimensions(self) -> dict[str, tuple[ir.Value, list[int]]]:
        """Images, filter and result, with their dimensions in the order of libraries: of the filter features of the
        result, and of the images; of others images, features; then those of space."""
        (a, b), (c,) = self.op.operands, self.op.results
        names = (("input_dims", a), ("kernel_dims", b), ("output_dims", c))
        (x, y, *p), (i, o, *r), (n, k, *q) = (list(i64s(self.op, name)) for name, _ in names)
        if self.computes == RESULT:
            return {IMAGES: (a, [x, y, *p]), FILTER: (b, [o, i, *r]), RESULT: (c, [n, k, *q])}
        if self.computes == IMAGES:
            return {RESULT: (a, [x, y, *p]), FILTER: (b, [i, o, *r]), IMAGES: (c, [n, k, *q])}
        return {IMAGES: (a, [y, x, *p]), RESULT: (b, [i, o, *r]), FILTER: (c, [k, n, *q])}

    @property
    def filter_sizes(self) -> list[int]:
        """Of the filter that the library wants."""
        value, dimensions = self.dimensions[FILTER]
        sizes = [int(static_shape(value)[dimension]) for dimension in dimensions]
        if self.computes == IMAGES:  # it has the features of a group of the result, and of all images
            sizes[:2] = sizes[0] * self.groups, sizes[1] // self.groups
        return sizes

    @property
    def channels_last(self) -> bool:
        """Whether features of images and results are neighbours in memory."""
        return all(self.strides(name)[1] == 1 for name in (IMAGES, RESULT))

    @property
    def filter_order(self) -> list[int]:
        """Its dimensions, the outermost first."""
        first, second, *space = range(len(self.filter_sizes))
        return [first, *space, second] if self.channels_last else [first, second, *space]

    @property
    def is_in_order(self) -> bool:
        """Whether the filter of the op lies as the library wants it."""
        value, dimensions = self.dimensions[FILTER]
        grouped = self.computes == IMAGES and self.groups > 1
        places = [dimensions[each] for each in self.filter_order if static_shape(value)[dimensions[each]] != 1]
        return places == sorted(places) and not grouped and not any(self.turned)

    @property
    def is_padded(self) -> bool:
        """Whether the images have padding with them."""
        return any(each.front or each.back for each in self.space)

    def shape(self, name: str) -> list[int]:
        """Of the images, the filter or the result: as its value has it, the images with their padding."""
        value, dimensions = self.dimensions[name]
        sizes = [int(size) for size in static_shape(value)]
        if name == IMAGES:
            for dimension, each in zip(dimensions[2:], self.space, strict=True):
                sizes[dimension] = each.images
        return sizes

    def strides(self, name: str) -> list[int]:
        """Of images or results, in their order."""
        strides = row_major_strides(self.shape(name))
        return [strides[dimension] for dimension in self.dimensions[name][1]]

    def stored(self, name: str, place: Place) -> StoredTensor:
        """Images or results there; lines are images of one row."""
        sizes, strides = [self.shape(name)[dimension] for dimension in self.dimensions[name][1]], self.strides(name)
        if len(self.space) == 1:
            sizes.insert(2, 1)
            strides.insert(2, sizes[-1] * strides[-1])
        return StoredTensor(tuple(sizes), tuple(strides), place)

    @property
    def products(self) -> int:
        """Of two numbers each."""
        value, _ = self.dimensions[RESULT]
        return math.prod(map(int, static_shape(value))) * math.prod(self.filter_sizes[1:])


def library_convolution(fusion: Fusion, target: GpuTarget) -> LibraryConvolution | None:
    """What a `convolution` fusion is to a library; None: nothing."""
    op = fusion.op("hlo.convolution")
    (a, b), c = op.operands, op.results[0]
    names = {element(value).name for value in (a, b, c)}
    it = Convolution(op)
    counts = {name: math.prod(it.shape(name)) for name in CONVOLVED}
    if len(names) > 1 or not names <= TYPES or not {a, b} <= set(fusion.inputs) or not it.is_plain:
        return None
    if not 1 <= len(it.space) <= 3 or it.products < LEAST_PRODUCTS or max(counts.values()) >= MOST_ELEMENTS:
        return None
    dtype = ELEMENT_TYPES[names.pop()]
    sizes_in_bytes = {name: -(-count * dtype.itemsize // ALIGNMENT) * ALIGNMENT for name, count in counts.items()}
    places, own_bytes = dict[str, Place](), 0
    for name in CONVOLVED:
        value, _ = it.dimensions[name]
        lies = (name != FILTER or it.is_in_order) and (name != IMAGES or not it.is_padded)
        pointer = _pointer(fusion, value) if lies else None
        if pointer is None:
            places[name], own_bytes = Place(IN_WORKSPACE, own_bytes), own_bytes + sizes_in_bytes[name]
        else:
            places[name] = Place(pointer)
    lines = len(it.space) == 1
    unit = [1] * lines
    sizes = it.filter_sizes
    return LibraryConvolution(
        library=CUDNN,
        kernel=fusion.name,
        op=op.operation.name,
        location=user_location(op.location) or "",
        workspace_bytes=own_bytes + min(max(_LEAST_WORKSPACE, sum(sizes_in_bytes.values())), _MOST_WORKSPACE),
        computes=it.computes,
        dtype=dtype,
        tf32=target.tf32 and dtype == ELEMENT_TYPES["f32"],
        images=it.stored(IMAGES, places[IMAGES]),
        result=it.stored(RESULT, places[RESULT]),
        filter=(*sizes[:2], *unit, *sizes[2:]),
        filter_place=places[FILTER],
        channels_last=it.channels_last,
        groups=it.groups,
        strides=(*unit, *(each.stride for each in it.space)),
        padding=(*[0] * lines, *(each.padding for each in it.space)),
        dilation=(*unit, *(each.dilation for each in it.space)),
        own_bytes=own_bytes,
    )


def _pointer(fusion: Fusion, value: ir.Value) -> int | None:
    """Where an operand lies, or the library may leave what it computes: that of an output; None: the workspace has to
    do, as no output has just these elements, or it lies over an input that an epilogue reads."""
    if value in fusion.inputs:
        return fusion.number(value)
    if fusion.aliased:
        return None
    if value in fusion.outputs:
        return len(fusion.inputs) + fusion.outputs.index(value)
    (output, *others), op = fusion.outputs, value.owner
    if others or element(output) != element(value):
        return None
    found = output_digits(fusion.ops, fusion.outputs, op)
    in_place = tuple(map(merge_digits, digits_of(static_shape(value))))
    return len(fusion.inputs) if found == in_place else None
