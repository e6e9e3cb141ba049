"""A phase that copies a tensor into scratch with zeros around its elements and between them. All sizes and edges may
come with the call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple

from stablehlo_py.backends.common.contraction import Operand
from stablehlo_py.backends.common.loops import if_any, unravel, vectors
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.product import KernelBuilder
from stablehlo_py.backends.cpu.kernels.shared_function import call_piece
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value, vector
from stablehlo_py.codegen.types import ELEMENTS
from stablehlo_py.dialect.symint import IntLike, maximum, minimum, size_hint


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
    def after(self) -> IntLike:
        """How many places follow them, of dilation 1."""
        return self.padded - self.start - self.count

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
        to_base, rows = target.at(f), copy.rows()
        if rows is not None and f.common is not None:
            piece, numbers = rows
            call_piece(f, piece, [source.at(f), to_base, f.begin, f.end, *map(f.index, numbers)], apart=True)
            return

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
        self._run = _Run(arithmetic.element.name, source.element.name, target.lanes(arithmetic.accumulator.bits))

    def rows(self) -> tuple[_Rows, list[Index]] | None:
        """The same as a function of numbers, and these; None where a row is not one run between zeros."""
        run, outer = _run_of(self._inside), [d for d in self.outer if d.padded != 1 or not d.plain]
        if run is None or any(d.dilation != 1 for d in outer):
            return None
        kinds = _Rows(self._run, tuple(d.plain for d in outer))
        numbers: list[Index] = [number for d in outer for number in _Steps.of(d)]
        return kinds, [*numbers, self.row, *run]

    def place(self, f: Function, digits: Sequence[Index], to: Value) -> None:
        """Copy what is at these places of the outer dimensions."""
        offset: Index = 0
        conditions: list[Value] = []
        for d, digit in zip(self.outer, digits, strict=True):
            offset = f.iadd(offset, _Steps.of(d).at(f, digit, d.dilation, None if d.plain else conditions))
        origin = f.gep(self.source.at(f), offset, self.source.element.storage)
        if not conditions:
            self._copy(f, self._inside, origin, to)
            return
        f.if_(
            reduce(partial(f.binary, "and"), conditions),
            lambda: self._copy(f, self._inside, origin, to),
            lambda: self._run.zero(f, to, self.row),
        )

    def _copy(self, f: Function, dims: Sequence[PaddedDimension], at: Value, to: Value) -> None:
        """The padded box `dims` from `at` to `to`; runs that are contiguous on both sides are copied as one."""
        if not dims:
            f.store(self.arithmetic.load(f, self.source, at, 0, 1), to)
            return
        run = _run_of(dims)
        if run is not None:
            self._run.emit(f, at, to, *run)
            return
        d, rest = dims[0], dims[1:]
        inner = math.prod(other.padded for other in rest)
        scalar, storage = self.arithmetic.accumulator, self.source.element.storage
        if d.dilation > 1 or d.count == 0:
            self._run.zero(f, to, d.padded * inner)
        else:
            self._run.zero(f, to, d.start * inner)
            self._run.zero(f, f.gep(to, (d.start + d.count) * inner, scalar), d.after * inner)
        first, base = f.gep(at, d.first * d.stride, storage), f.gep(to, d.start * inner, scalar)

        def one(i: Index) -> None:
            place = f.gep(base, f.imul(i, d.dilation * inner), scalar)
            self._copy(f, rest, f.gep(first, f.imul(i, d.stride), storage), place)

        f.loop(0, d.count, 1, one)


def _run_of(dims: Sequence[PaddedDimension]) -> tuple[IntLike, IntLike, IntLike, IntLike] | None:
    """Of a padded box that is zeros, a contiguous run of the source, and zeros: where the run begins, and how many
    each of them are."""
    d, rest = dims[0], dims[1:]
    inner = math.prod(other.padded for other in rest)
    if d.dilation == 1 and _dense(rest) and (d.stride == inner or d.count == 1):
        return d.first * d.stride, d.start * inner, d.count * inner, d.after * inner
    return None


def _dense(dims: Sequence[PaddedDimension]) -> bool:
    step: IntLike = 1
    for d in reversed(dims):
        if not d.plain or (d.stride != step and d.size != 1):
            return False
        step *= d.size
    return True


class _Steps(NamedTuple):
    """How places of a padded dimension step through the source; as numbers, or as arguments."""

    padded: Index
    start: Index
    limit: Index
    first: Index
    stride: Index

    @classmethod
    def of(cls, d: PaddedDimension) -> _Steps:
        """Of a dimension."""
        return cls(d.padded, d.start, _spread(d.count, d.dilation), d.first, d.stride)

    def at(self, f: Function, digit: Index, dilation: IntLike, conditions: list[Value] | None) -> Index:
        """Where in the source a place is. `conditions` get those on which there is an element; None: there is."""
        place = f.isub(digit, self.start)  # 0 at the first kept element
        if conditions is not None:
            # Unsigned: places before the first one are huge.
            conditions.append(f.cmp("ult", f.index(place), f.index(self.limit)))
        if dilation > 1 and conditions is not None:
            conditions.append(f.cmp("eq", f.index(f.irem(place, dilation)), f.const(0)))
        step = f.idiv(place, dilation) if dilation > 1 else place
        return f.imul(f.iadd(step, self.first), self.stride)


@dataclass(frozen=True)
class _Run:
    """Zeros, elements of one type that become another one's, and zeros."""

    to: str
    source: str
    lanes: int

    def emit(self, f: Function, at: Value, to: Value, first: Index, before: Index, count: Index, after: Index) -> None:
        """Write so many of each to `to`, elements from `at` and the first one on."""
        arithmetic, source = Arithmetic(ELEMENTS[self.to]), Operand("", 0, ELEMENTS[self.source])
        begin, target = f.gep(at, first, source.element.storage), f.gep(to, before, arithmetic.accumulator)

        def copy(i: Index, lanes: int, mask: Value | None = None) -> None:
            place = f.gep(begin, i, source.element.storage)
            f.store(arithmetic.load(f, source, place, 0, lanes, mask), target, i, mask)

        self.zero(f, to, before)
        if isinstance(count, Value):
            whole = self._whole(f, count)
            f.loop(0, whole, self.lanes, lambda i: copy(i, self.lanes))
            f.loop(whole, count, 1, lambda i: copy(i, 1))
        else:
            vectors(f, count, self.lanes, lambda i, mask: copy(i, self.lanes, mask))
        self.zero(f, f.gep(target, count, arithmetic.accumulator), after)

    def zero(self, f: Function, to: Value, count: Index) -> None:
        """Zeros in `count` scalars."""
        lanes, scalar = self.lanes, ELEMENTS[self.to].storage
        zero, whole = f.const(0, vector(lanes, scalar)), self._whole(f, count)
        f.loop(0, whole, lanes, lambda i: f.store(zero, to, i))
        if isinstance(count, int) and isinstance(whole, int):
            if 0 < whole < count:
                f.store(zero, to, count - lanes)  # overlaps the last whole one
            elif whole < count:
                f.loop(0, count, 1, lambda i: f.store(f.const(0, scalar), to, i))
        elif isinstance(count, Value):  # an argument: code for a mask is longer
            f.loop(whole, count, 1, lambda i: f.store(f.const(0, scalar), to, i))
        else:
            if_any(f, f.isub(count, whole), lambda rest: f.store(zero, to, whole, f.tail_mask(rest, lanes)))

    def _whole(self, f: Function, count: Index) -> Index:
        """How many of them are in whole vectors."""
        return f.imul(f.idiv(count, self.lanes), self.lanes)


@dataclass(frozen=True)
class _Rows:
    """Rows of a padded copy, each one run; numbers are arguments. `plain`: of outer dimensions without padding."""

    run: _Run
    plain: tuple[bool, ...]

    @property
    def symbol(self) -> str:
        """What the function is called."""
        kinds = "".join("p" if plain else "e" for plain in self.plain)
        return f"shlo_padded_{self.run.lanes}_{self.run.to}_{self.run.source}_{kinds}"

    def emit(self, f: Function, *arguments: Value) -> None:
        """Copy rows of a source: to where, from the first one to before the last one, numbers."""
        source, to, begin, end, *numbers = arguments
        width = len(_Steps._fields)
        outer = [_Steps(*numbers[at : at + width]) for at in range(0, width * len(self.plain), width)]
        row, *run = numbers[width * len(self.plain) :]
        scalar, storage = ELEMENTS[self.run.to].storage, ELEMENTS[self.run.source].storage

        def iteration(number: Value) -> None:
            place, digits = f.gep(to, f.imul(number, row), scalar), unravel(f, number, [each.padded for each in outer])
            offset: Index = 0
            conditions: list[Value] = []
            for steps, plain, digit in zip(outer, self.plain, digits, strict=True):
                offset = f.iadd(offset, steps.at(f, digit, 1, None if plain else conditions))
            if not conditions:
                self.run.emit(f, f.gep(source, offset, storage), place, *run)
                return
            inside = reduce(partial(f.binary, "and"), conditions)
            first, *counts = run
            counts = [f.select(inside, a, b) for a, b in zip(counts, (row, f.const(0), f.const(0)), strict=True)]
            self.run.emit(f, f.gep(source, offset, storage), place, first, *counts)

        f.loop(begin, end, 1, iteration)
