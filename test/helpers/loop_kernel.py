"""Loop kernels and what NumPy computes, for tests of their templates."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
from one_kernel import build_fusion, run_kernel

from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir

ELEMENTS = {
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.int32): "i32",
    np.dtype(np.int8): "i8",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(np.complex64): "complex<f32>",
    np.dtype(np.complex128): "complex<f64>",
    np.dtype(np.int16): "i16",
    np.dtype(np.bool_): "i1",
    np.dtype(np.int64): "i64",
    np.dtype(np.float16): "f16",
    np.dtype(np.uint8): "ui8",
}


def normal(*sizes: int, dtype: type = np.float32, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(sizes) * 4
    return np.asarray(values).astype(dtype)


def tensor(sizes: Sequence[int], element: str = "f32") -> ir.Type:
    return build.tensor(sizes, ir.Type.parse(element))


def type_of(array: np.ndarray) -> str:
    return "tensor<" + "".join(f"{size}x" for size in array.shape) + f"{ELEMENTS[array.dtype]}>"


def check(body, expected, arrays: Sequence[np.ndarray], target, attributes=None, tolerance: float = 1e-6) -> None:
    text = build_fusion("loop", [type_of(array) for array in arrays], body, attributes)
    results = run_kernel(text, arrays, target)
    wanted = expected(*arrays)
    for result, want in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        want = np.asarray(want)
        assert result.shape == want.shape
        if result.dtype.kind in "fc":
            np.testing.assert_allclose(result, want, rtol=tolerance, atol=1e-6)
        else:
            np.testing.assert_array_equal(result, want.astype(result.dtype))
