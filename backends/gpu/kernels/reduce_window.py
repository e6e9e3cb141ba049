"""Windowed reductions. Windows that reach from one end of a dimension to the output's place are scans (scanning.py); of
others a thread takes an output, and neighbours read what lies side by side."""

from __future__ import annotations

import math

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import unravel
from stablehlo_py.backends.common.windows import over_window
from stablehlo_py.backends.cpu.kernels.cumulative import cumulative_dimension
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, numbered_kernel
from stablehlo_py.backends.gpu.kernels.scanning import Sequences, combined_in_order
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Delinearized, affine_of
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.types import num_elements, shape, text
from stablehlo_py.dialect.window import windows_of
from stablehlo_py.mlir import ir


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel, or three."""
    op = fusion.op("hlo.reduce_window", "stablehlo.reduce_window")
    if num_elements(op.results[0]) == 0:
        return GpuKernel((), {})
    dimension = cumulative_dimension(windows_of(op))
    return _pooled(fusion, target, op) if dimension is None else _scanned(fusion, target, op, dimension)


def _combine(e: Elemental, op: ir.OpView, a: list[Lanes], b: list[Lanes]) -> list[Lanes]:
    if op.operation.name == "stablehlo.reduce_window":
        return combiner(e.f, op)([*a, *b])
    return [arith.combine(e.f, text(op, "kind"), element(op.results[0]), *a, *b)]


def _write(e: Elemental, op: ir.OpView, place: Delinearized, values: list[Lanes]) -> None:
    for number, (result, value) in enumerate(zip(op.results, values, strict=True)):
        of = element(result)
        e.write(of, e.f.parameters[f"out{number}"], place, arith.rounded(e.f, of, value))


def _scanned(fusion: Fusion, target: GpuTarget, op: ir.OpView, dimension: int) -> GpuKernel:
    """Prefixes along a dimension."""
    sizes = [int(size) for size in shape(op.operands[0])]
    window, count = windows_of(op)[dimension], len(op.operands) // 2
    work = Sequences(
        math.prod(sizes[:dimension]),
        sizes[dimension],
        math.prod(sizes[dimension + 1 :]),
        [element(value) for value in op.operands[:count]],
        read=lambda e, place: [e.value(value, place) for value in op.operands[:count]],
        combine=lambda e, a, b: _combine(e, op, a, b),
        start=lambda e: [e.value(value, ()) for value in op.operands[count:]],
        write=lambda e, place, values: _write(e, op, place, values),
        is_backwards=window.low == 0 and sizes[dimension] != 1,
    )
    kernels, scratch = combined_in_order(work, fusion, target)
    return GpuKernel.of(*kernels, scratch_bytes=scratch)


def _pooled(fusion: Fusion, target: GpuTarget, op: ir.OpView) -> GpuKernel:
    """The part of a window that is in bounds, element by element: padding holds the initial value."""
    sizes, windows, count = [int(size) for size in shape(op.results[0])], windows_of(op), len(op.operands) // 2
    strides = row_major_strides(shape(op.operands[0]))
    elements, total = int(num_elements(op.operands[0])), math.prod(sizes)

    def position(f: Function, number: Value) -> None:
        e = Elemental(f, fusion, target, 1)

        def meet(at: Index, values: list[Lanes]) -> list[Lanes]:
            place = ((elements, affine_of(at, elements - 1)),)
            return _combine(e, op, values, [e.value(value, place) for value in op.operands[:count]])

        start = [e.value(value, ()) for value in op.operands[count:]]
        values = over_window(f, windows, unravel(f, number, sizes), strides, start, meet)
        _write(e, op, ((total, affine_of(number, total - 1)),), values)

    return GpuKernel.of(numbered_kernel(fusion, target, fusion.name, total, position))
