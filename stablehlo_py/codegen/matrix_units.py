"""Instructions that multiply small matrices: who holds which element."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stablehlo_py.codegen.values import Index, Value

Places = tuple[tuple[int, int], ...]
INNERS = 4  # values of the inner part of a thread's number


@dataclass(frozen=True)
class SharedMatrix:
    """A matrix in shared memory, in lines of 128 bytes, whose pieces of 16 bytes lie in another order: the number of a
    piece, xor the number of its line modulo eight. Lines begin at multiples of 1024 bytes.

    Attributes:
        base, offset: where it begins: a pointer, and elements of 16 bits from there.
        turned: whether a line goes along rows (columns) instead of products.
        part_bytes: from a line to the one that continues it, where it does; group_bytes: from eight lines to the next.
    """

    base: Value
    offset: Index
    turned: bool
    part_bytes: int
    group_bytes: int = 1024


@dataclass(frozen=True)
class MatrixUnit:
    """An instruction by which a subgroup adds the product of two small matrices to a third:
    sums[rows, columns] += a[rows, depth] * b[depth, columns].

    Every thread holds some registers of each. Its number in the subgroup has an outer part, which says the row of `a`,
    the column of `b` and the row of the sums, and an inner one of INNERS values, which says the products and the
    columns of the sums. A register of an operand has `pack` neighbours along the products.

    Attributes:
        name: what target descriptions call it.
        architecture: that has it.
        instruction: as LLVM calls it.
        operand: element type of both operands. The sums are f32.
        threads: of a subgroup.
        outer_is_low: whether the outer part varies faster along the subgroup.
        a: (row, product) of each register of `a`, where both parts are 0; b: (column, product), likewise.
        sums: (row, column) of each sum, likewise; sum_pack: how many neighbouring columns a thread has.
        moves: whether threads can load 8 x 8 elements together (`Function.load_matrices`).
        is_warpgroup: whether four subgroups together multiply what lies in shared memory (`SharedMatrix`), 4 * `rows`
            rows and as many columns as there are sums; then no thread holds operands.
    """

    name: str
    architecture: str
    instruction: str
    operand: str
    rows: int
    columns: int
    depth: int
    threads: int
    outer_is_low: bool
    pack: int
    a: Places
    b: Places
    sums: Places
    sum_pack: int
    moves: bool
    is_warpgroup: bool = False


def _mma(operand: str, suffix: str) -> MatrixUnit:
    """PTX ISA 9.7.14.5: mma.m16n8k16 with operands of 16 bits."""
    return MatrixUnit(
        name=f"mma.m16n8k16.{operand}",
        architecture="nvptx64",
        instruction=f"llvm.nvvm.mma.m16n8k16.row.col.{suffix}",
        operand=operand,
        rows=16,
        columns=8,
        depth=16,
        threads=32,
        outer_is_low=False,
        pack=2,
        a=((0, 0), (8, 0), (0, 8), (8, 8)),
        b=((0, 0), (0, 8)),
        sums=((0, 0), (0, 1), (8, 0), (8, 1)),
        sum_pack=2,
        moves=True,
    )


def _wgmma(operand: str) -> MatrixUnit:
    """PTX ISA 9.7.15.5: wgmma.m64nNk16 with operands of 16 bits, both in shared memory."""
    sums = _mma(operand, "")
    return replace(
        sums,
        name=f"wgmma.m64k16.{operand}",
        instruction=f"wgmma.mma_async.sync.aligned.m64n{{columns}}k16.f32.{operand}.{operand}",
        a=(),
        b=(),
        moves=False,
        is_warpgroup=True,
    )


def _mfma(operand: str, suffix: str) -> MatrixUnit:
    """AMD CDNA3 ISA, 7: v_mfma_f32_16x16x16 with operands of 16 bits. The instruction has the columns of its result
    where this record has rows, so it gets the operands in the other order."""
    return MatrixUnit(
        name=f"mfma.16x16x16.{operand}",
        architecture="amdgcn",
        instruction=f"llvm.amdgcn.mfma.f32.16x16x16{suffix}",
        operand=operand,
        rows=16,
        columns=16,
        depth=16,
        threads=64,
        outer_is_low=True,
        pack=4,
        a=((0, 0),),
        b=((0, 0),),
        sums=((0, 0), (0, 1), (0, 2), (0, 3)),
        sum_pack=4,
        moves=False,
    )


MATRIX_UNITS = {
    unit.name: unit
    for unit in (
        _mma("bf16", "bf16"),
        _mma("f16", "f32.f32"),
        _wgmma("bf16"),
        _wgmma("f16"),
        _mfma("bf16", "bf16.1k"),
        _mfma("f16", "f16"),
    )
}
