"""Elementwise and shape work: a thread computes some neighbouring elements of each output, and goes on by as many as
all threads have computed.

Neighbours read and write neighbouring elements. Where every element reads what lies beside what its neighbour reads, a
thread takes as many as 16 bytes hold: LLVM joins the accesses. The number of an element is split into indices only
where an operand needs them. What is read through a transposition goes through shared memory (transpose.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.iteration import refine
from stablehlo_py.backends.gpu.kernels import transpose
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, numbered_kernel
from stablehlo_py.backends.gpu.kernels.wide import Neighbours, widest
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import Function, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Delinearized, add, affine_of, delinearize, digits, scale
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.types import num_elements

MOST_ELEMENTS, MOST_OPS = 8, 128  # of a thread, before it goes on; ops of all of them


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel of a `loop` fusion."""
    count = int(num_elements(fusion.outputs[0]))
    return GpuKernel.of(written(fusion, target)) if count else GpuKernel((), {})


def written(fusion: Fusion, target: GpuTarget) -> Function:
    """The kernel that writes the outputs of a fusion, which all have as many elements, and some."""
    count = int(num_elements(fusion.outputs[0]))
    tiles = transpose.plan(fusion, target)
    if tiles:
        return tiles.written()
    sizes, wide = _neighbours(fusion, target, count)

    def elements(f: Function, number: Value) -> None:
        e = Elemental(f, fusion, target, 1)
        places = _places(f, number, sizes, wide)
        found = [[e.at(value, place) for value in fusion.outputs] for place in places]
        # All reads come first: an output may lie over an input.
        for position, value in enumerate(fusion.outputs):
            for place, results in zip(places, found, strict=True):
                e.write(element(value), f.parameters[f"out{position}"], place, results[position])

    return numbered_kernel(fusion, target, fusion.name, count // wide, elements)


def _places(f: Function, number: Value, sizes: Sequence[int], wide: int) -> list[Delinearized]:
    """The elements that a thread computes, neighbours along the last loop: the others' indices are computed once."""
    counts = [*sizes[:-1], sizes[-1] // wide]
    trips = math.prod(counts)
    *others, last = delinearize(f, ((trips, affine_of(number, trips - 1)),), counts, 1)
    first = scale(f, last, wide)
    return [digits(zip(sizes, [*others, add(f, first, part)], strict=True)) for part in range(wide)]


def _neighbours(fusion: Fusion, target: GpuTarget, count: int) -> tuple[list[int], int]:
    """Loops over the elements, and how many of them along the last one a thread computes at once: a power of two."""
    split = [int(size) for size in refine(fusion, target, fusion.outputs, [count]).sizes]
    for sizes in (split, [count]):
        wide = min(MOST_ELEMENTS, widest([*fusion.inputs, *fusion.outputs], sizes[-1]))
        while wide > 1 and len(fusion.ops) * wide > MOST_OPS:
            wide //= 2
        if wide <= 1 or count // wide < target.resident // MOST_ELEMENTS:
            continue
        if Neighbours(fusion, target, fusion.outputs, sizes, wide).side_by_side:
            return sizes, wide
    return [count], 1
