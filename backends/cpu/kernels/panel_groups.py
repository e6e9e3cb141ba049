"""Groups of a panel of B whose columns are contiguous: rows in memory that are interleaved, as the instructions of
matrix_unit.py and vector_unit.py want them.

A group is some 60 instructions, and what differs between the products of a program are strides. So whole groups are
made by a function that all kernels call which pack such an operand; the stride is its argument, and a loop makes one
group after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from stablehlo_py.backends.cpu.kernels.matrix_unit import TILE
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.backends.cpu.weight_tiles import PANEL, SIDE
from stablehlo_py.codegen.builder import (
    BF16,
    F32,
    I8,
    I16,
    I32,
    I64,
    PTR,
    Function,
    Index,
    ScalarType,
    Value,
    VectorType,
)
from stablehlo_py.codegen.types import ELEMENTS

SIGNS = -0x7F7F7F80  # the highest bit of each byte

Lanes = Callable[[int, int], Value]


@dataclass(frozen=True)
class PanelGroups:
    """What the code depends on.

    Attributes:
        group: elements of a group: four bytes, or two numbers of 16 bits.
        valid: columns that are there; of bytes, two panels of them are a cache line.
        flips: bytes get the other sign.
        rounds: numbers are f32, which are rounded to bf16; by which instruction, as LLVM calls it: `rounding`.
        ahead: the rows that the next call reads are fetched.
    """

    group: int
    valid: int
    flips: bool
    rounds: bool = False
    rounding: str = ""
    ahead: bool = False

    @property
    def symbol(self) -> str:
        """The name of its function."""
        return f"shlo_groups_{self.group}_{self.valid}{'_x' * self.flips}{'_f32' * self.rounds}"

    @property
    def scalar(self) -> ScalarType:
        """Of the elements, as they are read."""
        if self.rounds:
            return F32
        return I8 if self.group == 4 else I16

    def text(self, target: CpuTarget) -> str:
        """Its code."""
        return _text(self, target)

    def call(self, f: Function, source: Value, along: int, target: Value, groups: int, pitch: int) -> None:
        """Make so many groups of rows that are `along` elements apart; panels are `pitch` numbers of 32 bits apart."""
        pitches = [f.const(pitch)] * (self.valid > PANEL)
        f.call(self.symbol, [source, f.const(along), target, f.const(groups), *pitches], external=True)


def columns_of(f: Function, group: int, valid: int, lanes_of: Lanes) -> list[Value]:
    """One group of `valid` columns, 16 at a time. `lanes_of(row of the group, first column)`: the elements of a row, of
    16 columns where groups are of four, else of all."""
    if group == 4:
        halves = range(0, valid, SIDE)
        return [_quads(f, [lanes_of(row, first) for row in range(group)]) for first in halves]
    a, b = (lanes_of(row, 0) for row in range(group))
    return [_interleaved(f, a, b, first, SIDE) for first in range(0, a.type.lanes, SIDE)]


def rounded(f: Function, numbers: Value, rounding: str) -> Value:
    """A vector of f32 as bf16, by an instruction for two of 16, or by arithmetic."""
    lanes = numbers.type.lanes
    if not rounding:
        of = ELEMENTS["bf16"]
        assert of.round is not None and of.encode is not None
        return of.encode(f, of.round(f, numbers))
    low, *others = (f.shuffle(numbers, numbers, range(first, first + SIDE)) for first in range(0, lanes, SIDE))
    both = f.target_intrinsic(rounding, *(others or [low]), low, result=VectorType(2 * SIDE, BF16))
    both = f.bitcast(both, VectorType(2 * SIDE, I16))
    return both if others else f.shuffle(both, both, range(SIDE))


def flipped(f: Function, numbers: Value) -> Value:
    """Signed bytes and 128, or unsigned ones less 128."""
    return f.binary("xor", numbers, f.const(SIGNS, numbers.type))


@lru_cache(maxsize=64)
def _text(groups: PanelGroups, target: CpuTarget) -> str:
    """void(source, along, target, groups), of two panels (..., pitch)"""
    parameters = [("source", PTR), ("along", I64), ("target", PTR), ("groups", I64)]
    parameters += [("pitch", I64)] * (groups.valid > PANEL)
    f = Function(groups.symbol, parameters, target.emitter(), noalias=("target",))
    scalar, valid = groups.scalar, groups.valid
    # The rows that the next call reads lie below those of this one: rows are read in short pieces, and the processor's
    # own prefetcher starts anew with each.
    ahead = f.imul(f.imul(f.along, groups.group), f.groups)

    def one(number: Index) -> None:
        at = f.gep(f.source, f.imul(number, f.imul(f.along, groups.group)), scalar)
        end = f.gep(f.target, f.imul(number, SIDE), I32)
        for row in range(groups.group if groups.ahead else 0):
            f.prefetch(at, f.iadd(ahead, f.imul(f.along, row)), scalar, locality=2)

        if valid > PANEL:
            rows = [f.load(VectorType(valid, scalar), at, f.imul(f.along, row)) for row in range(groups.group)]
            for half, value in enumerate(_quads_of_lines(f, rows)):
                place = f.iadd(f.imul(f.pitch, half // 2), half % 2 * TILE)
                f.store(flipped(f, value) if groups.flips else value, end, place)
            return

        def lanes_of(row: int, first: int) -> Value:
            left = min(SIDE, valid - first) if groups.group == 4 else valid
            lanes = -(-left // SIDE) * SIDE
            place, type_ = f.iadd(f.imul(f.along, row), first), VectorType(lanes, scalar)
            if left == lanes:
                numbers = f.load(type_, at, place)
            else:
                numbers = f.masked_load(type_, at, place, f.tail_mask(left, lanes), f.const(0, type_))
            return rounded(f, numbers, groups.rounding) if groups.rounds else numbers

        for half, value in enumerate(columns_of(f, groups.group, valid, lanes_of)):
            f.store(flipped(f, value) if groups.flips else value, end, half * TILE)

    f.loop(0, f.groups, 1, one, nonempty=True)
    f.ret()
    return f.text()


def _interleaved(f: Function, a: Value, b: Value, first: int, count: int) -> Value:
    """So many lanes of two vectors of 16 bits in turn, each pair as one number."""
    lanes = a.type.lanes
    both = f.shuffle(a, b, [lane // 2 + first + lanes * (lane % 2) for lane in range(2 * count)])
    return f.bitcast(both, VectorType(count, I32))


def _quads(f: Function, rows: Sequence[Value]) -> Value:
    """The lanes of four vectors of 16 bytes in turn, each four as one number: 4 x 4 numbers are transposed, then 4 x 4
    bytes in each quarter. To interleave pairs, then pairs of pairs, takes three times as many shuffles."""
    low, high = (f.shuffle(a, b, list(range(2 * SIDE))) for a, b in (rows[:2], rows[2:]))
    numbers = f.bitcast(f.shuffle(low, high, list(range(4 * SIDE))), VectorType(SIDE, I32))
    turned = f.shuffle(numbers, numbers, [4 * (lane % 4) + lane // 4 for lane in range(SIDE)])
    bytes_ = f.bitcast(turned, VectorType(4 * SIDE, I8))
    bytes_ = f.shuffle(bytes_, bytes_, [lane // 16 * 16 + 4 * (lane % 4) + lane % 16 // 4 for lane in range(4 * SIDE)])
    return f.bitcast(bytes_, VectorType(SIDE, I32))


def _quads_of_lines(f: Function, rows: Sequence[Value]) -> list[Value]:
    """The lanes of four vectors of 64 bytes in turn, 16 at a time: bytes become pairs and pairs become quads within
    quarters, of which 4 x 4 are transposed. 16 shuffles, where `_quads` of each quarter takes 20 and loads pieces."""

    def pairs(a: Value, b: Value, half: int) -> Value:
        """Numbers of two vectors in turn, of one half of each quarter."""
        lanes = a.type.lanes
        quarter = lanes // 4
        order = [part * quarter + half * quarter // 2 + lane for part in range(4) for lane in range(quarter // 2)]
        return f.shuffle(a, b, [place + lanes * of for place in order for of in range(2)])

    def quads(low: Value, high: Value, half: int) -> Value:
        of = VectorType(2 * SIDE, I16)
        return f.bitcast(pairs(f.bitcast(low, of), f.bitcast(high, of), half), VectorType(SIDE, I32))

    def quarters(a: Value, b: Value, first: int) -> Value:
        """Quarters of two vectors: one of them and the next but one."""
        return f.shuffle(a, b, [4 * place + lane for place in range(first, 8, 2) for lane in range(4)])

    a, b, c, d = rows
    both = [quads(pairs(a, b, half), pairs(c, d, half), part) for half in range(2) for part in range(2)]
    ends = [quarters(low, high, first) for low, high in (both[:2], both[2:]) for first in range(2)]
    return [quarters(ends[first], ends[2 + first], part) for part in range(2) for first in range(2)]
