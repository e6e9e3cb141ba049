"""Matrix products and convolutions of quantized tensors.

With a float operand (hybrid: weights only) the product is one of floats, with the stored integers where their scales
can be applied to the sums, else with dequantized weights. With two quantized operands the product is formed in
integers, as gemmlowp and LiteRT do (Jacob et al., "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference", CVPR 2018, section 2.2):

    result = round(sum over k of (lhs - zl) * (rhs - zr)  *  (sl * sr / s)) + z

The sum is exact, so this is `dequantize_op_quantize` with one rounding instead of one for every product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np

from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.quantized import Quantized
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import element_type, rank, shape
from stablehlo_py.legalize.quantized import emit
from stablehlo_py.legalize.quantized.affine import center, offset, round_to_storage, saturate, wide_integer
from stablehlo_py.legalize.quantized.elementwise import dequantize_op_quantize
from stablehlo_py.legalize.quantized.rules import Reading, Results, rule
from stablehlo_py.mlir import ir
from stablehlo_py.mlir import stablehlo as attributes

_INT32_SUMS, _F64_SUMS = 2**31, 2**53  # below these every sum is exact


@rule("stablehlo.dot_general")
def dot_general(op: ir.OpView, of: Reading) -> Results:
    """A product with dimension numbers."""
    numbers = attributes.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batch, contract = list(numbers.rhs_batching_dimensions), list(numbers.rhs_contracting_dimensions)
    return _dot(op, of, batch, contract)


@rule("stablehlo.dot")
def dot(op: ir.OpView, of: Reading) -> Results:
    """The old product of vectors and matrices: the first dimension of rhs is contracted."""
    return _dot(op, of, [], [0])


def _dot(op: ir.OpView, of: Reading, batch: Sequence[int], contract: Sequence[int]) -> Results:
    rhs = op.operands[1]
    free = [d for d in range(rank(rhs)) if d not in batch and d not in contract]
    first = rank(op.results[0]) - len(free)
    places = {d: i for i, d in enumerate(batch)} | {d: first + i for i, d in enumerate(free)}
    depth = math.prod(shape(rhs)[d] for d in contract)
    return _product(op, of, depth, places)


@rule("stablehlo.convolution", "stablehlo.dynamic_conv")
def convolution(op: ir.OpView, of: Reading) -> Results:
    """A convolution: per-axis parameters of the kernel belong to its output features. Padding is a real zero."""
    numbers = attributes.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    features = numbers.kernel_output_feature_dimension
    kernel = shape(op.operands[1])
    depth = math.prod(size for d, size in enumerate(kernel) if d != features)
    return _product(op, of, depth, {features: numbers.output_feature_dimension})


def _product(op: ir.OpView, of: Reading, depth: IntLike, places: dict[int, int]) -> Results:
    """`depth` products are summed; dimension d of rhs is dimension `places[d]` of the result."""
    lhs, rhs = op.operands[0], op.operands[1]
    left, right, result = of(lhs), of(rhs), of(op.results[0])
    if right is None or (right.dimension is not None and right.dimension not in places):
        return dequantize_op_quantize(op, of)
    placed = right if right.dimension is None else replace(right, dimension=places[right.dimension])
    if left is None and not right.has_zero_points and right.storage.width <= 8:
        return _hybrid(op, placed)
    if left is None or result is None or left.dimension is not None:
        return dequantize_op_quantize(op, of)
    bound = depth * _magnitude(left) * _magnitude(right)
    if bound < _INT32_SUMS:
        accumulator = ir.IntegerType.get_signless(32)
        width = max(_width(left), _width(right))
        widths = (_width(left), _width(right)) if op.operation.name == "stablehlo.dot_general" else (width, width)
        operands = [
            center(value, quantized, ir.IntegerType.get_signless(bits))
            for value, quantized, bits in zip((lhs, rhs), (left, right), widths, strict=True)
        ]
    elif bound < _F64_SUMS:  # integers in floats: exact, and faster than products of i64
        accumulator = ir.F64Type.get()
        operands = [
            emit.convert(center(value, quantized, wide_integer(quantized)), accumulator)
            for value, quantized in ((lhs, left), (rhs, right))
        ]
    else:
        return dequantize_op_quantize(op, of)
    return _rescale(emit.again(op, operands, accumulator).results[0], left, placed, result)


def _hybrid(op: ir.OpView, weights: Quantized) -> ir.Value:
    """Weights of 8 bits are a quarter of the floats that they stand for: they are read as they are stored, and the sums
    are scaled, in f32 at least, where small integers overflow nothing. `weights.dimension` is that of the result."""
    (result,) = op.results
    element = element_type(result)
    wide = element if isinstance(element, ir.F64Type) else ir.F32Type.get()
    sums = emit.again(op, [op.operands[0], emit.convert(op.operands[1], element)], wide).results[0]
    scale = emit.constant(weights.scale_along(rank(result)), shape(result), wide)
    return emit.convert(emit.like("multiply", sums, scale), element)


def _magnitude(quantized: Quantized) -> int:
    return max(abs(bound) for bound in quantized.centered)


def _width(quantized: Quantized) -> int:
    """Bits of the narrowest integer type for `stored - zero_point`."""
    low, high = quantized.centered
    return next(bits for bits in (8, 16, 32) if -(2 ** (bits - 1)) <= low and high < 2 ** (bits - 1))


def _rescale(sums: ir.Value, left: Quantized, right: Quantized, result: Quantized) -> ir.Value:
    """Multiples of `sl * sr` as stored integers of the result."""
    dimensions = rank(sums)
    multiplier = (left.scale_along(dimensions) * right.scale_along(dimensions)) / result.scale_along(dimensions)
    exact = bool((np.abs(multiplier - 1) <= float(ml_dtypes.finfo(numpy_dtype(result.expressed)).eps)).all())
    integers = isinstance(element_type(sums), ir.IntegerType)
    if exact and integers:  # the product of the scales, rounded to the expressed type, is the result's scale
        if result.has_zero_points:
            sums = offset("add", emit.convert(sums, wide_integer(result)), result)
        return saturate(sums, result)
    # f32 decides 256 steps to 1e-4 of one; more steps take f64.
    real = ir.F32Type.get() if integers and result.storage.width <= 8 else ir.F64Type.get()
    scaled = emit.convert(sums, real)
    if not exact:
        scaled = emit.like("multiply", scaled, emit.constant(multiplier, shape(sums), real))
    return round_to_storage(scaled, result)
