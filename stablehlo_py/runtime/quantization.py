"""Quantized inputs and outputs as a caller sees them: stored integers, and what they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stablehlo_py.runtime.records import DTYPES

if TYPE_CHECKING:
    from stablehlo_py.dialect.quantized import Quantized


@dataclass(frozen=True)
class Quantization:
    """How stored integers stand for real values: `real = (stored - zero_point) * scale`.

    Attributes:
        expressed: name of the dtype of real values ("float32").
        storage: name of the dtype of stored integers ("int8"), the dtype of the arrays that are passed.
        minimum, maximum: the stored values in use, inclusive.
        scales, zero_points: one pair, or one for every place along `dimension`.
        dimension: the dimension that scales and zero points belong to, None for one pair.
    """

    expressed: str
    storage: str
    minimum: int
    maximum: int
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    dimension: int | None = None

    @staticmethod
    def of(quantized: Quantized) -> Quantization:
        """The plain form of a quantized element type."""
        from stablehlo_py.dialect.constants import numpy_dtype

        return Quantization(
            numpy_dtype(quantized.expressed).name,
            numpy_dtype(quantized.storage).name,
            quantized.minimum,
            quantized.maximum,
            quantized.scales,
            quantized.zero_points,
            quantized.dimension,
        )

    def __str__(self) -> str:
        pairs = [f"{scale:.9g}:{zero}" for scale, zero in zip(self.scales, self.zero_points, strict=True)]
        if self.dimension is None:
            return f"{self.expressed} as {pairs[0]}"
        listed = ", ".join(pairs[:3]) + (", ..." if len(pairs) > 3 else "")
        return f"{self.expressed} as {{{listed}}} along {self.dimension}"

    def quantize(self, real: np.ndarray) -> np.ndarray:
        """Stored integers of real values, by the specification's formula (`stablehlo.uniform_quantize`); 0 of NaN."""
        real = np.asarray(real).astype(DTYPES[self.expressed])
        scale, zero_point = self._parameters(real.ndim, real.dtype)
        with np.errstate(over="ignore"):
            scaled = real / scale + zero_point.astype(real.dtype)
        rounded = np.rint(np.clip(scaled.astype(np.float64), self.minimum, self.maximum))
        return np.nan_to_num(rounded, nan=0.0).astype(np.int64).astype(DTYPES[self.storage])

    def dequantize(self, stored: np.ndarray) -> np.ndarray:
        """Real values of stored integers (`stablehlo.uniform_dequantize`)."""
        stored = np.asarray(stored)
        scale, zero_point = self._parameters(stored.ndim, DTYPES[self.expressed])
        return (stored.astype(np.int64) - zero_point).astype(scale.dtype) * scale

    def _parameters(self, rank: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        sizes = [] if self.dimension is None else [-1 if d == self.dimension else 1 for d in range(rank)]
        scale = np.asarray(self.scales, np.float64).astype(dtype).reshape(sizes)
        return scale, np.asarray(self.zero_points, np.int64).reshape(sizes)
