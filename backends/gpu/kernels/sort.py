"""Sorts along one dimension. Always stable.

Rows whose comparator is a known order are sorted digit by digit (radix.py) where that moves fewer bytes, all others
by merging (merge.py). Records too large for shared memory are left to one thread a row.
"""

from __future__ import annotations

from stablehlo_py.backends.common.comparators import compared_operands, key_values, precedes, sort_keys
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels import merge, radix, serial
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.kernels.records import PLACE, Before, Column, Ordering, Output, Record, rows_of
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import Function, Value
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.types import i64, shape
from stablehlo_py.mlir import ir

CARRIED_BYTES = 8  # of what only moves along: of more, the place in the row moves instead
LEAST_TILE = 64  # records that fit in shared memory
LONGEST_ROW = 1 << 30  # places are i32


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernels of one `sort`."""
    op = fusion.op("stablehlo.sort")
    sizes = [int(size) for size in shape(op.operands[0])]
    if 0 in sizes:
        return GpuKernel((), {})
    ordering = _ordering(fusion, target, op, sizes)
    if ordering.size > LONGEST_ROW or merge.tile_of(ordering) < LEAST_TILE:
        return serial.emit(op.operation.parent.opview, target)
    return in_order(ordering)


def in_order(ordering: Ordering) -> GpuKernel:
    """The kernels that sort rows, the way that moves fewer bytes."""
    by_digits = radix.moves(ordering)
    merged = merge.moves(ordering)
    return radix.emit(ordering) if by_digits is not None and by_digits <= merged else merge.emit(ordering)


def _ordering(fusion: Fusion, target: GpuTarget, op: ir.OpView, sizes: list[int]) -> Ordering:
    dimension = i64(op, "dimension") if "dimension" in op.attributes else -1
    dimension %= max(1, len(sizes))
    rows, stride = rows_of(sizes, dimension)
    elements = [element(value) for value in op.operands]
    sources = [f"in{fusion.number(value)}" for value in op.operands]
    read = compared_operands(op)
    others = [number for number in range(len(elements)) if number not in read]
    gathers = sum(elements[number].bytes for number in others) > CARRIED_BYTES
    moved = sorted(read) if gathers else list(range(len(elements)))
    columns = [Column(elements[number], sources[number]) for number in moved]
    outputs = []
    for number, of in enumerate(elements):
        if number in moved:
            outputs.append(Output(of, f"out{number}", moved.index(number)))
        else:
            outputs.append(Output(of, f"out{number}", len(columns), sources[number]))
    if gathers:
        columns.append(Column(PLACE, None))
    keys = sort_keys(op)

    def operands(f: Function, record: Record) -> Record:
        """An element of each operand; of those that are not moved, and not compared, any."""
        whole = [types.constant(f, of, 0) for of in elements]
        for number, part in zip(moved, record, strict=False):
            whole[number] = part
        return whole

    def key(f: Function, record: Record) -> list[Value]:
        return key_values(f, op, keys or (), operands(f, record))

    def before(f: Function) -> Before:
        if keys is not None:
            return lambda a, b: precedes(f, key(f, a), key(f, b))
        compare = combiner(f, op)

        def is_before(a: Record, b: Record) -> Value:
            pairs = zip(operands(f, a), operands(f, b), strict=True)
            (found,) = compare([side for pair in pairs for side in pair])
            assert isinstance(found, Value)
            return found

        return is_before

    return Ordering(
        fusion,
        target,
        rows,
        sizes[dimension] if sizes else 1,
        stride,
        sizes[dimension] if sizes else 1,
        tuple(columns),
        tuple(outputs),
        before,
        None if keys is None else key,
        tuple(each.bits for each in keys or ()),
    )
