"""Products of few rows, or few columns: what they take is reading the other operand once, at the speed of memory.

The operand with more rows is the long one, the other one the short one. A thread reads 16 bytes of the long one at once
and several of these, for all rows of the short one: where it lies in memory along rows, neighbouring rows of some
consecutive products; where it lies along the products, neighbouring products of some rows. The threads of a block share
out the products of its results, and combine their sums in the end (combining.py). Threads beside each other read what
lies side by side; a block has fewer results the fewer there are, so that there are blocks for the whole machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial, reduce

from stablehlo_py.backends.common.reduction import Reduction
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.kernels.combining import block_combined
from stablehlo_py.backends.gpu.kernels.product import PIECE_BITS, Product, Side
from stablehlo_py.backends.gpu.kernels.wide import power_of_two
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.index import Affine, Variable, affine_of
from stablehlo_py.codegen.types import element

THREADS = 256
MOST_ROWS = 8  # of the short operand that a thread has
MOST_WIDE, MOST_DEEP, MOST_OWN = 8, 8, 4  # neighbours that a thread reads at once; of these so many in a step
MOST_PRODUCTS, MOST_OPS = 256, 256  # of a thread in a step, and ops of the fusion on all that it reads
LEAST_ACROSS = 2  # threads that read side by side


class NarrowProduct:
    """The kernel of such a product, with so many threads of a block at most.

    Attributes:
        rows: of the short operand that a thread has; own: of the long one.
        deep: consecutive products of a step.
        across: threads of a block that have other rows of the long operand; along: that have other products.
    """

    def __init__(self, product: Product, threads: int = THREADS) -> None:
        self.p, target = product, product.target
        self.long, self.short = (product.a, product.b) if product.rows > product.columns else (product.b, product.a)
        self.groups = -(-self.short.rows // MOST_ROWS)
        self.rows = -(-self.short.rows // self.groups)
        self.last = self.long.contracts_last
        wide = self._wide()
        threads = min(threads, target.most_threads)
        count, depth, many = self.long.rows, product.depth, product.batch * self.groups
        if self.last:
            self.deep, self.own = wide, 1
            steps = depth // wide
            while 2 * self.own <= self._most_own() and many * count // (2 * self.own) * target.subgroup >= self._enough:
                self.own *= 2
            self.along = min(target.subgroup, power_of_two(steps))
            while 2 * self.along <= min(threads, steps) and many * count // self.own * self.along < self._enough:
                self.along *= 2
            self.across = max(threads, target.subgroup) // self.along
        else:
            self.own, self.deep = wide, 1
            while 2 * self.deep <= self._most_deep() and depth % (2 * self.deep) == 0:
                self.deep *= 2
            vectors = -(-count // wide)
            self.across = min(target.subgroup, threads, power_of_two(vectors))
            while self.across > LEAST_ACROSS and many * -(-vectors // self.across) * threads < self._enough:
                self.across //= 2
            self.along = max(1, threads // self.across)
            least = max(1, target.subgroup // self.across)
            while self.along > least and self.along * self.deep >= 2 * depth:
                self.along //= 2
        self.threads = self.across * self.along

    @property
    def plan(self) -> str:
        """What it does otherwise than other kernels of this product."""
        return f"sums of {self.rows} x {self.own * self.across}, {self.threads} threads, {self.deep} products at once"

    @property
    def fills_machine(self) -> bool:
        """Whether there are threads for all of it: each result has those of one block at most."""
        return self.p.batch * self.groups * self._blocks * self.threads >= self._enough

    @property
    def _blocks(self) -> int:
        """For the rows of the long operand."""
        return -(-self.long.rows // (self.own * self.across))

    @property
    def _enough(self) -> int:
        """Threads that have so much on its way that memory is busy."""
        return self.p.target.resident // 8

    def _wide(self) -> int:
        """Neighbours of the long operand that a thread reads at once. Those that are computed from windows are read one
        by one, as are those of which too many sums would not fit in shared memory."""
        p, operand = self.p, self.long
        if not isinstance(operand, Side) and not p.lies_in_pieces(operand):
            return 1
        wide = min(PIECE_BITS // max(8, element(operand.value).bits), MOST_WIDE)
        along = p.depth if self.last else operand.rows
        most = MOST_WIDE * MOST_ROWS if self.last else self._most_sums() // self.rows
        while wide > 1 and (along % wide or wide * len(p.fusion.ops) > MOST_OPS or wide > most):
            wide //= 2
        return wide

    def _most_sums(self) -> int:
        """Of a thread: where threads do not exchange them, all are in shared memory."""
        target = self.p.target
        bytes_ = THREADS * self.p.of.compute.bits // 8
        return MOST_WIDE * MOST_ROWS if target.exchanges else max(1, target.shared_bytes // 2 // bytes_)

    def _most_own(self) -> int:
        """Rows of the long operand, where it lies along the products."""
        p = self.p
        sums, products = self._most_sums() // self.rows, MOST_PRODUCTS // (self.rows * self.deep)
        return max(1, min(MOST_OWN, sums, products, MOST_OPS // (self.deep * len(p.fusion.ops)), self.long.rows))

    def _most_deep(self) -> int:
        """Products of a step, where the long operand lies along rows."""
        products = MOST_PRODUCTS // (self.rows * self.own)
        return max(1, min(MOST_DEEP, products, MOST_OPS // (self.own * len(self.p.fusion.ops))))

    # --- the kernel --------------------------------------------------------------------------------------------------

    def emit(self) -> GpuKernel:
        """Its one kernel."""
        p, count = self.p, self.long.rows
        blocks = self._blocks
        f = p.begin(p.batch * self.groups * blocks, self.threads)
        thread, block = f.thread_number(), f.block_number()
        x, y = (
            (f.idiv(thread, self.along), f.irem(thread, self.along))
            if self.last
            else (f.irem(thread, self.across), f.idiv(thread, self.across))
        )
        rest, number = f.idiv(block, blocks), f.irem(block, blocks)
        batch, group = f.idiv(rest, self.groups), f.irem(rest, self.groups)
        first = f.imul(f.iadd(f.imul(number, self.across), x), self.own)
        rows = [self._row(f, first, each) for each in range(self.own)]
        others = [self._other(f, group, each) for each in range(self.rows)]

        def step(number: Index, *sums: Value) -> list[Value]:
            totals = list(sums)
            variable = Variable(f.index(f.imul(number, self.deep)), 0, p.depth - self.deep, self.deep)
            for each in range(self.deep):
                k = Affine(each, ((variable, 1),))
                left = [p.element(self.short, batch, row, k) for row in others]
                right = [p.element(self.long, batch, row, k) for row in rows]
                for i, a in enumerate(left):
                    for j, b in enumerate(right):
                        place = self.own * i + j
                        totals[place] = self._added(f, a, b, totals[place])
            return totals

        start = [f.const(0, p.of.compute)] * (self.rows * self.own)
        sums = f.loop(y, p.depth // self.deep, self.along, step, start)
        items = [Reduction(p.result, p.result, p.result, "add", (), p.of)] * len(sums)
        width, together = (1, self.along) if self.last else (self.across, self.threads)
        totals = list[Value]()
        for total in block_combined(f, p.target, items, sums, self.threads, width, together):
            assert isinstance(total, Value)  # a complex number is no sum of this kernel
            totals.append(total)
        mine = f.cmp("eq" if self.last else "slt", f.index(y), f.const(0 if self.last else 1))
        if count % (self.own * self.across):
            mine = f.binary("and", mine, f.cmp("slt", f.index(first), f.const(count)))
        f.if_(mine, partial(self._store, f, batch, group, first, totals))
        f.ret()
        return GpuKernel.of(f)

    def _row(self, f: Function, first: Index, number: int) -> Affine:
        """One of the rows of the long operand that a thread has; the last one instead of those behind it."""
        count, own = self.long.rows, self.own
        if count % own:
            return affine_of(f.imin(f.iadd(first, number), count - 1), count - 1)
        return Affine(number, ((Variable(f.index(f.imin(first, count - own)), 0, count - own, own), 1),))

    def _other(self, f: Function, group: Index, number: int) -> Affine:
        """The same of the short operand."""
        last = self.short.rows - 1
        return affine_of(f.imin(f.iadd(f.imul(group, self.rows), number), last), last)

    def _added(self, f: Function, a: Value, b: Value, total: Value) -> Value:
        if self.p.of.is_float:
            return f.fma(a, b, total)
        return f.binary("add", f.binary("mul", a, b), total)

    def _store(self, f: Function, batch: Index, group: Index, first: Index, totals: Sequence[Value]) -> None:
        """What becomes of the sums of a thread. Each is stored once: what an epilogue reads may lie under it."""
        p, columns_long = self.p, self.long is self.p.b
        wide = min(p.neighbours(), self.own) if columns_long and self.long.rows % self.own == 0 else 1
        for i, start in itertools.product(range(self.rows), range(0, self.own, wide)):
            other, row = f.iadd(f.imul(group, self.rows), i), f.iadd(first, start)
            place = (other, row) if columns_long else (row, other)
            at = self.own * i + start
            store = partial(p.store, batch, *place, totals[at : at + wide])
            conditions = [
                f.cmp("slt", f.index(each), f.const(size))
                for each, size, parts in ((other, self.short.rows, self.rows), (row, self.long.rows, self.own))
                if size % parts
            ]
            if conditions:
                f.if_(reduce(partial(f.binary, "and"), conditions), store)
            else:
                store()
