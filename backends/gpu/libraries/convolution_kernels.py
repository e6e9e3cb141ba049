"""Our own kernels beside a convolution of a library: before it those that bring the filter into the order that the
library wants and write images with their padding, and one behind it, which computes the epilogue."""

from __future__ import annotations

import math
from functools import partial, reduce

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, numbered_kernel
from stablehlo_py.backends.gpu.libraries.convolutions import Convolution
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import I8, Function, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Delinearized, add, affine_of, delinearize, delinearized, digits, scale
from stablehlo_py.codegen.types import Lanes, constant, element, select
from stablehlo_py.dialect.types import num_elements, static_shape
from stablehlo_py.runtime.library_calls import FILTER, IMAGES, IN_WORKSPACE, LibraryConvolution


def operand_kernel(fusion: Fusion, target: GpuTarget, call: LibraryConvolution) -> GpuKernel | None:
    """What writes operands into the workspace; None: they lie as the library wants them."""
    it = Convolution(fusion.op("hlo.convolution"))
    kernels = []
    for name, write in ((FILTER, _filter_written), (IMAGES, _images_written)):
        place = call.places[name]
        if call.computes != name and place.pointer == IN_WORKSPACE:
            kernels.append(write(fusion, target, it, place.offset))
    return GpuKernel.of(*kernels) if kernels else None


def _images_written(fusion: Fusion, target: GpuTarget, it: Convolution, offset: int) -> Function:
    """With their padding, in the order that they have."""
    (value, dimensions), sizes = it.dimensions[IMAGES], it.shape(IMAGES)
    count, of = math.prod(sizes), element(value)

    def one(f: Function, number: Value) -> None:
        e = Elemental(f, fusion, target, 1)
        place = ((count, affine_of(number, count - 1)),)
        indices = delinearize(f, place, sizes, 1)
        conditions = []
        for dimension, space in zip(dimensions[2:], it.space, strict=True):
            if space.front or space.back:
                index = add(f, indices[dimension], -space.front)
                indices[dimension], is_inside, _ = e.clamped(index, static_shape(value)[dimension])
                conditions += [is_inside] if isinstance(is_inside, Value) else []
        found = e.value(value, delinearized(static_shape(value), indices))
        is_pixel = reduce(partial(f.binary, "and"), conditions)
        e.write(of, f.gep(f.scratch, offset, I8), place, select(f, is_pixel, found, constant(f, of, 0.0)))

    return numbered_kernel(fusion, target, f"{fusion.name}_padded", count, one)


def _filter_written(fusion: Fusion, target: GpuTarget, it: Convolution, offset: int) -> Function:
    """In the library's order."""
    value, dimensions = it.dimensions[FILTER]
    sizes, order, turned = it.filter_sizes, it.filter_order, it.turned
    count = math.prod(sizes)

    def one(f: Function, number: Value) -> None:
        e = Elemental(f, fusion, target, 1)
        place = ((count, affine_of(number, count - 1)),)
        in_order = delinearize(f, place, [sizes[each] for each in order], 1)
        first, second, *taps = (in_order[order.index(each)] for each in range(len(sizes)))
        if it.computes == IMAGES and it.groups > 1:  # the features of all images, group by group
            features = (it.groups, sizes[0] // it.groups)
            group, first = delinearize(f, ((sizes[0], first),), features, 1)
            second = add(f, scale(f, group, sizes[1]), second)
        for axis, is_turned in enumerate(turned):
            if is_turned:
                taps[axis] = add(f, scale(f, taps[axis], -1), sizes[2 + axis] - 1)
        indices = dict(zip(dimensions, (first, second, *taps), strict=True))
        found = e.value(value, delinearized(static_shape(value), [indices[each] for each in range(len(sizes))]))
        e.write(element(value), f.gep(f.scratch, offset, I8), place, found)

    return numbered_kernel(fusion, target, f"{fusion.name}_arranged", count, one)


def epilogue_kernel(fusion: Fusion, target: GpuTarget, call: LibraryConvolution) -> GpuKernel | None:
    """What reads the library's result and writes the outputs; None: they are written."""
    it, place = Convolution(fusion.op("hlo.convolution")), call.places[call.computes]
    value, of = it.op.results[0], element(it.op.results[0])
    if list(fusion.outputs) == [value] and place.pointer != IN_WORKSPACE:
        return None
    _, dimensions = it.dimensions[call.computes]
    order = [dimensions[each] for each in it.filter_order] if call.computes == FILTER else sorted(dimensions)
    count = int(num_elements(fusion.outputs[0]))

    def computed(e: Elemental, at: Delinearized) -> Lanes:
        f, sizes = e.f, it.shape(call.computes)
        indices = delinearize(f, at, static_shape(value), 1)
        if call.computes == IMAGES:
            for dimension, space in zip(dimensions[2:], it.space, strict=True):
                indices[dimension] = add(f, indices[dimension], space.front)
        if place.pointer == IN_WORKSPACE:
            base = f.gep(f.scratch, place.offset, I8)
        else:
            base = f.parameters[f"out{place.pointer - len(fusion.inputs)}"]
        return e.read(of, base, digits((sizes[each], indices[each]) for each in order))

    def one(f: Function, number: Value) -> None:
        e = Elemental(f, fusion, target, 1)
        e.bind(value, computed)
        e.write_outputs(fusion.outputs, digits([(count, affine_of(number, count - 1))]))

    return GpuKernel.of(numbered_kernel(fusion, target, f"{fusion.name}_epilogue", count, one))
