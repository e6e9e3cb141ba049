"""Kernels of kind `row`: reductions over trailing dimensions, and elementwise work before, between and after them.

The tensor is seen as [rows, columns]; a power of two of threads goes through a row, once for every level of reductions
(softmax: maximum, then the sum of exponentials) and once for full-size results. A thread takes vectors: neighbours that
16 bytes hold, then those as many vectors further as there are threads. Where a thread's share fits in its registers,
every element is read once, and what the levels have in common is computed once; longer rows are read by every level.

Threads of a subgroup combine their sums by exchanging them, subgroups through shared memory (combining.py). A row of
few elements has a part of a subgroup, so a block has several rows. The order of sums depends on shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import pack, tree, unpack
from stablehlo_py.backends.common.reduction import (
    Reduction,
    at_place,
    combined,
    finish,
    reduction_levels,
    reductions,
)
from stablehlo_py.backends.gpu.kernels import column, loop
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_function
from stablehlo_py.backends.gpu.kernels.combining import block_combined
from stablehlo_py.backends.gpu.kernels.wide import Neighbours, power_of_two, widest
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, Delinearized, Variable, add, affine, affine_of, digits, linear_index
from stablehlo_py.codegen.types import Lanes, element, select
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.types import num_elements, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes.policy import flops_per_element

FEW_ROWS, LONG_ROW = 64, 1 << 14  # more than one block for a row
BLOCK = 256  # threads, where rows are not so long that they need more
ENOUGH_THREADS = 1 << 16  # that keep a machine busy
ENOUGH_BLOCKS = 1 << 10
LINE = 128  # bytes that a machine reads at once
KEPT = 32  # registers of a thread for what several levels read
MOST_FLOPS = 384  # of a thread in a row, unless the row is too long for a block then: code takes time to compile
AHEAD = 4  # vectors of a thread that are on their way at once, in a long row


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel. All reductions split their operand into the same rows and columns; results have `rows` elements, or
    all."""
    items = reductions(fusion)
    if not items:
        return loop.emit(fusion, target)
    sizes = shape(items[0].operand)
    columns = int(math.prod(sizes[dimension] for dimension in items[0].dimensions))
    rows = int(num_elements(items[0].result))
    if rows == 0:
        return GpuKernel((), {})
    if columns in (0, 1):  # nothing to combine
        return loop.emit(fusion, target)
    levels = reduction_levels(items)
    is_long = len(levels) == 1 and rows < FEW_ROWS and columns >= LONG_ROW
    if is_long and all(num_elements(value) == rows for value in fusion.outputs):
        return column.emit(fusion, target)
    return _Row(fusion, target, rows, columns, levels).emit()


class _Row:
    """How rows are shared out.

    Attributes:
        wide: elements of a vector.
        vectors: of a row.
        threads: of a row.
        kept: whether a thread's share of a row is kept in registers.
        block: threads of a block.
    """

    def __init__(
        self, fusion: Fusion, target: GpuTarget, rows: int, columns: int, levels: Sequence[Sequence[Reduction]]
    ) -> None:
        self.fusion, self.target, self.rows, self.columns, self.levels = fusion, target, rows, columns, levels
        self.full = [number for number, value in enumerate(fusion.outputs) if num_elements(value) != rows]
        sized = [value for value in (*fusion.inputs, *fusion.outputs) if num_elements(value) >= columns]
        self.wide = widest(sized, columns) if sized else 1
        seen = self._seen()
        while self.wide > 1 and not seen.side_by_side:
            self.wide //= 2
            seen = self._seen()
        self.vectors = columns // self.wide
        share = self._share(seen)
        self.threads = power_of_two(-(-self.vectors // share))
        line = LINE // max([self.wide * element(value).bytes for value in sized], default=LINE)
        self.threads = max(self.threads, min(power_of_two(self.vectors), line))
        while self.threads < min(BLOCK, self.vectors) and rows * self.threads < ENOUGH_THREADS:
            self.threads *= 2
        passes = len(levels) + bool(self.full)
        self.kept = passes > 1 and self.threads <= target.most_threads and self.threads * share >= self.vectors
        if not self.kept:
            self.threads = min(self.threads, BLOCK)
        self.block = max(self.threads, target.subgroup)
        while self.block < BLOCK and rows * self.threads // self.block > ENOUGH_BLOCKS:
            self.block *= 2

    def _seen(self) -> Neighbours:
        items = [item for level in self.levels for item in level]
        values = [*(item.operand for item in items), *(self.fusion.outputs[number] for number in self.full)]
        return Neighbours(
            self.fusion, self.target, values, [self.rows, self.columns], self.wide, [item.result for item in items]
        )

    def _share(self, seen: Neighbours) -> int:
        """How many vectors of a row a thread has at most, where it keeps what it reads."""
        own = {source for source, offset in seen.loads if isinstance(source, ir.Value) and seen.differs(offset)}
        registers = sum(max(1, element(source).bytes // 4) for source in own)
        most = max(1, KEPT // max(1, registers) // self.wide)
        flops = sum(flops_per_element(record_of(op.operation.name)) for op in self.fusion.ops)
        few = max(1, MOST_FLOPS // max(1, flops) // self.wide)
        share = min(most, few if few * self.target.most_threads >= self.vectors else most)
        return 1 << (share.bit_length() - 1)

    def emit(self) -> GpuKernel:
        """The kernel."""
        per_block = self.block // self.threads
        f = kernel_function(self.fusion, self.target, self.fusion.name, -(-self.rows // per_block), self.block)
        self.f, self.e = f, Elemental(f, self.fusion, self.target, 1)
        thread = f.thread_number()
        number = f.iadd(f.imul(f.block_number(), per_block), f.idiv(thread, self.threads))
        # The threads of rows behind the last one compute that once more.
        exists = f.cmp("slt", f.index(number), f.const(self.rows)) if self.rows % per_block else None
        self.row = affine(f.imin(number, self.rows - 1), self.rows)
        self.thread = f.index(f.irem(thread, self.threads))
        self.first = Variable(self.thread, 0, self.threads - 1)
        row_place = digits([(self.rows, self.row)])
        here = linear_index(f, row_place)
        for level in self.levels:
            totals = block_combined(f, self.target, level, self._reduced(level), self.block, group=self.threads)
            for item, total in zip(level, totals, strict=True):
                self.e.bind(item.result, at_place(here, finish(self.e, item, total)))
        self._store_row(row_place, exists)
        if self.full:
            self._store_columns(exists)
        f.ret()
        return GpuKernel.of(f)

    # --- vectors -----------------------------------------------------------------------------------------------------

    @property
    def _trips(self) -> int:
        """Of a loop in which a thread takes `AHEAD` vectors."""
        return 0 if self.kept else self.vectors // (self.threads * AHEAD)

    def _rest(self) -> list[tuple[Affine, Value | None]]:
        """The vectors of a thread behind those of the loop, each with the condition that it is there, if not all
        threads have it: instead of one that is not, the last one is taken."""
        f, found = self.f, list[tuple[Affine, Value | None]]()
        for start in range(self._trips * AHEAD * self.threads, self.vectors, self.threads):
            if start + self.threads <= self.vectors:
                found.append((Affine(start, ((self.first, 1),)), None))
            else:
                number = f.iadd(self.thread, start)
                there = f.cmp("slt", f.index(number), f.const(self.vectors))
                found.append((affine_of(f.imin(number, self.vectors - 1), self.vectors - 1), there))
        return found

    def _loop_vectors(self, start: Index) -> list[Affine]:
        """The vectors of a trip."""
        step = AHEAD * self.threads
        base = add(self.f, affine_of(start, (self._trips - 1) * step, step), Affine(0, ((self.first, 1),)))
        return [add(self.f, base, self.threads * number) for number in range(AHEAD)]

    def _places(self, vector: Affine) -> list[Delinearized]:
        """The elements of a vector."""
        terms = tuple((variable, factor * self.wide) for variable, factor in vector.terms)
        start = int(vector.constant) * self.wide
        return [
            digits([(self.rows, self.row), (self.columns, Affine(start + part, terms))]) for part in range(self.wide)
        ]

    # --- passes ------------------------------------------------------------------------------------------------------

    def _reduced(self, level: Sequence[Reduction]) -> list[Lanes]:
        """The accumulators of a thread."""
        f, of = self.f, [item.of for item in level]

        def accumulated(vector: Affine) -> list[Lanes]:
            found = [[self.e.value(item.operand, place) for item in level] for place in self._places(vector)]
            return tree(found, joined)

        def joined(a: Sequence[Lanes], b: Sequence[Lanes]) -> list[Lanes]:
            return combined(f, level, a, b)

        found = list[list[Lanes]]()
        if self._trips:

            def step(start: Index, *carries: Value) -> list[Value]:
                parts = [accumulated(vector) for vector in self._loop_vectors(start)]
                return pack(joined(unpack(carries, of), tree(parts, joined)))

            distance = AHEAD * self.threads
            start = pack(arith.identity(f, item.kind, item.of) for item in level)
            found.append(unpack(f.loop(0, self._trips * distance, distance, step, start), of))
        for vector, there in self._rest():
            parts = accumulated(vector)
            if there is not None:
                nothing = [arith.identity(f, item.kind, item.of) for item in level]
                parts = [select(f, there, part, other) for part, other in zip(parts, nothing, strict=True)]
            found.append(parts)
        return tree(found, joined)

    def _store_row(self, place: Delinearized, exists: Value | None) -> None:
        """Results of a row, by its first thread."""
        f, outputs = self.f, self.fusion.outputs
        numbers = [number for number in range(len(outputs)) if number not in self.full]
        if not numbers:
            return
        results = [(number, self.e.value(outputs[number], place)) for number in numbers]

        def store() -> None:
            for number, result in results:
                self.e.write(element(outputs[number]), f.parameters[f"out{number}"], place, result)

        first = f.cmp("eq", self.thread, f.const(0))
        f.if_(first if exists is None else f.binary("and", first, exists), store)

    def _store_columns(self, exists: Value | None) -> None:
        """Full-size results."""
        f = self.f
        if self._trips:

            def step(start: Index) -> None:
                for vector in self._loop_vectors(start):
                    self._store_vector(vector, exists)

            distance = AHEAD * self.threads
            f.loop(0, self._trips * distance, distance, step)
        for vector, there in self._rest():
            condition = f.binary("and", there, exists) if there and exists else there or exists
            self._store_vector(vector, condition)

    def _store_vector(self, vector: Affine, condition: Value | None) -> None:
        f, outputs = self.f, self.fusion.outputs
        places = self._places(vector)
        results = [[self.e.value(outputs[number], place) for number in self.full] for place in places]

        def store() -> None:
            for position, number in enumerate(self.full):
                for place, found in zip(places, results, strict=True):
                    base = f.parameters[f"out{number}"]
                    self.e.write(element(outputs[number]), base, place, found[position])

        if condition is None:
            store()
        else:
            f.if_(condition, store)
