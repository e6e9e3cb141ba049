"""A product of two tensors on its way to a kernel: operands by batch, free and contracted dimensions, whatever they are
made of, and what becomes of the sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.base import kernel_function
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.conversions import convert
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import (
    Affine,
    Delinearized,
    affine_of,
    delinearize,
    delinearized,
    linear_index,
    same,
)
from stablehlo_py.codegen.types import element, to_bits
from stablehlo_py.dialect.types import shape
from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class Side:
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

    def split(self, f: Function, dimensions: Sequence[int], number: Index | Affine, lanes: int = 1) -> list[Affine]:
        """Indices of these dimensions from their flat one."""
        count = self.count(dimensions)
        index = number if isinstance(number, Affine) else affine_of(number, count - 1)
        return delinearize(f, ((count, index),), [self.sizes[d] for d in dimensions], lanes)

    def place(self, batch: Sequence[Affine], free: Sequence[Affine], contracted: Sequence[Affine]) -> Delinearized:
        """An element, by its indices."""
        dimensions = (*self.batch, *self.free, *self.contracted)
        indices = dict(zip(dimensions, (*batch, *free, *contracted), strict=True))
        return delinearized(self.sizes, [indices[d] for d in range(len(self.sizes))])

    @property
    def contracts_last(self) -> bool:
        """Whether neighbours in memory, as far as the shape says, are neighbours in the sum."""
        solid = [d for d, size in enumerate(self.sizes) if size > 1]
        return bool(solid) and solid[-1] in self.contracted


class Product:
    """A product on its way to a kernel.

    Attributes:
        batch, rows, columns, depth: how many there are of each.
    """

    def __init__(self, fusion: Fusion, target: GpuTarget, op: ir.OpView, a: Side, b: Side) -> None:
        self.fusion, self.target, self.result, self.a, self.b = fusion, target, op.results[0], a, b
        self.of = element(op.results[0])
        self.batch, self.rows, self.columns = a.count(a.batch), a.count(a.free), b.count(b.free)
        self.depth = a.count(a.contracted)

    def begin(self, threads: int) -> Function:
        """The kernel, and what evaluates values in it."""
        f = kernel_function(self.fusion, self.target, self.fusion.name, threads)
        self.e = Elemental(f, self.fusion, self.target, 1)
        return f

    def element(self, side: Side, batch: list[Affine], free: list[Affine], contracted: list[Affine]) -> Value:
        """An element of an operand, in the type of the sums."""
        found = self.e.value(side.value, side.place(batch, free, contracted))
        value = convert(self.e.f, element(side.value), self.of, found)
        assert isinstance(value, Value)
        return value

    def bits(self, side: Side, batch: list[Affine], free: list[Affine], contracted: list[Affine]) -> Value:
        """The bits of an element of an operand."""
        found = self.e.value(side.value, side.place(batch, free, contracted))
        assert isinstance(found, Value)
        return to_bits(self.e.f, element(side.value), found)

    def store(self, batch: Index, row: Index, column: Index, total: Value) -> None:
        """What becomes of a sum."""
        f, a, b = self.e.f, self.a, self.b
        place = delinearized(
            [int(size) for size in shape(self.result)],
            [*a.split(f, a.batch, batch), *a.split(f, a.free, row), *b.split(f, b.free, column)],
        )
        here, sum_ = linear_index(f, place), arith.rounded(f, self.of, total)
        self.e.bind(self.result, lambda e, at: sum_ if same(f, linear_index(f, at), here) else None)
        self.e.write_outputs(self.fusion.outputs, place)
        self.e.bind(self.result, None)
