"""How the operands, indices and updates of a scatter belong together. Spec: section scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
