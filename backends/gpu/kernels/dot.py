"""Fusions of kind `dot`: one `hlo.dot` of floats, whatever its operands are made of, an elementwise epilogue on its
result.

A block of threads computes a square tile of the result. Tiles of both operands go through shared memory, DEPTH products
deep; a thread keeps a small square of sums in registers. Operands are evaluated where they are read, so transposes,
slices and conversions cost no copy. Sums are in the order of the contracted dimensions, with one rounding a product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels import loop
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, kernel_function
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.conversions import convert
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, affine_of, delinearize, delinearized, linear_index, same
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.types import i64s, num_elements, shape
from stablehlo_py.mlir import ir

SIDE = 16  # threads along each side of a tile
DEPTH = 16  # products between two barriers
SQUARES = (4, 2)  # sums of a thread along each side, from the widest tile to the narrowest
LEAST_ELEMENTS, LEAST_DEPTH = 1024, 8  # smaller products are computed element by element


@dataclass(frozen=True)
class _Side:
    """An operand: its batch, free and contracted dimensions."""

    value: ir.Value
    batch: tuple[int, ...]
    contracted: tuple[int, ...]

    @property
    def sizes(self) -> list[int]:
        return [int(size) for size in shape(self.value)]

    @property
    def free(self) -> tuple[int, ...]:
        return tuple(d for d in range(len(self.sizes)) if d not in self.batch + self.contracted)

    def count(self, dimensions: Sequence[int]) -> int:
        """Elements along some dimensions."""
        return math.prod(self.sizes[d] for d in dimensions)

    def split(self, f: Function, dimensions: Sequence[int], number: Index) -> list[Affine]:
        """Indices of these dimensions from their flat one."""
        count = self.count(dimensions)
        return delinearize(f, ((count, affine_of(number, count - 1)),), [self.sizes[d] for d in dimensions], 1)

    @property
    def contracts_last(self) -> bool:
        """Whether neighbours in memory, as far as the shape says, are neighbours in the sum."""
        solid = [d for d, size in enumerate(self.sizes) if size > 1]
        return bool(solid) and solid[-1] in self.contracted


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel of a `dot` fusion."""
    op = fusion.op("hlo.dot")
    a = _Side(op.operands[0], i64s(op, "lhs_batch"), i64s(op, "lhs_contract"))
    b = _Side(op.operands[1], i64s(op, "rhs_batch"), i64s(op, "rhs_contract"))
    rows, columns, depth = a.count(a.free), b.count(b.free), a.count(a.contracted)
    small = rows * columns < LEAST_ELEMENTS or min(rows, columns) < SIDE or depth < LEAST_DEPTH
    if small or not element(op.results[0]).is_float or not num_elements(op.results[0]):
        return loop.emit(fusion, target)
    square = next((each for each in SQUARES if min(rows, columns) >= SIDE * each), SQUARES[-1])
    return _Tiled(fusion, target, op, a, b, square).emit()


class _Tiled:
    def __init__(self, fusion: Fusion, target: GpuTarget, op: ir.OpView, a: _Side, b: _Side, square: int) -> None:
        self.fusion, self.target, self.result, self.a, self.b = fusion, target, op.results[0], a, b
        self.of = element(op.results[0])
        self.square, self.tile = square, SIDE * square
        self.rows, self.columns, self.depth = a.count(a.free), b.count(b.free), a.count(a.contracted)
        self.batch = a.count(a.batch)

    def emit(self) -> GpuKernel:
        """Its one kernel."""
        f = kernel_function(self.fusion, self.target, self.fusion.name, SIDE * SIDE)
        self.e = Elemental(f, self.fusion, self.target, 1)
        across, down = -(-self.columns // self.tile), -(-self.rows // self.tile)
        self.batch_number = f.idiv(f.block_number(), across * down)
        tile = f.irem(f.block_number(), across * down)
        self.row = f.imul(f.idiv(tile, across), self.tile)
        self.column = f.imul(f.irem(tile, across), self.tile)
        self.x, self.y = f.irem(f.thread_number(), SIDE), f.idiv(f.thread_number(), SIDE)
        stride = self.tile + 1  # neighbours of a column are in other banks
        shared = [f.shared_memory(DEPTH * stride, self.of.compute) for _ in range(2)]
        fill_a = self._filler(f, self.a, shared[0], stride, self.row, self.rows)
        fill_b = self._filler(f, self.b, shared[1], stride, self.column, self.columns)

        def step(start: Index, *sums: Value) -> list[Value]:
            f.barrier()
            fill_a(start)
            fill_b(start)
            f.barrier()

            def multiply(k: Index, *inner: Value) -> list[Value]:
                at = f.imul(k, stride)
                left, right = (
                    [
                        f.load(self.of.compute, base, f.iadd(at, f.iadd(thread, SIDE * number)))
                        for number in range(self.square)
                    ]
                    for base, thread in zip(shared, (self.y, self.x), strict=True)
                )
                pairs = ((p, q) for p in left for q in right)
                return [f.fma(p, q, total) for (p, q), total in zip(pairs, inner, strict=True)]

            return f.loop(0, DEPTH, 1, multiply, sums)

        zero = f.const(0.0, self.of.compute)
        totals = f.loop(0, self.depth, DEPTH, step, [zero] * self.square**2)
        for number, total in enumerate(totals):
            i, j = divmod(number, self.square)
            self._store(
                f, f.iadd(self.row, f.iadd(self.y, SIDE * i)), f.iadd(self.column, f.iadd(self.x, SIDE * j)), total
            )
        f.ret()
        return GpuKernel.of([(f, self.batch * across * down)])

    def _filler(
        self, f: Function, side: _Side, shared: Value, stride: int, first: Index, count: int
    ) -> Callable[[Index], None]:
        """What brings DEPTH products of an operand's tile to shared memory: [product][row or column]."""
        batch = side.split(f, side.batch, self.batch_number)

        def fill(start: Index) -> None:
            for part in range(self.tile * DEPTH // SIDE**2):
                number = f.iadd(f.thread_number(), part * SIDE**2)
                if side.contracts_last:
                    k, place = f.irem(number, DEPTH), f.idiv(number, DEPTH)
                else:
                    place, k = f.irem(number, self.tile), f.idiv(number, self.tile)
                at = f.iadd(start, k)
                # What lies behind the last row is never stored, what lies behind the last product counts as zero.
                free = side.split(f, side.free, f.imin(f.iadd(first, place), count - 1))
                inside = f.imin(at, self.depth - 1) if self.depth % DEPTH else at
                value = self._element(side, batch, free, side.split(f, side.contracted, inside))
                if self.depth % DEPTH:
                    exists = f.cmp("slt", f.index(at), f.const(self.depth))
                    value = f.select(exists, value, f.const(0.0, self.of.compute))
                f.store(value, shared, f.iadd(f.imul(k, stride), place))

        return fill

    def _element(self, side: _Side, batch: list[Affine], free: list[Affine], contracted: list[Affine]) -> Value:
        """An element of an operand, in the type of the sums."""
        dimensions = (*side.batch, *side.free, *side.contracted)
        indices = dict(zip(dimensions, (*batch, *free, *contracted), strict=True))
        place = delinearized(side.sizes, [indices[d] for d in range(len(side.sizes))])
        value = convert(self.e.f, element(side.value), self.of, self.e.value(side.value, place))
        assert isinstance(value, Value)
        return value

    def _store(self, f: Function, row: Index, column: Index, total: Value) -> None:
        """What becomes of a sum."""

        def put() -> None:
            batch = self.a.split(f, self.a.batch, self.batch_number)
            place = delinearized(
                [int(size) for size in shape(self.result)],
                [*batch, *self.a.split(f, self.a.free, row), *self.b.split(f, self.b.free, column)],
            )
            here, sum_ = linear_index(f, place), arith.rounded(f, self.of, total)
            self.e.bind(self.result, lambda e, at: sum_ if same(f, linear_index(f, at), here) else None)
            self.e.write_outputs(self.fusion.outputs, place)
            self.e.bind(self.result, None)

        exists = f.binary(
            "and",
            f.cmp("slt", f.index(row), f.const(self.rows)),
            f.cmp("slt", f.index(column), f.const(self.columns)),
        )
        f.if_(exists, put)
