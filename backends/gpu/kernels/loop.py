"""Elementwise and shape work: a thread computes an element of each output, and goes on by as many as there are threads.

Neighbours read and write neighbouring elements. The number of an element is split into indices only where an operand
needs them."""

from __future__ import annotations

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, global_number, kernel_function
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, Variable
from stablehlo_py.dialect.types import num_elements


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel of a `loop` fusion."""
    count = int(num_elements(fusion.outputs[0]))
    if count == 0:
        return GpuKernel((), {})
    blocks = min(-(-count // target.block), target.resident // target.block)
    f = kernel_function(fusion, target, fusion.name, blocks, target.block)
    e = Elemental(f, fusion, target, 1)

    def element(number: Value) -> None:
        e.write_outputs(fusion.outputs, ((count, Affine(0, ((Variable(number, 0, count - 1), 1),))),))

    f.loop(global_number(f), count, blocks * target.block, element)
    f.ret()
    return GpuKernel.of(f)
