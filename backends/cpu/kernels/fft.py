"""Fourier transforms (fourier_axes.py), real ones among them (spectrum.py). Spec: section fft."""

from __future__ import annotations

import math

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels import spectrum
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.kernels.fourier import Array
from stablehlo_py.backends.cpu.kernels.fourier_axes import Transforms
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I8
from stablehlo_py.dialect.symint import size_hint
from stablehlo_py.dialect.types import i64s, num_elements, shape, tensor_bytes, text


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """The phases of `hlo.fft`."""
    plan = Transforms(fusion, target)
    transform(plan)
    return plan.kernel()


def transform(plan: Transforms) -> None:
    """Makes the phases of a plan."""
    fusion = plan.fusion
    op = fusion.op("hlo.fft")
    kind, length, sizes = text(op, "kind"), i64s(op, "length"), shape(op.operands[0])
    result = op.results[0]
    source, out = Array(f"in{fusion.number(op.operands[0])}"), Array("out0")
    if num_elements(result) == 0:
        plan.phase("nothing", 0, 1.0, lambda f: None)
    elif num_elements(op.operands[0]) == 0:  # the transform of no numbers is a sum of none
        size = tensor_bytes(result)
        plan.phase("zero", 1, size_hint(size) / 10, lambda f: f.set_memory(f.gep(f.out0, 0, I8), 0, size))
    elif kind in ("FFT", "IFFT"):
        plan.axes(source, out, sizes, len(length), kind == "IFFT", 1.0 / math.prod(length))
    elif kind == "RFFT":
        rows, n = math.prod(sizes[:-1]), int(sizes[-1])
        spectra = out if n > 1 else plan.room(rows)  # nothing is done in place without neighbours
        spectrum.forward(plan, source, spectra, rows, n)
        plan.axes(spectra, out, shape(result), len(length), False, 1.0, skip=1)
    else:
        rows, n = math.prod(sizes[:-1]), length[-1]
        spectra = source
        if any(size > 1 for size in sizes[len(sizes) - len(length) : -1]):
            spectra = plan.room(num_elements(op.operands[0]))
            plan.axes(source, spectra, sizes, len(length), True, 1.0, skip=1)
        spectrum.inverse(plan, spectra, out, rows, n, 1.0 / math.prod(length))
