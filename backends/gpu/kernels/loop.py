"""Elementwise and shape work: a thread computes some neighbouring elements of each output, and goes on by as many as
all threads have computed.

Neighbours read and write neighbouring elements. Where every element reads what lies beside what its neighbour reads, a
thread takes as many as 16 bytes hold: LLVM joins the accesses. The number of an element is split into indices only
where an operand needs them."""

from __future__ import annotations

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, numbered_kernel
from stablehlo_py.backends.gpu.kernels.wide import Neighbours, widest
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import Function, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, Delinearized, Variable
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.types import num_elements

MOST_ELEMENTS, MOST_OPS = 8, 64  # of a thread, before it goes on; ops of all of them


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel of a `loop` fusion."""
    count = int(num_elements(fusion.outputs[0]))
    return GpuKernel.of(written(fusion, target)) if count else GpuKernel((), {})


def written(fusion: Fusion, target: GpuTarget) -> Function:
    """The kernel that writes the outputs of a fusion, which all have as many elements, and some."""
    count = int(num_elements(fusion.outputs[0]))
    wide = _neighbours(fusion, target, count)

    def elements(f: Function, number: Value) -> None:
        e = Elemental(f, fusion, target, 1)
        places = [_place(number, count, wide, part) for part in range(wide)]
        found = [[e.at(value, place) for value in fusion.outputs] for place in places]
        # All reads come first: an output may lie over an input.
        for position, value in enumerate(fusion.outputs):
            for place, results in zip(places, found, strict=True):
                e.write(element(value), f.parameters[f"out{position}"], place, results[position])

    return numbered_kernel(fusion, target, fusion.name, count // wide, elements)


def _place(number: Value, count: int, wide: int, part: int) -> Delinearized:
    """An element of those that a thread computes."""
    return ((count, Affine(part, ((Variable(number, 0, count // wide - 1), wide),))),)


def _neighbours(fusion: Fusion, target: GpuTarget, count: int) -> int:
    """How many elements a thread computes at once: a power of two that divides their number."""
    wide = min(MOST_ELEMENTS, widest([*fusion.inputs, *fusion.outputs], count))
    while wide > 1 and len(fusion.ops) * wide > MOST_OPS:
        wide //= 2
    if wide <= 1 or count // wide < target.resident // MOST_ELEMENTS:
        return 1
    return wide if Neighbours(fusion, target, fusion.outputs, [count], wide).side_by_side else 1
