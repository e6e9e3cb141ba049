"""Kernels of kind `column`: reductions over any dimensions, elementwise work before them and, on the results, after
them.

A block of threads computes `width` results. Where the last dimension is kept, these are neighbours, and the threads of
each share out what is reduced; where it is reduced, a block computes one result. Few results of many elements take two
kernels: chunks leave accumulators in scratch memory, which the second one combines in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import pack, unpack
from stablehlo_py.backends.common.reduction import at_place, combined, finish, reductions
from stablehlo_py.backends.gpu.kernels import loop
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, global_number, kernel_function
from stablehlo_py.backends.gpu.kernels.combining import Accumulators, accumulator_bytes, block_combined
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, affine_of, delinearize, delinearized, linear_index
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.types import num_elements, shape

WIDTH = 32  # results of a block, where neighbours are kept
THREADS = 256
ENOUGH_BLOCKS = 256  # that keep a machine busy
CHUNK_ELEMENTS = 1 << 12  # of a result in a chunk, at least
MOST_CHUNKS = 64


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
    def __init__(self, fusion: Fusion, target: GpuTarget) -> None:
        self.fusion, self.target, self.items = fusion, target, reductions(fusion)
        self.of = [item.of for item in self.items]
        self.sizes = [int(size) for size in shape(self.items[0].operand)]
        self.reduced = [d for d in range(len(self.sizes)) if d in self.items[0].dimensions]
        self.kept = [d for d in range(len(self.sizes)) if d not in self.reduced]
        self.count = int(num_elements(self.items[0].result))
        self.total = int(num_elements(self.items[0].operand)) // self.count
        solid = [d for d, size in enumerate(self.sizes) if size > 1]
        self.width = 1 if solid[-1] in self.reduced else WIDTH
        self.threads = THREADS
        while self.threads > max(target.subgroup, self.width) and self.threads // self.width >= 2 * self.total:
            self.threads //= 2
        self.blocks = -(-self.count // self.width)

    @cached_property
    def chunks(self) -> int:
        """Into how many parts what is reduced is split."""
        if self.blocks >= ENOUGH_BLOCKS:
            return 1
        return max(1, min(MOST_CHUNKS, ENOUGH_BLOCKS // self.blocks, self.total // CHUNK_ELEMENTS))

    def emit(self) -> GpuKernel:
        """One kernel, or two."""
        f = kernel_function(self.fusion, self.target, self.fusion.name, self.blocks * self.chunks, self.threads)
        e = Elemental(f, self.fusion, self.target, 1)
        block = f.irem(f.block_number(), self.blocks)
        x = f.irem(f.thread_number(), self.width)
        column = f.iadd(f.imul(block, self.width), x)
        safe = f.imin(column, self.count - 1)  # threads behind the last result compute it once more
        chunk = f.idiv(f.block_number(), self.blocks) if self.chunks > 1 else 0
        totals = block_combined(f, self.target, self.items, self._swept(e, safe, chunk), self.threads, self.width)
        first = f.cmp("slt", f.thread_number(), f.const(self.width))
        mine = f.binary("and", first, f.cmp("slt", f.index(column), f.const(self.count)))
        if self.chunks == 1:
            f.if_(mine, lambda: self._finish(e, safe, totals))
            f.ret()
            return GpuKernel.of(f)
        at = f.iadd(f.imul(chunk, self.count), safe)

        def keep() -> None:
            for place, total in zip(self._partials(f), totals, strict=True):
                place.store(at, total)

        f.if_(mine, keep)
        f.ret()
        return GpuKernel.of(f, self._second(), scratch_bytes=sum(self._partial_bytes))

    def _swept(self, e: Elemental, column: Index, chunk: Index) -> list[Lanes]:
        """The accumulators of a thread."""
        f, rows = e.f, self.threads // self.width
        kept = self._kept(f, column)
        y = f.idiv(f.thread_number(), self.width)
        low = f.idiv(f.imul(chunk, self.total), self.chunks)
        high = f.idiv(f.imul(f.iadd(chunk, 1), self.total), self.chunks)

        def step(number: Index, *carries: Value) -> list[Value]:
            reduced = delinearize(
                f, ((self.total, affine_of(number, self.total - 1)),), [self.sizes[d] for d in self.reduced], 1
            )
            indices = dict(zip(self.kept, kept, strict=True)) | dict(zip(self.reduced, reduced, strict=True))
            at = delinearized(self.sizes, [indices[d] for d in range(len(self.sizes))])
            found = [e.value(item.operand, at) for item in self.items]
            return pack(combined(f, self.items, unpack(carries, self.of), found))

        start = pack([arith.identity(f, item.kind, item.of, 1) for item in self.items])
        return unpack(f.loop(f.iadd(low, y), high, rows, step, start), self.of)

    def _kept(self, f: Function, column: Index) -> list[Affine]:
        """The indices of a result."""
        return delinearize(f, ((self.count, affine_of(column, self.count - 1)),), [self.sizes[d] for d in self.kept], 1)

    def _finish(self, e: Elemental, column: Index, totals: Sequence[Lanes]) -> None:
        """Results from the accumulators of one."""
        f = e.f
        place = delinearized([self.sizes[d] for d in self.kept], self._kept(f, column))
        here = linear_index(f, place)
        for item, total in zip(self.items, totals, strict=True):
            e.bind(item.result, at_place(here, finish(e, item, total)))
        values = [e.value(value, place) for value in self.fusion.outputs]
        for number, (value, result) in enumerate(zip(self.fusion.outputs, values, strict=True)):
            e.write(element(value), f.parameters[f"out{number}"], place, result)

    # --- two kernels -------------------------------------------------------------------------------------------------

    @property
    def _partial_bytes(self) -> list[int]:
        return [accumulator_bytes(of, self.chunks * self.count) for of in self.of]

    def _partials(self, f: Function) -> list[Accumulators]:
        """Accumulators in scratch memory: [reduction][chunk][result]."""
        sizes, count = self._partial_bytes, self.chunks * self.count
        return [Accumulators.scratch(f, of, count, sum(sizes[:number])) for number, of in enumerate(self.of)]

    def _second(self) -> Function:
        """A thread for each result."""
        blocks, threads = -(-self.count // self.target.block), self.target.block
        f = kernel_function(self.fusion, self.target, f"{self.fusion.name}.combine", blocks, threads)
        e = Elemental(f, self.fusion, self.target, 1)
        places = self._partials(f)

        def one(column: Value) -> None:
            def read(chunk: Index) -> list[Lanes]:
                at = f.iadd(f.imul(chunk, self.count), column)
                return [place.load(at) for place in places]

            def step(chunk: Index, *carries: Value) -> list[Value]:
                return pack(combined(f, self.items, unpack(carries, self.of), read(chunk)))

            self._finish(e, column, unpack(f.loop(1, self.chunks, 1, step, pack(read(0))), self.of))

        number = global_number(f)
        f.if_(f.cmp("slt", number, f.const(self.count)), lambda: one(number))
        f.ret()
        return f
