"""Ops that StableHLO's reference interpreter does not know, in NumPy.

They are computed in the widest type that NumPy has (80 bits with x86's `long double`), and rounded once. A part of the
oracle `reference` (`parts.py`), never of what runs a user's model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stablehlo_py.debug.compare import is_exact
from stablehlo_py.debug.random_bits import random_bits
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.rounding import cast
from stablehlo_py.dialect.stablehlo import keyword
from stablehlo_py.dialect.types import flag, i64, i64s, shape, text
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.rules import Rules

Array = np.ndarray
Evaluator = Callable[[ir.Operation, Sequence[Array]], Sequence[Array]]
# An evaluation takes operands as they are, or wide, and returns results of any float type.
EVALUATORS: Rules[Evaluator] = Rules("stablehlo.")
evaluator = EVALUATORS.rule


def evaluate(op: ir.Operation, operands: Sequence[Array]) -> list[Array]:
    """The results of an op of EVALUATORS, in their types."""
    with np.errstate(all="ignore"):
        results = EVALUATORS[op.name](op, operands)
        return [
            _rounded(np.asarray(array), result.type.element_type)
            for array, result in zip(results, op.results, strict=True)
        ]


def _wide(array: Array) -> Array:
    return array.astype(np.clongdouble if array.dtype.kind == "c" else np.longdouble)


def _rounded(array: Array, element: ir.Type) -> Array:
    dtype = numpy_dtype(element)
    # `cast` knows floats up to f64; types of 32 bits and more are rounded from the wide ones at once.
    if array.dtype == np.longdouble and dtype.itemsize < 4:
        array = array.astype(np.float64)
    return cast(array, dtype)


# --- linear algebra --------------------------------------------------------------------------------------------------


@evaluator("cholesky")
def _cholesky(op: ir.Operation, operands: Sequence[Array]) -> list[Array]:
    """L of A = L L^H, or U = L^H, column by column (Golub and Van Loan, section 4.2.5); zero in the other triangle.
    A pivot that is not positive makes NaN or infinity, as it does in ours."""
    a = _wide(operands[0])
    lower = "lower" in op.attributes and flag(op, "lower")
    if not lower:
        a = _adjoint(a)
    factor = np.zeros_like(a)
    for j in range(a.shape[-1]):
        row = factor[..., j, :j, None]
        column = a[..., j:, j] - (factor[..., j:, :j] @ row.conj())[..., 0]
        pivot = np.sqrt(column[..., 0].real)
        factor[..., j:, j] = column / pivot[..., None]
        factor[..., j, j] = pivot
    return [factor if lower else _adjoint(factor)]


@evaluator("triangular_solve")
def _triangular_solve(op: ir.Operation, operands: Sequence[Array]) -> list[Array]:
    """X of op(A) X = B, or X op(A) = B, by substitution; only the triangle that `lower` names is read."""
    a, b = map(_wide, operands)
    left, lower, transpose = flag(op, "left_side"), flag(op, "lower"), keyword(op.attributes["transpose_a"])
    if transpose in ("TRANSPOSE", "ADJOINT"):
        a, lower = (_adjoint(a) if transpose == "ADJOINT" else _transposed(a)), not lower
    if not left:  # X A = B is A^T X^T = B^T
        a, b, lower = _transposed(a), _transposed(b), not lower
    n = a.shape[-1]
    x = np.zeros_like(b)
    for i in range(n) if lower else reversed(range(n)):
        known = slice(0, i) if lower else slice(i + 1, n)
        row = b[..., i, :] - (a[..., i, None, known] @ x[..., known, :])[..., 0, :]
        x[..., i, :] = row if flag(op, "unit_diagonal") else row / a[..., i, i, None]
    return [x if left else _transposed(x)]


def _transposed(a: Array) -> Array:
    return np.swapaxes(a, -1, -2)


def _adjoint(a: Array) -> Array:
    return _transposed(a).conj()


@evaluator("einsum")
def _einsum(op: ir.Operation, operands: Sequence[Array]) -> list[Array]:
    """Upstream expands `unary_einsum` to one whose first operand is 1."""
    wide = [_wide(x) if not is_exact(x.dtype) else x if x.dtype == bool else x.astype(np.int64) for x in operands]
    return [np.einsum(text(op, "einsum_config"), *wide)]


@evaluator("fft")
def _fft(op: ir.Operation, operands: Sequence[Array]) -> list[Array]:
    """Over the last dimensions, as many as there are lengths; inverse ones are divided by the number of elements."""
    lengths = i64s(op, "fft_length")
    if 0 in shape(op.results[0]):
        return [np.zeros(shape(op.results[0]), operands[0].dtype)]
    transform = getattr(np.fft, f"{keyword(op.attributes['fft_type']).lower()}n")
    return [transform(_wide(operands[0]), lengths, range(-len(lengths), 0))]


# --- batch normalization ---------------------------------------------------------------------------------------------


class _Batch:
    """The operand of a batch normalization, wide; vectors of features are brought into its rank."""

    def __init__(self, op: ir.Operation, x: Array) -> None:
        self.x = _wide(x)
        feature = i64(op, "feature_index")
        self.epsilon = np.longdouble(op.attributes["epsilon"].value)
        self.axes = tuple(axis for axis in range(x.ndim) if axis != feature)
        self.count = self.x.size // max(x.shape[feature], 1)

    def along(self, features: Array) -> Array:
        return np.expand_dims(_wide(features), self.axes)

    def sum(self, x: Array) -> Array:
        return x.sum(self.axes)

    def normalized(self, scale: Array, offset: Array, mean: Array, variance: Array) -> Array:
        scale, offset, mean, variance = map(self.along, (scale, offset, mean, variance))
        return scale * (self.x - mean) / np.sqrt(variance + self.epsilon) + offset


@evaluator("batch_norm_inference")
def _batch_norm_inference(op: ir.Operation, operands: Sequence[Array]) -> list[Array]:
    x, *features = operands
    return [_Batch(op, x).normalized(*features)]


@evaluator("batch_norm_training")
def _batch_norm_training(op: ir.Operation, operands: Sequence[Array]) -> list[Array]:
    """Mean and variance over the batch, not over one less."""
    x, scale, offset = operands
    batch = _Batch(op, x)
    mean = batch.sum(batch.x) / batch.count
    variance = batch.sum((batch.x - batch.along(mean)) ** 2) / batch.count
    return [batch.normalized(scale, offset, mean, variance), mean, variance]


@evaluator("batch_norm_grad")
def _batch_norm_grad(op: ir.Operation, operands: Sequence[Array]) -> list[Array]:
    """Gradients of operand, scale and offset: the specification's formulas."""
    x, scale, mean, variance, gradient = operands
    batch = _Batch(op, x)
    gradient = _wide(gradient)
    centered = batch.x - batch.along(mean)
    spread = batch.along(variance) + batch.epsilon
    offsets, products = batch.sum(gradient), batch.sum(gradient * centered)
    rest = batch.count * gradient - batch.along(offsets) - batch.along(products) * centered / spread
    operand = batch.along(scale) / np.sqrt(spread) / batch.count * rest
    return [operand, batch.sum(gradient * centered / np.sqrt(spread)), offsets]


# --- structure -------------------------------------------------------------------------------------------------------


@evaluator("torch_index_select")
def _torch_index_select(op: ir.Operation, operands: Sequence[Array]) -> list[Array]:
    """Slices of dimension `dim` at the indices, of every batch by itself. Indices out of bounds are clamped, as those
    of a gather."""
    x, index = operands
    dim, batch_dims = i64(op, "dim"), i64(op, "batch_dims")
    result = np.empty(shape(op.results[0]), x.dtype)
    for batch in np.ndindex(x.shape[:batch_dims]):
        result[batch] = np.take(x[batch], index[batch].astype(np.int64), dim - batch_dims, mode="clip")
    return [result]


@evaluator("rng_bit_generator")
def _rng_bit_generator(op: ir.Operation, operands: Sequence[Array]) -> list[Array]:
    """Raises UnsupportedError for elements of less than eight bits, whose layout nobody defines."""
    type_ = op.results[1].type
    dtype = numpy_dtype(type_.element_type)
    width = getattr(type_.element_type, "width", 0)
    if width < 8 or width % 8:
        raise UnsupportedError(f"random bits of type {type_.element_type}", op=op.name, remedy="ask jax, or opt0")
    state, words = random_bits(keyword(op.attributes["rng_algorithm"]), operands[0], type_.shape, width)
    return [state, words.view(dtype)]
