"""A phase that copies a tensor into scratch with zeros around its elements and between them. All sizes and edges may
come with the call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.contraction import Operand
from stablehlo_py.backends.common.loops import if_any, unravel, vectors
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.product import KernelBuilder
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value, vector
from stablehlo_py.dialect.symint import IntLike, is_known, maximum, minimum, size_hint


@dataclass(frozen=True)
class PaddedDimension:
    """A dimension of `size` elements, `stride` scalars apart; `low` and `high` zeros at the edges (negative: cut off),
    dilation - 1 zeros between elements."""

    size: IntLike
    stride: IntLike
    low: IntLike
    high: IntLike
    dilation: IntLike

    @property
    def spread(self) -> IntLike:
        """Size with what is between elements."""
        return _spread(self.size, self.dilation)

    @property
    def padded(self) -> IntLike:
        """Size with padding."""
        return maximum(0, self.low + self.spread + self.high)

    @property
    def first(self) -> IntLike:
        """The first source index whose element is inside the padded dimension."""
        return maximum(0, -(self.low // self.dilation))

    @property
    def count(self) -> IntLike:
        """How many are, from the first on."""
        last = minimum(self.size, (self.padded - 1 - self.low) // self.dilation + 1)
        return maximum(0, last - self.first)

    @property
    def start(self) -> IntLike:
        """The place of the first of them; where there are none, a place that is not past the end."""
        return minimum(self.low + self.first * self.dilation, self.padded)

    @property
    def plain(self) -> bool:
        return self.low == self.high == 0 and self.dilation == 1


def _spread(count: IntLike, dilation: IntLike) -> IntLike:
    """Places from the first of `count` elements to the last one."""
    return maximum(0, (count - 1) * dilation + 1)


def emit_padded_copy(
    builder: KernelBuilder,
    arithmetic: Arithmetic,
    source: Operand,
    dimensions: Sequence[PaddedDimension],
    target: Operand,
    name: str = "pad",
) -> None:
    """Add the phase; the copy is dense, its dimensions in the given order, its elements of the accumulator's type.

    One iteration is a place of all dimensions but the last two.
    """
    copy = PaddedCopy(arithmetic, source, dimensions, builder.target)

    def emit(f: Function) -> None:
        to_base = target.at(f)

        def iteration(number: Value) -> None:
            to = f.gep(to_base, f.imul(number, copy.row), arithmetic.accumulator)
            copy.place(f, unravel(f, number, [d.padded for d in copy.outer]), to)

        f.loop(f.begin, f.end, 1, iteration)

    builder.phase(name, math.prod(d.padded for d in copy.outer), size_hint(copy.row) * 0.15 + 5, emit)


class PaddedCopy:
    """Copies what is at a place of all dimensions but the last two, `outer`: `row` scalars of the copy."""

    def __init__(
        self, arithmetic: Arithmetic, source: Operand, dimensions: Sequence[PaddedDimension], target: CpuTarget
    ) -> None:
        dims = [*dimensions, PaddedDimension(2, 1, 0, 0, 1)] if arithmetic.complex else list(dimensions)
        inner = min(len(dims), 3 if arithmetic.complex else 2)
        self.arithmetic, self.source = arithmetic, source
        self.outer, self._inside = dims[: len(dims) - inner], dims[len(dims) - inner :]
        self.row = math.prod(d.padded for d in self._inside)
        self._copier = _Copier(arithmetic, source, target.lanes(arithmetic.accumulator.bits))

    def place(self, f: Function, digits: Sequence[Index], to: Value) -> None:
        """Copy what is at these places of the outer dimensions."""
        offset: Index = 0
        conditions: list[Value] = []
        for d, digit in zip(self.outer, digits, strict=True):
            place = f.isub(digit, d.start)  # 0 at the first kept element
            if not d.plain:
                # Unsigned: places before the first one are huge.
                limit = f.index(_spread(d.count, d.dilation))
                conditions.append(f.cmp("ult", f.index(place), limit))
            if d.dilation > 1:
                conditions.append(f.cmp("eq", f.index(f.irem(place, d.dilation)), f.const(0)))
            step = f.idiv(place, d.dilation) if d.dilation > 1 else place
            offset = f.iadd(offset, f.imul(f.iadd(step, d.first), d.stride))
        origin = f.gep(self.source.at(f), offset, self.source.element.storage)
        if not conditions:
            self._copier.copy(f, self._inside, origin, to)
            return
        condition = conditions[0]
        for other in conditions[1:]:
            condition = f.binary("and", condition, other)
        f.if_(
            condition,
            lambda: self._copier.copy(f, self._inside, origin, to),
            lambda: self._copier.zero(f, to, self.row),
        )


class _Copier:
    """Copies with padding, dimension by dimension; runs that are contiguous on both sides are copied as one."""

    def __init__(self, arithmetic: Arithmetic, source: Operand, lanes: int) -> None:
        self.arithmetic, self.source, self.lanes = arithmetic, source, lanes

    def copy(self, f: Function, dims: Sequence[PaddedDimension], at: Value, to: Value) -> None:
        """The padded box `dims` from `at` to `to`."""
        if not dims:
            f.store(self.arithmetic.load(f, self.source, at, 0, 1), to)
            return
        d, rest = dims[0], dims[1:]
        inner = math.prod(other.padded for other in rest)
        count = d.count
        scalar = self.arithmetic.accumulator
        first = f.gep(at, d.first * d.stride, self.source.element.storage)
        after = d.padded - d.start - count
        if d.dilation == 1 and self._dense(rest) and (d.stride == inner or count == 1):
            self.zero(f, to, d.start * inner)
            self._run(f, first, f.gep(to, d.start * inner, scalar), count * inner)
            self.zero(f, f.gep(to, (d.start + count) * inner, scalar), after * inner)
            return
        if d.dilation > 1 or count == 0:
            self.zero(f, to, d.padded * inner)
        else:
            self.zero(f, to, d.start * inner)
            self.zero(f, f.gep(to, (d.start + count) * inner, scalar), after * inner)
        base = f.gep(to, d.start * inner, scalar)

        def one(i: Index) -> None:
            place = f.gep(base, f.imul(i, d.dilation * inner), scalar)
            self.copy(f, rest, f.gep(first, f.imul(i, d.stride), self.source.element.storage), place)

        f.loop(0, count, 1, one)

    @staticmethod
    def _dense(dims: Sequence[PaddedDimension]) -> bool:
        step: IntLike = 1
        for d in reversed(dims):
            if not d.plain or (d.stride != step and d.size != 1):
                return False
            step *= d.size
        return True

    def _run(self, f: Function, at: Value, to: Value, count: IntLike) -> None:
        vectors(f, count, self.lanes, lambda i, mask: self._vector(f, at, to, i, mask))

    def _vector(self, f: Function, at: Value, to: Value, i: Index, mask: Value | None) -> None:
        at = f.gep(at, i, self.source.element.storage)
        value = self.arithmetic.load(f, self.source, at, 0, self.lanes, mask)
        f.store(value, to, i, mask)

    def zero(self, f: Function, to: Value, count: IntLike) -> None:
        """Zeros in `count` scalars."""
        lanes, scalar = self.lanes, self.arithmetic.accumulator
        zero = f.const(0, vector(lanes, scalar))
        whole = count // lanes * lanes
        f.loop(0, whole, lanes, lambda i: f.store(zero, to, i))
        if not is_known(count):
            if_any(f, count - whole, lambda rest: f.store(zero, to, whole, f.tail_mask(rest, lanes)))
        elif 0 < whole < count:
            f.store(zero, to, count - lanes)  # overlaps the last whole one
        elif whole < count:
            f.loop(0, count, 1, lambda i: f.store(f.const(0, scalar), to, i))
