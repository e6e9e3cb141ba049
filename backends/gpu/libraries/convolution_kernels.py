"""Our own kernels beside a convolution of a library: one before it, which brings the filter into the order that the
library wants, and one behind it, which computes the epilogue."""

from __future__ import annotations

import math

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, numbered_kernel
from stablehlo_py.backends.gpu.libraries.convolutions import Convolution, is_finished
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import I8, Function, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Delinearized, add, affine_of, delinearize, delinearized, digits, scale
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.types import num_elements, static_shape
from stablehlo_py.runtime.library_calls import FILTER, IMAGES, IN_WORKSPACE, LibraryConvolution


def filter_kernel(fusion: Fusion, target: GpuTarget, call: LibraryConvolution) -> GpuKernel | None:
    """What writes the filter into the workspace; None: it lies as the library wants it."""
    if call.computes == FILTER or call.filter_place.pointer != IN_WORKSPACE:
        return None
    it = Convolution(fusion.op("hlo.convolution"))
    value, dimensions = it.dimensions[FILTER]
    sizes, order, turned = it.filter_sizes, it.filter_order, it.turned
    count = math.prod(sizes)

    def one(f: Function, number: Value) -> None:
        e = Elemental(f, fusion, target, 1)
        place = ((count, affine_of(number, count - 1)),)
        in_order = delinearize(f, place, [sizes[each] for each in order], 1)
        first, second, *taps = (in_order[order.index(each)] for each in range(len(sizes)))
        if call.computes == IMAGES and it.groups > 1:  # the features of all images, group by group
            features = (it.groups, sizes[0] // it.groups)
            group, first = delinearize(f, ((sizes[0], first),), features, 1)
            second = add(f, scale(f, group, sizes[1]), second)
        for axis, is_turned in enumerate(turned):
            if is_turned:
                taps[axis] = add(f, scale(f, taps[axis], -1), sizes[2 + axis] - 1)
        indices = dict(zip(dimensions, (first, second, *taps), strict=True))
        found = e.value(value, delinearized(static_shape(value), [indices[each] for each in range(len(sizes))]))
        e.write(element(value), f.scratch, place, found)

    return GpuKernel.of(numbered_kernel(fusion, target, f"{fusion.name}_arranged", count, one))


def epilogue_kernel(fusion: Fusion, target: GpuTarget, call: LibraryConvolution) -> GpuKernel | None:
    """What reads the library's result and writes the outputs; None: they are written."""
    if is_finished(fusion, call):
        return None
    it = Convolution(fusion.op("hlo.convolution"))
    value, of = it.op.results[0], element(it.op.results[0])
    _, dimensions = it.dimensions[call.computes]
    order = [dimensions[each] for each in it.filter_order] if call.computes == FILTER else sorted(dimensions)
    place = {FILTER: call.filter_place, IMAGES: call.images.place}.get(call.computes, call.result.place)
    count = int(num_elements(fusion.outputs[0]))

    def computed(e: Elemental, at: Delinearized) -> Lanes:
        f, sizes = e.f, static_shape(value)
        indices = delinearize(f, at, sizes, 1)
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
