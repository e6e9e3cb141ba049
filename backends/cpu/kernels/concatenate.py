"""Arrays side by side that are many, or narrow: a row of the result is copied piece by piece.

The general loop asks for every vector of the result which pieces its lanes come from, which takes a step for each
piece. Here the addresses of the pieces are in a table, and pieces in a row that are of one width are a loop. Where the
result is one row, blocks of its bytes are the iterations, and each copies its share of every piece.
"""

from __future__ import annotations

import math
from itertools import groupby

import numpy as np

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I8, I64, PTR, Function, Index, ScalarType, Value, vector
from stablehlo_py.codegen.elemental.shape import MAX_BRANCHES
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import i64, shape
from stablehlo_py.mlir import ir

_NARROW = 4  # vectors: of few pieces that are wider most vectors of the result lie in one
_UNROLLED = 8  # vectors of a piece
_PIECE_NS, _VECTOR_NS = 1.0, 0.5
_BLOCK_BYTES = 1 << 16  # of one iteration, where the result is one row
_BYTES_PER_NS = 10.0


def applies(fusion: Fusion) -> bool:
    """Whether a fusion is a concatenation of three arrays from memory or more, and nothing else."""
    if len(fusion.outputs) != 1 or fusion.aliased or isinstance(fusion.outputs[0].owner, ir.Block):
        return False
    op = fusion.outputs[0].owner
    if op.name != "stablehlo.concatenate" or len(op.operands) < 3:
        return False
    stored = all(value in fusion.inputs for value in op.operands)
    return stored and all(is_known(*shape(value)) for value in op.operands)


def emit(fusion: Fusion, target: CpuTarget) -> Kernel | None:
    """One phase over rows, or blocks of the only one; None where the general loop takes no longer."""
    op = fusion.outputs[0].owner
    sizes, dimension, of = shape(op.results[0]), i64(op, "dimension"), element(op.results[0])
    rows = math.prod(map(int, sizes[:dimension]))
    item = math.prod(map(int, sizes[dimension + 1 :])) * (2 if of.is_complex else 1)
    widths = [int(shape(value)[dimension]) * item for value in op.operands]
    lanes = target.lanes(of.storage.bits)
    is_wide = sum(widths) > _NARROW * lanes * len(widths) or max(widths) == 1  # of 1 they are transposed
    if rows == 1:
        return _one_row(fusion, target, [width * of.storage.bits // 8 for width in widths])
    if len(widths) <= MAX_BRANCHES and is_wide:
        return None
    f = phase_function(fusion, target)
    table = f.alloca(len(widths), PTR)
    _list(f, fusion, table)
    runs = [(width, len([*each])) for width, each in groupby(widths)]

    def row(i: Value) -> None:
        first, to = 0, f.gep(f.parameters["out0"], f.imul(i, sum(widths)), of.storage)
        for width, many in runs:

            def piece(number: Index, width: int = width, first: int = first, to: Value = to) -> None:
                source = f.gep(f.load(PTR, table, f.iadd(number, first)), f.imul(i, width), of.storage)
                _copy(f, source, f.gep(to, f.imul(number, width), of.storage), width, lanes, of.storage)

            if width:
                f.loop(0, many, 1, piece)
            first, to = first + many, f.gep(to, width * many, of.storage)

    f.loop(f.begin, f.end, 1, row)
    cost = sum(_PIECE_NS + _VECTOR_NS * width / lanes for width in widths)
    return Kernel.of(phase(f, rows, cost))


def _list(f: Function, fusion: Fusion, table: Value) -> None:
    for number, value in enumerate(fusion.outputs[0].owner.operands):
        f.store(operand(f, fusion, value), table, number)


def _one_row(fusion: Fusion, target: CpuTarget, sizes: list[int]) -> Kernel:
    """Pieces of so many bytes, one behind the other."""
    f = phase_function(fusion, target)
    name = f"{fusion.name}.ends"
    ends = np.cumsum([0, *sizes])
    tables = {name: constant_table(name, ends, I64, f.emit)}
    table = f.parameters["private"]
    _list(f, fusion, table)
    begin, end = f.imul(f.begin, _BLOCK_BYTES), f.imin(f.imul(f.end, _BLOCK_BYTES), int(ends[-1]))

    def piece(number: Index) -> None:
        place = f.gep(f.address_of(name), number, I64)
        first = f.load(I64, place, 0)
        start, stop = f.imax(first, begin), f.imin(f.load(I64, place, 1), end)

        def copy() -> None:
            source = f.gep(f.load(PTR, table, number), f.isub(start, first), I8)
            f.copy_memory(f.gep(f.out0, start, I8), source, f.isub(stop, start))

        f.if_(f.cmp("slt", f.index(start), f.index(stop)), copy)

    f.loop(0, len(sizes), 1, piece)
    blocks = -(-int(ends[-1]) // _BLOCK_BYTES)
    cost = (len(sizes) * _PIECE_NS + int(ends[-1]) / _BYTES_PER_NS) / blocks
    return Kernel.of(phase(f, blocks, cost), private_bytes=8 * len(sizes), tables=tables)


def _copy(f: Function, source: Value, to: Value, width: int, lanes: int, storage: ScalarType) -> None:
    """A piece of a row: in whole vectors, then in ever smaller ones."""

    def move(at: Index, count: int) -> None:
        f.store(f.load(vector(count, storage) if count > 1 else storage, source, at), to, at)

    at = 0
    if width // lanes > _UNROLLED:
        at = width // lanes * lanes
        f.loop(0, at, lanes, lambda start: move(start, lanes))
    while at < width:
        count = min(lanes, 1 << (width - at).bit_length() - 1)
        move(at, count)
        at += count
