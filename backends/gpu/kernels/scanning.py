"""Sequences combined in order: all their prefixes (scans), or their totals alone (reductions that are not reordered).

Sequences lie in an array of [lines, length, columns]. Where columns are neighbours, a thread takes a sequence, or a
chunk of one where there are few. Otherwise a block takes a sequence: each of its threads combines some neighbouring
elements, what the threads before it have comes by a scan in shared memory (Hillis & Steele, Data Parallel Algorithms,
1986), and what was before them is carried along. Few long sequences are split into chunks, in three kernels: the totals
of the chunks, their prefixes, the scan of each chunk from its prefix on (reduce-then-scan: Merrill & Garland,
Single-pass Parallel Prefix Scan with Decoupled Look-back, 2016; no thread waits for another block, which OpenCL does
not promise to run). In which order elements are combined depends on shapes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import fold
from stablehlo_py.backends.gpu.kernels.base import global_number, kernel_function
from stablehlo_py.backends.gpu.kernels.combining import Accumulators, accumulator_bytes
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import (
    Affine,
    Delinearized,
    Variable,
    affine_of,
    delinearized,
    linear_index,
    scalar,
)
from stablehlo_py.codegen.types import Element, Lanes

MOST_THREADS = 256
NEIGHBOUR_BYTES, MOST_NEIGHBOURS = 32, 8  # of a thread, at once
SHORT = 16  # elements of a sequence that one thread combines, though its neighbours' are far
ENOUGH_BLOCKS, CHUNK_ELEMENTS = 256, 1 << 12  # that keep a machine busy; of a block at least
ENOUGH_THREADS, CHUNK_STEPS = 1 << 16, 32  # the same for threads
MOST_CHUNKS = 1 << 10
UNROLLED = 4  # elements that a thread reads before it combines them


@dataclass(frozen=True)
class Sequences:
    """What is combined, and what for.

    Attributes:
        lines, length, columns: how the elements lie.
        of: their types; an element may be several numbers.
        read: an element, at a place of [lines, length, columns].
        combine: two totals, the one of what lies before the other.
        start: what comes before the first element.
        write: takes every place and the total up to there.
        finish: takes every place of [lines, columns] and the total there.
        is_backwards: whether the last element is the first.
    """

    lines: int
    length: int
    columns: int
    of: Sequence[Element]
    read: Callable[[Elemental, Delinearized], list[Lanes]]
    combine: Callable[[Elemental, list[Lanes], list[Lanes]], list[Lanes]]
    start: Callable[[Elemental], list[Lanes]] | None
    write: Callable[[Elemental, Delinearized, list[Lanes]], None] | None = None
    finish: Callable[[Elemental, Delinearized, list[Lanes]], None] | None = None
    is_backwards: bool = False

    @property
    def bytes(self) -> int:
        """Scratch memory for a total of every sequence."""
        return sum(accumulator_bytes(of, self.lines * self.columns) for of in self.of)


def combined_in_order(
    work: Sequences, fusion: Fusion, target: GpuTarget, offset: int = 0
) -> tuple[list[Function], int]:
    """The kernels, and how much scratch memory they take, from an offset on."""
    whole = _Sweep(work, fusion, target)
    if whole.chunks == 1:
        return [whole.emit(fusion.name)], 0
    kept = replace(work, lines=work.lines * whole.chunks, length=1)  # a total of every chunk

    def places(f: Function) -> list[Accumulators]:
        count, at, found = kept.lines * kept.columns, offset, []
        for of in work.of:
            found.append(Accumulators.scratch(f, of, count, at))
            at += accumulator_bytes(of, count)
        return found

    def load(e: Elemental, place: Delinearized) -> list[Lanes]:
        at = scalar(e.f, linear_index(e.f, place))
        return [each.load(at) for each in places(e.f)]

    def keep(e: Elemental, place: Delinearized, values: list[Lanes]) -> None:
        at = scalar(e.f, linear_index(e.f, place))
        for each, value in zip(places(e.f), values, strict=True):
            each.store(at, value)

    totals = replace(whole, work=replace(work, start=None, write=None, finish=keep))
    middle = replace(work, length=whole.chunks, read=load, is_backwards=False)
    if work.write is None:
        parts = [totals.emit(f"{fusion.name}.totals"), _Sweep(middle, fusion, target, 1).emit(fusion.name)]
    else:
        prefixes = _Sweep(replace(middle, write=keep, finish=None), fusion, target, 1)
        last = replace(whole, prefix=load)
        names = (f"{fusion.name}.totals", f"{fusion.name}.prefixes", fusion.name)
        parts = [sweep.emit(name) for sweep, name in zip((totals, prefixes, last), names, strict=True)]
    return parts, kept.bytes


@dataclass(frozen=True)
class _Sweep:
    """A kernel that goes through all sequences, in `chunks` parts (0: as many as are good) each. `prefix`: the total of
    a chunk and all before it, at a place of [lines, chunks, columns]."""

    work: Sequences
    fusion: Fusion
    target: GpuTarget
    split: int = 0
    prefix: Callable[[Elemental, Delinearized], list[Lanes]] | None = None

    @property
    def is_wide(self) -> bool:
        """Whether a block goes through a sequence."""
        return self.work.columns == 1 and self.work.length > SHORT

    @property
    def neighbours(self) -> int:
        """Elements of a thread of a block."""
        widest = max(of.bytes for of in self.work.of)
        return max(1, min(MOST_NEIGHBOURS, NEIGHBOUR_BYTES // widest))

    @property
    def threads(self) -> int:
        """Of a block."""
        if not self.is_wide:
            return self.target.block
        needed = -(-self.work.length // self.neighbours)
        room = self.target.shared_bytes // (2 * sum(max(4, of.bytes) for of in self.work.of))
        most = min(MOST_THREADS, 1 << (room.bit_length() - 1))
        return min(most, max(self.target.subgroup, 1 << (needed - 1).bit_length()))

    @property
    def chunks(self) -> int:
        """Parts of a sequence."""
        return max(1, -(-self.work.length // self.chunk))

    @property
    def chunk(self) -> int:
        """Elements of a part: whole steps."""
        work, step = self.work, self.threads * self.neighbours if self.is_wide else 1
        if self.is_wide:
            most = min(ENOUGH_BLOCKS // work.lines, work.length // CHUNK_ELEMENTS)
        else:
            most = min(ENOUGH_THREADS // (work.lines * work.columns), work.length // CHUNK_STEPS)
        chunks = self.split or max(1, min(MOST_CHUNKS, most))
        return max(1, -(-work.length // (chunks * step))) * step

    def emit(self, name: str) -> Function:
        """The kernel."""
        work, chunks, threads = self.work, self.chunks, self.threads
        count = work.lines * chunks * work.columns
        blocks = count if self.is_wide else -(-count // threads)
        f = kernel_function(self.fusion, self.target, name, blocks, threads)
        e = Elemental(f, self.fusion, self.target, 1)
        own = f.block_number() if self.is_wide else global_number(f)
        number = f.bounded(own, 0, count - 1)

        def one() -> None:
            rest, column = f.idiv(number, work.columns), f.irem(number, work.columns)
            line, chunk = f.idiv(rest, chunks), f.irem(rest, chunks)
            sweep = self._by_block if self.is_wide else self._by_thread
            sweep(e, line, chunk, column)

        if self.is_wide:
            one()
        else:
            f.if_(f.cmp("slt", own, f.const(count)), one)
        f.ret()
        return f

    # --- where things are --------------------------------------------------------------------------------------------

    def _place(self, line: Index, position: Affine, column: Index) -> Delinearized:
        work = self.work
        if work.is_backwards:
            terms = tuple((variable, -factor) for variable, factor in position.terms)
            position = Affine(work.length - 1 - position.constant, terms)
        sizes = [work.lines, work.length, work.columns]
        ends = affine_of(line, work.lines - 1), affine_of(column, work.columns - 1)
        return delinearized(sizes, [ends[0], position, ends[1]])

    def _chunk_place(self, line: Index, chunk: Index, column: Index) -> Delinearized:
        sizes = [self.work.lines, self.chunks, self.work.columns]
        indices = zip((line, chunk, column), sizes, strict=True)
        return delinearized(sizes, [affine_of(index, size - 1) for index, size in indices])

    def _ends(self, f: Function, chunk: Index) -> tuple[Index, Index]:
        low = f.imul(chunk, self.chunk)
        return low, f.imin(f.iadd(low, self.chunk), self.work.length)

    def _start(self, e: Elemental, line: Index, chunk: Index, column: Index) -> list[Lanes] | None:
        """What is before the first element of a chunk; None: nothing."""
        f = e.f
        if self.work.start is None:
            return None
        start = self.work.start(e)
        if self.prefix is None:
            return start
        before = self.prefix(e, self._chunk_place(line, f.imax(f.isub(chunk, 1), 0), column))
        is_first = f.cmp("eq", f.index(chunk), f.const(0))
        return [types.select(f, is_first, a, b) for a, b in zip(start, before, strict=True)]

    # --- a thread for a chunk ----------------------------------------------------------------------------------------

    def _by_thread(self, e: Elemental, line: Index, chunk: Index, column: Index) -> None:
        f, work = e.f, self.work
        low, high = self._ends(f, chunk)

        def place(position: Index) -> Delinearized:
            return self._place(line, affine_of(position, work.length - 1), column)

        def step(position: Index, held: list[Lanes], count: int) -> list[Lanes]:
            places = [place(f.iadd(position, part)) for part in range(count)]
            for at, value in zip(places, [work.read(e, at) for at in places], strict=True):
                held = work.combine(e, held, value)
                if work.write:
                    work.write(e, at, held)
            return held

        held = self._start(e, line, chunk, column)
        if held is None:
            held, low = work.read(e, place(low)), f.iadd(low, 1)
        whole = f.iadd(low, f.imul(f.idiv(f.isub(high, low), UNROLLED), UNROLLED))
        held = fold(f, low, whole, UNROLLED, held, lambda position, held: step(position, held, UNROLLED))
        held = fold(f, whole, high, 1, held, lambda position, held: step(position, held, 1))
        if work.finish:
            work.finish(e, self._chunk_place(line, chunk, column), held)

    # --- a block for a chunk -----------------------------------------------------------------------------------------

    def _by_block(self, e: Elemental, line: Index, chunk: Index, column: Index) -> None:
        f, work = e.f, self.work
        low, high = self._ends(f, chunk)
        scan = _BlockScan(f, work.of, lambda a, b: work.combine(e, a, b), self.threads)
        begin = self._start(e, line, chunk, column)
        start = begin or [types.constant(f, of, 0) for of in work.of]
        step = self.threads * self.neighbours

        def trip(base: Index, held: list[Lanes]) -> list[Lanes]:
            last = f.idiv(f.isub(f.imin(f.isub(high, base), step), 1), self.neighbours)  # thread with elements
            places, totals, is_there = self._own(e, line, base, high)
            before, total = scan.scanned(totals[-1], last, f.idiv(base, step))
            if work.write:
                is_first = f.cmp("eq", f.thread_number(), f.const(0))
                after = work.combine(e, held, before)
                before = [types.select(f, is_first, a, b) for a, b in zip(held, after, strict=True)]
                results = [work.combine(e, before, each) for each in totals]
                self._write(e, places, results, is_there)
            grown = work.combine(e, held, total)
            if begin is None:
                is_new = f.cmp("eq", f.index(base), f.index(low))
                grown = [types.select(f, is_new, a, b) for a, b in zip(total, grown, strict=True)]
            return grown

        total = fold(f, low, high, step, start, trip)
        if work.finish:
            finish, place = work.finish, self._chunk_place(line, chunk, column)
            f.if_(f.cmp("eq", f.thread_number(), f.const(0)), lambda: finish(e, place, total))

    def _own(
        self, e: Elemental, line: Index, base: Index, high: Index
    ) -> tuple[list[Delinearized], list[list[Lanes]], list[Value]]:
        """Of the elements of a thread: the places, the totals up to each, and which of them are there. A total has
        nothing of elements that are not."""
        f, work, count = e.f, self.work, self.neighbours
        groups = -(-work.length // count)
        group = f.iadd(f.idiv(base, count), f.thread_number())
        variable = Variable(f.index(f.imin(group, groups - 1)), 0, groups - 1)
        is_whole = work.length % count == 0
        places, is_there = [], []
        for part in range(count):
            position = Affine(part, ((variable, count),))
            if not is_whole:
                position = affine_of(f.imin(scalar(f, position), work.length - 1), work.length - 1)
            places.append(self._place(line, position, 0))
            if part == 0 or not is_whole:
                is_there.append(f.cmp("slt", f.index(f.iadd(f.imul(group, count), part)), f.index(high)))
        values = [work.read(e, place) for place in places]
        totals = [values[0]]
        for part, value in enumerate(values[1:], 1):
            longer = work.combine(e, totals[-1], value)
            if not is_whole:
                pairs = zip(longer, totals[-1], strict=True)
                longer = [types.select(f, is_there[part], a, b) for a, b in pairs]
            totals.append(longer)
        return places, totals, is_there

    def _write(
        self, e: Elemental, places: list[Delinearized], results: list[list[Lanes]], is_there: list[Value]
    ) -> None:
        """The results whose elements are there."""
        write = self.work.write
        assert write is not None

        def some(first: int, end: int) -> None:
            for place, result in zip(places[first:end], results[first:end], strict=True):
                write(e, place, result)

        parts = len(places) // len(is_there)
        for number, condition in enumerate(is_there):
            e.f.if_(condition, partial(some, number * parts, (number + 1) * parts))


class _BlockScan:
    """The scan over the threads of a block. It has room for two states, of which one is read while the other is
    written."""

    def __init__(
        self,
        f: Function,
        of: Sequence[Element],
        combine: Callable[[list[Lanes], list[Lanes]], list[Lanes]],
        threads: int,
    ) -> None:
        self.f, self.combine, self.threads = f, combine, threads
        self.steps = threads.bit_length() - 1
        self.places = [Accumulators.shared(f, each, 2 * threads) for each in of]

    def scanned(self, mine: list[Lanes], last: Index, trip: Index) -> tuple[list[Lanes], list[Lanes]]:
        """From the values of the threads: the total of those before this one (which the first one has not), and of all
        up to the thread `last`. `trip`: how often this was done before: it begins with the state that nobody still
        reads."""
        f, thread = self.f, self.f.thread_number()
        first = f.imul(f.irem(trip, 2), self.threads) if self.steps % 2 == 0 else 0
        other = f.isub(self.threads, first)
        self._store(f.iadd(first, thread), mine)

        def step(number: Index, held: list[Lanes]) -> list[Lanes]:
            f.barrier()
            distance = f.bounded(f.binary("shl", f.const(1), f.index(number)), 1, self.threads // 2)
            is_odd = f.cmp("ne", f.index(f.irem(number, 2)), f.const(0))
            ends = (f.select(is_odd, f.index(a), f.index(b)) for a, b in ((other, first), (first, other)))
            source, to = (f.bounded(each, 0, self.threads) for each in ends)
            before = self._load(f.iadd(source, f.imax(f.isub(thread, distance), 0)))
            joined = self.combine(before, held)
            has = f.cmp("sge", thread, f.index(distance))
            held = [types.select(f, has, a, b) for a, b in zip(joined, held, strict=True)]
            self._store(f.iadd(to, thread), held)
            return held

        fold(f, 0, self.steps, 1, mine, step)
        f.barrier()
        final = other if self.steps % 2 else first
        return self._load(f.iadd(final, f.imax(f.isub(thread, 1), 0))), self._load(f.iadd(final, last))

    def _store(self, at: Index, values: list[Lanes]) -> None:
        for place, value in zip(self.places, values, strict=True):
            place.store(at, value)

    def _load(self, at: Index) -> list[Lanes]:
        return [place.load(at) for place in self.places]
