"""Compute phases for products with few rows, which are bound by reading B once.

`RowStream` (one row, B contiguous along n): eight rows of B at a time are added, scaled, to a block of sums in the L1
cache, so memory is read in long runs. `LaneSums` (few rows, A and B contiguous along k): vectors run along k, and sums
of lanes are formed at the end for several columns together, by the steps of a transpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from stablehlo_py.backends.common.contraction import Contraction
from stablehlo_py.backends.common.loops import unravel
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.finished_tiles import Epilogue
from stablehlo_py.backends.cpu.kernels.transposing import exchange_lanes
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value, vector
from stablehlo_py.codegen.index import Affine, add, affine_of
from stablehlo_py.dialect.symint import IntLike, size_hint

STREAMED_ROWS = 8
BLOCK_BYTES = 8 << 10
MOST_ROWS = 16  # LaneSums: beyond it, transposing B into panels costs less than it saves


class _FewRows:
    """What both phases share: iterations are (outer places) x (blocks of columns)."""

    block: IntLike

    def __init__(self, contraction: Contraction, arithmetic: Arithmetic, epilogue: Epilogue, target: CpuTarget) -> None:
        self.contraction = contraction
        self.arithmetic = arithmetic
        self.epilogue = epilogue
        self.lanes = target.lanes(arithmetic.accumulator.bits)
        self.vector = vector(self.lanes, arithmetic.accumulator)

    @property
    def blocks(self) -> IntLike:
        return -(-self.contraction.n.size // self.block)

    @property
    def iterations(self) -> IntLike:
        return self.blocks * math.prod(axis.size for axis in self.contraction.outer)

    @property
    def cost(self) -> float:
        """Nanoseconds of one iteration, by the bytes of B that it reads."""
        size = self.contraction.b.element.storage.bits // 8
        depth, columns = size_hint(self.contraction.depth), min(map(size_hint, (self.block, self.contraction.n.size)))
        return depth * columns * size / 16 + 20

    def emit(self, f: Function) -> None:
        """The body of the phase function."""

        def iteration(number: Value) -> None:
            block = f.irem(number, self.blocks)
            problem = self.contraction
            digits = unravel(f, f.idiv(number, self.blocks), [axis.size for axis in problem.outer])
            place = [affine_of(d, axis.size - 1) for d, axis in zip(digits, problem.outer, strict=True)]
            a = problem.a.at(f, digits, problem.outer_steps("a"))
            b = problem.b.at(f, digits, problem.outer_steps("b"))
            self._block(f, a, b, place, block)

        f.loop(f.begin, f.end, 1, iteration)

    def _block(self, f: Function, a: Value, b: Value, place: list[Affine], block: Index) -> None:
        raise AssertionError("defined by the subclasses")


class RowStream(_FewRows):
    """One row of A: sums of a block of columns live in the L1 cache while rows of B stream by."""

    @staticmethod
    def fits(contraction: Contraction, arithmetic: Arithmetic, target: CpuTarget) -> bool:
        """One row, contiguous columns, enough of them, one contracted axis."""
        return (
            contraction.m.size == 1
            and contraction.n.b == 1
            and len(contraction.k) == 1
            and not arithmetic.complex
            and contraction.depth >= STREAMED_ROWS
            and contraction.n.size >= 8 * target.lanes(arithmetic.accumulator.bits)
        )

    def __init__(self, contraction: Contraction, arithmetic: Arithmetic, epilogue: Epilogue, target: CpuTarget) -> None:
        super().__init__(contraction, arithmetic, epilogue, target)
        most = BLOCK_BYTES * 8 // arithmetic.accumulator.bits
        pieces = max(1, -(-contraction.n.size // most))
        if pieces == 1 and contraction.n.size * contraction.depth >= 1 << 18:
            pieces = 4  # something for other threads
        share = -(-contraction.n.size // pieces)
        self.block = -(-share // self.lanes) * self.lanes

    def _block(self, f: Function, a: Value, b: Value, place: list[Affine], block: Index) -> None:
        n, lanes = self.contraction.n.size, self.lanes
        start = f.imul(block, self.block)
        whole = f.imin(f.isub(n // lanes * lanes, start), self.block)  # columns in full vectors
        b = f.gep(b, start, self.contraction.b.element.storage)
        sums = f.alloca(self.block, self.arithmetic.accumulator)
        zero = f.const(0, self.vector)
        f.loop(0, whole, lanes, lambda j: f.store(zero, sums, j))
        depth, step = int(self.contraction.depth), STREAMED_ROWS

        def rows(count: int) -> Callable[[Index], None]:
            return lambda k: self._add_rows(f, a, b, sums, whole, k, count)

        f.loop(0, depth // step * step, step, rows(step))
        if depth % step:
            rows(depth % step)(depth // step * step)
        last = (self.blocks - 1) * self.block
        column = affine_of(start, max(last, 0), self.block)

        def finish(j: Index) -> None:
            at = add(f, column, affine_of(j, self.block - lanes, lanes))
            value = f.load(self.vector, sums, j)
            self.epilogue.store(f, [*place, Affine(), add(f, at, Affine(0, lane=1))], (value,), lanes, None)

        f.loop(0, whole, lanes, finish)
        if n % lanes:
            f.if_(f.cmp("eq", f.index(block), f.const(self.blocks - 1)), lambda: self._tail(f, a, b, place, last))

    def _add_rows(self, f: Function, a: Value, b: Value, sums: Value, whole: Index, k: Index, count: int) -> None:
        axis, operand = self.contraction.k[0], self.contraction
        at = f.gep(a, f.imul(k, axis.a), operand.a.element.storage)
        row = f.gep(b, f.imul(k, axis.b), operand.b.element.storage)
        factors = [f.splat(self.arithmetic.load(f, operand.a, at, r * axis.a, 1), self.lanes) for r in range(count)]

        def columns(j: Index) -> None:
            value = f.load(self.vector, sums, j)
            here = f.gep(row, j, operand.b.element.storage)
            for r, factor in enumerate(factors):
                part = self.arithmetic.load(f, operand.b, here, r * axis.b, self.lanes)
                value = self.arithmetic.multiply_add(f, factor, part, value)
            f.store(value, sums, j)

        f.loop(0, whole, self.lanes, columns)

    def _tail(self, f: Function, a: Value, b: Value, place: list[Affine], last: IntLike) -> None:
        """The columns after the last full vector, in one masked vector. `b` points at the block."""
        n, lanes, axis = self.contraction.n.size, self.lanes, self.contraction.k[0]
        first = n // lanes * lanes
        mask = f.tail_mask(n - first, lanes)

        def body(k: Index, value: Value) -> Value:
            at = f.gep(a, f.imul(k, axis.a), self.contraction.a.element.storage)
            row = f.gep(b, f.imul(k, axis.b), self.contraction.b.element.storage)
            factor = f.splat(self.arithmetic.load(f, self.contraction.a, at, 0, 1), lanes)
            part = self.arithmetic.load(f, self.contraction.b, row, first - last, lanes, mask)
            return self.arithmetic.multiply_add(f, factor, part, value)

        (value,) = f.loop(0, self.contraction.depth, 1, body, [f.const(0, self.vector)])
        self.epilogue.store(f, [*place, Affine(), Affine(first, lane=1)], (value,), lanes, mask)


class LaneSums(_FewRows):
    """Few rows of A against rows of B^T: vectors along k, lanes summed at the end. `swapped`: rows and columns have
    changed places, and the epilogue's lanes run along what are rows here."""

    @staticmethod
    def fits(contraction: Contraction, arithmetic: Arithmetic, target: CpuTarget) -> bool:
        """Few rows, one contracted axis that is contiguous on both sides, columns that are not."""
        axis = contraction.k[0]
        return (
            contraction.m.size <= MOST_ROWS
            and len(contraction.k) == 1
            and axis.a == axis.b == 1
            and (contraction.n.b != 1 or contraction.n.size == 1)
            and not arithmetic.complex
            and contraction.depth >= 2 * target.lanes(arithmetic.accumulator.bits)
        )

    def __init__(
        self,
        contraction: Contraction,
        arithmetic: Arithmetic,
        epilogue: Epilogue,
        target: CpuTarget,
        *,
        swapped: bool = False,
    ) -> None:
        super().__init__(contraction, arithmetic, epilogue, target)
        self.swapped = swapped
        most = 3 * target.registers // 4
        rows = int(contraction.m.size)
        self.rows = rows if swapped else -(-rows // -(-rows // 6))
        self.columns = 1
        while self.columns * 2 * self.rows <= most and self.columns < min(self.lanes, contraction.n.size):
            self.columns *= 2
        self.width = min(self.lanes, max(self.columns, 1 << (contraction.n.size - 1).bit_length()))
        self.block = self.width
        # Fewer than four independent sums would wait for each other: k is cut into that many strands.
        self.strands = max(1, 4 // (self.rows * self.columns))
        self.chunk: IntLike = contraction.depth
        size = self.rows * arithmetic.accumulator.bits // 8
        many = swapped and self.strands == 1 and self.rows >= 2 * self.columns  # most loads are of A
        if many and contraction.depth * size >= target.l1:
            self.chunk = max(1, target.l1 // (2 * size * self.lanes)) * self.lanes

    def _block(self, f: Function, a: Value, b: Value, place: list[Affine], block: Index) -> None:
        m, n, width = self.contraction.m, self.contraction.n, self.width
        start = f.imul(block, width)
        scalar = self.arithmetic.accumulator
        kept = int(m.size) if self.swapped else self.rows
        buffer = f.alloca(kept * width, scalar)
        valid = f.imin(f.isub(n.size, start), width)
        full = n.size % width == 0
        mask = None if full else f.tail_mask(n.size if n.size < width else valid, width)
        column = affine_of(start, (self.blocks - 1) * width if full else n.size - 1, width)
        lanes = Affine(0, lane=1 if width > 1 else 0)
        for row in range(0, int(m.size), self.rows):
            height = min(self.rows, int(m.size) - row)
            a_at = f.gep(a, row * m.a, self.contraction.a.element.storage)
            kept_at = row * width if self.swapped else 0

            def columns(j: Index) -> list[Value]:  # those past the end repeat the last one
                numbers = [f.imin(f.iadd(start, f.iadd(j, c)), n.size - 1) for c in range(self.columns)]
                return [f.gep(b, f.imul(number, n.b), self.contraction.b.element.storage) for number in numbers]

            begun = self._begun(f, a_at, b, start, columns, height)

            def group(
                j: Index, a_at: Value = a_at, height: int = height, kept_at: int = kept_at, begun: Value | None = begun
            ) -> None:
                sums = self._kept(f, begun, j, height) if begun else None
                for r, value in enumerate(self._sums(f, a_at, columns(j), height, sums)):
                    f.store(value, buffer, f.iadd(j, kept_at + r * width))

            f.loop(0, width, self.columns, group)
            for r in range(0 if self.swapped else height):
                value = f.load(vector(width, scalar), buffer, r * width)
                where = [*place, Affine(row + r), add(f, column, lanes)]
                self.epilogue.store(f, where, (value,), width, mask)
        if self.swapped:
            self._finish_columns(f, buffer, valid, place, column)

    def _finish_columns(self, f: Function, buffer: Value, count: Index, place: Sequence[Affine], first: Affine) -> None:
        """Give the sums of `count` columns, each of which lies rows apart, to the epilogue, side by side."""
        rows = int(self.contraction.m.size)
        lanes = 1 << (rows - 1).bit_length()
        mask = None if rows == lanes else f.tail_mask(rows, lanes)

        def column(j: Index) -> None:
            value = f.const(0, vector(lanes, self.arithmetic.accumulator))
            for row in range(rows):
                value = f.insert(value, f.load(value.type.element, buffer, f.iadd(j, row * self.width)), row)
            at = add(f, first, affine_of(j, self.width - 1))
            self.epilogue.store(f, [*place, at, Affine(0, lane=1)], (value,), lanes, mask)

        f.loop(0, count, 1, column)

    def _begun(
        self, f: Function, a: Value, b: Value, start: Index, columns: Callable[[Index], list[Value]], height: int
    ) -> Value | None:
        """Where the sums of a block's columns, from `start` on, are that chunks of k have been added to; None: k is one
        chunk."""
        chunk, depth = self.chunk, self._whole
        if chunk >= depth:
            return None
        place = height * self.columns * self.lanes
        sums = f.alloca(self.width // self.columns * place, self.arithmetic.accumulator)
        zero = f.const(0, self.vector)
        f.loop(0, self.width // self.columns * place, self.lanes, lambda at: f.store(zero, sums, at))

        def add_chunk(low: Index) -> None:
            high = f.imin(f.iadd(low, chunk), depth)

            def group(j: Index) -> None:
                ahead = self._ahead(f, b, start, j, low, high)
                added = self._added(f, a, columns(j), height, self._kept(f, sums, j, height), low, high, ahead)
                for number, value in enumerate(added):
                    f.store(value, sums, f.iadd(f.imul(j, height * self.lanes), number * self.lanes))

            f.loop(0, self.width, self.columns, group)

        f.loop(0, depth, chunk, add_chunk)
        return sums

    def _ahead(self, f: Function, b: Value, start: Index, j: Index, low: Index, high: Index) -> Value | None:
        """Where the share of a group and a chunk in the next block of columns begins, less what k begins with; None:
        columns do not lie one after the other. The block is fetched from its beginning to its end: the runs of a chunk
        are too short for what fetches ahead by itself."""
        n = self.contraction.n
        if n.b != self.contraction.depth:
            return None
        share = f.isub(f.iadd(f.imul(low, self.width), f.imul(j, f.isub(high, low))), f.imul(low, self.columns))
        next_block = f.imul(f.iadd(start, self.width), n.b)
        return f.gep(b, f.iadd(next_block, share), self.contraction.b.element.storage)

    def _kept(self, f: Function, sums: Value, j: Index, height: int) -> list[Value]:
        """The sums in memory of the columns from `j` on."""
        at = f.imul(j, height * self.lanes)
        return [f.load(self.vector, sums, f.iadd(at, n * self.lanes)) for n in range(height * self.columns)]

    @property
    def _whole(self) -> IntLike:
        """How much of k whole steps take."""
        step = self.lanes * self.strands
        return self.contraction.depth // step * step

    def _add_step(
        self, f: Function, a: Value, columns: list[Value], k: Index, sums: Sequence[Value], mask: Value | None = None
    ) -> list[Value]:
        """The sums with the products of a vector from `k` on."""
        operand_a, operand_b, lanes = self.contraction.a, self.contraction.b, self.lanes
        height = len(sums) // len(columns)
        at = f.gep(a, k, operand_a.element.storage)
        rows = [self.arithmetic.load(f, operand_a, at, r * self.contraction.m.a, lanes, mask) for r in range(height)]
        result = list(sums)
        for c, column in enumerate(columns):
            value = self.arithmetic.load(f, operand_b, f.gep(column, k, operand_b.element.storage), 0, lanes, mask)
            for r, row in enumerate(rows):
                number = r * len(columns) + c
                result[number] = self.arithmetic.multiply_add(f, row, value, result[number])
        return result

    def _added(
        self,
        f: Function,
        a: Value,
        columns: list[Value],
        height: int,
        sums: list[Value],
        low: Index,
        high: Index,
        ahead: Value | None = None,
    ) -> list[Value]:
        """The sums, strand by strand, with the products of whole steps from `low` to `high`. From `ahead` on is fetched
        as much as is read."""
        count = height * len(columns)

        def body(k: Index, *sums: Value) -> list[Value]:
            result: list[Value] = []
            for strand in range(self.strands):
                at = f.iadd(k, strand * self.lanes)
                if ahead is not None:
                    for c in range(len(columns)):
                        place = f.iadd(f.imul(at, len(columns)), c * self.lanes)
                        f.prefetch(ahead, place, self.contraction.b.element.storage, locality=2)
                result += self._add_step(f, a, columns, at, sums[strand * count : (strand + 1) * count])
            return result

        return f.loop(low, high, self.lanes * self.strands, body, sums)

    def _sums(self, f: Function, a: Value, columns: list[Value], height: int, begun: list[Value] | None) -> list[Value]:
        """For every row, the sums of all columns as one vector of `self.columns` lanes. `begun`: the sums, if chunks of
        k have been added."""
        lanes, depth, done = self.lanes, self.contraction.depth, self._whole
        count, strands = height * len(columns), self.strands
        if begun is None:
            begun = [f.const(0, self.vector)] * (count * strands)
            begun = self._added(f, a, columns, height, begun, 0, done)
        sums = begun
        total = sums[:count]
        for strand in range(1, strands):
            total = [
                self.arithmetic.add(f, x, y)
                for x, y in zip(total, sums[strand * count : (strand + 1) * count], strict=True)
            ]
        for k in range(done, depth, lanes):
            mask = f.tail_mask(depth - k, lanes) if k + lanes > depth else None
            total = self._add_step(f, a, columns, k, total, mask)
        width = len(columns)
        return [self._sum_lanes(f, total[r * width : (r + 1) * width]) for r in range(height)]

    def _sum_lanes(self, f: Function, values: list[Value]) -> Value:
        """Lane c of the result is the sum of the lanes of values[c] (their number is a power of two)."""
        distance = len(values) // 2
        while distance:
            values = [
                self.arithmetic.add(f, *exchange_lanes(f, values[i], values[i + distance], distance))
                for i in range(distance)
            ]
            distance //= 2
        (value,) = values
        return self._fold(f, value)

    def _fold(self, f: Function, value: Value) -> Value:
        distance = self.lanes // 2
        while distance >= self.columns:
            value = self.arithmetic.add(
                f, value, f.shuffle(value, value, [lane ^ distance for lane in range(self.lanes)])
            )
            distance //= 2
        if self.columns == 1:
            return f.extract(value, 0)
        return value if self.columns == self.lanes else f.shuffle(value, value, range(self.columns))
