"""The table of rules: what becomes of an op of hlo. Every file of this folder that has rules fills it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from stablehlo_py.backends.linalg.tensors import AtIndex, Tensor, TensorFunction
from stablehlo_py.codegen.index import affine
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.types import static_shape
from stablehlo_py.mlir import ir
from stablehlo_py.rules import Rules

if TYPE_CHECKING:
    from stablehlo_py.codegen.builder import Index

# A rule gets the function, the op, and the tensors of its operands; it gives those of its results.
Rule = Callable[[TensorFunction, ir.OpView, Sequence[Tensor]], Sequence[Tensor]]
RULES: Rules[Rule] = Rules()


def at_index(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    """A linalg.generic without inputs: every element is read from where the op says."""
    (result,) = op.results
    if 0 in static_shape(result):
        return [f.empty(static_shape(result), element(result))]
    place = dict(zip(op.operands, tensors, strict=True))

    def body(indices: Sequence[Index]) -> Lanes:
        at = [affine(index, size) for index, size in zip(indices, static_shape(result), strict=True)]
        return AtIndex(f, place).at(result, at)

    return [f.by_index(static_shape(result), element(result), body)]


for _name in ("gather", "reverse", "iota"):
    RULES.enter(at_index, f"hlo.{_name}")
