"""What a fusion of kind `scores` computes, as kernels of GPUs ask for it (backends/common/scores.py), by numbers of
batches and of places of both sides."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.scores import RowReduction, ScoresProgram
from stablehlo_py.backends.common.scores import WeightedSum as CommonSum
from stablehlo_py.backends.gpu.kernels.product import DotProduct, Side
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.types import Lanes
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing.scores import Sum, sorted_parts

__all__ = ["Program", "RowReduction", "ScoreProduct", "WeightedSum"]


class ScoreProduct:
    """A product of scores: `product`, and which operand is of the outer and of the inner side."""

    def __init__(self, program: Program, node: int) -> None:
        self.product = product = program.dot(node)
        axes, sides = program.scores.axes[node], (product.a, product.b)
        assert isinstance(product.a, Side) and isinstance(product.b, Side)
        batches = len(product.a.batch)
        order = [d for d, _ in sorted_parts(axes[:batches], program.scores.batch)]
        begin, is_outer = batches, []
        for side in sides:
            assert isinstance(side, Side)
            free = axes[begin : begin + len(side.free)]
            begin += len(side.free)
            labels = {label for part in free for label in part}
            is_outer.append(labels == set(program.outer))
            ordered = sorted_parts(free, program.outer if is_outer[-1] else program.inner)
            side.free = tuple(side.free[d] for d, _ in ordered)
            side.batch = tuple(side.batch[d] for d in order)
        self.outer, self.inner = sides if is_outer[0] else sides[::-1]


class WeightedSum(CommonSum):
    """A sum over the inner side: its product, and rows of `columns` for each place of it."""

    def __init__(self, program: Program, sum_: Sum) -> None:
        super().__init__(program, sum_)
        self.product = program.dot(sum_.node)
        columns = self.product.b if sum_.operand == 0 else self.product.a
        assert isinstance(columns, Side)
        self.columns = columns
        for name, dimensions, labels in (
            ("batch", self.batch, program.scores.batch),
            ("contracted", self.summed, program.inner),
        ):
            order = sorted_parts([self.axes[d] for d in dimensions], labels)
            found = getattr(columns, name)
            setattr(columns, name, tuple(found[d] for d, _ in order))


class Program(ScoresProgram):
    """What a fusion computes.

    Attributes:
        products: of scores; sums: over the inner side.
    """

    def __init__(self, fusion: Fusion, target: GpuTarget) -> None:
        super().__init__(fusion, target)
        self.target: GpuTarget = target
        self.products = [ScoreProduct(self, node) for node in self.scores.products]
        self.sums = [WeightedSum(self, each) for each in self.weighted]

    def dot(self, node: int) -> DotProduct:
        """The product of a node."""
        return DotProduct(self.fusion, self.target, self.op(node))

    def begin(self, f: Function, e: Elemental | None = None) -> None:
        super().begin(f, e)
        for product in (*(each.product for each in self.products), *(each.product for each in self.sums)):
            product.e = self.e

    def evaluated(self, batch: Index, outer: Index, inner: Index, totals: Sequence[Value]) -> list[Lanes]:
        """What each of the sums, then of the reductions, has of a score, by the sums of all products."""
        ends: list[ir.Value] = [each.weights for each in self.sums] + [each.weights for each in self.reductions]
        return self.evaluated_at(self.places(batch, outer, inner), totals, ends)
