"""Updates in the order of their places, with neighbouring columns: a thread goes through a range of them in one column,
and combines those that go to one place, which are a run.

A run that lies in a range is combined into the results there. What a range has of runs that others have a part of is
left in scratch memory: of the run that it begins in (its head), and of the one that begins in it and goes on (its
tail). A second kernel combines each tail with the heads behind it, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import pack, unpack
from stablehlo_py.backends.common.reduction import Reduction, combined
from stablehlo_py.backends.gpu.kernels.base import numbered_kernel
from stablehlo_py.backends.gpu.kernels.combining import Accumulators, accumulator_bytes
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith, types
from stablehlo_py.codegen.builder import I1, I32, Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.types import Element, Lanes

FEWEST_COLUMNS = 32  # neighbouring threads read neighbouring updates
LENGTH = 32  # of a range, at least
MOST_RANGES = 1 << 10  # one after another, at worst: all updates go to one place
AHEAD = 4  # updates that a thread reads before it combines them
HEADS_AHEAD = 8  # the same of heads


@dataclass(frozen=True)
class Runs:
    """What is combined, and where it goes.

    Attributes:
        count, columns: updates in order, and elements of each.
        items: how each of the elements is combined.
        place: of an update by its position, i32. Neighbours that have the same go to one place.
        nowhere: a place of updates that are left out.
        read: an update's elements of a column.
        write: combines totals into a place and a column of the results.
    """

    count: int
    columns: int
    items: Sequence[Reduction]
    place: Callable[[Function, Index], Value]
    nowhere: int
    read: Callable[[Elemental, Index, Index], list[Lanes]]
    write: Callable[[Elemental, Value, Index, list[Lanes]], None]

    @property
    def length(self) -> int:
        """Of a range."""
        return max(LENGTH, -(-self.count // MOST_RANGES))

    @property
    def ranges(self) -> int:
        """How many there are."""
        return -(-self.count // self.length)

    @property
    def of(self) -> list[Element]:
        """Types of the elements."""
        return [item.of for item in self.items]


def runs_combined(work: Runs, fusion: Fusion, target: GpuTarget, offset: int) -> tuple[list[Function], int]:
    """The kernels, and how much scratch memory they take, from an offset on."""
    by_ranges = _Kernels(work, fusion, target, offset)
    if work.ranges == 1:
        return [by_ranges.first(fusion.name)], by_ranges.bytes
    return [by_ranges.first(f"{fusion.name}.runs"), by_ranges.second()], by_ranges.bytes


class _Kernels:
    def __init__(self, work: Runs, fusion: Fusion, target: GpuTarget, offset: int) -> None:
        self.work, self.fusion, self.target, self.offset = work, fusion, target, offset
        self.edges = work.ranges * work.columns

    @property
    def bytes(self) -> int:
        """Of heads and tails."""
        return 2 * sum(accumulator_bytes(of, self.edges) for of in self.work.of)

    def _kept(self, f: Function, is_tail: bool) -> list[Accumulators]:
        """Heads or tails: [range][column]."""
        at, found = self.offset + is_tail * self.bytes // 2, []
        for of in self.work.of:
            found.append(Accumulators.scratch(f, of, self.edges, at))
            at += accumulator_bytes(of, self.edges)
        return found

    def first(self, name: str) -> Function:
        """The kernel that reads the updates."""

        def one(f: Function, number: Value) -> None:
            self._range(Elemental(f, self.fusion, self.target, 1), number)

        return numbered_kernel(self.fusion, self.target, name, self.edges, one)

    def _range(self, e: Elemental, number: Value) -> None:
        f, work, last = e.f, self.work, self.work.count - 1
        column, low = f.irem(number, work.columns), f.imul(f.idiv(number, work.columns), work.length)
        high = f.imin(f.iadd(low, work.length), work.count)
        begins = f.cmp("eq", f.index(low), f.const(0))
        before = f.select(begins, f.const(-1, I32), work.place(f, f.imax(f.isub(low, 1), 0)))
        start = [arith.identity(f, item.kind, item.of) for item in work.items]

        def steps(position: Index, *carried: Value) -> list[Value]:
            totals = unpack(carried, work.of)
            positions = [f.iadd(position, step) for step in range(AHEAD)]
            places = [work.place(f, f.imin(each, last)) for each in [*positions, f.iadd(position, AHEAD)]]
            read = [work.read(e, f.imin(each, last), column) for each in positions]
            for at, place, after, new in zip(positions, places, places[1:], read, strict=False):
                joined = combined(f, work.items, totals, new)
                is_last = f.cmp("sge", f.index(at), f.const(last))
                is_end = f.binary("or", is_last, f.cmp("ne", place, after))
                is_there = f.cmp("slt", f.index(at), f.index(high))
                leaves = f.binary("or", is_end, f.cmp("eq", f.index(f.iadd(at, 1)), f.index(high)))
                leaves = f.binary(
                    "and", f.binary("and", leaves, is_there), f.cmp("ne", place, f.const(work.nowhere, I32))
                )
                f.if_(leaves, partial(self._leave, e, number, column, before, place, joined, is_end))
                totals = [types.select(f, is_end, a, b) for a, b in zip(start, joined, strict=True)]
            return pack(totals)

        f.loop(low, high, AHEAD, steps, pack(start))

    def _leave(
        self,
        e: Elemental,
        number: Value,
        column: Index,
        before: Value,
        place: Value,
        totals: list[Lanes],
        is_end: Value,
    ) -> None:
        """What a range has of a run: in the results, if nobody has another part of it."""
        f = e.f
        is_head = f.cmp("eq", place, before)

        def keep(is_tail: bool) -> None:
            for each, value in zip(self._kept(f, is_tail), totals, strict=True):
                each.store(number, value)

        def own() -> None:
            f.if_(is_end, lambda: self.work.write(e, place, column, totals), lambda: keep(True))

        f.if_(is_head, lambda: keep(False), own)

    def second(self) -> Function:
        """The kernel that combines tails with heads."""

        def one(f: Function, number: Value) -> None:
            self._tail(Elemental(f, self.fusion, self.target, 1), number)

        return numbered_kernel(self.fusion, self.target, self.fusion.name, self.edges - self.work.columns, one)

    def _tail(self, e: Elemental, number: Value) -> None:
        """That of a range, if it has one."""
        f, work = e.f, self.work
        own, column = f.idiv(number, work.columns), f.irem(number, work.columns)
        next_ = f.imul(f.iadd(own, 1), work.length)
        place, after = work.place(f, f.isub(next_, 1)), work.place(f, next_)
        begins_before = f.imax(f.isub(f.imul(own, work.length), 1), 0)
        began = f.binary(
            "and", f.cmp("sgt", f.index(own), f.const(0)), f.cmp("eq", work.place(f, begins_before), place)
        )
        goes_on = f.binary("and", f.cmp("eq", place, after), f.cmp("ne", place, f.const(work.nowhere, I32)))

        def heads(*carried: Value) -> list[Value]:
            at, _, *rest = carried
            totals, kept, is_same = unpack(rest, work.of), self._kept(f, False), f.const(True, I1)
            numbers = [f.iadd(at, step) for step in range(HEADS_AHEAD)]
            safe = [f.bounded(f.index(f.imin(each, work.ranges - 1)), 0, work.ranges - 1) for each in numbers]
            places = [work.place(f, f.imul(each, work.length)) for each in safe]
            read = [[part.load(f.iadd(f.imul(each, work.columns), column)) for part in kept] for each in safe]
            for each, found, new in zip(numbers, places, read, strict=True):
                is_there = f.cmp("slt", f.index(each), f.const(work.ranges))
                is_same = f.binary("and", f.binary("and", is_same, is_there), f.cmp("eq", found, place))
                joined = combined(f, work.items, totals, new)
                totals = [types.select(f, is_same, a, b) for a, b in zip(joined, totals, strict=True)]
            return [f.index(f.iadd(at, HEADS_AHEAD)), is_same, *pack(totals)]

        def total() -> None:
            start = [
                f.index(f.iadd(own, 1)),
                f.const(True, I1),
                *pack(each.load(number) for each in self._kept(f, True)),
            ]
            _, _, *found = f.while_(start, lambda at, goes_on, *_: goes_on, heads)
            work.write(e, place, column, unpack(found, work.of))

        is_own = f.binary("xor", began, f.const(True, I1))
        f.if_(f.binary("and", goes_on, is_own), total)
