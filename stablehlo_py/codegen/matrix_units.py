"""Instructions that multiply small matrices: who holds which element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stablehlo_py.codegen.values import Index, Value

Places = tuple[tuple[int, int], ...]
INNERS = 4


@dataclass(frozen=True)
class SharedMatrix:
    """A matrix in shared memory, in lines of 128 bytes, whose pieces of 16 bytes lie in another order: the number of a
    piece, xor the number of its line modulo eight. Lines begin at multiples of 1024 bytes.

    Attributes:
        base, offset: where it begins: a pointer, and elements from there.
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
    the column of `b` and the row of the sums, and an inner one of `inners` values, which says the products and the
    columns of the sums. A register of an operand has `pack` neighbours along the products.

    Attributes:
        name: what target descriptions call it.
        architecture: that has it.
        instruction: as LLVM calls it.
        operand: element type of the operands; right: of the right one, where that has another one; rounded_to: the type
            that it cuts them to before it multiplies, where that is another one; total: that of the sums.
        bits: of an operand's element.
        threads: of a subgroup.
        outer_is_low: whether the outer part varies faster along the subgroup.
        a: (row, product) of each register of `a`, where both parts are 0; b: (column, product), likewise.
        sums: (row, column) of each sum, likewise; sum_pack: how many neighbouring columns a thread has.
        repeats: whether threads that differ in the inner part hold the same elements of operands.
        moves: whether threads can load eight lines of 16 bytes together (`Function.load_matrices`).
        is_warpgroup: whether four subgroups together multiply what lies in shared memory (`SharedMatrix`), 4 * `rows`
            rows and as many columns as there are sums; then no thread holds operands. Elements of less than 16 bits
            have to lie along the products there.
        sum_bits: of the significand that is kept of a sum while products are added, where that is less than its type
            has; promoted: after so many products such a sum is added to one of its whole type, and begins anew.
        speed: products in a second, next to those of 16 bits.
    """

    name: str
    architecture: str
    instruction: str
    operand: str
    bits: int
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
    inners: int = INNERS
    repeats: bool = False
    total: str = "f32"
    right: str = ""
    rounded_to: str = ""
    is_warpgroup: bool = False
    sum_bits: int = 0
    promoted: int = 0
    speed: float = 1.0

    @property
    def operands(self) -> tuple[str, str]:
        """Element types of the left operand and of the right one."""
        return self.operand, self.right or self.operand


def _mma(operand: str, suffix: str) -> MatrixUnit:
    """PTX ISA 9.7.14.5: mma.m16n8k16 with operands of 16 bits."""
    return MatrixUnit(
        name=f"mma.m16n8k16.{operand}",
        architecture="nvptx64",
        instruction=f"llvm.nvvm.mma.m16n8k16.row.col.{suffix}",
        operand=operand,
        bits=16,
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


_MMA = _mma("bf16", "bf16")
# The same with operands of other widths: registers of 32 bits, whose rows and columns are the same.
_MMA_TF32 = replace(
    _MMA,
    name="mma.m16n8k8.tf32",
    instruction="llvm.nvvm.mma.m16n8k8.row.col.tf32",
    operand="f32",
    rounded_to="tf32",
    bits=32,
    depth=8,
    pack=1,
    a=((0, 0), (8, 0), (0, 4), (8, 4)),
    b=((0, 0), (0, 4)),
)
_MMA_I8 = replace(
    _MMA,
    name="mma.m16n8k32.i8",
    instruction="llvm.nvvm.mma.m16n8k32.row.col.s8",
    operand="i8",
    total="i32",
    bits=8,
    depth=32,
    pack=4,
    a=((0, 0), (8, 0), (0, 16), (8, 16)),
    b=((0, 0), (0, 16)),
)
_MMA_F64 = replace(
    _MMA,
    name="mma.m8n8k4.f64",
    instruction="llvm.nvvm.mma.m8n8k4.row.col.f64",
    operand="f64",
    total="f64",
    bits=64,
    rows=8,
    depth=4,
    pack=1,
    a=((0, 0),),
    b=((0, 0),),
    sums=((0, 0), (0, 1)),
    moves=False,
)


def _wgmma(operand: str) -> MatrixUnit:
    """PTX ISA 9.7.15.5: wgmma.m64nNk16 with operands of 16 bits, both in shared memory."""
    return replace(
        _mma(operand, ""),
        name=f"wgmma.m64k16.{operand}",
        instruction=f"wgmma.mma_async.sync.aligned.m64n{{columns}}k16.f32.{operand}.{operand}",
        a=(),
        b=(),
        moves=False,
        is_warpgroup=True,
    )


_F8 = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}


def _pairs(types: Mapping[str, str]) -> list[tuple[str, str]]:
    """Element types of both operands, of units that take them mixed."""
    return [(left, right) for left in types for right in types]


def _pair_name(left: str, right: str) -> str:
    return left if left == right else f"{left}.{right}"


def _mma_f8(left: str, right: str) -> MatrixUnit:
    """mma.m16n8k32 with operands of 8 bits. sm_90 and sm_100 have no such unit: ptxas makes conversions to f16 and two
    products of these of PTX's instruction, and so does the emitter: sums have all bits, on every machine."""
    return replace(
        _MMA_I8,
        name=f"mma.m16n8k32.{_pair_name(left, right)}",
        instruction="llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
        operand=left,
        right=right,
        total="f32",
    )


def _wgmma_f8(left: str, right: str) -> MatrixUnit:
    """PTX ISA 9.7.15.5: wgmma.m64nNk32 with operands of 8 bits. Hopper's unit keeps 14 bits of a sum."""
    return replace(
        _wgmma(left),
        name=f"wgmma.m64k32.{_pair_name(left, right)}",
        instruction=f"wgmma.mma_async.sync.aligned.m64n{{columns}}k32.f32.{_F8[left]}.{_F8[right]}",
        right=right,
        bits=8,
        depth=32,
        pack=4,
        sum_bits=14,
        promoted=128,
        speed=2.0,
    )


def _mfma(operand: str, instruction: str, bits: int, pack: int, total: str = "f32") -> MatrixUnit:
    """AMD CDNA3 ISA, 7: v_mfma with results of 16 x 16. The instruction has the columns of its result where this record
    has rows, so it gets the operands in the other order."""
    depth = 4 * pack
    return MatrixUnit(
        name=f"mfma.16x16x{depth}.{operand}",
        architecture="amdgcn",
        instruction=instruction,
        operand=operand,
        bits=bits,
        rows=16,
        columns=16,
        depth=depth,
        threads=64,
        outer_is_low=True,
        pack=pack,
        a=((0, 0),),
        b=((0, 0),),
        sums=((0, 0), (0, 1), (0, 2), (0, 3)),
        sum_pack=4,
        moves=False,
        total=total,
    )


_F8_FNUZ = {"f8E4M3FNUZ": "fp8", "f8E5M2FNUZ": "bf8"}


def _mfma_f8(left: str, right: str) -> MatrixUnit:
    """Of gfx942, which has the types without infinities and -0 (FNUZ). It gets the operands in the other order."""
    instruction = f"llvm.amdgcn.mfma.f32.16x16x32.{_F8_FNUZ[right]}.{_F8_FNUZ[left]}"
    name = f"mfma.16x16x32.{_pair_name(left, right)}"
    return replace(_mfma(left, instruction, 8, 8), name=name, right=right, speed=2.0)


def _wmma(operand: str, instruction: str, bits: int, total: str = "f32") -> MatrixUnit:
    """AMD RDNA3 ISA, 7.9: v_wmma_16x16x16, in subgroups of 32. Both halves of a subgroup hold all of the operands; the
    columns of sums alternate between them. The operands are in the other order, too."""
    pack = 32 // bits
    registers = tuple((0, product) for product in range(0, 16, pack))
    return MatrixUnit(
        name=f"wmma.16x16x16.{operand}",
        architecture="amdgcn",
        instruction=instruction,
        operand=operand,
        bits=bits,
        rows=16,
        columns=16,
        depth=16,
        threads=32,
        outer_is_low=True,
        pack=pack,
        a=registers,
        b=registers,
        sums=tuple((0, column) for column in range(0, 16, 2)),
        sum_pack=1,
        moves=False,
        inners=2,
        repeats=True,
        total=total,
    )


MATRIX_UNITS = {
    unit.name: unit
    for unit in (
        _mma("bf16", "bf16"),
        _mma("f16", "f32.f32"),
        _MMA_TF32,
        _MMA_I8,
        _MMA_F64,
        _wgmma("bf16"),
        _wgmma("f16"),
        *(_mma_f8(*pair) for pair in _pairs(_F8)),
        *(_wgmma_f8(*pair) for pair in _pairs(_F8)),
        *(_mfma_f8(*pair) for pair in _pairs(_F8_FNUZ)),
        _mfma("bf16", "llvm.amdgcn.mfma.f32.16x16x16bf16.1k", 16, 4),
        _mfma("f16", "llvm.amdgcn.mfma.f32.16x16x16f16", 16, 4),
        _mfma("f32", "llvm.amdgcn.mfma.f32.16x16x4f32", 32, 1),
        # Of this one the registers of sums lie four columns apart.
        replace(
            _mfma("f64", "llvm.amdgcn.mfma.f64.16x16x4f64", 64, 1, "f64"),
            sums=((0, 0), (0, 4), (0, 8), (0, 12)),
            sum_pack=1,
        ),
        _mfma("i8", "llvm.amdgcn.mfma.i32.16x16x16i8", 8, 4, "i32"),
        _mfma("i8", "llvm.amdgcn.mfma.i32.16x16x32.i8", 8, 8, "i32"),
        _wmma("bf16", "llvm.amdgcn.wmma.f32.16x16x16.bf16", 16),
        _wmma("f16", "llvm.amdgcn.wmma.f32.16x16x16.f16", 16),
        _wmma("i8", "llvm.amdgcn.wmma.i32.16x16x16.iu8", 8, "i32"),
    )
}
