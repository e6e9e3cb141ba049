"""Fusions of kind `dot` and `convolution`: one product of floats (product.py), whatever its operands are made of, and
an elementwise epilogue on its result.

Where there are many rows and columns, a block of threads computes a square tile of the result. Tiles of both operands
go through shared memory, DEPTH products deep; a thread keeps a small square of sums in registers. Where there are few,
a block computes one result, or some neighbours: every thread adds up a part of the products, and these sums are
combined in a tree. Operands are evaluated where they are read, so transposes, slices and conversions cost no copy.
Products and sums are rounded once, in an order that depends on shapes alone.
"""

from __future__ import annotations

from collections.abc import Callable

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.reduction import Reduction
from stablehlo_py.backends.gpu.kernels import loop, matrix
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.kernels.combining import block_combined
from stablehlo_py.backends.gpu.kernels.product import ConvolutionProduct, DotProduct, Operand, Product
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.types import num_elements

SIDE = 16  # threads along each side of a tile
DEPTH = 16  # products between two barriers
SQUARES = (4, 2)  # sums of a thread along each side, from the widest tile to the narrowest
LEAST_ELEMENTS, LEAST_DEPTH = 1024, 8  # of a product in tiles
LONG_SUM = 64  # products from which on several threads add up one result
WIDTH, THREADS = 32, 256  # neighbouring results of a block, and its threads, where there are no tiles


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel of a `dot` or `convolution` fusion."""
    product = (DotProduct if fusion.kind == "dot" else ConvolutionProduct)(fusion, target)
    rows, columns, depth = product.rows, product.columns, product.depth
    if not product.of.is_float or not num_elements(product.result) or depth < LEAST_DEPTH:
        return loop.emit(fusion, target)
    if rows * columns < LEAST_ELEMENTS or min(rows, columns) < SIDE:
        return _Summed(product).emit() if depth >= LONG_SUM else loop.emit(fusion, target)
    units = target.units_for({element(operand.value).name for operand in (product.a, product.b)}, product.of.name)
    if fitting := [unit for unit in units if depth >= unit.depth]:
        return matrix.emit(product, fitting)
    square = next((each for each in SQUARES if min(rows, columns) >= SIDE * each), SQUARES[-1])
    return _Tiled(product, square).emit()


class _Summed:
    """A block for neighbouring results."""

    def __init__(self, product: Product) -> None:
        self.p = product
        self.width = 1 if product.b.contracts_last else WIDTH
        self.threads = THREADS
        least = max(product.target.subgroup, self.width)
        while self.threads > least and self.threads // self.width >= 2 * product.depth:
            self.threads //= 2

    def emit(self) -> GpuKernel:
        """Its one kernel."""
        p = self.p
        results = p.batch * p.rows * p.columns
        f = p.begin(-(-results // self.width), self.threads)
        number = f.iadd(f.imul(f.block_number(), self.width), f.irem(f.thread_number(), self.width))
        safe = f.imin(number, results - 1)  # threads behind the last result compute it once more
        batch, inside = f.idiv(safe, p.rows * p.columns), f.irem(safe, p.rows * p.columns)
        row, column = f.idiv(inside, p.columns), f.irem(inside, p.columns)

        def step(k: Index, total: Value) -> list[Value]:
            return [f.fma(p.element(p.a, batch, row, k), p.element(p.b, batch, column, k), total)]

        first = f.idiv(f.thread_number(), self.width)
        (total,) = f.loop(first, p.depth, self.threads // self.width, step, [f.const(0.0, p.of.compute)])
        sums = Reduction(p.result, p.result, p.result, "add", (), p.of)
        (combined,) = block_combined(f, p.target, [sums], [total], self.threads, self.width)
        assert isinstance(combined, Value)
        one = f.cmp("slt", f.thread_number(), f.const(self.width))
        exists = f.binary("and", one, f.cmp("slt", f.index(number), f.const(results)))
        f.if_(exists, lambda: p.store(batch, row, column, [combined]))
        f.ret()
        return GpuKernel.of(f)


class _Tiled:
    """A block for a tile of `square` times SIDE rows and columns."""

    def __init__(self, product: Product, square: int) -> None:
        self.p, self.square, self.tile = product, square, SIDE * square

    def emit(self) -> GpuKernel:
        """Its one kernel."""
        p = self.p
        across, down = -(-p.columns // self.tile), -(-p.rows // self.tile)
        f = p.begin(p.batch * across * down, SIDE * SIDE)
        batch, tile = f.idiv(f.block_number(), across * down), f.irem(f.block_number(), across * down)
        row, column = f.imul(f.idiv(tile, across), self.tile), f.imul(f.irem(tile, across), self.tile)
        x, y = f.irem(f.thread_number(), SIDE), f.idiv(f.thread_number(), SIDE)
        stride = self.tile + 1  # neighbours of a column are in other banks
        shared = [f.shared_memory(DEPTH * stride, p.of.compute) for _ in range(2)]
        fill_a = self._filler(f, p.a, shared[0], stride, batch, row)
        fill_b = self._filler(f, p.b, shared[1], stride, batch, column)

        def step(start: Index, *sums: Value) -> list[Value]:
            if p.depth > DEPTH:  # the products of the step before are done
                f.barrier()
            fill_a(start)
            fill_b(start)
            f.barrier()

            def multiply(k: Index, *inner: Value) -> list[Value]:
                at = f.imul(k, stride)
                left, right = (
                    [
                        f.load(p.of.compute, base, f.iadd(at, f.iadd(thread, SIDE * number)))
                        for number in range(self.square)
                    ]
                    for base, thread in zip(shared, (y, x), strict=True)
                )
                pairs = ((p, q) for p in left for q in right)
                return [f.fma(p, q, total) for (p, q), total in zip(pairs, inner, strict=True)]

            return f.loop(0, DEPTH, 1, multiply, sums)

        zero = f.const(0.0, p.of.compute)
        totals = f.loop(0, p.depth, DEPTH, step, [zero] * self.square**2)
        for number, total in enumerate(totals):
            i, j = divmod(number, self.square)
            at_row, at_column = f.iadd(row, f.iadd(y, SIDE * i)), f.iadd(column, f.iadd(x, SIDE * j))
            exists = f.binary(
                "and",
                f.cmp("slt", f.index(at_row), f.const(p.rows)),
                f.cmp("slt", f.index(at_column), f.const(p.columns)),
            )

            def put(row: Index = at_row, column: Index = at_column, total: Value = total) -> None:
                p.store(batch, row, column, [total])

            f.if_(exists, put)
        f.ret()
        return GpuKernel.of(f)

    def _filler(
        self, f: Function, operand: Operand, shared: Value, stride: int, batch: Index, first: Index
    ) -> Callable[[Index], None]:
        """What brings DEPTH products of an operand's tile to shared memory: [product][row or column]. `first` is the
        first row or column of the tile."""
        p = self.p

        def fill(start: Index) -> None:
            for part in range(self.tile * DEPTH // SIDE**2):
                number = f.iadd(f.thread_number(), part * SIDE**2)
                if operand.contracts_last:
                    k, place = f.irem(number, DEPTH), f.idiv(number, DEPTH)
                else:
                    place, k = f.irem(number, self.tile), f.idiv(number, self.tile)
                at = f.iadd(start, k)
                # What lies behind the last row is never stored, what lies behind the last product counts as zero.
                row = f.imin(f.iadd(first, place), operand.rows - 1)
                value = p.element(operand, batch, row, f.imin(at, p.depth - 1) if p.depth % DEPTH else at)
                if p.depth % DEPTH:
                    exists = f.cmp("slt", f.index(at), f.const(p.depth))
                    value = f.select(exists, value, f.const(0.0, p.of.compute))
                f.store(value, shared, f.iadd(f.imul(k, stride), place))

        return fill
