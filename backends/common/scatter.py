"""How the operands, indices and updates of a scatter belong together. Spec: section scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from stablehlo_py.codegen.builder import Index
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import shape
from stablehlo_py.mlir import ir, stablehlo


@dataclass(frozen=True)
class ScatterLayout:
    """Where things stand: shapes, and for every operand dimension what moves along it."""

    operand: tuple[IntLike, ...]
    indices: tuple[IntLike, ...]
    updates: tuple[IntLike, ...]
    update_scatter_dims: tuple[int, ...]
    window_of: dict[int, int]  # operand dimension -> updates dimension of its window
    index_of: dict[int, int]  # operand dimension -> component of the index vector
    batch_of: dict[int, int]  # operand dimension -> indices dimension that it is paired with
    index_vector_dim: int

    @classmethod
    def of(cls, op: ir.OpView) -> ScatterLayout:
        """Of a `stablehlo.scatter`."""
        count = len(op.results)
        numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
        operand_shape, indices, updates = (shape(op.operands[i]) for i in (0, count, count + 1))
        window_dims = list(numbers.update_window_dims)
        batching = list(numbers.input_batching_dims)
        absent = {*numbers.inserted_window_dims, *batching}
        kept = [d for d in range(len(operand_shape)) if d not in absent]
        return cls(
            operand_shape,
            indices,
            updates,
            tuple(d for d in range(len(updates)) if d not in window_dims),
            dict(zip(kept, window_dims, strict=True)),
            {d: i for i, d in enumerate(numbers.scattered_dims_to_operand_dims)},
            dict(zip(batching, numbers.scatter_indices_batching_dims, strict=True)),
            numbers.index_vector_dim,
        )

    def flat(self, merged: bool) -> ScatterLayout:
        """The same without dimensions of windows that have one place, so that lanes may run along another one; if
        `merged`, with neighbours that windows hold whole as one dimension."""
        ones = [d for d in self._still() if self.operand[d] == self.window(d) == 1]
        operand, updates = list(self.operand), list(self.updates)
        kept = [d for d in range(len(operand)) if d not in ones]
        gone = {self.window_of[d] for d in ones}
        for outer, inner in reversed([*pairwise(kept)]):
            if merged and {outer, inner} <= self._still() and self._are_neighbours(outer, inner, gone):
                operand[outer] *= operand[inner]
                updates[self.window_of[outer]] *= updates[self.window_of[inner]]
                kept.remove(inner)
                gone.add(self.window_of[inner])
        left = [d for d in range(len(updates)) if d not in gone]
        return replace(
            self,
            operand=tuple(operand[d] for d in kept),
            updates=tuple(updates[d] for d in left),
            update_scatter_dims=tuple(left.index(d) for d in self.update_scatter_dims),
            window_of={kept.index(d): left.index(self.window_of[d]) for d in kept if d in self.window_of},
            index_of={kept.index(d): component for d, component in self.index_of.items()},
            batch_of={kept.index(d): paired for d, paired in self.batch_of.items()},
        )

    def _still(self) -> set[int]:
        """The dimensions of the operand along which windows stay where they are."""
        return self.window_of.keys() - self.index_of.keys()

    def _are_neighbours(self, outer: int, inner: int, gone: set[int]) -> bool:
        """Whether windows hold the inner one of two dimensions whole, and updates have nothing between them."""
        between = range(self.window_of[outer] + 1, self.window_of[inner])
        return self.operand[inner] == self.updates[self.window_of[inner]] and gone.issuperset(between)

    def window(self, dimension: int) -> IntLike:
        """Size of the window along an operand dimension."""
        return self.updates[self.window_of[dimension]] if dimension in self.window_of else 1

    def starts(self, place: Sequence[Index], index: Callable[[list[Index]], Index]) -> list[Index]:
        """Where the window begins in every operand dimension, for indices of `update_scatter_dims`; `index` reads an
        element of the indices."""
        found: list[Index] = []
        for dimension in range(len(self.operand)):
            if dimension in self.index_of:
                at = list(place)
                if self.index_vector_dim < len(self.indices):
                    at.insert(self.index_vector_dim, self.index_of[dimension])
                found.append(index(at))
            elif dimension in self.batch_of:
                # `place` holds the indices' dimensions without index_vector_dim.
                paired = self.batch_of[dimension]
                found.append(place[paired - (self.index_vector_dim < paired)])
            else:
                found.append(0)
        return found
