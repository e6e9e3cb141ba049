"""hlo.exchange: every process copies blocks of the others' operands into its result.

    publish where my operand lies; meet the group; copy; meet the group again

Between the two meetings no member goes on, so operands stay as they are. What comes from where is a table with a row
for each process. Processes must be at the same op: a member that finds another elsewhere lets the grid fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu import grid, layout
from stablehlo_py.backends.cpu.kernels.base import Kernel, finished, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I8, I64, PTR, Function, Value
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.dialect.grid import groups_of
from stablehlo_py.dialect.ops.grid import NOBODY
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import i64, i64s, tensor_bytes, text
from stablehlo_py.mlir import ir

# A row: the byte at which the group's barrier lies, how many meet there (0: this process has no group), then for every
# block of the result whose operand it comes from and the byte at which it begins there.
BARRIER, COUNT, BLOCKS = 0, 1, 2


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """A kernel that copies block after block."""
    op = fusion.ops[0]
    blocks = 1 if text(op, "kind") == "permute" else i64(op, "width")
    size = tensor_bytes(op.results[0]) // max(1, blocks)
    rows = _table(op, blocks, size)
    table = f"{fusion.name}.rows"
    f = phase_function(fusion, target)
    process = operand(f, fusion, op.operands[0])
    record = grid.read(f, process, layout.RECORD, PTR)
    header = grid.read(f, record, layout.HEADER, PTR)
    row = f.gep(f.address_of(table), f.imul(grid.read(f, process, layout.NUMBER), rows.shape[1]), I64)
    count = f.load(I64, row, COUNT)

    def together() -> None:
        f.store(operand(f, fusion, op.operands[1]), grid.field(f, record, layout.OPERAND))
        barrier = f.gep(grid.read(f, header, layout.BARRIERS, PTR), f.load(I64, row, BARRIER), I8)
        failed = grid.meet(f, record, barrier, count)

        def copy_and_leave() -> None:
            f.loop(0, blocks, 1, lambda i: _copy(f, process, f.gep(row, f.iadd(BLOCKS, f.imul(i, 2)), I64), i, size))
            grid.meet(f, record, barrier, count)

        f.if_(failed, lambda: None, copy_and_leave)

    alone = f.cmp("eq", count, f.const(0))
    f.if_(alone, lambda: f.set_memory(f.out0, 0, size * blocks), together)
    tables = {table: constant_table(table, rows, I64, target.emits)}
    return Kernel.of(finished(f), tables=tables, communicates=text(op, "origin"))


def _sources(op: ir.OpView) -> Callable[[Sequence[int], int], list[tuple[int, int]]]:
    """A function of a group and one of its members, by process number, that says where each block of its result comes
    from: process (or NOBODY: zeros) and block of its operand."""
    kind, width = text(op, "kind"), i64(op, "width")
    if kind == "gather":
        return lambda group, member: [(other, 0) for other in group] + [(NOBODY, 0)] * (width - len(group))
    if kind == "blocks":
        return lambda group, member: [(other, group.index(member)) for other in group]
    sources = i64s(op, "sources")
    return lambda group, member: [(sources[member], 0)]


def _table(op: ir.OpView, blocks: int, size: IntLike) -> np.ndarray:
    sources, processes = _sources(op), i64(op, "processes")
    rows = np.zeros((processes, BLOCKS + 2 * blocks), np.int64)
    for group in groups_of(op):
        for member in group:
            # A barrier is a row of one cell per process; a group uses the cell of its first member.
            rows[member, BARRIER] = layout.BARRIER_BYTES * (i64(op, "barrier") * processes + min(group))
            rows[member, COUNT] = len(group)
            for number, (process, block) in enumerate(sources(group, member)):
                rows[member, BLOCKS + 2 * number :][:2] = process, block * size
    return rows


def _copy(f: Function, process: Value, entry: Value, block: Value, size: IntLike) -> None:
    """Block `block` of the result, which the table's `entry` describes."""
    record = grid.read(f, process, layout.RECORD, PTR)
    records = grid.read(f, grid.read(f, record, layout.HEADER, PTR), layout.RECORDS, PTR)
    source, offset = f.load(I64, entry), f.load(I64, entry, 1)
    to = f.gep(f.out0, f.imul(block, size), I8)

    def from_other() -> None:
        other = f.gep(records, f.imul(source, layout.RECORD_BYTES), I8)
        same = f.cmp("eq", grid.read(f, other, layout.SITE), grid.read(f, record, layout.SITE))

        def copy() -> None:
            f.copy_memory(to, f.gep(grid.read(f, other, layout.OPERAND, PTR), offset, I8), size)

        f.if_(same, copy, lambda: grid.fail(f, process, layout.MISMATCH))

    f.if_(f.cmp("eq", source, f.const(NOBODY)), lambda: f.set_memory(to, 0, size), from_other)
