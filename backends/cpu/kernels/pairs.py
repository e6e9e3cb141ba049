"""Products of small integers, two or four at a time.

CPUs multiply 16-bit integers and add neighbouring products in one instruction (`pmaddwd` on x86; with VNNI the
accumulation too), at twice the products of a 32-bit multiplication and a fifth of its time. So the operands of a large
enough product are copied to scratch as pairs: two neighbours along a contracted dimension, as 16-bit halves of one
32-bit scalar. Where a CPU has instructions for the products of four bytes (`sdot` of AArch64), operands of bytes are
copied as quads. To everything after that, packing and tiles included, it is a contraction of half or a quarter of the
depth over 32-bit scalars, whose multiply-add is `Arithmetic.packed`. What is missing in the last one is zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stablehlo_py.backends.common.contraction import Operand, Source
from stablehlo_py.backends.common.loops import if_any, unravel, vectors
from stablehlo_py.backends.cpu.kernels.arithmetic import PAIR, QUAD, Arithmetic, joined, packed_arithmetic
from stablehlo_py.codegen.builder import I32, Function, Index, Value
from stablehlo_py.codegen.types import ELEMENTS, element
from stablehlo_py.dialect.index_map import Digits, digits_of
from stablehlo_py.dialect.symint import IntLike, is_known, size_hint
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


def use_pairs(
    rooted: Rooted, a: Source, b: Source, contracted: tuple[int, int], lanes: Source | None
) -> tuple[Source, Source]:
    """Add the phases that copy A and B as pairs, or quads, along one contracted dimension of each, which has one digit;
    the product is then one of pairs or quads. The digits of the copies count them along that dimension. `lanes`: the
    operand that is packed into panels in any case, which can join neighbours on the way (see `Rooted.lanes`)."""
    of = [source.operand.element for source in (a, b)]
    unsigned = of[0].unsigned, of[1].unsigned
    quad = rooted.target.quad_intrinsic(unsigned) if all(each.bits == each.storage.bits == 8 for each in of) else ""
    packed = QUAD if quad else PAIR
    pairs = []
    for source, along, name in zip((a, b), contracted, ("pairs_a", "pairs_b"), strict=True):
        later = _joined_later(source, along, packed) if source is lanes else None
        pairs.append(later or _packed(rooted, source, along, packed, name))
    rooted.arithmetic = packed_arithmetic(rooted.arithmetic, packed, unsigned, rooted.target)
    return pairs[0], pairs[1]


def _joined_later(source: Source, dimension: int, packed: int) -> Source | None:
    """An operand whose neighbours along a dimension whoever reads it joins; None where some have none."""
    digits = [digit for digit in source.dimensions[dimension] if digit[0] != 1]
    if len(digits) != 1 or not is_known(*digits[0]):
        return None
    size, stride = (int(number) for number in digits[0])
    if size % packed or stride == 1:
        return None
    dimensions = list(source.dimensions)
    dimensions[dimension] = ((size // packed, stride * packed),)
    return replace(source, operand=replace(source.operand, apart=stride), dimensions=tuple(dimensions))


@dataclass(frozen=True)
class _Axis:
    """A loop of the copy: the dimension it belongs to, its size and its step in the source."""

    dimension: int
    size: IntLike
    stride: IntLike


def _packed(rooted: Rooted, source: Source, dimension: int, packed: int, name: str) -> Source:
    axes = [
        _Axis(number, *digit) for number, digits in enumerate(source.dimensions) for digit in digits if digit[0] != 1
    ]
    pair = next((axis for axis in reversed(axes) if axis.dimension == dimension), None)
    if pair is None:
        pair = _Axis(dimension, 1, 0)
        axes.append(pair)
    # The copy keeps the order in which memory holds the axes.
    order = sorted(axes, key=lambda axis: abs(size_hint(axis.stride)), reverse=True)
    copy = _PackedCopy(rooted, source.operand, order, pair, packed)
    room = rooted.builder.scratch.take(math.prod(copy.sizes), ELEMENTS["i32"])
    rooted.builder.phase(name, copy.rows, size_hint(copy.sizes[-1]) * 0.3 + 5, lambda f: copy.emit(f, room))
    dense = dict(zip(map(id, order), digits_of(copy.sizes), strict=True))
    dimensions: list[Digits] = [()] * len(source.dimensions)
    for axis in axes:
        dimensions[axis.dimension] += dense[id(axis)]
    return replace(source, operand=room, dimensions=tuple(dimensions))


class _PackedCopy:
    """The copy of one operand; an iteration is a row along the innermost axis in memory. `pair` is the axis whose
    neighbours come together, `packed` of them."""

    def __init__(self, rooted: Rooted, source: Operand, order: Sequence[_Axis], pair: _Axis, packed: int) -> None:
        self.source, self.order, self.pair, self.packed = source, order, pair, packed
        self.sizes = [-(-axis.size // packed) if axis is pair else axis.size for axis in order]
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
            place: Index = 0  # along the axis
            digits = unravel(f, number, self.sizes[:-1])
            for axis, digit in zip(self.order[:-1], digits, strict=True):
                if axis is self.pair:
                    place = digit
                offset = f.iadd(offset, f.imul(digit, axis.stride * (self.packed if axis is self.pair else 1)))
            at = f.gep(from_base, offset, self.source.element.storage)
            to = f.gep(to_base, f.imul(number, self.sizes[-1]), I32)
            if inner is self.pair:
                self._along(f, at, to)
            else:
                self._across(f, at, to, place)

        f.loop(f.begin, f.end, 1, row)

    def _along(self, f: Function, at: Value, to: Value) -> None:
        """A row whose parts are neighbours along it."""
        size, stride, lanes, packed = self.pair.size, self.pair.stride, self.lanes, self.packed

        def whole_or_rest(first: Index, count: Index | None) -> None:
            mask = None if count is None else f.tail_mask(count, packed * lanes)
            everything = self._load(f, at, f.imul(first, packed), packed * lanes, mask)
            parts = [f.shuffle(everything, everything, range(part, packed * lanes, packed)) for part in range(packed)]
            some = None if count is None else f.tail_mask(f.idiv(f.iadd(count, packed - 1), packed), lanes)
            f.store(joined(f, parts, packed), to, first, some)

        def single(number: Index, parts: int = packed) -> None:
            begin = f.imul(number, packed * stride)
            values = [self._load(f, at, f.iadd(begin, part * stride), 1) for part in range(parts)]
            f.store(joined(f, values, packed), to, number)

        if stride == 1:
            whole = size // (packed * lanes) * lanes
            f.loop(0, whole, lanes, lambda first: whole_or_rest(first, None))
            if_any(f, size - packed * whole, lambda rest: whole_or_rest(whole, rest))
            return
        f.loop(0, size // packed, 1, single)
        self._rest(f, size % packed, lambda parts: single(size // packed, parts))

    def _across(self, f: Function, at: Value, to: Value, place: Index) -> None:
        """A row whose parts are of as many rows; the last ones of all may not be there."""
        inner, lanes = self.order[-1], self.lanes
        storage, size, packed = self.source.element.storage, self.pair.size, self.packed

        def copy(count: int) -> None:
            rows = [f.gep(at, part * self.pair.stride, storage) for part in range(count)]

            def join(i: Index, mask: Value | None, lanes: int = lanes) -> None:
                offset = f.imul(i, inner.stride)
                numbers = [self._load(f, row, offset, lanes, mask) for row in rows]
                f.store(joined(f, numbers, packed), to, i, mask)

            if inner.stride == 1:
                vectors(f, inner.size, lanes, join)
            else:
                f.loop(0, inner.size, 1, lambda i: join(i, None, 1))

        whole = f.cmp("slt", f.index(place), f.index(size // packed))
        if size % packed == 0:
            copy(packed)
        elif isinstance(size, int) and size < packed:
            copy(size)
        else:
            f.if_(whole, lambda: copy(packed), lambda: self._rest(f, size % packed, copy))

    def _rest(self, f: Function, count: IntLike, copy: Callable[[int], None]) -> None:
        """The last parts, fewer than are packed together, if there are any."""
        if isinstance(count, int):
            if count:
                copy(count)
            return
        for parts in range(1, self.packed):
            f.if_(f.cmp("eq", f.index(count), f.const(parts)), functools.partial(copy, parts))

    def _load(self, f: Function, at: Value, offset: Index, lanes: int, mask: Value | None = None) -> Value:
        return self.widen.load(f, self.source, at, offset, lanes, mask)
