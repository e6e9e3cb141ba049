"""What a quantized element type says, as numbers (StableHLO specification, "Quantized element types")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.rounding import integer_info
from stablehlo_py.mlir import ir, quant


@dataclass(frozen=True)
class Quantized:
    """How a tensor is quantized: the real value of a stored integer is `(stored - zero_point) * scale`.

    Attributes:
        type: the MLIR type this was read from.
        storage: the integer type of the elements in memory, i2 to i32 or ui2 to ui32.
        minimum, maximum: the stored values in use, inclusive.
        expressed: the floating-point type of the real values.
        scales, zero_points: one pair, or one for every place along `dimension`.
        dimension: the dimension that scales and zero points belong to; None for one pair for the whole tensor.
    """

    type: ir.Type
    storage: ir.IntegerType
    minimum: int
    maximum: int
    expressed: ir.Type
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    dimension: int | None

    @property
    def has_zero_points(self) -> bool:
        """Whether any zero point is not zero."""
        return any(self.zero_points)

    @property
    def centered(self) -> tuple[int, int]:
        """The smallest and the largest value of `stored - zero_point`."""
        return self.minimum - max(self.zero_points), self.maximum - min(self.zero_points)

    @property
    def whole_range(self) -> bool:
        """Whether every value of the storage type is in use."""
        return (self.minimum, self.maximum) == integer_info(numpy_dtype(self.storage))[1:]

    def scale_along(self, rank: int) -> np.ndarray:
        """Scales, rounded to the expressed type as the specification has them (C4), widened to f64: of shape () or with
        `rank` dimensions, all but `dimension` of size 1."""
        rounded = np.asarray(self.scales, np.float64).astype(numpy_dtype(self.expressed))
        return self._along(rounded.astype(np.float64), rank)

    def zero_point_along(self, rank: int) -> np.ndarray:
        """Zero points as i64, in the shape of `scale_along`."""
        return self._along(np.asarray(self.zero_points, np.int64), rank)

    def _along(self, values: np.ndarray, rank: int) -> np.ndarray:
        if self.dimension is None:
            return values.reshape(())
        return values.reshape([-1 if d == self.dimension else 1 for d in range(rank)])


def quantized_of(type_: ir.Type) -> Quantized | None:
    """The reading of a quantized element type, or of a tensor type with such elements; None for every other type."""
    element = type_.element_type if isinstance(type_, ir.RankedTensorType) else type_
    if isinstance(element, quant.UniformQuantizedType):
        return _read(element, (element.scale,), (element.zero_point,), None)
    if isinstance(element, quant.UniformQuantizedPerAxisType):
        return _read(element, tuple(element.scales), tuple(element.zero_points), element.quantized_dimension)
    return None


def _read(
    element: ir.Type, scales: tuple[float, ...], zero_points: tuple[int, ...], dimension: int | None
) -> Quantized:
    width = element.storage_type_integral_width
    # MLIR's storage types are signless, with a flag of their own for the sign.
    make = ir.IntegerType.get_signless if element.is_signed else ir.IntegerType.get_unsigned
    return Quantized(
        element,
        make(width, element.context),
        element.storage_type_min,
        element.storage_type_max,
        element.expressed_type,
        scales,
        zero_points,
        dimension,
    )


def storage_type(type_: ir.Type) -> ir.Type:
    """The type on storage: of a tensor, and of the tensors in a tuple. Other types stay."""
    if isinstance(type_, ir.TupleType):
        return ir.TupleType.get_tuple([storage_type(type_.get_type(i)) for i in range(type_.num_types)])
    quantized = quantized_of(type_)
    return type_ if quantized is None else ir.RankedTensorType.get(type_.shape, quantized.storage, type_.encoding)
