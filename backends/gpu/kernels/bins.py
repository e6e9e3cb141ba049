"""Many updates of few places (a histogram, the sums of clusters): every thread combines updates into bins of its own,
one for each place, in shared memory.

The points are split into chunks, the places into groups that shared memory has room for, and a block takes a chunk and
a group. Its threads side by side have neighbouring columns, the others share out the points. Then the bins of a block
are combined, and where there are several chunks, a second kernel combines what they left in scratch memory. Which
updates a thread takes, and the order of what is combined, depends on shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import pack, unpack
from stablehlo_py.backends.common.reduction import Reduction, combined
from stablehlo_py.backends.gpu.kernels.base import kernel_function
from stablehlo_py.backends.gpu.kernels.combining import Accumulators, accumulator_bytes, block_combined
from stablehlo_py.backends.gpu.kernels.wide import power_of_two
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith, types
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.types import Element, Lanes

THREADS = 128
BIN_BYTES = 32 << 10  # of a block: several blocks are on a multiprocessor at once
STEPS = 8  # points that a thread takes, at least
ENOUGH_BLOCKS = 256
AHEAD = 4  # points that a thread reads before it combines them
# Sorting takes longer than this: groups; updates that they read, or elements of the results.
FEW_GROUPS, FEW_READS = 4, 1 << 22
ACROSS, PARTIALS = 32, 4  # of the second kernel: threads side by side; what a thread reads


@dataclass(frozen=True)
class Bins:
    """What is combined, and where it goes.

    Attributes:
        points, columns, places: how many there are.
        items: how each of the updates is combined.
        place: which place a point has, and whether it has one.
        read: the updates of a point and a column.
        write: combines totals into a place and a column of the results.
    """

    points: int
    columns: int
    places: int
    items: Sequence[Reduction]
    place: Callable[[Elemental, Index], tuple[Index, Value]]
    read: Callable[[Elemental, Index, Index], list[Lanes]]
    write: Callable[[Elemental, Index, Index, list[Lanes]], None]

    @property
    def pays(self) -> bool:
        """Whether it takes less time than sorting the points."""
        if not self.of_group:
            return False
        work = self.columns * max(self.groups * self.points, self.places)
        return self.groups <= FEW_GROUPS or work <= FEW_READS

    @property
    def of(self) -> list[Element]:
        """Types of the updates."""
        return [item.of for item in self.items]

    @cached_property
    def of_group(self) -> int:
        """Places of a group."""
        room = BIN_BYTES // (THREADS * sum(accumulator_bytes(of, 64) // 64 for of in self.of))
        groups = -(-self.places // room) if room else 0
        return -(-self.places // groups) if groups else 0

    @property
    def groups(self) -> int:
        """Of places."""
        return -(-self.places // self.of_group)

    @cached_property
    def across(self) -> int:
        """Threads of a block side by side: columns are shared out evenly."""
        return -(-self.columns // -(-self.columns // THREADS))

    @property
    def down(self) -> int:
        """Threads of a block that have the same column."""
        return THREADS // self.across

    @property
    def parts(self) -> int:
        """Blocks that have other columns."""
        return -(-self.columns // self.across)

    @cached_property
    def chunks(self) -> int:
        """Of points."""
        most = max(1, ENOUGH_BLOCKS // (self.groups * self.parts))
        return max(1, min(most, self.points // (self.down * STEPS)))


def binned(work: Bins, fusion: Fusion, target: GpuTarget) -> tuple[list[Function], int]:
    """The kernels, and how much scratch memory they take."""
    if work.chunks == 1:
        return [_First(work, fusion, target).emit(fusion.name)], 0
    kernels = [_First(work, fusion, target).emit(f"{fusion.name}.bins"), _second(work, fusion, target)]
    return kernels, sum(_partial_bytes(work))


def _partial_bytes(work: Bins) -> list[int]:
    return [accumulator_bytes(of, work.chunks * work.places * work.columns) for of in work.of]


def _partials(f: Function, work: Bins) -> list[Accumulators]:
    """Totals in scratch memory: [chunk][place][column]."""
    sizes, count = _partial_bytes(work), work.chunks * work.places * work.columns
    return [Accumulators.scratch(f, of, count, sum(sizes[:number])) for number, of in enumerate(work.of)]


class _First:
    """The kernel that reads the updates."""

    def __init__(self, work: Bins, fusion: Fusion, target: GpuTarget) -> None:
        self.work, self.fusion, self.target = work, fusion, target

    def emit(self, name: str) -> Function:
        """Bins that are empty, with updates, combined."""
        work = self.work
        blocks = work.groups * work.parts * work.chunks
        f = kernel_function(self.fusion, self.target, name, blocks, THREADS)
        e, thread, block = Elemental(f, self.fusion, self.target, 1), f.thread_number(), f.block_number()
        group, rest = f.irem(block, work.groups), f.idiv(block, work.groups)
        part, chunk = f.irem(rest, work.parts), f.idiv(rest, work.parts)
        first, left = f.imul(group, work.of_group), f.imul(part, work.across)
        bins = [Accumulators.shared(f, of, work.of_group * THREADS) for of in work.of]
        empty = [arith.identity(f, item.kind, item.of) for item in work.items]

        def clear(number: Value) -> None:
            for each, value in zip(bins, empty, strict=True):
                each.store(f.iadd(f.imul(number, THREADS), thread), value)

        f.loop(0, work.of_group, 1, clear)
        column = f.imin(f.iadd(left, f.irem(thread, work.across)), work.columns - 1)
        self._take(e, bins, chunk, first, column)
        f.barrier()

        def total(number: Value) -> None:
            held, x = f.idiv(number, work.across), f.irem(number, work.across)
            totals = self._total(f, bins, held, x)
            place, column = f.iadd(first, held), f.iadd(left, x)
            has_place = f.cmp("slt", f.index(place), f.const(work.places))
            exists = f.binary("and", has_place, f.cmp("slt", f.index(column), f.const(work.columns)))
            f.if_(exists, lambda: self._leave(e, chunk, place, column, totals))

        f.loop(thread, work.of_group * work.across, THREADS, total)
        f.ret()
        return f

    def _take(self, e: Elemental, bins: Sequence[Accumulators], chunk: Index, first: Index, column: Index) -> None:
        """Combine the updates of a chunk into bins, from a place on."""
        f, work, thread = e.f, self.work, e.f.thread_number()
        low = f.idiv(f.imul(chunk, work.points), work.chunks)
        high = f.idiv(f.imul(f.iadd(chunk, 1), work.points), work.chunks)

        def one(number: Index) -> tuple[Index, Value, list[Lanes]]:
            """The bin of a point, whether it has one, its updates."""
            point = f.imin(number, work.points - 1)
            place, has_place = work.place(e, point)
            held = f.isub(place, first)
            is_here = f.binary("and", has_place, f.cmp("ult", f.index(held), f.const(work.of_group)))
            is_here = f.binary("and", is_here, f.cmp("slt", f.index(number), f.index(high)))
            if THREADS % work.across:  # some threads are left over
                is_here = f.binary("and", is_here, f.cmp("slt", thread, f.const(work.across * work.down)))
            to = f.iadd(f.imul(f.imin(f.imax(held, 0), work.of_group - 1), THREADS), thread)
            return to, is_here, work.read(e, point, column)

        def steps(number: Index) -> None:
            for to, is_here, new in [one(f.iadd(number, work.down * step)) for step in range(AHEAD)]:
                old = [each.load(to) for each in bins]
                joined = combined(f, work.items, old, new)
                for each, a, b in zip(bins, joined, old, strict=True):
                    each.store(to, types.select(f, is_here, a, b))

        f.loop(f.iadd(low, f.idiv(thread, work.across)), high, work.down * AHEAD, steps)

    def _total(self, f: Function, bins: Sequence[Accumulators], held: Index, x: Index) -> list[Lanes]:
        """What all threads have of a place and a column. Those that begin side by side begin with different threads:
        they have different banks of shared memory."""
        work = self.work

        def read(step: Index) -> list[Lanes]:
            y = f.irem(f.iadd(held, step), work.down)
            at = f.iadd(f.iadd(f.imul(held, THREADS), f.imul(y, work.across)), x)
            return [each.load(at) for each in bins]

        def join(step: Index, *carried: Value) -> list[Value]:
            return pack(combined(f, work.items, unpack(carried, work.of), read(step)))

        return unpack(f.loop(1, work.down, 1, join, pack(read(0))), work.of)

    def _leave(self, e: Elemental, chunk: Index, place: Index, column: Index, totals: list[Lanes]) -> None:
        """Totals of a block: in scratch memory, where others have some too."""
        f, work = e.f, self.work
        place, column = f.imin(place, work.places - 1), f.imin(column, work.columns - 1)
        if work.chunks == 1:
            work.write(e, place, column, totals)
            return
        at = f.iadd(f.imul(f.iadd(f.imul(chunk, work.places), place), work.columns), column)
        for each, value in zip(_partials(f, work), totals, strict=True):
            each.store(at, value)


def _second(work: Bins, fusion: Fusion, target: GpuTarget) -> Function:
    """The kernel that combines the totals of chunks: some threads for each place and column."""
    count = work.places * work.columns
    across = min(ACROSS, power_of_two(count))
    threads = max(target.subgroup, across * power_of_two(-(-work.chunks // PARTIALS)))
    threads = min(target.block, threads)
    f = kernel_function(fusion, target, fusion.name, -(-count // across), threads)
    e, partials, thread = Elemental(f, fusion, target, 1), _partials(f, work), f.thread_number()
    number = f.iadd(f.imul(f.block_number(), across), f.irem(thread, across))
    safe = f.imin(number, count - 1)

    def step(chunk: Index, *carried: Value) -> list[Value]:
        read = [each.load(f.iadd(f.imul(chunk, count), safe)) for each in partials]
        return pack(combined(f, work.items, unpack(carried, work.of), read))

    start = pack([arith.identity(f, item.kind, item.of) for item in work.items])
    found = f.loop(f.idiv(thread, across), work.chunks, threads // across, step, start)
    totals = block_combined(f, target, work.items, unpack(found, work.of), threads, across)
    one = f.cmp("slt", thread, f.const(across))
    mine = f.binary("and", one, f.cmp("slt", f.index(number), f.const(count)))
    f.if_(mine, lambda: work.write(e, f.idiv(safe, work.columns), f.irem(safe, work.columns), totals))
    f.ret()
    return f
