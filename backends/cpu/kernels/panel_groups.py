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
from stablehlo_py.backends.cpu.weight_tiles import SIDE
from stablehlo_py.codegen.builder import I8, I16, I32, I64, PTR, Function, Index, ScalarType, Value, VectorType

SIGNS = -0x7F7F7F80  # the highest bit of each byte

Lanes = Callable[[int, int], Value]


@dataclass(frozen=True)
class PanelGroups:
    """What the code depends on.

    Attributes:
        group: elements of a group: four bytes, or two numbers of 16 bits.
        valid: columns that are there.
        flips: bytes get the other sign.
    """

    group: int
    valid: int
    flips: bool

    @property
    def symbol(self) -> str:
        """The name of its function."""
        return f"shlo_groups_{self.group}_{self.valid}{'_x' * self.flips}"

    @property
    def scalar(self) -> ScalarType:
        """Of the elements."""
        return I8 if self.group == 4 else I16

    def text(self, target: CpuTarget) -> str:
        """Its code."""
        return _text(self, target)

    def call(self, f: Function, source: Value, along: int, target: Value, groups: int) -> None:
        """Make so many groups of rows that are `along` elements apart."""
        f.call(self.symbol, [source, f.const(along), target, f.const(groups)], external=True)


def columns_of(f: Function, group: int, valid: int, lanes_of: Lanes) -> list[Value]:
    """One group of `valid` columns, 16 at a time. `lanes_of(row of the group, first column)`: the elements of a row, of
    16 columns where groups are of four, else of all."""
    if group == 4:
        halves = range(0, valid, SIDE)
        return [_quads(f, [lanes_of(row, first) for row in range(group)]) for first in halves]
    a, b = (lanes_of(row, 0) for row in range(group))
    return [_interleaved(f, a, b, first, SIDE) for first in range(0, a.type.lanes, SIDE)]


def flipped(f: Function, numbers: Value) -> Value:
    """Signed bytes and 128, or unsigned ones less 128."""
    return f.binary("xor", numbers, f.const(SIGNS, numbers.type))


@lru_cache(maxsize=64)
def _text(groups: PanelGroups, target: CpuTarget) -> str:
    """void(source, along, target, groups)"""
    parameters = [("source", PTR), ("along", I64), ("target", PTR), ("groups", I64)]
    f = Function(groups.symbol, parameters, target.emitter(), noalias=("target",))
    scalar, valid = groups.scalar, groups.valid

    def one(number: Index) -> None:
        at = f.gep(f.source, f.imul(number, f.imul(f.along, groups.group)), scalar)
        end = f.gep(f.target, f.imul(number, SIDE), I32)

        def lanes_of(row: int, first: int) -> Value:
            left = min(SIDE, valid - first) if groups.group == 4 else valid
            lanes = -(-left // SIDE) * SIDE
            place, type_ = f.iadd(f.imul(f.along, row), first), VectorType(lanes, scalar)
            if left == lanes:
                return f.load(type_, at, place)
            return f.masked_load(type_, at, place, f.tail_mask(left, lanes), f.const(0, type_))

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
