"""Cholesky factorizations on a device: the bits of the processor's kernel, or, of large matrices, its numbers."""

from __future__ import annotations

import numpy as np
import pytest

import stablehlo_py as shlo

RNG = np.random.default_rng(21)
OPTIONS = shlo.Options(cache_dir=None)
NAMES = {
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float16": "f16",
}
BOTH = pytest.mark.parametrize("lower", [True, False], ids=["lower", "upper"])


@pytest.fixture(autouse=True)
def _device(real_device: object) -> None:
    """Skips where there is no device."""


def positive(*sizes: int, dtype: str) -> np.ndarray:
    x = RNG.standard_normal(sizes)
    if dtype.startswith("complex"):
        x = x + 1j * RNG.standard_normal(sizes)
    n = sizes[-1]
    return (x @ x.conj().swapaxes(-1, -2) + n * np.eye(n)).astype(dtype)


def factored(a: np.ndarray, lower: bool, target: str) -> np.ndarray:
    of = f"tensor<{'x'.join(map(str, a.shape))}x{NAMES[a.dtype.name]}>"
    text = f"""func.func @main(%a: {of}) -> {of} {{
        %0 = stablehlo.cholesky %a, lower = {str(lower).lower()} : {of}
        return %0 : {of}
    }}"""
    executable = shlo.compile(text, target=target, options=OPTIONS)
    (found,), (again,) = executable(a), executable(a)
    np.testing.assert_array_equal(found, again)
    return found


@pytest.mark.every(2)
@BOTH
@pytest.mark.parametrize(
    "sizes, dtype",
    [
        ((1, 1), "float32"),
        ((70, 3, 3), "float64"),
        ((2, 2, 8, 8), "float32"),  # a thread for each
        ((5, 4, 4), "complex64"),
        ((3, 9, 9), "float32"),
        ((2, 17, 17), "complex128"),
        ((3, 20, 20), "float16"),
        ((2, 33, 33), "float64"),
        ((1, 64, 64), "complex64"),
        ((2, 97, 97), "float32"),
        ((1, 130, 130), "float64"),  # in scratch memory
        ((0, 20, 20), "float32"),
        ((2, 0, 0), "float32"),
    ],
    ids=str,
)
def test_as_on_the_processor(sizes: tuple[int, ...], dtype: str, lower: bool) -> None:
    a = positive(*sizes, dtype=dtype)
    found = factored(a, lower, "opencl")
    np.testing.assert_array_equal(found, factored(a, lower, "cpu"))
    whole = found.astype(np.complex128)
    whole = whole if lower else whole.conj().swapaxes(-1, -2)
    scale = np.abs(a).max(initial=1)
    error = np.abs(whole @ whole.conj().swapaxes(-1, -2) - a).max(initial=0)
    assert error <= 20 * float(np.finfo(a.dtype).eps) * float(scale)


@BOTH
def test_blocks(lower: bool) -> None:
    """With products beside them, which are summed in another order."""
    a = positive(300, 300, dtype="float64")
    found, right = (factored(a, lower, target) for target in ("opencl", "cpu"))
    np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12)


@BOTH
@pytest.mark.parametrize("n, bad", [(5, 3), (21, 0), (40, 30)])
def test_what_is_not_positive(n: int, bad: int, lower: bool) -> None:
    """NaN from the pivot on that is negative, and in no other matrix of the batch."""
    a = positive(2, n, n, dtype="float32")
    a[1, bad, bad] = -1
    found = factored(a, lower, "opencl")
    np.testing.assert_array_equal(found, factored(a, lower, "cpu"))
    assert np.isfinite(found[0]).all() and np.isnan(found[1, bad, bad])


@BOTH
def test_one_triangle_is_read(lower: bool) -> None:
    a = positive(2, 35, 35, dtype="float32")
    other = np.triu(np.ones((35, 35), bool), 1)
    spoilt = np.where(other if lower else other.T, np.nan, a).astype(np.float32)
    np.testing.assert_array_equal(factored(spoilt, lower, "opencl"), factored(a, lower, "opencl"))
