"""Matrices of blocks: arrays from memory, and zeros, side by side and above each other.

Blocked factorizations end with such a matrix. The general loop asks for every vector of it which blocks its lanes come
from, in code of its own for every edge. Here the blocks are a table, and a row is copied block after block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I8, I64, PTR, Value
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import i64, shape
from stablehlo_py.mlir import ir

_LEAST_WIDTH = 256  # bytes of a row of a block, below which a call of memcpy counts
_MOST_BYTES = 8 << 20  # results beyond the last-level cache go around it
_BLOCK_NS, _BYTES_PER_NS = 8.0, 32.0


@dataclass(frozen=True)
class _Block:
    """Where an array lies in the matrix, in elements; None: zeros."""

    row: int
    column: int
    rows: int
    columns: int
    array: ir.Value | None

    def entry(self, numbers: Mapping[ir.Value, int], item: int) -> tuple[int, ...]:
        """A row of the table: number of its array, first row, rows, first byte of a row, bytes."""
        number = -1 if self.array is None else numbers[self.array]
        return number, self.row, self.rows, self.column * item, self.columns * item


def emit(fusion: Fusion, target: CpuTarget) -> Kernel | None:
    """One phase over the rows; None where the result is no such matrix, or has blocks along one dimension, which the
    general loop copies as fast."""
    result = fusion.outputs[0]
    if len(fusion.outputs) != 1 or fusion.aliased or not _is_concatenated(result):
        return None
    if not any(_is_concatenated(part) for part in result.owner.operands):
        return None
    sizes, of = shape(result), element(result)
    blocks: list[_Block] = []
    if len(sizes) < 2 or not is_known(*sizes) or not _is_matrix(fusion, result, 0, 0, blocks):
        return None
    item = of.bytes
    if len(blocks) < 2 or min(block.columns for block in blocks) * item < _LEAST_WIDTH:
        return None
    *batch, height, width = map(int, sizes)
    if math.prod(batch) * height * width * item >= _MOST_BYTES:
        return None
    step = math.gcd(*(number for block in blocks for number in (block.row, block.rows)))
    bands = [[block for block in blocks if block.row <= row < block.row + block.rows] for row in range(0, height, step)]
    numbers = {value: number for number, value in enumerate(fusion.inputs)}
    listed = np.array([block.entry(numbers, item) for band in bands for block in band])
    ends = np.cumsum([0, *map(len, bands)])
    names = f"{fusion.name}.blocks", f"{fusion.name}.bands"
    f = phase_function(fusion, target)
    tables = {name: constant_table(name, table, I64, f.emit) for name, table in zip(names, (listed, ends), strict=True)}
    arrays = f.alloca(len(fusion.inputs), PTR)
    for number, value in enumerate(fusion.inputs):
        f.store(operand(f, fusion, value), arrays, number)

    def row(i: Value) -> None:
        matrix, at = f.idiv(i, height), f.irem(i, height)
        to = f.gep(f.out0, f.imul(i, width * item), I8)
        band = f.gep(f.address_of(names[1]), f.idiv(at, step), I64)

        def block(number: Value) -> None:
            entry = f.gep(f.address_of(names[0]), f.imul(number, listed.shape[1]), I64)
            array, first, rows, begin, size = (f.load(I64, entry, place) for place in range(listed.shape[1]))
            place = f.gep(to, begin, I8)

            def copy() -> None:
                source = f.iadd(f.imul(matrix, rows), f.isub(at, first))
                f.copy_memory(place, f.gep(f.load(PTR, arrays, array), f.imul(source, size), I8), size)

            f.if_(f.cmp("slt", array, f.const(0)), lambda: f.set_memory(place, 0, size), copy)

        f.loop(f.load(I64, band, 0), f.load(I64, band, 1), 1, block, nonempty=True)

    f.loop(f.begin, f.end, 1, row)
    cost = len(listed) / len(bands) * _BLOCK_NS + width * item / _BYTES_PER_NS
    return Kernel.of(phase(f, math.prod(batch) * height, cost), tables=tables)


def _is_concatenated(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == "stablehlo.concatenate"


def _is_matrix(fusion: Fusion, value: ir.Value, row: int, column: int, blocks: list[_Block]) -> bool:
    """Whether a value whose first element lies there consists of blocks, which are appended."""
    *_, rows, columns = map(int, shape(value))
    if value in fusion.inputs:
        blocks.append(_Block(row, column, rows, columns, value))
        return True
    op = value.owner
    if op.name == "hlo.broadcast":
        blocks.append(_Block(row, column, rows, columns, None))
        constant = op.operands[0].owner
        is_constant = not isinstance(constant, ir.Block) and constant.name == "hlo.constant"
        return is_constant and not any(constant_value(constant).tobytes())
    if not _is_concatenated(value):
        return False
    behind = len(shape(value)) - 1 - i64(op, "dimension")
    if behind > 1:
        return False
    for part in op.operands:
        if not _is_matrix(fusion, part, row, column, blocks):
            return False
        size = int(shape(part)[-1 - behind])
        row, column = row + size * behind, column + size * (1 - behind)
    return True
