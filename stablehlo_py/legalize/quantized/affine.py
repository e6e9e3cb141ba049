"""The formulas between stored integers and real values (StableHLO specification, "Quantization computations").

Where the specification computes in the storage type, which would overflow (`x_storage - zero_points`), the next wider
integer type is used: that is the value it means.
"""

from __future__ import annotations

import numpy as np

from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.quantized import Quantized
from stablehlo_py.dialect.types import element_type, rank, shape
from stablehlo_py.legalize.quantized import emit
from stablehlo_py.mlir import ir


def wide_integer(quantized: Quantized) -> ir.IntegerType:
    """The integer type that sums and differences of a few stored values are formed in."""
    return ir.IntegerType.get_signless(32 if quantized.storage.width <= 16 else 64)


def center(stored: ir.Value, quantized: Quantized, element: ir.IntegerType) -> ir.Value:
    """`stored - zero_point` in an integer type that holds it."""
    return offset("subtract", emit.convert(stored, element), quantized)


def offset(name: str, numbers: ir.Value, quantized: Quantized) -> ir.Value:
    """`numbers + zero_point` ("add"), or their difference ("subtract"), in the type of the numbers."""
    if not quantized.has_zero_points:
        return numbers
    zero_points = quantized.zero_point_along(rank(numbers))
    return emit.like(name, numbers, emit.constant(zero_points, shape(numbers), element_type(numbers)))


def dequantize(stored: ir.Value, quantized: Quantized) -> ir.Value:
    """Real values, in the expressed type: `(stored - zero_point) * scale`."""
    if quantized.has_zero_points:
        stored = center(stored, quantized, wide_integer(quantized))
    real = emit.convert(stored, quantized.expressed)
    return emit.like(
        "multiply", real, emit.constant(quantized.scale_along(rank(real)), shape(real), quantized.expressed)
    )


def quantize(real: ir.Value, quantized: Quantized) -> ir.Value:
    """Stored integers of real values in the expressed type: `round(clamp(real / scale + zero_point))`, ties to even.
    What is not a number is stored as 0, by what `stablehlo.convert` makes of it."""
    scale = emit.constant(quantized.scale_along(rank(real)), shape(real), quantized.expressed)
    return round_to_storage(emit.like("divide", real, scale), quantized)


def round_to_storage(scaled: ir.Value, quantized: Quantized) -> ir.Value:
    """`round(clamp(scaled + zero_point))` for multiples of the scale, in any floating-point type."""
    element, scaled = element_type(scaled), offset("add", scaled, quantized)
    if not _exact_bounds(quantized, element):
        # The bounds have no exact float. `convert` saturates at the storage type's own.
        return _clamp(emit.convert(emit.like("round_nearest_even", scaled), quantized.storage), quantized)
    low, high = (emit.constant(np.asarray(bound), (), element) for bound in (quantized.minimum, quantized.maximum))
    clamped = emit.value("clamp", scaled.type, low, scaled, high)
    return emit.convert(emit.like("round_nearest_even", clamped), quantized.storage)


def _exact_bounds(quantized: Quantized, element: ir.Type) -> bool:
    dtype = numpy_dtype(element)
    with np.errstate(over="ignore"):
        return all(float(np.float64(bound).astype(dtype)) == bound for bound in (quantized.minimum, quantized.maximum))


def _clamp(integers: ir.Value, quantized: Quantized) -> ir.Value:
    if integers.type.element_type == quantized.storage and quantized.whole_range:
        return integers
    element = integers.type.element_type
    low, high = (emit.constant(np.asarray(bound), (), element) for bound in (quantized.minimum, quantized.maximum))
    return emit.value("clamp", integers.type, low, integers, high)


def saturate(integers: ir.Value, quantized: Quantized) -> ir.Value:
    """Integers of a type that holds the storage's range, clamped to what is in use and stored."""
    return emit.convert(_clamp(integers, quantized), quantized.storage)


def requantize(stored: ir.Value, source: Quantized, target: Quantized) -> ir.Value:
    """The same real values, stored another way."""
    return stored if source == target else quantize(dequantize(stored, source), target)
