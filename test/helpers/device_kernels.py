"""Kernels of GPUs as their templates write them, without a program around them."""

from __future__ import annotations

from stablehlo_py.backends.cpu.target import baseline_target
from stablehlo_py.backends.gpu.compile import _parts, _text
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.mlir import ir


def device_kernels(module: ir.Module, target: GpuTarget) -> dict[str, GpuKernel]:
    """Of a scheduled module: those of fusions, and loops that are kernels, by name."""
    kernels, _, _ = _parts(module, target, None, baseline_target())
    return kernels


def device_text(module: ir.Module, target: GpuTarget) -> str:
    """Their text in the llvm dialect."""
    return _text(device_kernels(module, target))
