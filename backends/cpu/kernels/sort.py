"""Sort along one dimension by the user's comparator. Spec: section sort. Always stable.

Rows whose comparator is a known order are records of unsigned integers (records.py). Many short ones are sorted side by
side (side_by_side.py); of others those that are keys and nothing else by partitions (quick.py) where the processor has
instructions for it, or by digits (radix.py) where they are long enough. Everything else is merged (merge.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.backends.common.comparators import key_values, precedes, sort_keys
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.kernels.merge import Before, Sorter, merge_passes, rooms
from stablehlo_py.backends.cpu.kernels.quick import QuickSorter, beats_lanes, partitions
from stablehlo_py.backends.cpu.kernels.radix import RadixSorter
from stablehlo_py.backends.cpu.kernels.records import Order, order_of, row_base
from stablehlo_py.backends.cpu.kernels.side_by_side import SideBySide, lanes_of, may_mix
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, Function, Value
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import Known, Lanes, element
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.symint import IntLike, size_hint
from stablehlo_py.dialect.types import i64, shape
from stablehlo_py.mlir import ir

LEAST_ROW = 32  # records; fewer are merged faster than they are sorted by digits


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over the rows (all dimensions but the sorted one). Columns of a row are copied to scratch and back."""
    op = fusion.op("stablehlo.sort")
    sizes = shape(op.operands[0])
    dimension = i64(op, "dimension") if "dimension" in op.attributes else -1
    dimension %= max(1, len(sizes))
    size = sizes[dimension] if sizes else 1
    stride = row_major_strides(sizes)[dimension] if sizes else 1
    rows = math.prod(sizes) // (size or 1)
    f = phase_function(fusion, target)
    order = order_of(op, size)
    lanes = lanes_of(order, rows, int(size), stride, target) if order is not None else 0
    divides = order is not None and partitions(order, rows, int(size), target)
    if order is not None and lanes and divides:
        divides = beats_lanes(order, int(size), stride)
    if order is not None and (divides or (size >= LEAST_ROW and not lanes)):
        made = QuickSorter if divides else RadixSorter
        return _by_records(f, fusion, target, op, order, made, (int(size), stride, rows))
    if order is not None and lanes:
        return _side_by_side(f, fusion, op, order, lanes, (int(size), stride, int(rows)))
    merged = _Merged(f, fusion, op, size, stride)
    if size:
        f.loop(f.begin, f.end, 1, merged.sort)
    records = size_hint(size)
    cost = records * (4.0 + 3.0 * merge_passes(records))
    return Kernel.of(phase(f, rows if size else 0, cost), private_bytes=merged.used)


class _Merged:
    """Sorts one row at a time by merging, in `used` bytes of private scratch."""

    def __init__(self, f: Function, fusion: Fusion, op: ir.OpView, size: IntLike, stride: IntLike) -> None:
        self.f, self.size, self.stride = f, size, stride
        self.elements = [element(value) for value in op.operands]
        self.sources = [operand(f, fusion, value) for value in op.operands]
        self.before = _comparator(f, op)
        (self.columns, self.spare), self.used = rooms(f, self.elements, size, 2)

    def sort(self, row: Value) -> None:
        """Emit the sort of the row of this number."""
        f = self.f
        base = row_base(f, row, self.size, self.stride)

        def fetch(j: Value) -> None:
            at = f.iadd(base, f.imul(j, self.stride))
            for of, source, column in zip(self.elements, self.sources, self.columns, strict=True):
                types.store(f, of, types.load(f, of, source, at), column, j)

        f.loop(0, self.size, 1, fetch)
        result = Sorter(f, self.elements, self.columns, self.spare, self.before).sort(self.size)

        def put(j: Value) -> None:
            at = f.iadd(base, f.imul(j, self.stride))
            for number, (of, column) in enumerate(zip(self.elements, result, strict=True)):
                types.store(f, of, types.load(f, of, column, j), f.parameters[f"out{number}"], at)

        f.loop(0, self.size, 1, put)


def _side_by_side(
    f: Function, fusion: Fusion, op: ir.OpView, order: Order, lanes: int, sizes: tuple[int, IntLike, int]
) -> Kernel:
    size, stride, _ = sizes
    merged = _Merged(f, fusion, op, size, stride) if may_mix(order) else None
    used = 0 if merged is None else merged.used
    sorter = SideBySide(f, op, order, lanes, sizes, _pointers(f, fusion, op), f.gep(f.private, used, I8))
    f.loop(f.begin, f.end, 1, lambda group: sorter.sort(group, None if merged is None else merged.sort))
    return Kernel.of(phase(f, sorter.groups, sorter.cost), private_bytes=used + sorter.used, tables=sorter.tables)


def _pointers(f: Function, fusion: Fusion, op: ir.OpView) -> tuple[list[Value], list[Value]]:
    """Of the operands, and of the results."""
    sources = [operand(f, fusion, value) for value in op.operands]
    return sources, [f.parameters[f"out{number}"] for number in range(len(op.results))]


def _comparator(f: Function, op: ir.OpView) -> Before:
    """Whether a record precedes another one."""
    keys = sort_keys(op) or []
    if any(key.of.is_float and not key.total_order for key in keys):  # NaN comes last, as in long rows
        return lambda a, b: precedes(f, key_values(f, op, keys, a), key_values(f, op, keys, b))
    compare = combiner(f, op)

    def before(a: Sequence[Lanes], b: Sequence[Lanes]) -> Value:
        result: Known = compare([side for pair in zip(a, b, strict=True) for side in pair])[0]
        return result

    return before


def _by_records(
    f: Function,
    fusion: Fusion,
    target: CpuTarget,
    op: ir.OpView,
    order: Order,
    made: type[QuickSorter | RadixSorter],
    sizes: tuple[int, IntLike, IntLike],
) -> Kernel:
    size, stride, rows = sizes
    sorter = made(f, op, order, size, stride, _pointers(f, fusion, op), target.lanes(32))

    def row(i: Value) -> None:
        sorter.sort(row_base(f, i, size, stride))

    f.loop(f.begin, f.end, 1, row)
    return Kernel.of(phase(f, rows, sorter.cost), private_bytes=sorter.used)
