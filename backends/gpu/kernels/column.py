"""Kernels of kind `column`: reductions over any dimensions, elementwise work before them and, on the results, after
them.

Dimensions that lie side by side and are kept, or reduced, together are one. Where the last one is kept, a thread
computes as many neighbouring results as 16 bytes hold, threads beside it those further on, and the other threads of a
block share out what is reduced. Where the last one is reduced, a block computes one result, its threads take vectors.
Few results of many elements take two kernels: chunks leave accumulators in scratch memory, which the second one
combines in order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property, partial

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import pack, tree, unpack
from stablehlo_py.backends.common.reduction import at_place, combined, finish, reductions
from stablehlo_py.backends.gpu.kernels import loop
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_function
from stablehlo_py.backends.gpu.kernels.combining import Accumulators, accumulator_bytes, block_combined
from stablehlo_py.backends.gpu.kernels.wide import Neighbours, power_of_two, widest
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, Delinearized, add, affine_of, delinearize, digits, linear_index, scale
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.types import num_elements, shape

ACROSS = 32  # threads of a block side by side, where results are many
THREADS = 256
ENOUGH_BLOCKS = 512  # that keep a machine busy
MANY_TRIPS, CHUNK_TRIPS = 32, 8  # of a thread: then it pays to have several chunks; in a chunk, at least
MOST_CHUNKS = 512
FEW = 4  # elements that a thread reduces at least, before others share them out
AHEAD = 4  # trips of a loop together, so that several accesses are on their way
PARTIALS = 4  # that a thread of the second kernel reads
MOST_ACCUMULATORS, MOST_OPS = 16, 128  # of a thread; ops of a trip


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel. All reductions have one operand shape and the same dimensions; all results have the reductions'
    shape."""
    items = reductions(fusion)
    if not items:
        return loop.emit(fusion, target)
    if num_elements(items[0].result) == 0:
        return GpuKernel((), {})
    if num_elements(items[0].operand) in (0, num_elements(items[0].result)):  # nothing, or nothing to combine
        return loop.emit(fusion, target)
    return _Column(fusion, target).emit()


class _Column:
    """How the work is shared out.

    Attributes:
        sizes, is_reduced: dimensions of the operands, those together that are kept, or reduced, together.
        count, total: results, and elements of each.
        wide: elements that a thread takes at once, along the last dimension.
        across: threads of a block that have other results.
    """

    def __init__(self, fusion: Fusion, target: GpuTarget) -> None:
        self.fusion, self.target, self.items = fusion, target, reductions(fusion)
        of_operand, reduced = shape(self.items[0].operand), self.items[0].dimensions
        solid = [(int(size), d in reduced) for d, size in enumerate(of_operand) if size > 1]
        groups = [(is_reduced, list(each)) for is_reduced, each in itertools.groupby(solid, lambda pair: pair[1])]
        self.is_reduced = [is_reduced for is_reduced, _ in groups]
        self.sizes = [math.prod(size for size, _ in group) for _, group in groups]
        self.count = int(num_elements(self.items[0].result))
        self.total = int(num_elements(self.items[0].operand)) // self.count
        self.wide = self._wide()
        self.across, self.threads = self._threads()
        self.blocks = -(-self.count // (self.across * self.results))

    def _wide(self) -> int:
        operands = [item.operand for item in self.items]
        sized = [value for value in self.fusion.inputs if num_elements(value) >= self.sizes[-1]]
        wide = widest(sized or operands, self.sizes[-1])
        least = max(1, min(wide, MOST_OPS // len(self.fusion.ops)))
        if not self.is_reduced[-1]:
            least = min(least, MOST_ACCUMULATORS // len(self.items))
        while wide > 1 and (
            wide > least or not Neighbours(self.fusion, self.target, operands, self.sizes, wide).side_by_side
        ):
            wide //= 2
        return wide

    def _threads(self) -> tuple[int, int]:
        """How many of a block have other results, and all."""
        subgroup = self.target.subgroup
        if self.is_reduced[-1]:
            most = power_of_two(-(-self.total // (self.wide * FEW)))
            return 1, min(THREADS, max(subgroup, most))
        columns = power_of_two(-(-self.count // self.wide))
        rows = min(THREADS // min(ACROSS, columns), power_of_two(-(-self.total // FEW)))
        across = min(THREADS // rows, columns)
        return across, max(subgroup, across * rows)

    @property
    def results(self) -> int:
        """Of a thread."""
        return 1 if self.is_reduced[-1] else self.wide

    @cached_property
    def chunks(self) -> int:
        """Into how many parts what is reduced is split."""
        if self.blocks >= ENOUGH_BLOCKS:
            return 1
        trips = self.total * self.across * self.results // (self.wide * self.threads)
        if trips < MANY_TRIPS:
            return 1
        return max(1, min(MOST_CHUNKS, ENOUGH_BLOCKS // self.blocks, trips // CHUNK_TRIPS))

    def emit(self) -> GpuKernel:
        """One kernel, or two."""
        f = kernel_function(self.fusion, self.target, self.fusion.name, self.blocks * self.chunks, self.threads)
        e = Elemental(f, self.fusion, self.target, 1)
        first, last = f.irem(f.block_number(), self.blocks), self.count // self.results - 1
        number = f.iadd(f.imul(first, self.across), f.irem(f.thread_number(), self.across))
        safe = f.imin(number, last)  # threads behind the last result compute it once more
        chunk = f.idiv(f.block_number(), self.blocks) if self.chunks > 1 else 0
        column = affine_of(safe, last)
        swept = self._swept(e, column, chunk)
        totals = block_combined(f, self.target, self.items * self.results, swept, self.threads, self.across)
        one = f.cmp("slt", f.thread_number(), f.const(self.across))
        mine = f.binary("and", one, f.cmp("sle", f.index(number), f.const(last)))
        if self.chunks == 1:
            f.if_(mine, lambda: self._finish(e, column, totals))
            f.ret()
            return GpuKernel.of(f)

        def keep() -> None:
            places = self._partials(f)
            for part, found in enumerate(self._by_result(totals)):
                at = self._partial(f, chunk, safe, part)
                for place, total in zip(places, found, strict=True):
                    place.store(at, total)

        f.if_(mine, keep)
        f.ret()
        return GpuKernel.of(f, self._second(), scratch_bytes=sum(self._partial_bytes))

    def _by_result(self, totals: Sequence[Lanes]) -> list[Sequence[Lanes]]:
        """The accumulators of each of a thread's results."""
        return list(zip(*[iter(totals)] * len(self.items), strict=True))

    def _swept(self, e: Elemental, column: Affine, chunk: Index) -> list[Lanes]:
        """The accumulators of a thread, all those of a result together."""
        f, rows = e.f, self.threads // self.across
        vectors = self.total // (self.wide // self.results)
        kept = self._indices(f, column, False)
        y = f.idiv(f.thread_number(), self.across)
        low = f.idiv(f.imul(chunk, vectors), self.chunks)
        high = f.idiv(f.imul(f.iadd(chunk, 1), vectors), self.chunks)
        of = [item.of for item in self.items] * self.results

        def joined(a: Sequence[Lanes], b: Sequence[Lanes]) -> list[Lanes]:
            return combined(f, self.items * (len(a) // len(self.items)), a, b)

        def one(number: Index) -> list[Lanes]:
            reduced = self._indices(f, affine_of(number, vectors - 1), True)
            found = []
            for part in range(self.wide):
                place = self._place(kept, reduced, part)
                found.append([e.value(item.operand, place) for item in self.items])
            return tree(found, joined) if self.results == 1 else list(itertools.chain(*found))

        def steps(number: Index, *carries: Value, ahead: int = 1) -> list[Value]:
            found = [one(f.iadd(number, rows * each)) for each in range(ahead)]
            return pack(joined(unpack(carries, of), tree(found, joined)))

        carries = pack([arith.identity(f, item.kind, item.of) for item in self.items] * self.results)
        start = f.iadd(low, y)
        if sum(self.is_reduced) > 1:  # LLVM puts several trips together only where indices are not divided
            step = rows * AHEAD
            end = f.iadd(start, f.imul(f.idiv(f.imax(f.isub(high, start), 0), step), step))
            carries, start = f.loop(start, end, step, partial(steps, ahead=AHEAD), carries), end
        return unpack(f.loop(start, high, rows, steps, carries), of)

    def _indices(self, f: Function, number: Affine, of_reduced: bool) -> list[Affine]:
        """The indices of the kept dimensions, or of the reduced ones: of the first of its elements, where a thread has
        several along the last dimension."""
        sizes = [size for size, is_reduced in zip(self.sizes, self.is_reduced, strict=True) if is_reduced is of_reduced]
        along = self.wide if self.is_reduced[-1] is of_reduced else 1
        if not sizes:
            return []
        counts = [*sizes[:-1], sizes[-1] // along]
        *others, last = delinearize(f, ((math.prod(counts), number),), counts, 1)
        return [*others, scale(f, last, along)]

    def _place(self, kept: Sequence[Affine], reduced: Sequence[Affine], part: int) -> Delinearized:
        """An element of the operands."""
        groups = {False: iter(kept), True: iter(reduced)}
        *others, last = [next(groups[is_reduced]) for is_reduced in self.is_reduced]
        return digits(zip(self.sizes, [*others, add(None, last, part)], strict=True))

    def _finish(self, e: Elemental, column: Affine, totals: Sequence[Lanes]) -> None:
        """Results from the accumulators of a thread."""
        f = e.f
        sizes = [size for size, is_reduced in zip(self.sizes, self.is_reduced, strict=True) if not is_reduced]
        first = self._indices(f, column, False)
        results = []
        for part, found in enumerate(self._by_result(totals)):
            place = digits(zip(sizes, [*first[:-1], *(add(f, last, part) for last in first[-1:])], strict=True))
            here = linear_index(f, place)
            for item, total in zip(self.items, found, strict=True):
                e.bind(item.result, at_place(here, finish(e, item, total)))
            results.append((place, [e.value(value, place) for value in self.fusion.outputs]))
        for number, value in enumerate(self.fusion.outputs):
            for place, values in results:
                e.write(element(value), f.parameters[f"out{number}"], place, values[number])

    # --- two kernels -------------------------------------------------------------------------------------------------

    @property
    def _partial_bytes(self) -> list[int]:
        return [accumulator_bytes(item.of, self.chunks * self.count) for item in self.items]

    def _partials(self, f: Function) -> list[Accumulators]:
        """Accumulators in scratch memory: [reduction][chunk][result]."""
        sizes, count = self._partial_bytes, self.chunks * self.count
        return [Accumulators.scratch(f, item.of, count, sum(sizes[:number])) for number, item in enumerate(self.items)]

    def _partial(self, f: Function, chunk: Index, number: Index, part: int) -> Index:
        """Which of the accumulators of a reduction is that of a chunk, for a result of a thread."""
        return f.iadd(f.imul(chunk, self.count), f.iadd(f.imul(number, self.results), part))

    def _second(self) -> Function:
        """Some threads for each result, more of them where results are few."""
        vectors = self.count // self.results
        across = min(ACROSS, power_of_two(vectors))
        threads = max(self.target.subgroup, min(THREADS, across * power_of_two(-(-self.chunks // PARTIALS))))
        name = f"{self.fusion.name}.combine"
        f = kernel_function(self.fusion, self.target, name, -(-vectors // across), threads)
        e = Elemental(f, self.fusion, self.target, 1)
        places, items = self._partials(f), self.items * self.results
        of = [item.of for item in items]
        number = f.iadd(f.imul(f.block_number(), across), f.irem(f.thread_number(), across))
        safe = f.imin(number, vectors - 1)

        def step(chunk: Index, *carries: Value) -> list[Value]:
            at = [self._partial(f, chunk, safe, part) for part in range(self.results)]
            read = [place.load(each) for each in at for place in places]
            return pack(combined(f, items, unpack(carries, of), read))

        start = pack([arith.identity(f, item.kind, item.of) for item in items])
        found = f.loop(f.idiv(f.thread_number(), across), self.chunks, threads // across, step, start)
        totals = block_combined(f, self.target, items, unpack(found, of), threads, across)
        one = f.cmp("slt", f.thread_number(), f.const(across))
        mine = f.binary("and", one, f.cmp("slt", f.index(number), f.const(vectors)))
        f.if_(mine, lambda: self._finish(e, affine_of(safe, vectors - 1), totals))
        f.ret()
        return f
