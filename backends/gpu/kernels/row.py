"""Kernels of kind `row`: reductions over trailing dimensions, and elementwise work before, between and after them.

The tensor is seen as [rows, columns]; a block of threads goes through a row, once for every level of reductions
(softmax: maximum, then the sum of exponentials) and once for full-size results. What a later pass needs is computed
again. A thread takes every so-manieth column; the sums of threads are combined in a tree, so their order depends on
shapes alone.
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
from stablehlo_py.backends.gpu.kernels import loop
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_function
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Delinearized, affine, delinearized, linear_index
from stablehlo_py.codegen.types import Element, Lanes, element, load, store
from stablehlo_py.dialect.types import num_elements, shape

MOST_THREADS = 256


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
    threads = min(MOST_THREADS, max(target.subgroup, 1 << (columns - 1).bit_length()))
    f = kernel_function(fusion, target, fusion.name, threads)
    _emit_row(f, fusion, target, (rows, columns), reduction_levels(items), threads)
    f.ret()
    return GpuKernel.of([(f, rows)])


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


def block_combined(f: Function, items: Sequence[Reduction], totals: Sequence[Lanes], threads: int) -> list[Lanes]:
    """The accumulators of all threads of a block, a power of two, combined in a tree: every thread has the result."""
    thread = f.thread_number()
    kept = [_InShared(f, item.of, threads) for item in items]
    f.barrier()  # those of an earlier level may still be read
    for place, total in zip(kept, totals, strict=True):
        place.store(thread, total)
    distance = threads // 2
    while distance:
        f.barrier()

        def join(distance: int = distance) -> None:
            a, b = ([place.load(at) for place in kept] for at in (thread, f.iadd(thread, distance)))
            for place, total in zip(kept, combined(f, items, a, b), strict=True):
                place.store(thread, total)

        f.if_(f.cmp("slt", thread, f.const(distance)), join)
        distance //= 2
    f.barrier()
    return [place.load(0) for place in kept]


class _InShared:
    """An accumulator of every thread, in shared memory as it is in registers."""

    def __init__(self, f: Function, of: Element, threads: int) -> None:
        self.f, self.of = f, of
        stored = of.compute if of.compute.bits >= 8 else of.storage
        self.bases = [f.shared_memory(threads, stored) for _ in range(2 if of.is_complex else 1)]

    def store(self, at: Index, value: Lanes) -> None:
        parts = value if isinstance(value, tuple) else (value,)
        for base, part in zip(self.bases, parts, strict=True):
            if part.type.bits < 8:
                store(self.f, self.of, part, base, at)
            else:
                self.f.store(part, base, at)

    def load(self, at: Index) -> Lanes:
        if self.of.compute.bits < 8:
            return load(self.f, self.of, self.bases[0], at)
        loaded = [self.f.load(self.of.compute, base, at) for base in self.bases]
        return (loaded[0], loaded[1]) if self.of.is_complex else loaded[0]
