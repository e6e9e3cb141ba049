"""Products of two arrays, as kernels and as NumPy computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from one_kernel import build_fusion

from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir


def types_of(arrays: Sequence[np.ndarray]) -> list[str]:
    """MLIR types of arrays: int8 is i8, uint8 is ui8, bfloat16 is bf16."""
    names = [array.dtype.name.replace("int", "i").replace("float", "f") for array in arrays]
    return [f"tensor<{'x'.join(map(str, array.shape))}x{name}>" for array, name in zip(arrays, names, strict=True)]


@dataclass(frozen=True)
class Dot:
    """A product: shapes, dtypes, (batch, contracted) dimensions of each side."""

    name: str
    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    contract: tuple[tuple[int, ...], tuple[int, ...]] = ((1,), (0,))
    batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    dtypes: tuple[object, object] = (np.int8, np.int8)
    result: str = "i32"

    def arrays(self) -> list[np.ndarray]:
        random = np.random.default_rng(0)
        arrays = []
        for sizes, dtype in zip((self.lhs, self.rhs), self.dtypes, strict=True):
            if self.result != "i32":
                arrays.append(random.standard_normal(sizes).astype(dtype))
                continue
            info = ml_dtypes.iinfo(dtype)
            arrays.append(random.integers(info.min, info.max, sizes, endpoint=True).astype(dtype))
        return arrays

    def expected(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Exact sums modulo 2^32; of floats, sums in f64."""
        left, right = "abcdefg"[: a.ndim], list("uvwxyz"[: b.ndim])
        for pairs in (self.batch, self.contract):
            for i, j in zip(*pairs, strict=True):
                right[j] = left[i]
        batch = [left[i] for i in self.batch[0]]
        free = [label for i, label in enumerate(left) if i not in (*self.batch[0], *self.contract[0])]
        free += [label for j, label in enumerate(right) if j not in (*self.batch[1], *self.contract[1])]
        equation = f"{left},{''.join(right)}->{''.join(batch + free)}"
        wide, given = (np.int64, np.int32) if self.result == "i32" else (np.float64, np.float64)
        return np.einsum(equation, a.astype(wide), b.astype(wide)).astype(given)

    def text(self, arrays: Sequence[np.ndarray]) -> str:
        def body(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
            return build.value(
                "dot",
                build.tensor(self.expected(*arrays).shape, ir.Type.parse(self.result)),
                lhs,
                rhs,
                lhs_batch=self.batch[0],
                rhs_batch=self.batch[1],
                lhs_contract=self.contract[0],
                rhs_contract=self.contract[1],
            )

        return build_fusion("dot", types_of(arrays), body)
