"""Products of small integers, two at a time.

CPUs multiply 16-bit integers and add neighbouring products in one instruction (`pmaddwd` on x86; with VNNI the
accumulation too), at twice the products of a 32-bit multiplication and a fifth of its time. So the operands of a large
enough product are copied to scratch as pairs: two neighbours along a contracted dimension, as 16-bit halves of one
32-bit scalar. To everything after that, packing and tiles included, it is a contraction of half the depth over 32-bit
scalars, whose multiply-add is `Arithmetic.pairs`. An odd dimension is filled up with a zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stablehlo_py.backends.common.contraction import Operand, Source
from stablehlo_py.backends.common.loops import if_any, unravel, vectors
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.codegen.builder import I32, Function, Index, Value
from stablehlo_py.codegen.types import ELEMENTS, element
from stablehlo_py.dialect.index_map import Digits, digits_of
from stablehlo_py.dialect.symint import IntLike, size_hint
from stablehlo_py.mlir import ir

if TYPE_CHECKING:
    from stablehlo_py.backends.cpu.kernels.rooted import Rooted

FEW = 8  # with fewer rows or columns the copies cost more than they save


def pairs_pay(
    operands: Sequence[ir.Value], arithmetic: Arithmetic, rows: IntLike, columns: IntLike, depth: IntLike
) -> bool:
    """Whether a product, sums in i32 of integers that 16 bits hold, is better done in pairs."""
    sums_i32 = arithmetic.accumulator == I32 and not arithmetic.complex and not arithmetic.boolean
    of = [element(operand) for operand in operands]
    narrow = all(each.kind == "int" and each.bits <= (8 if each.unsigned else 16) for each in of)
    return sums_i32 and narrow and min(map(size_hint, (rows, columns))) >= FEW and size_hint(depth) > 1


def use_pairs(rooted: Rooted, a: Source, b: Source, contracted: tuple[int, int]) -> tuple[Source, Source]:
    """Add the phases that copy A and B as pairs along one contracted dimension of each, which has one digit; the
    product is then one of pairs. The digits of the copies count pairs along that dimension."""
    paired = _paired(rooted, a, contracted[0], "pairs_a"), _paired(rooted, b, contracted[1], "pairs_b")
    rooted.arithmetic = replace(rooted.arithmetic, pairs=True, pair_intrinsics=rooted.target.pair_intrinsics)
    return paired


@dataclass(frozen=True)
class _Axis:
    """A loop of the copy: the dimension it belongs to, its size and its step in the source."""

    dimension: int
    size: IntLike
    stride: IntLike


def _paired(rooted: Rooted, source: Source, dimension: int, name: str) -> Source:
    axes = [
        _Axis(number, *digit) for number, digits in enumerate(source.dimensions) for digit in digits if digit[0] != 1
    ]
    pair = next((axis for axis in reversed(axes) if axis.dimension == dimension), None)
    if pair is None:
        pair = _Axis(dimension, 1, 0)
        axes.append(pair)
    # The copy keeps the order in which memory holds the axes.
    order = sorted(axes, key=lambda axis: abs(size_hint(axis.stride)), reverse=True)
    copy = _PairCopy(rooted, source.operand, order, pair)
    room = rooted.builder.scratch.take(math.prod(copy.sizes), ELEMENTS["i32"])
    rooted.builder.phase(name, copy.rows, size_hint(copy.sizes[-1]) * 0.3 + 5, lambda f: copy.emit(f, room))
    dense = dict(zip(map(id, order), digits_of(copy.sizes), strict=True))
    dimensions: list[Digits] = [()] * len(source.dimensions)
    for axis in axes:
        dimensions[axis.dimension] += dense[id(axis)]
    return replace(source, operand=room, dimensions=tuple(dimensions))


class _PairCopy:
    """The copy of one operand; an iteration is a row along the innermost axis in memory."""

    def __init__(self, rooted: Rooted, source: Operand, order: Sequence[_Axis], pair: _Axis) -> None:
        self.source, self.order, self.pair = source, order, pair
        self.sizes = [-(-axis.size // 2) if axis is pair else axis.size for axis in order]
        self.rows = math.prod(self.sizes[:-1])
        self.lanes = rooted.target.lanes(32)
        self.widen = Arithmetic(ELEMENTS["i32"])

    def emit(self, f: Function, room: Operand) -> None:
        """The body of the phase."""
        inner = self.order[-1]
        to_base = room.at(f)
        from_base = self.source.at(f)

        def row(number: Value) -> None:
            offset: Index = 0
            place: Index = 0  # of the pair
            digits = unravel(f, number, self.sizes[:-1])
            for axis, digit in zip(self.order[:-1], digits, strict=True):
                if axis is self.pair:
                    place = digit
                offset = f.iadd(offset, f.imul(digit, axis.stride * (2 if axis is self.pair else 1)))
            at = f.gep(from_base, offset, self.source.element.storage)
            to = f.gep(to_base, f.imul(number, self.sizes[-1]), I32)
            if inner is self.pair:
                self._along(f, at, to)
            else:
                self._across(f, at, to, place)

        f.loop(f.begin, f.end, 1, row)

    def _along(self, f: Function, at: Value, to: Value) -> None:
        """A row of pairs whose halves are neighbours along it."""
        size, stride, lanes = self.pair.size, self.pair.stride, self.lanes

        def whole_or_rest(pair: Index, count: Index | None) -> None:
            mask = None if count is None else f.tail_mask(count, 2 * lanes)
            both = self._load(f, at, f.imul(pair, 2), 2 * lanes, mask)
            low = f.shuffle(both, both, range(0, 2 * lanes, 2))
            high = f.shuffle(both, both, range(1, 2 * lanes, 2))
            some = None if count is None else f.tail_mask(f.idiv(f.iadd(count, 1), 2), lanes)
            f.store(self._joined(f, low, high), to, pair, some)

        def single(pair: Index) -> None:
            low = self._load(f, at, f.imul(pair, 2 * stride), 1)
            high = self._load(f, at, f.iadd(f.imul(pair, 2 * stride), stride), 1)
            f.store(self._joined(f, low, high), to, pair)

        if stride == 1:
            whole = size // (2 * lanes) * lanes
            f.loop(0, whole, lanes, lambda pair: whole_or_rest(pair, None))
            if_any(f, size - 2 * whole, lambda rest: whole_or_rest(whole, rest))
            return

        def last(_: Index) -> None:
            low = self._load(f, at, (size - 1) * stride, 1)
            f.store(self._joined(f, low, f.const(0, I32)), to, size // 2)

        f.loop(0, size // 2, 1, single)
        if_any(f, size % 2, last)

    def _across(self, f: Function, at: Value, to: Value, place: Index) -> None:
        """A row of pairs whose halves are of two rows; the second of the last pair may not be there."""
        inner, lanes = self.order[-1], self.lanes
        storage = self.source.element.storage

        def copy(second: Value | None) -> None:
            def pairs(i: Index, mask: Value | None, lanes: int = lanes) -> None:
                offset = f.imul(i, inner.stride)
                low = self._load(f, at, offset, lanes, mask)
                high = f.const(0, low.type) if second is None else self._load(f, second, offset, lanes, mask)
                f.store(self._joined(f, low, high), to, i, mask)

            if inner.stride == 1:
                vectors(f, inner.size, lanes, pairs)
            else:
                f.loop(0, inner.size, 1, lambda i: pairs(i, None, 1))

        there = f.gep(at, self.pair.stride, storage)
        if self.pair.size % 2 == 0:
            copy(there)
        elif self.pair.size == 1:
            copy(None)
        else:
            f.if_(f.cmp("slt", f.index(place), f.index(self.pair.size // 2)), lambda: copy(there), lambda: copy(None))

    def _load(self, f: Function, at: Value, offset: Index, lanes: int, mask: Value | None = None) -> Value:
        return self.widen.load(f, self.source, at, offset, lanes, mask)

    def _joined(self, f: Function, low: Value, high: Value) -> Value:
        half, mask = f.const(16, low.type), f.const(0xFFFF, low.type)
        return f.binary("or", f.binary("and", low, mask), f.binary("shl", high, half))
