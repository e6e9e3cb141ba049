"""Kernel templates of the GPUs: `kernels/<kind>.py`, or the file that `KINDS` says, generates the code of fusions of
that kind."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, pointers_of
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.mlir import ir

#: Kinds that have a template of their own; what others compute, each thread does for some iterations (serial.py).
KINDS = {
    kind: kind
    for kind in """attention column dot fft in_place_update loop reduce_general reduce_window row
    scatter select_and_scatter sort top_k""".split()
} | {
    "convolution": "dot",
    "reduce_window_general": "reduce_window",  # several operands, or a combiner of the user's own
}


def emit_kernel(function: ir.OpView, target: GpuTarget) -> GpuKernel:
    """Generate the kernel of a fusion function.

    Raises:
        UnsupportedError: there is no template for its kind.
    """
    fusion = Fusion.read(function)
    if fusion.kind in KINDS:
        kernel = import_module(f"{__name__}.{KINDS[fusion.kind]}").emit(fusion, target)
    else:
        from stablehlo_py.backends.gpu.kernels import serial

        kernel = serial.emit(function, target)
    return replace(kernel, pointers=len(pointers_of(fusion)))
