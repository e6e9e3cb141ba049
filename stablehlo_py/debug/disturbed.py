"""hlo in NumPy with a random error after every operation that rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np

from stablehlo_py.debug.compare import is_exact
from stablehlo_py.debug.rounding import SUMS, ulps_of
from stablehlo_py.debug.settings import Noise
from stablehlo_py.dialect.evaluate import elementwise
from stablehlo_py.dialect.interpret import Interpreter
from stablehlo_py.dialect.ops import Rounds, records
from stablehlo_py.dialect.rounding import cast
from stablehlo_py.dialect.types import i64s, static_shape, text
from stablehlo_py.mlir import ir

Array = np.ndarray
# One rounding, whose error shows in a wider type.
_ROUNDED_ONCE = frozenset(
    record.name
    for record in records()
    if record.exact is not None
    and not record.ulps
    and record.rounds is Rounds.ALWAYS
    and record.elements in ("number", "float or complex")
)


class Disturbed(Interpreter):
    """Puts a random relative error on the result of every op whose result implementations may round differently
    (`scale` times the units in the last place that they may be off by), and on what sums add up, whose order is open.
    What is computed exactly stays exact: an index that is counted in floats is no less reliable than one of integers.
    """

    def __init__(self, module: ir.Module | None, noise: Noise, max_steps: int = 0) -> None:
        super().__init__(module, max_steps)
        self.random, self.scale = np.random.default_rng(noise.seed), noise.scale

    def leaf(self, op: ir.Operation, operands: Sequence[Array], values: Mapping[ir.Value, Array]) -> list[Array]:
        """Results with errors."""
        name = op.name.partition(".")[2]
        terms = terms_of_sum(op)
        if terms > 1:
            ulps = self.scale * math.sqrt(terms)
            moved = [self.moved(operand, ulps) for operand in operands]
            return [self.moved(result, ulps) for result in super().leaf(op, moved, values)]
        results = super().leaf(op, operands, values)
        if op.name in _ROUNDED_ONCE and results[0].dtype.kind != "c":
            return [self._rounded(op.name, operands, results[0])]
        ulps = ulps_of(name, bool(operands) and operands[0].dtype.kind == "c")
        return [self.moved(result, self.scale * ulps) for result in results] if ulps else results

    def _rounded(self, name: str, operands: Sequence[Array], result: Array) -> Array:
        """The result, moved where it is not exact."""
        if is_exact(result.dtype):
            return result
        wide = np.longdouble if result.dtype == np.float64 else np.float64
        with np.errstate(all="ignore"):
            exact = elementwise(name, *(operand.astype(wide) for operand in operands)) == result.astype(wide)
        return result if exact.all() else np.where(exact, result, self.moved(result, self.scale))

    def moved(self, array: Array, ulps: float) -> Array:
        """The array with each element off by up to `ulps` units in the last place, up or down; other types as they
        are."""
        array = np.asarray(array)
        if is_exact(array.dtype):
            return array
        eps = float(ml_dtypes.finfo(array.dtype).eps)
        with np.errstate(all="ignore"):
            if array.dtype.kind == "c":
                errors = self._signs(array.shape) + 1j * self._signs(array.shape)
                return np.asarray(array * (1 + ulps * eps * errors)).astype(array.dtype)
            factors = 1 + ulps * eps * self._signs(array.shape)
            return cast(np.asarray(array.astype(np.float64) * factors), array.dtype)

    def _signs(self, sizes: Sequence[int]) -> Array:
        return self.random.choice((-1.0, 1.0), size=tuple(sizes))


def terms_of_sum(op: ir.Operation) -> int:
    """How many terms each result of a sum has, of an op whose sums may be taken in any order; 0 for other ops."""
    name = op.name.partition(".")[2]
    if name not in SUMS:
        return 0
    sizes = static_shape(op.operands[0])
    if name == "dot":
        return math.prod(sizes[d] for d in i64s(op, "lhs_contract"))
    if name == "convolution":
        kernel = static_shape(op.operands[1])
        return math.prod(kernel) // max(1, kernel[i64s(op, "kernel_dims")[1]])
    if "kind" in op.attributes and text(op, "kind") not in ("add", "multiply"):
        return 0
    inner = {view.operation.name for region in op.regions for block in region.blocks for view in block.operations}
    if inner and not inner & {"hlo.add", "hlo.multiply", "stablehlo.add", "stablehlo.multiply"}:
        return 0
    if name == "reduce":
        return math.prod(sizes[d] for d in i64s(op, "dimensions"))
    if name == "reduce_window" and "window" in op.attributes:
        return math.prod(i64s(op, "window"))
    return max(math.prod(sizes), 2)
