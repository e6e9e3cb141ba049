"""Radix sort of rows of records, the least significant digit first. Stable, and the same from run to run.

For each digit of eight bits: blocks count the digits of their tiles, the counts before every tile are summed, and
blocks write the records of their tiles where they belong (Satish, Harris and Garland, "Designing efficient sorting
algorithms for manycore GPUs", 2009). A block first sorts its tile by the digit in shared memory, four bits at a time:
each thread counts its own records, sums of all counts say where they go. So neighbouring threads write neighbouring
records, and no atomic operation decides where. No block waits for another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_function
from stablehlo_py.backends.gpu.kernels.records import (
    BANKS,
    Ordering,
    Record,
    Records,
    aligned_bytes,
    scratch_bytes,
    shared_places,
)
from stablehlo_py.codegen.builder import I8, I32, I64, Function, Index, Value

THREADS = DIGITS = 256  # of a block; that eight bits can be
DIGIT_BITS, PART_BITS = 8, 4
TILE = 8 * THREADS
LEAST_TILE = 2 * THREADS
GROUP = 16  # threads whose numbers one thread sums


@dataclass(frozen=True)
class _Digit:
    """Some bits of a key."""

    key: int
    shift: int
    bits: int


def _digits(ordering: Ordering) -> list[_Digit]:
    """The least significant one first."""
    return [
        _Digit(number, shift, min(DIGIT_BITS, bits - shift))
        for number, bits in reversed(list(enumerate(ordering.key_bits)))
        for shift in range(0, bits, DIGIT_BITS)
    ]


def moves(ordering: Ordering) -> int | None:
    """How often each record is read or written; None: this cannot sort them."""
    return 3 * len(_digits(ordering)) if ordering.keys and tile_of(ordering) >= LEAST_TILE else None


def tile_of(ordering: Ordering) -> int:
    """How many records a block sorts; 0: they do not fit."""
    others = shared_places(THREADS << (PART_BITS - 1)) + 3 * DIGITS + 3 * GROUP
    return ordering.tile(TILE, ordering.target.shared_bytes - 4 * others)


def emit(ordering: Ordering) -> GpuKernel:
    """The kernels that sort rows."""
    return _Radix(ordering).emit()


class _Sums:
    """Sums over the threads of a block before each of them, in two steps of 16."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.numbers, self.totals = f.shared_memory(THREADS + GROUP, I32), f.shared_memory(THREADS // GROUP, I32)

    def before(self, number: Value) -> tuple[Value, Value]:
        """The sum of the i32 of the threads before this one, and of all."""
        f, thread = self.f, self.f.thread_number()
        group = f.idiv(thread, GROUP)
        own = f.iadd(thread, group)  # groups are 17 apart: they begin in different banks
        f.store(number, self.numbers, own)
        f.barrier()

        def sum_group() -> None:
            reached = f.const(0, I32)
            for place in range(GROUP):
                at = f.iadd(f.imul(thread, GROUP + 1), place)
                following = f.binary("add", reached, f.load(I32, self.numbers, at))
                f.store(reached, self.numbers, at)
                reached = following
            f.store(reached, self.totals, thread)

        f.if_(f.cmp("slt", thread, f.const(THREADS // GROUP)), sum_group)
        f.barrier()
        before, total, zero = f.load(I32, self.numbers, own), f.const(0, I32), f.const(0, I32)
        for place in range(THREADS // GROUP):
            here = f.load(I32, self.totals, place)
            total = f.binary("add", total, here)
            is_before = f.cmp("slt", f.const(place), f.index(group))
            before = f.binary("add", before, f.select(is_before, here, zero))
        return before, total


class _Radix:
    """Scratch memory: two rooms for records, the counts [row][digit][tile], their totals [row][digit]."""

    def __init__(self, ordering: Ordering) -> None:
        self.ordering, self.tile = ordering, tile_of(ordering)
        self.each = self.tile // THREADS
        self.tiles = -(-ordering.size // self.tile)
        self.records = ordering.rows * ordering.size
        self.room_bytes = scratch_bytes(ordering.columns, self.records)
        self.count_bytes = aligned_bytes(4 * ordering.rows * DIGITS * self.tiles)

    def emit(self) -> GpuKernel:
        """Three launches for each digit."""
        digits = _digits(self.ordering)
        rooms = min(2, len(digits) - 1)
        self.counts_at = rooms * self.room_bytes
        kernels = [self._sum()]
        for number, digit in enumerate(digits):
            name = "" if number == len(digits) - 1 else f".move{number}"
            kernels += [self._count(number, digit), self._move(name, number, digit, last=not name)]
        totals = aligned_bytes(4 * self.ordering.rows * DIGITS)
        made = GpuKernel.of(*kernels, scratch_bytes=self.counts_at + self.count_bytes + totals)
        sums, *others = made.launches
        pairs = zip(others[::2], others[1::2], strict=True)
        return replace(made, launches=tuple(each for count, move in pairs for each in (count, sums, move)))

    def _function(self, suffix: str, blocks: int) -> Function:
        name = f"{self.ordering.fusion.name}{suffix}"
        return kernel_function(self.ordering.fusion, self.ordering.target, name, blocks, THREADS)

    def _room(self, f: Function, number: int) -> Records:
        return Records.scratch(f, self.ordering.columns, self.records, number % 2 * self.room_bytes)

    def _fetch(self, f: Function, number: int, row: Index, place: Index) -> Record:
        """A record before a pass."""
        if number == 0:
            return self.ordering.fetch(f, row, place)
        return self._room(f, number - 1).load(f.iadd(f.imul(row, self.ordering.size), place))

    def _counts(self, f: Function) -> Value:
        return f.gep(f.scratch, self.counts_at, I8)

    def _totals(self, f: Function) -> Value:
        return f.gep(f.scratch, self.counts_at + self.count_bytes, I8)

    def _tile(self, f: Function) -> tuple[Index, Index, Index]:
        """Row and number of a block's tile, and how many records it has."""
        row, tile = f.irem(f.block_number(), self.ordering.rows), f.idiv(f.block_number(), self.ordering.rows)
        return row, tile, f.imin(f.isub(self.ordering.size, f.imul(tile, self.tile)), self.tile)

    def _every(self, f: Function, count: Index, act: Callable[[Index], None]) -> None:
        """act(place) for each record of a tile, neighbours by neighbouring threads."""

        def one(number: Index) -> None:
            place = f.iadd(f.imul(number, THREADS), f.thread_number())
            f.if_(f.cmp("slt", f.index(place), f.index(count)), lambda: act(place))

        f.loop(0, self.each, 1, one)

    def _digit(self, f: Function, record: Record, digit: _Digit) -> Value:
        """i32."""
        assert self.ordering.keys is not None
        key = self.ordering.keys(f, record)[digit.key]
        shifted = f.binary("lshr", key, f.const(digit.shift, key.type.element)) if digit.shift else key
        number = f.cast("trunc" if key.type.bits > 32 else "zext", shifted, I32)
        return f.binary("and", number, f.const((1 << digit.bits) - 1, I32))

    def _index(self, f: Function, digit: Value, most: int = DIGITS) -> Index:
        return f.bounded(f.cast("zext", digit, I64), 0, most - 1)

    # --- counts -------------------------------------------------------------------------------------------------------

    def _count(self, number: int, digit: _Digit) -> Function:
        """How often a tile has each digit."""
        f = self._function(f".count{number}", self.ordering.rows * self.tiles)
        row, tile, count = self._tile(f)
        counts, thread = f.shared_memory(DIGITS, I32), f.thread_number()
        f.store(f.const(0, I32), counts, thread)
        f.barrier()

        def one(place: Index) -> None:
            record = self._fetch(f, number, row, f.iadd(f.imul(tile, self.tile), place))
            at = self._index(f, self._digit(f, record, digit))
            f.atomic_add(f.gep(counts, at, I32), f.const(1, I32), "monotonic")  # a count is the same in any order

        self._every(f, count, one)
        f.barrier()
        f.store(f.load(I32, counts, thread), self._counts(f), self._count_at(f, row, thread, tile))
        f.ret()
        return f

    def _count_at(self, f: Function, row: Index, digit: Index, tile: Index) -> Index:
        return f.iadd(f.imul(f.iadd(f.imul(row, DIGITS), digit), self.tiles), tile)

    def _sum(self) -> Function:
        """A block for the counts of a digit in a row: the sums of those before each tile, and of all."""
        f = self._function(".sums", self.ordering.rows * DIGITS)
        each, thread, counts = -(-self.tiles // THREADS), f.thread_number(), self._counts(f)
        low = f.imin(f.imul(thread, each), self.tiles)
        high = f.imin(f.iadd(low, each), self.tiles)
        first = f.imul(f.block_number(), self.tiles)

        def add(tile: Index, reached: Value) -> Value:
            return f.binary("add", reached, f.load(I32, counts, f.iadd(first, tile)))

        (own,) = f.loop(low, high, 1, add, [f.const(0, I32)])
        before, total = _Sums(f).before(own)

        def replace_count(tile: Index, reached: Value) -> Value:
            following = add(tile, reached)
            f.store(reached, counts, f.iadd(first, tile))
            return following

        f.loop(low, high, 1, replace_count, [before])
        is_first = f.cmp("eq", thread, f.const(0))
        f.if_(is_first, lambda: f.store(total, self._totals(f), f.block_number()))
        f.ret()
        return f

    # --- records ------------------------------------------------------------------------------------------------------

    def _move(self, suffix: str, number: int, digit: _Digit, *, last: bool) -> Function:
        """Write the records of a tile where they belong by a digit."""
        ordering = self.ordering
        f = self._function(suffix, ordering.rows * self.tiles)
        row, tile, count = self._tile(f)
        thread, first = f.thread_number(), f.imul(tile, self.tile)
        records, sums = Records.shared(f, ordering.columns, self.tile), _Sums(f)
        begins, starts = f.shared_memory(DIGITS, I32), f.shared_memory(DIGITS, I32)
        counters = f.shared_memory(shared_places(THREADS << (PART_BITS - 1)), I32)

        def read(place: Index) -> None:
            records.store(place, self._fetch(f, number, row, f.iadd(first, place)))

        self._every(f, count, read)
        total = f.load(I32, self._totals(f), f.iadd(f.imul(row, DIGITS), thread))
        smaller, _ = sums.before(total)
        here = f.load(I32, self._counts(f), self._count_at(f, row, thread, tile))
        f.store(f.binary("add", smaller, here), begins, thread)
        for shift in range(0, digit.bits, PART_BITS):
            part = _Digit(digit.key, digit.shift + shift, min(PART_BITS, digit.bits - shift))
            self._sort_tile(f, records, sums, counters, part, count)

        def mark(place: Index) -> None:
            """Where a digit starts in the tile."""
            one = self._digit(f, records.load(place), digit)
            before = self._digit(f, records.load(f.imax(f.isub(place, 1), 0)), digit)
            is_first = f.cmp("eq", f.index(place), f.const(0))
            starts_here = f.binary("or", is_first, f.cmp("ne", one, before))
            at = f.cast("trunc", f.index(place), I32)
            f.if_(starts_here, lambda: f.store(at, starts, self._index(f, one)))

        self._every(f, count, mark)
        f.barrier()

        def write(place: Index) -> None:
            record = records.load(place)
            at = self._index(f, self._digit(f, record, digit))
            begin = f.binary("sub", f.load(I32, begins, at), f.load(I32, starts, at))
            there = f.iadd(f.bounded(f.cast("sext", begin, I64), -self.tile, ordering.size), place)
            there = f.imin(f.imax(there, 0), ordering.size - 1)  # a defect does not write beyond the row
            if last:
                ordering.put(f, row, there, record)
            else:
                self._room(f, number).store(f.iadd(f.imul(row, ordering.size), there), record)

        self._every(f, count, write)
        f.ret()
        return f

    def _sort_tile(
        self, f: Function, records: Records, sums: _Sums, counters: Value, part: _Digit, count: Index
    ) -> None:
        """Sort a tile by up to four bits. A word of `counters` has the counts of two digits in 16 bits each: that of
        digit d in row d modulo 8, one word for each thread in a row. Records that are not there come last."""
        thread, words = f.thread_number(), max(1, (1 << part.bits) // 2)
        own = f.imul(thread, self.each)
        f_last = f.const((1 << part.bits) - 1, I32)

        def word(row: Index, column: Index) -> Index:
            at = f.iadd(f.imul(row, THREADS), column)
            return f.iadd(at, f.idiv(at, BANKS))

        for row in range(words):
            f.store(f.const(0, I32), counters, word(row, thread))
        held, places = [], []
        for number in range(self.each):
            record = records.load(f.iadd(own, number))
            there = f.cmp("slt", f.index(f.iadd(own, number)), f.index(count))
            found = f.select(there, self._digit(f, record, part), f_last)
            at = word(self._index(f, f.binary("and", found, f.const(words - 1, I32)), words), thread)
            high = f.cmp("uge", found, f.const(words, I32))
            by = f.select(high, f.const(16, I32), f.const(0, I32))
            counted = f.load(I32, counters, at)
            f.store(f.binary("add", counted, f.binary("shl", f.const(1, I32), by)), counters, at)
            held.append(record)
            places.append((at, by, f.binary("lshr", counted, by)))
        f.barrier()
        mine = [f.iadd(f.imul(thread, words), number) for number in range(words)]
        mine = [f.iadd(at, f.idiv(at, BANKS)) for at in mine]
        numbers = [f.load(I32, counters, at) for at in mine]
        own_total = numbers[0]
        for each in numbers[1:]:
            own_total = f.binary("add", own_total, each)
        reached, total = sums.before(own_total)
        reached = f.binary("add", reached, f.binary("shl", total, f.const(16, I32)))  # upper digits: after all lower
        for at, each in zip(mine, numbers, strict=True):
            f.store(reached, counters, at)
            reached = f.binary("add", reached, each)
        f.barrier()
        for record, (at, by, rank) in zip(held, places, strict=True):
            begin = f.binary("lshr", f.load(I32, counters, at), by)
            place = f.binary("and", f.binary("add", begin, rank), f.const(self.tile - 1, I32))
            records.store(self._index(f, place, self.tile), record)
        f.barrier()
