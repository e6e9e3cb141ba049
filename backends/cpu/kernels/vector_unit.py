"""Products by instructions of x86-64 that multiply the elements of groups and add them up, lane by lane of a vector:
`vpdpbusd` (VNNI, AVX-VNNI) for four bytes, `vdpbf16ps` (AVX512-BF16) for two bf16.

They compute on the panels of a matrix unit (matrix_unit.py), packed in the same way; a strip has as many rows as
registers hold sums of, and A is broadcast from where it lies, a group at a time (vector_sums.py):

    for block of rows, panel of 32 columns, chunk of steps, strip of rows:
        for step, group:
            vectors of B; for each row: broadcast a group of A, multiply and add

`vpdpbusd` multiplies unsigned bytes by signed ones. Where those of A and B are both signed, or both unsigned, B gets
the other sign as it is packed: 128 is added to every element, or taken away. So sums begin with 128 times the sum of
their row of A, less or more (Intel, "Lower Numerical Precision Deep Learning Inference and Training", 2018; there it is
A that changes, and the sums of columns count).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from stablehlo_py.backends.common.contraction import Contraction, Operand
from stablehlo_py.backends.cpu.kernels.base import SharedFunction
from stablehlo_py.backends.cpu.kernels.finished_tiles import Epilogue
from stablehlo_py.backends.cpu.kernels.matrix_unit import (
    Reading,
    Unit,
    UnitProduct,
    are_bytes,
    bf16_rounding,
    inner_of,
    reads_tiles,
    rows_of,
)
from stablehlo_py.backends.cpu.kernels.tiling import REPEATED_ROWS
from stablehlo_py.backends.cpu.target import BF16_FEATURE, CpuTarget
from stablehlo_py.backends.cpu.weight_tiles import SIDE
from stablehlo_py.codegen.builder import BF16, F32, I8, I16, I32, Function, ScalarType, Value, VectorType
from stablehlo_py.codegen.types import Element

VECTORS = 2  # of a row of sums: 14 rows by 2 vectors fill 32 registers, 6 by 2 fill 16
FEWEST, FEWEST_OF_BYTES = 8, 2  # rows
SHORTEST = 8  # bytes of a run of the contracted axis
LEAST = 1 << 11  # products
CHUNK = 32  # steps of a panel, which is read from the L2 cache
PAGE, WAYS = 4096, 8  # rows of A that are pages apart share the places that the L1 cache has for one
USED_BY = 4  # panels that have to read a copy of A, which keeps its rows apart


@dataclass(frozen=True)
class VectorUnit(Unit):
    """The instruction for full vectors of `target`. `signs`: whether bytes of A and B are unsigned; () of bf16."""

    reading: ClassVar = Reading(16, lines=False, ahead=True, near=False)  # of Zen 4: it fetches ahead for 16 rows
    target: CpuTarget
    signs: tuple[bool, ...] = ()

    @property
    def lanes(self) -> int:
        """Sums of a vector."""
        return self.target.lanes(32)

    @property
    def flips(self) -> bool:
        """Whether B's bytes get the other sign."""
        return len(set(self.signs)) == 1

    def multiply(self, f: Function, a: Value, b: Value, sums: Value) -> Value:
        """Add the products of groups: vectors of 32-bit lanes."""
        unsigned_b = self.signs and not self.signs[0]  # then A's are signed; B's have been flipped, if need be
        of = VectorType(self.group * a.type.lanes, BF16 if self.scalar == I16 else I8)
        operands = (f.bitcast(value, of) for value in ((b, a) if unsigned_b else (a, b)))
        return f.target_intrinsic(self.instruction, sums, *operands, result=sums.type)

    def sum_of(self, f: Function, a: Value, sums: Value) -> Value:
        """Add up groups of bytes of A."""
        ones = f.const(0x01010101, a.type)
        of = VectorType(self.group * a.type.lanes, I8)
        operands = (f.bitcast(value, of) for value in ((a, ones) if self.signs[0] else (ones, a)))
        return f.target_intrinsic(self.instruction, sums, *operands, result=sums.type)

    def fits(self, contraction: Contraction) -> bool:
        """Whether it computes a contraction of known sizes, and that pays: few rows do not make up for packing B, which
        for bytes the others do, too."""
        if contraction.a.tiled or contraction.b.tiled:
            return reads_tiles(contraction, self)
        m, n, depth = rows_of(contraction), int(contraction.n.size), int(contraction.depth)
        run = int(inner_of(contraction).size) * self.scalar.bits // 8
        rows = FEWEST_OF_BYTES if self.signs else FEWEST
        return m >= rows and n >= SIDE and run >= SHORTEST and m * n * depth >= LEAST

    def product(self, contraction: Contraction, epilogue: Epilogue, accumulator: ScalarType) -> UnitProduct:
        """The contraction by these instructions."""
        return VectorProduct(contraction, self, epilogue, accumulator)


def vector_unit(a: Element, b: Element, accumulator: ScalarType, target: CpuTarget) -> VectorUnit | None:
    """The instruction for operands of these types, if the target has one."""
    bits = target.vector_bits
    if accumulator == F32 and a.name == b.name == "bf16" and BF16_FEATURE in target.dots:
        instruction = f"llvm.x86.avx512bf16.dpbf16ps.{bits}"
        return VectorUnit(I16, 2, instruction, target, rounding=bf16_rounding(target))
    if accumulator == I32 and are_bytes(a, b) and set(target.dots) - {BF16_FEATURE}:
        return VectorUnit(I8, 4, f"llvm.x86.avx512.vpdpbusd.{bits}", target, (a.unsigned, b.unsigned))
    return None


class VectorProduct(UnitProduct):
    """A contraction by such instructions.

    Attributes:
        room_sums: the sums that those of a row begin with, where B has been flipped.
        shared: what gets the functions of its strips; None: it calls none. table: what they know of steps.
    """

    longest_chunk = CHUNK

    def __init__(self, contraction: Contraction, unit: VectorUnit, epilogue: Epilogue, accumulator: ScalarType) -> None:
        super().__init__(contraction, unit, epilogue, accumulator)
        self.vectors = unit
        self.flips = unit.flips
        most = (unit.target.registers - 1 - VECTORS) // VECTORS
        self.strip = -(-self.m // -(-self.m // most))  # even shares
        self.room_sums: Operand | None = None
        self.shared: set[SharedFunction] | None = None
        self.table: Value | None = None

    @property
    def repeats(self) -> bool:
        """Whether the last strip begins early enough to be full, so that code of one height serves all: where sums are
        in memory, and few rows are computed twice."""
        return self.shared is not None and self.strips * self.strip - self.m <= REPEATED_ROWS * self.m

    @property
    def groups(self) -> int:
        """Of the innermost contracted axis, which has a step for each 16."""
        return -(-int(self.inner.size) // self.unit.group)

    @property
    def last_groups(self) -> int:
        """Of its last step."""
        return self.groups - (self.steps_of_inner - 1) * SIDE

    @property
    def packs_a(self) -> bool:
        """Whether A is packed: groups cannot be read where it is, or many panels would read rows that are pages
        apart."""
        if self.inner.a != 1 or self.inner.size % self.unit.group or self.contraction.a.rounded:
            return True
        apart = int(self.contraction.m.a) * self.unit.scalar.bits // 8
        return apart % PAGE == 0 and self.strip > WAYS and self.panels >= USED_BY

    @property
    def row_pitch(self) -> int:
        """Numbers of 32 bits from a row of a packed A to the next: an odd number of cache lines."""
        return (self.steps | 1) * SIDE

    def room_steps(self, side: str) -> tuple[int, int, int]:
        """Rows of A are stored one after the other."""
        return (SIDE * self.row_pitch, SIDE, self.row_pitch) if side == "a" else super().room_steps(side)

    def size_of(self, side: str) -> int:
        """Numbers of 32 bits of a packed operand."""
        if side == "b":
            return super().size_of(side)
        return self.copies(side) * self.row_tiles * SIDE * self.row_pitch

    @cached_property
    def cost(self) -> float:
        """Nanoseconds of one iteration. A multiplication of vectors takes a cycle, or half of one; what packs B on the
        way takes 100 cycles a step."""
        passes = 2 * SIDE // (VECTORS * self.vectors.lanes)
        strip = SIDE * VECTORS * passes * min(self.strip, self.m)
        if self.streams_b:
            return self.steps * (self.strips * strip + 100) / 3.0
        return self.block * (self.steps * strip + 100) / 3.0

    @property
    def sum_iterations(self) -> int:
        """Of the phase that adds up rows of A."""
        return self.copies("a") * self.m

    @property
    def sum_strides(self) -> list[int]:
        """Steps of the outer axes in `room_sums`."""
        step, strides = self.sum_iterations, []
        for axis in self.outer:
            step //= int(axis.size) if axis.a else 1
            strides.append(step if axis.a else 0)
        return strides
