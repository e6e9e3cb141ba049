"""What each kernel of a program accesses, as far as the compiler knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stablehlo_py.backends.common.fusion import Fusion, fusions
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, Launch
from stablehlo_py.dialect.types import tensor_bytes
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.accesses import Accesses


def touched(
    module: ir.Module, kernels: Mapping[str, GpuKernel], symbols: Sequence[str], parameters: int
) -> tuple[Accesses | None, ...]:
    """Of the kernels of these symbols; `kernels` are those of fusions by their names, and others, `parameters` are what
    a launch takes at most. None: it is not known, because the kernel is no fusion's (a loop finds what it accesses by
    itself), takes its operands from a table, or does not access the same wherever it is launched."""
    each = {function.attributes["sym_name"].value: function for function in fusions(module)}
    found: dict[str, Accesses | None] = {}
    for name, kernel in kernels.items():
        is_known = name in each and kernel.pointers <= parameters
        fusion = Fusion.read(each[name]) if is_known else None
        for launch in kernel.launches:
            accesses = _of_launch(fusion, kernel, launch) if fusion else None
            found[launch.symbol] = accesses if found.get(launch.symbol, accesses) == accesses else None
    return tuple(found[symbol] for symbol in symbols)


def _of_launch(fusion: Fusion, kernel: GpuKernel, launch: Launch) -> Accesses:
    """All launches of a fusion have its operands: inputs, results, which may lie over inputs, and scratch memory."""
    inputs, outputs = ([int(tensor_bytes(value)) for value in values] for values in (fusion.inputs, fusion.outputs))
    module = kernel.module_of(launch)
    unused = module.unused_pointers if module else 0
    written = [*outputs, kernel.scratch_bytes, *[0] * unused]
    return Accesses((*inputs, *[0] * len(written)), (*[0] * len(inputs), *written))
