"""Stable merge sort of several columns by a comparator: the core of `sort` and `top_k`.

Columns are dense arrays in scratch. Runs of 8 are made by insertion, then merged bottom-up between two buffers; the
comparator is inlined into the merge, which moves whole records, so every access is sequential.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, I64, Function, Index, Value
from stablehlo_py.codegen.types import Element, Lanes
from stablehlo_py.dialect.symint import IntLike, is_known

RUN = 8
Before = Callable[[Sequence[Lanes], Sequence[Lanes]], Value]


def merge_passes(size: IntLike) -> int:
    """How many merge passes sort `size` records."""
    passes, run = 0, RUN
    while run < size:
        passes, run = passes + 1, 2 * run
    return passes


def rooms(f: Function, elements: Sequence[Element], count: IntLike, groups: int) -> tuple[list[list[Value]], IntLike]:
    """`groups` of columns of so many elements in private scratch, and the bytes that they take."""
    made: list[list[Value]] = []
    used: IntLike = 0
    for _ in range(groups):
        made.append([])
        for of in elements:
            made[-1].append(f.gep(f.private, used, I8))
            used += -(-of.bytes * count // 64) * 64
    return made, used


class Sorter:
    """Sorts `size` records held in `columns`; `spare` is as large. `before(a, b)` says whether record a must precede
    record b."""

    def __init__(
        self, f: Function, elements: Sequence[Element], columns: Sequence[Value], spare: Sequence[Value], before: Before
    ) -> None:
        self.f, self.elements, self.before = f, list(elements), before
        self.columns, self.spare = list(columns), list(spare)

    def _load(self, columns: Sequence[Value], at: Index) -> list[Lanes]:
        return [types.load(self.f, of, column, at) for of, column in zip(self.elements, columns, strict=True)]

    def _store(self, columns: Sequence[Value], at: Index, record: Sequence[Lanes]) -> None:
        for of, column, value in zip(self.elements, columns, record, strict=True):
            types.store(self.f, of, value, column, at)

    def sort(self, size: IntLike) -> list[Value]:
        """Emit the sort; returns the columns that hold the result (`columns` or `spare`). Merge passes are a loop that
        exchanges the columns, as one pass is most of a kernel's code."""
        f = self.f
        f.loop(0, size, RUN, lambda start: self._insertion(start, f.imin(f.iadd(start, RUN), size)))
        if is_known(size) and size <= 2 * RUN:
            if size > RUN:
                self._pass(self.columns, self.spare, RUN, size)
            return self.spare if size > RUN else self.columns

        def merge(run: Value, exchanged: Value) -> list[Value]:
            self._pass(*self._exchanged(exchanged), run, size)
            return [f.index(f.imul(run, 2)), f.binary("xor", exchanged, f.const(1))]

        _, exchanged = f.while_([f.const(RUN), f.const(0)], lambda run, _: f.cmp("slt", run, f.index(size)), merge)
        if is_known(size):
            return self.spare if merge_passes(size) % 2 else self.columns
        return self._exchanged(exchanged)[0]

    def _exchanged(self, exchanged: Value) -> tuple[list[Value], list[Value]]:
        """The columns that hold records, and the others."""
        f, pairs = self.f, list(zip(self.columns, self.spare, strict=True))
        flag = f.cmp("ne", exchanged, f.const(0))
        return [f.select(flag, b, a) for a, b in pairs], [f.select(flag, a, b) for a, b in pairs]

    def _pass(self, source: list[Value], target: list[Value], run: Index, size: IntLike) -> None:
        """Merge neighbouring runs of so many records."""
        f, both = self.f, self.f.imul(run, 2)

        def merge(low: Index) -> None:
            middle = f.imin(f.iadd(low, run), size)
            self._merge(source, target, low, middle, f.imin(f.iadd(low, both), size))

        f.loop(0, size, both, merge)

    def _insertion(self, low: Index, high: Index) -> None:
        f = self.f

        def insert(i: Index) -> None:
            record = self._load(self.columns, i)

            def unsettled(j: Value) -> Value:
                inside = f.cmp("sgt", j, f.index(low))
                previous = f.index(f.imax(f.isub(j, 1), 0))
                ahead = self.before(record, self._load(self.columns, previous))
                return f.binary("and", inside, ahead)

            def shift(j: Value) -> list[Value]:
                previous = f.isub(j, 1)
                self._store(self.columns, j, self._load(self.columns, previous))
                return [f.index(previous)]

            (place,) = f.while_([f.index(i)], unsettled, shift)
            self._store(self.columns, place, record)

        f.loop(f.iadd(low, 1), high, 1, insert)

    def _merge(self, source: list[Value], target: list[Value], low: Index, middle: Index, high: Index) -> None:
        f = self.f
        start, half, end = f.index(low), f.index(middle), f.index(high)

        def both_left(i: Value, j: Value, k: Value) -> Value:
            return f.binary("and", f.cmp("slt", i, half), f.cmp("slt", j, end))

        def step(i: Value, j: Value, k: Value) -> list[Value]:
            left, right = self._load(source, i), self._load(source, j)
            take_right = self.before(right, left)
            self._store(target, k, [types.select(f, take_right, b, a) for a, b in zip(left, right, strict=True)])
            right_taken = f.cast("zext", take_right, I64)
            next_i = f.binary("add", i, f.binary("sub", f.const(1), right_taken))
            return [next_i, f.binary("add", j, right_taken), f.index(f.iadd(k, 1))]

        i, j, k = f.while_([start, half, start], both_left, step)

        def rest(position: Value, limit: Value, k: Value) -> Value:
            def copy(at: Value, to: Value) -> list[Value]:
                self._store(target, to, self._load(source, at))
                return [f.index(f.iadd(at, 1)), f.index(f.iadd(to, 1))]

            return f.while_([position, k], lambda at, to: f.cmp("slt", at, limit), copy)[1]

        rest(j, end, rest(i, half, k))
