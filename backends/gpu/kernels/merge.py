"""Stable merge sort of rows of records by any comparator.

A block sorts a tile: each thread some neighbouring records by an odd-even transposition network, then runs of
neighbouring threads are merged, two and two. A thread finds by binary search along a diagonal where its part of the
merged run begins in both (merge path: Green, McColl and Bader, "GPU merge path", 2012), and merges as many records as
it has. Short rows: several in a tile. Rows longer than a tile are merged in passes through memory: one kernel finds
where the tiles of the merged runs begin, by the same search, a second one merges a tile in shared memory. The passes
are launches of the same two kernels, which leave in scratch memory, one for the other, which pass it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from stablehlo_py.backends.gpu.kernels.base import GpuKernel, Launch, global_number, kernel_function
from stablehlo_py.backends.gpu.kernels.records import (
    Before,
    Ordering,
    Record,
    Records,
    aligned_bytes,
    chosen,
    scratch_bytes,
)
from stablehlo_py.codegen.builder import I8, I32, I64, Function, Index, Value

EACH = 8  # records of a thread
TILE = 2048  # records of a block, at most
MOST_THREADS = 256
SHARED_PART = 2  # a block takes one such part of the shared memory, and little more: others run beside it
SEARCHERS = 256  # threads of a block that find where tiles begin
STATE_BYTES = 256  # of scratch memory: two records of (width of the runs, which half they are in)
Fetch = Callable[[Function, Index, Index], Record]
Put = Callable[[Function, Index, Index, Record], None]


def tile_of(ordering: Ordering) -> int:
    """How many records a block sorts; 0: they do not fit."""
    shared = ordering.target.shared_bytes
    return ordering.tile(TILE, shared // SHARED_PART + shared // 32)


def passes(size: int, tile: int) -> int:
    """Merge passes of a row whose tiles are sorted."""
    return (-(-size // tile) - 1).bit_length()


def moves(ordering: Ordering) -> int:
    """How often each record is read or written."""
    return 2 * (1 + passes(ordering.size, tile_of(ordering)))


def emit(ordering: Ordering) -> GpuKernel:
    """The kernels that sort rows; tiles of them fit in shared memory (`tile_of`)."""
    tile = tile_of(ordering)
    count = passes(ordering.size, tile)
    if not count:
        return GpuKernel.of(TileSort(ordering, ordering.size).emit("", ordering.fetch, ordering.put))
    return _Passes(ordering, tile).emit(count)


# --- a tile -------------------------------------------------------------------------------------------------------


def _bounds(f: Function, at: Value, most: int) -> Value:
    """An index that is known to be at most this."""
    found = f.bounded(at, 0, most)
    assert isinstance(found, Value)
    return found


def _split(
    f: Function, diagonal: Index, left: Index, right: Index, right_first: Callable[[Value, Value], Value], most: int
) -> Value:
    """How many of the first `diagonal` records of two merged runs, of so many records each, are the left one's;
    `right_first(i, j)`: whether record j of the right one precedes record i of the left one."""

    def unsettled(low: Value, high: Value) -> Value:
        return f.cmp("slt", low, high)

    def step(low: Value, high: Value) -> list[Value]:
        low, high = _bounds(f, low, most), _bounds(f, high, most)
        middle = f.index(f.idiv(f.iadd(low, high), 2))
        later = f.isub(f.isub(diagonal, 1), middle)
        first = right_first(middle, f.index(f.bounded(later, 0, most)))
        return [f.select(first, low, f.index(f.iadd(middle, 1))), f.select(first, middle, high)]

    low = f.imax(f.isub(diagonal, right), 0)
    return _bounds(f, f.while_([f.index(low), f.index(f.imin(diagonal, left))], unsettled, step)[0], most)


def _merged(
    f: Function,
    tile: Records,
    before: Before,
    count: int,
    left: tuple[Index, Index],
    right: tuple[Index, Index],
    last: int,
) -> list[Record]:
    """The next `count` records of two runs of a tile, each from a place to an end; what lies behind the end of both is
    any of the tile, whose last place is `last`."""
    (i, i_end), (j, j_end) = left, right
    a, b = (tile.load(f.imin(at, last)) for at in (i, j))
    found = []
    for number in range(count):
        is_right = f.binary("or", f.cmp("sge", f.index(i), f.index(i_end)), before(b, a))
        is_right = f.binary("and", f.cmp("slt", f.index(j), f.index(j_end)), is_right)
        found.append(chosen(f, is_right, b, a))
        if number == count - 1:
            break
        taken = _bounds(f, f.cast("zext", is_right, I64), 1)
        i, j = f.iadd(i, f.isub(1, taken)), f.iadd(j, taken)
        place = _bounds(f, f.select(is_right, f.index(j), f.index(i)), 2 * last + 1)
        following = tile.load(f.imin(place, last))
        a, b = chosen(f, is_right, a, following), chosen(f, is_right, following, b)
    return found


def _store(f: Function, tile: Records, first: Index, records: Sequence[Record]) -> None:
    for number, record in enumerate(records):
        tile.store(f.iadd(first, number), record)


@dataclass(frozen=True)
class TileSort:
    """The kernel whose blocks sort tiles: chunks of up to `length` records of rows of `size`, several rows where they
    are short."""

    ordering: Ordering
    length: int

    @cached_property
    def _padded(self) -> int:
        return max(2, 1 << (self.length - 1).bit_length())

    @cached_property
    def _each(self) -> int:
        return min(EACH, self._padded)

    @cached_property
    def chunks(self) -> int:
        """Of a row."""
        return -(-self.ordering.size // self.length)

    @cached_property
    def _threads(self) -> int:
        threads, records = min(MOST_THREADS, tile_of(self.ordering) // self._each), self._padded * self.ordering.rows
        while self.chunks == 1 and threads > self.ordering.target.subgroup and threads * self._each >= 2 * records:
            threads //= 2
        return threads

    def emit(self, suffix: str, fetch: Fetch, put: Put, start: Callable[[Function], None] | None = None) -> Function:
        """The function. `put` gets, of every record, its row, its place in the row after the chunks before it, and
        itself; `start` emits what goes before."""
        ordering, padded, threads = self.ordering, self._padded, self._threads
        capacity = threads * self._each
        segments = capacity // padded
        groups = -(-ordering.rows // segments)
        symbol = f"{ordering.fusion.name}{suffix}"
        f = kernel_function(ordering.fusion, ordering.target, symbol, groups * self.chunks, threads)
        if start is not None:
            start(f)
        group, chunk = f.irem(f.block_number(), groups), f.idiv(f.block_number(), groups)
        first = f.imul(chunk, self.length)
        count = f.imin(f.isub(ordering.size, first), self.length)
        tile, thread = Records.shared(f, ordering.columns, capacity), f.thread_number()

        def records(act: Callable[[Index, Index, Index], None]) -> None:
            """act(row, place in the chunk, place in the tile) for each record of the block."""

            def one(number: Index) -> None:
                at = f.iadd(f.imul(number, threads), thread)
                if ordering.stride == 1:
                    segment, place = f.idiv(at, padded), f.irem(at, padded)
                else:  # neighbours in memory are of different rows
                    segment, place = f.irem(at, segments), f.idiv(at, segments)
                row = f.iadd(f.imul(group, segments), segment)
                there = f.cmp("slt", f.index(place), f.index(count))
                if ordering.rows % segments:
                    there = f.binary("and", there, f.cmp("slt", f.index(row), f.const(ordering.rows)))
                f.if_(there, lambda: act(row, place, f.iadd(f.imul(segment, padded), place)))

            f.loop(0, capacity // threads, 1, one)

        records(lambda row, place, at: tile.store(at, fetch(f, row, f.iadd(first, place))))
        f.barrier()
        self._network(f, tile, f.imul(thread, self._each), count)
        f.barrier()
        if padded > self._each:
            narrow = [f.const(self._each)]
            f.while_(narrow, lambda w: f.cmp("slt", w, f.const(padded)), lambda w: self._round(f, tile, w, count))
        records(lambda row, place, at: put(f, row, f.iadd(first, place), tile.load(at)))
        f.ret()
        return f

    def _network(self, f: Function, tile: Records, own: Index, count: Index) -> None:
        """Sort the records of a thread."""
        place, before = f.irem(own, self._padded), self.ordering.before(f)
        held = [tile.load(f.iadd(own, number)) for number in range(self._each)]
        there = [f.cmp("slt", f.index(f.iadd(place, number)), f.index(count)) for number in range(self._each)]
        for step in range(self._each):
            for number in range(step % 2, self._each - 1, 2):
                a, b = held[number : number + 2]
                swap = f.binary("and", there[number + 1], before(b, a))
                held[number : number + 2] = chosen(f, swap, b, a), chosen(f, swap, a, b)
        _store(f, tile, own, held)

    def _round(self, f: Function, tile: Records, width: Value, count: Index) -> list[Value]:
        """Merge runs of `width` records; returns the width of the runs that come out."""
        padded, each = self._padded, self._each
        width = _bounds(f, width, padded)
        own = f.imul(f.thread_number(), each)
        place = f.irem(own, padded)
        row, both = f.isub(own, place), f.imul(width, 2)
        inside = f.binary("and", f.index(place), f.index(f.isub(both, 1)))
        inside = _bounds(f, inside, padded)
        begin = f.bounded(f.isub(place, inside), 0, padded)
        middle = f.imin(f.iadd(begin, width), f.imax(begin, count))
        end = f.imin(f.iadd(begin, both), f.imax(begin, count))
        left, right = f.isub(middle, begin), f.isub(end, middle)
        a, b = f.iadd(row, begin), f.iadd(row, middle)
        before = self.ordering.before(f)
        last = f.threads_of_block * each - 1

        def right_first(i: Value, j: Value) -> Value:
            return before(tile.load(f.iadd(b, j)), tile.load(f.iadd(a, i)))

        diagonal = f.imin(inside, f.iadd(left, right))
        taken = _split(f, diagonal, left, right, right_first, padded)
        i, j = f.iadd(a, taken), f.iadd(b, f.isub(diagonal, taken))
        found = _merged(f, tile, before, each, (i, b), (j, f.iadd(row, end)), last)
        f.barrier()
        _store(f, tile, own, found)
        f.barrier()
        return [f.index(both)]


# --- passes through memory ----------------------------------------------------------------------------------------


class _Passes:
    """Rows of several tiles. Scratch memory: the state, two halves of records, where tiles begin."""

    def __init__(self, ordering: Ordering, tile: int) -> None:
        self.ordering, self.tile = ordering, tile
        self.tiles = -(-ordering.size // tile)
        self.records = ordering.rows * ordering.size
        self.half = scratch_bytes(ordering.columns, self.records)

    def emit(self, count: int) -> GpuKernel:
        """All kernels; so many passes."""

        def start(f: Function) -> None:
            first = f.binary("or", f.index(f.block_number()), f.index(f.thread_number()))
            f.if_(f.cmp("eq", first, f.const(0)), lambda: self._tell(f, 0, f.const(self.tile), f.const(0)))

        def keep(f: Function, row: Index, place: Index, record: Record) -> None:
            self._room(f, 0).store(f.iadd(f.imul(row, self.ordering.size), place), record)

        rounds = TileSort(self.ordering, self.tile)
        kernels = [rounds.emit(".tiles", self.ordering.fetch, keep, start), self._search()]
        kernels += [self._merge(".merge", last=False)] if count > 1 else []
        kernels += [self._merge("", last=True)]
        made = GpuKernel.of(
            *kernels, scratch_bytes=STATE_BYTES + 2 * self.half + aligned_bytes(4 * self.ordering.rows * self.tiles)
        )
        tiles, search, *merges = made.launches
        launches: list[Launch] = [tiles]
        for number in range(count):
            launches += [search, merges[-1] if number == count - 1 else merges[0]]
        return replace(made, launches=tuple(launches))

    # State 0 is for the search, which leaves state 1 for the merge, which leaves state 0 of the next pass.

    def _tell(self, f: Function, state: int, width: Value, half: Value) -> None:
        f.store(width, f.scratch, 2 * state)
        f.store(half, f.scratch, 2 * state + 1)

    def _told(self, f: Function, state: int) -> tuple[Value, Value]:
        """The width of the runs, and the half that they are in."""
        width, half = (f.load(I64, f.scratch, 2 * state + number) for number in range(2))
        return _bounds(f, width, self.tile << passes(self.ordering.size, self.tile)), _bounds(f, half, 1)

    def _room(self, f: Function, half: Index) -> Records:
        offset = f.iadd(STATE_BYTES, f.imul(half, self.half))
        return Records.scratch(f, self.ordering.columns, self.records, offset)

    def _splits(self, f: Function) -> Value:
        return f.gep(f.scratch, STATE_BYTES + 2 * self.half, I8)

    def _runs(self, f: Function, tile: Index, width: Value) -> tuple[Index, Index, Index]:
        """Where the first of the two runs begins whose merged records a tile has, and how many records both have."""
        size, both = self.ordering.size, f.imul(width, 2)
        first = f.imul(tile, self.tile)
        begin = f.binary("and", f.index(first), f.binary("sub", f.const(0), f.index(both)))
        begin = _bounds(f, begin, size - 1)
        left = f.imin(width, f.isub(size, begin))
        return begin, left, f.isub(f.imin(f.iadd(begin, both), size), f.iadd(begin, left))

    def _search(self) -> Function:
        """A thread for each tile: how many of the records before it are of the first run."""
        ordering, count = self.ordering, self.ordering.rows * self.tiles
        blocks = -(-count // SEARCHERS)
        f = kernel_function(ordering.fusion, ordering.target, f"{ordering.fusion.name}.search", blocks, SEARCHERS)
        number = global_number(f)
        width, half = self._told(f, 0)

        def one() -> None:
            source, before = self._room(f, half), ordering.before(f)
            row, tile = (
                f.bounded(each, 0, count - 1) for each in (f.idiv(number, self.tiles), f.irem(number, self.tiles))
            )
            begin, left, right = self._runs(f, tile, width)
            a = f.iadd(f.imul(row, ordering.size), begin)
            b = f.iadd(a, left)

            def right_first(i: Value, j: Value) -> Value:
                return before(source.load(f.iadd(b, j)), source.load(f.iadd(a, i)))

            diagonal = f.isub(f.imul(tile, self.tile), begin)
            taken = _split(f, diagonal, left, right, right_first, ordering.size)
            f.store(f.cast("trunc", taken, I32), self._splits(f), number)

        f.if_(f.cmp("slt", number, f.const(count)), one)
        f.if_(f.cmp("eq", number, f.const(0)), lambda: self._tell(f, 1, width, half))
        f.ret()
        return f

    def _merge(self, suffix: str, *, last: bool) -> Function:
        """A block for each tile."""
        ordering, each = self.ordering, EACH
        threads, size = self.tile // each, ordering.size
        symbol = f"{ordering.fusion.name}{suffix}"
        f = kernel_function(ordering.fusion, ordering.target, symbol, ordering.rows * self.tiles, threads)
        block, thread = f.block_number(), f.thread_number()
        width, half = self._told(f, 1)
        source, target = self._room(f, half), self._room(f, f.isub(1, half))
        row, tile = f.irem(block, ordering.rows), f.idiv(block, ordering.rows)
        begin, left, right = self._runs(f, tile, width)
        first = f.imul(tile, self.tile)
        count = f.imin(f.isub(size, first), self.tile)
        diagonal = f.isub(first, begin)
        beyond = f.iadd(diagonal, count)
        at = f.iadd(f.imul(row, self.tiles), tile)

        def split(number: Index) -> Value:
            return _bounds(f, f.cast("zext", f.load(I32, self._splits(f), number), I64), size)

        a = split(at)
        is_end = f.cmp("sge", f.index(beyond), f.index(f.iadd(left, right)))
        following = split(f.imin(f.iadd(at, 1), ordering.rows * self.tiles - 1))
        a_end = _bounds(f, f.select(is_end, f.index(left), following), size)
        # Of a comparator that is no order the splits may be anything: what is read lies in the runs all the same.
        of_left = f.imin(f.imax(f.isub(a_end, a), 0), count)
        start = f.iadd(f.imul(row, size), begin)
        from_right = f.isub(f.iadd(left, f.isub(diagonal, a)), of_left)  # less what stands before
        records = Records.shared(f, ordering.columns, self.tile)

        def every(act: Callable[[Index], None]) -> None:
            def one(number: Index) -> None:
                place = f.iadd(f.imul(number, threads), thread)
                f.if_(f.cmp("slt", f.index(place), f.index(count)), lambda: act(place))

            f.loop(0, each, 1, one)

        def read(place: Index) -> None:
            is_left = f.cmp("slt", f.index(place), f.index(of_left))
            base = f.bounded(f.select(is_left, f.index(a), f.index(from_right)), -size, size)
            inside = f.imin(f.imax(f.iadd(base, place), 0), f.isub(f.iadd(left, right), 1))
            records.store(place, source.load(f.iadd(start, inside)))

        def write(place: Index) -> None:
            record, there = records.load(place), f.iadd(first, place)
            if last:
                ordering.put(f, row, there, record)
            else:
                target.store(f.iadd(f.imul(row, size), there), record)

        every(read)
        f.barrier()
        before, own = ordering.before(f), f.imul(thread, each)

        def right_first(i: Value, j: Value) -> Value:
            return before(records.load(f.iadd(of_left, j)), records.load(i))

        place = f.imin(own, count)
        taken = _split(f, place, of_left, f.isub(count, of_left), right_first, self.tile)
        j = f.iadd(of_left, f.isub(place, taken))
        found = _merged(f, records, before, each, (taken, of_left), (j, count), self.tile - 1)
        f.barrier()
        _store(f, records, own, found)
        f.barrier()
        every(write)
        if not last:
            is_first = f.binary("or", block, thread)
            wider, other = f.index(f.imul(width, 2)), f.index(f.isub(1, half))
            f.if_(f.cmp("eq", is_first, f.const(0)), lambda: self._tell(f, 0, wider, other))
        f.ret()
        return f
