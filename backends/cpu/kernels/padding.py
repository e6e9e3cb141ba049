"""A phase that copies a tensor into scratch with zeros around its elements and between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.contraction import Operand
from stablehlo_py.backends.cpu.kernels.product import KernelBuilder
from stablehlo_py.codegen.builder import Function, Index, Value, vector


@dataclass(frozen=True)
class PaddedDimension:
    """A dimension of `size` elements, `stride` scalars apart; `low` and `high` zeros at the edges (negative: cut off),
    dilation - 1 zeros between elements."""

    size: int
    stride: int
    low: int
    high: int
    dilation: int

    @property
    def padded(self) -> int:
        """Size with padding."""
        return (
            max(0, self.low + (self.size - 1) * self.dilation + 1 + self.high)
            if self.size
            else max(0, self.low + self.high)
        )

    @property
    def kept(self) -> range:
        """Source indices whose elements are inside the padded dimension."""
        first = max(0, -(self.low // self.dilation))
        last = min(self.size, (self.padded - 1 - self.low) // self.dilation + 1)
        return range(first, max(first, last))

    @property
    def plain(self) -> bool:
        return self.low == self.high == 0 and self.dilation == 1


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
    dims = [*dimensions, PaddedDimension(2, 1, 0, 0, 1)] if arithmetic.complex else list(dimensions)
    inner = min(len(dims), 3 if arithmetic.complex else 2)
    outer, inside = dims[: len(dims) - inner], dims[len(dims) - inner :]
    row = math.prod(d.padded for d in inside)
    copier = _Copier(arithmetic, source, builder.target.lanes(arithmetic.accumulator.bits))

    def emit(f: Function) -> None:
        to_base = f.gep(getattr(f, target.pointer), target.offset, arithmetic.accumulator)
        from_base = f.gep(getattr(f, source.pointer), source.offset, source.element.storage)

        def iteration(number: Value) -> None:
            to = f.gep(to_base, f.imul(number, row), arithmetic.accumulator)
            offset: Index = 0
            conditions: list[Value] = []
            rest: Index = number
            for position, d in reversed(list(enumerate(outer))):
                digit = f.irem(rest, d.padded) if position else rest
                rest = f.idiv(rest, d.padded) if position else 0
                place = f.isub(digit, d.low + d.kept.start * d.dilation)  # 0 at the first kept element
                if not d.plain:
                    # Unsigned: places before the first one are huge.
                    limit = f.const(max(0, len(d.kept) - 1) * d.dilation + (len(d.kept) > 0))
                    conditions.append(f.cmp("ult", f.index(place), limit))
                if d.dilation > 1:
                    conditions.append(f.cmp("eq", f.index(f.irem(place, d.dilation)), f.const(0)))
                step = f.idiv(place, d.dilation) if d.dilation > 1 else place
                offset = f.iadd(offset, f.imul(f.iadd(step, d.kept.start), d.stride))
            origin = f.gep(from_base, offset, source.element.storage)
            if not conditions:
                copier.copy(f, inside, origin, to)
                return
            condition = conditions[0]
            for other in conditions[1:]:
                condition = f.binary("and", condition, other)
            f.if_(condition, lambda: copier.copy(f, inside, origin, to), lambda: copier.zero(f, to, row))

        f.loop(f.begin, f.end, 1, iteration)
        f.ret()

    builder.phase(name, math.prod(d.padded for d in outer), row * 0.15 + 5, emit)


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
        kept = d.kept
        scalar = self.arithmetic.accumulator
        start = d.low + kept.start * d.dilation  # place of the first kept element
        first = f.gep(at, kept.start * d.stride, self.source.element.storage)
        if d.dilation == 1 and self._dense(rest) and (d.stride == inner or len(kept) == 1):
            self.zero(f, to, start * inner)
            self._run(f, first, f.gep(to, start * inner, scalar), len(kept) * inner)
            self.zero(f, f.gep(to, (start + len(kept)) * inner, scalar), (d.padded - start - len(kept)) * inner)
            return
        if d.dilation > 1 or not kept:
            self.zero(f, to, d.padded * inner)
        else:
            self.zero(f, to, start * inner)
            self.zero(f, f.gep(to, (start + len(kept)) * inner, scalar), (d.padded - start - len(kept)) * inner)
        base = f.gep(to, start * inner, scalar)

        def one(i: Index) -> None:
            place = f.gep(base, f.imul(i, d.dilation * inner), scalar)
            self.copy(f, rest, f.gep(first, f.imul(i, d.stride), self.source.element.storage), place)

        f.loop(0, len(kept), 1, one)

    @staticmethod
    def _dense(dims: Sequence[PaddedDimension]) -> bool:
        step = 1
        for d in reversed(dims):
            if not d.plain or (d.stride != step and d.size != 1):
                return False
            step *= d.size
        return True

    def _run(self, f: Function, at: Value, to: Value, count: int) -> None:
        lanes = self.lanes
        whole = count // lanes * lanes
        f.loop(0, whole, lanes, lambda i: self._vector(f, at, to, i, lanes))
        if count > whole:
            self._vector(f, at, to, whole, count - whole)

    def _vector(self, f: Function, at: Value, to: Value, i: Index, count: int) -> None:
        mask = f.tail_mask(count, self.lanes) if count < self.lanes else None
        at = f.gep(at, i, self.source.element.storage)
        value = self.arithmetic.load(f, self.source, at, 0, self.lanes, mask)
        if mask is None:
            f.store(value, to, i)
        else:
            f.masked_store(value, to, i, mask)

    def zero(self, f: Function, to: Value, count: int) -> None:
        """Zeros in `count` scalars."""
        lanes, scalar = self.lanes, self.arithmetic.accumulator
        zero = f.const(0, vector(lanes, scalar))
        whole = count // lanes * lanes
        f.loop(0, whole, lanes, lambda i: f.store(zero, to, i))
        if 0 < whole < count:
            f.store(zero, to, count - lanes)  # overlaps the last whole one
        elif whole < count:
            f.loop(0, count, 1, lambda i: f.store(f.const(0, scalar), to, i))
