"""Kernels of kind `row`: reductions over trailing dimensions, and elementwise work before, between and after them.

The tensor is seen as [rows, columns]; a block of threads goes through a row, once for every level of reductions
(softmax: maximum, then the sum of exponentials) and once for full-size results. What a later pass needs is computed
again. Of as many columns as there are threads, each thread takes one; the sums of threads are combined in a tree, so
their order depends on shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import pack, unpack
from stablehlo_py.backends.common.reduction import (
    Reduction,
    at_place,
    combined,
    finish,
    reduction_levels,
    reductions,
)
from stablehlo_py.backends.gpu.kernels import column, loop
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_function
from stablehlo_py.backends.gpu.kernels.combining import block_combined
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Delinearized, affine, delinearized, linear_index
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.types import num_elements, shape

MOST_THREADS = 256
FEW_ROWS, LONG_ROW = 64, 1 << 14  # more than one block for a row


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel. All reductions split their operand into the same rows and columns; results have `rows` elements, or
    all."""
    items = reductions(fusion)
    if not items:
        return loop.emit(fusion, target)
    sizes = shape(items[0].operand)
    columns = int(math.prod(sizes[dimension] for dimension in items[0].dimensions))
    rows = int(num_elements(items[0].result))
    if rows == 0:
        return GpuKernel((), {})
    if columns in (0, 1):  # nothing to combine
        return loop.emit(fusion, target)
    levels = reduction_levels(items)
    is_long = len(levels) == 1 and rows < FEW_ROWS and columns >= LONG_ROW
    if is_long and all(num_elements(value) == rows for value in fusion.outputs):
        return column.emit(fusion, target)
    threads = min(MOST_THREADS, max(target.subgroup, 1 << (columns - 1).bit_length()))
    f = kernel_function(fusion, target, fusion.name, rows, threads)
    _emit_row(f, fusion, target, (rows, columns), levels, threads)
    f.ret()
    return GpuKernel.of(f)


def _emit_row(
    f: Function,
    fusion: Fusion,
    target: GpuTarget,
    sizes: tuple[int, int],
    levels: Sequence[Sequence[Reduction]],
    threads: int,
) -> None:
    """The row of a block."""
    rows, columns = sizes
    e = Elemental(f, fusion, target, 1)
    row = affine(f.block_number(), rows)
    row_place = delinearized([rows], [row])
    here, thread = linear_index(f, row_place), f.thread_number()
    full = [number for number, value in enumerate(fusion.outputs) if num_elements(value) != rows]

    def place(column: Index) -> Delinearized:
        return delinearized([rows, columns], [row, affine(column, columns)])

    for level in levels:
        start = pack([arith.identity(f, item.kind, item.of, 1) for item in level])

        def step(column: Index, *carries: Value, level: Sequence[Reduction] = level) -> list[Value]:
            at = place(column)
            parts = [e.value(item.operand, at) for item in level]
            return pack(combined(f, level, unpack(carries, [item.of for item in level]), parts))

        carries = f.loop(thread, columns, threads, step, start)
        totals = block_combined(f, level, unpack(carries, [item.of for item in level]), threads)
        for item, total in zip(level, totals, strict=True):
            e.bind(item.result, at_place(here, finish(e, item, total)))

    def store_row() -> None:
        for number, value in enumerate(fusion.outputs):
            if number not in full:
                e.write(element(value), f.parameters[f"out{number}"], row_place, e.value(value, row_place))

    if len(full) < len(fusion.outputs):
        f.if_(f.cmp("eq", thread, f.const(0)), store_row)

    def store_column(column: Index) -> None:
        at = place(column)
        results = [(number, e.value(fusion.outputs[number], at)) for number in full]
        for number, result in results:
            e.write(element(fusion.outputs[number]), f.parameters[f"out{number}"], at, result)

    if full:
        f.loop(thread, columns, threads, store_column)
