"""Matrices of a batch side by side, each a lane: an element of all of them is a vector in scratch memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stablehlo_py.backends.common.loops import pack, unpack
from stablehlo_py.backends.cpu.kernels.transposing import load_rows, store_rows
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.types import PARTS, Element, Lanes
from stablehlo_py.dialect.symint import IntLike, is_known


def matrices_of(f: Function, group: Value, lanes: int, batch: IntLike, *, aliased: bool) -> tuple[Index, Index]:
    """The first matrix of a group of as many as lanes, and how many it holds. The last group overlaps the one before
    it, unless an output is written over an input: what both hold is computed twice, and no other code is needed."""
    first = f.imul(group, lanes)
    if is_known(batch) and not batch % lanes:
        return first, lanes
    if is_known(batch) and batch > lanes and not aliased:
        return f.imin(first, batch - lanes), lanes
    return first, f.imin(f.isub(batch, first), lanes)


@dataclass(frozen=True)
class Interleaved:
    """`lanes` matrices of `count` elements each, in scratch memory; a complex element is two vectors."""

    f: Function
    of: Element
    count: int
    lanes: int
    place: Value

    @property
    def bytes(self) -> int:
        """How much memory that is."""
        return self.count * self.lanes * self.of.bytes

    @property
    def _part(self) -> Element:
        """What is a vector."""
        return PARTS.get(self.of.name, self.of)

    @property
    def _numbers(self) -> int:
        """How many of them a matrix has."""
        return self.count * (2 if self.of.is_complex else 1)

    def get(self, at: Index) -> Lanes:
        """Element `at` of every matrix."""
        if not self.of.is_complex:
            return self._get(at, 0)
        first = self.f.imul(at, 2)
        return unpack(pack([self._get(first, 0), self._get(first, 1)]), self.of)[0]

    def set(self, at: Index, value: Lanes) -> None:
        """Element `at` of every matrix becomes its lane of `value`."""
        parts = types.parts(value)
        first = self.f.imul(at, len(parts))
        for part, lanes in enumerate(parts):
            self._set(first, part, lanes)

    def read(self, source: Value, first: Index, held: Index) -> None:
        """Lane l becomes matrix first + l of memory. Where fewer matrices than lanes are left (`held`), the other lanes
        stay as they are."""
        f, n = self.f, self._numbers

        def one(lane: Value, at: Value) -> None:
            number = f.iadd(f.imul(f.iadd(first, lane), n), at)
            value = types.load(f, self._part, source, number)
            types.store(f, self._part, value, self.place, f.iadd(f.imul(at, self.lanes), lane))

        self._each(held, lambda: load_rows(f, self._part, self._row(source, first), n, self.lanes, self._set), one)

    def write(self, to: Value, first: Index, held: Index, *, by_squares: bool = False) -> None:
        """The opposite of `read`; `by_squares`: of 128 bits a side, for few elements less code."""
        f, n = self.f, self._numbers

        def one(lane: Value, at: Value) -> None:
            value = types.load(f, self._part, self.place, f.iadd(f.imul(at, self.lanes), lane))
            types.store(f, self._part, value, to, f.iadd(f.imul(f.iadd(first, lane), n), at))

        side = 128 // self._part.storage.bits

        def square(lane: Value) -> None:
            def get(at: Index, number: int) -> Lanes:
                start = f.gep(self._vector(at), lane, self._part.storage)
                return types.load(f, self._part, start, number * self.lanes, side)

            store_rows(f, self._part, self._row(to, f.iadd(first, lane)), n, side, get)

        def whole() -> None:
            if by_squares and n > 1 and self.lanes > side:
                f.loop(0, self.lanes, side, square)
            else:
                store_rows(f, self._part, self._row(to, first), n, self.lanes, self._get)

        self._each(held, whole, one)

    def _each(self, held: Index, whole: Callable[[], None], one: Callable[[Value, Value], None]) -> None:
        f = self.f
        if held == self.lanes:
            whole()
            return

        def some() -> None:
            f.loop(0, held, 1, lambda lane: f.loop(0, self._numbers, 1, lambda at: one(lane, at)))

        f.if_(f.cmp("eq", f.index(held), f.const(self.lanes)), whole, some, unlikely=False)

    def _row(self, memory: Value, first: Index) -> Value:
        return self.f.gep(memory, self.f.imul(first, self._numbers), self._part.storage)

    def _get(self, first: Index, number: int) -> Lanes:
        return types.load(self.f, self._part, self._vector(first), number * self.lanes, self.lanes)

    def _set(self, first: Index, number: int, value: Lanes) -> None:
        types.store(self.f, self._part, value, self._vector(first), number * self.lanes)

    def _vector(self, number: Index) -> Value:
        return self.f.gep(self.place, self.f.imul(number, self.lanes), self._part.storage)
