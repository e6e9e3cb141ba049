"""The largest elements of rows, many of which are taken side by side, against NumPy: all types, bit by bit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.cpu.kernels.top_k_side_by_side import FEW, INSERTED

FLOATS = ("float16", "bfloat16", "float32", "float64")
TYPES = (*FLOATS, "int8", "uint8", "int16", "uint32", "int32", "int64", "uint64")
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan)


def numbers(dtype: str, rows: int, size: int) -> np.ndarray:
    """Many of which are equal; the least and the greatest of integers."""
    random = np.random.default_rng(rows)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if dtype in FLOATS:
        found, special = random.standard_normal((rows, size)).round(1), np.array(SPECIAL)
    else:
        limits = np.iinfo(kind)
        found = random.integers(max(limits.min, -9), 10, (rows, size)).astype(kind)
        special = np.array([limits.min, limits.max], kind)
    return np.where(random.random(found.shape) < 0.3, random.choice(special, found.shape), found).astype(kind)


def in_order(x: np.ndarray) -> np.ndarray:
    """Integers that compare as the elements do in total order."""
    if x.dtype.kind in "iu":
        return x.astype(object)
    bits = x.view(f"i{x.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, bits ^ ((1 << 8 * x.dtype.itemsize - 1) - 1), bits).astype(object)


def is_largest(x: np.ndarray, k: int, options: list[shlo.Options]) -> None:
    """The k largest of each row, compiled as each of the options says."""
    with jax.enable_x64(True):
        text = jax.jit(lambda x: jax.lax.top_k(x, k)).lower(jnp.asarray(x)).as_text()
    order = np.argsort(-in_order(x), axis=1, kind="stable")[:, :k]
    for each in options:
        values, places = shlo.compile(text, options=each)(x)
        np.testing.assert_array_equal(np.asarray(places), order)
        assert np.asarray(values).tobytes() == np.take_along_axis(x, order, 1).tobytes()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("rows", "size"), [(100, 9), (33, 41), (8, INSERTED), (7, 30)])
@pytest.mark.parametrize("k", [1, 2, FEW - 1, FEW, FEW + 1])
def test_largest_of_short_rows(dtype: str, rows: int, size: int, k: int) -> None:
    x = numbers(dtype, rows, size)
    k = min(k, size)
    options = [shlo.Options(threads=1 + rows % 2, cache_dir=None)]
    if dtype == "float32" and k == 2:
        options += [shlo.Options(threads=1, cache_dir=None, cpu=cpu) for cpu in ("avx2", "x86-64")]
    is_largest(x, k, options)


# Rows that are sorted whole, or looked through: to the end of a vector, behind it; with room for all that beat the
# first ones, or not; of which a lane has no row of its own; a few, each by itself.
LONG_ROWS = [
    (99, 100, 9),
    (33, 160, 80),
    (40, 161, 9),
    (70, 999, 20),
    (17, 999, 32),
    (20, 1009, 7),
    (8, 1003, 100),
    (9, 3000, 512),
    (3, 3000, 50),
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("rows", "size", "k"), LONG_ROWS)
@pytest.mark.parametrize("rising", [False, True])
def test_largest_of_long_rows(dtype: str, rows: int, size: int, k: int, rising: bool) -> None:
    """Each of rising ones beats all that were before."""
    x = numbers(dtype, rows, size)
    if rising:
        x = np.take_along_axis(x, np.argsort(in_order(x), 1, kind="stable"), 1)
    options = [shlo.Options(threads=1 + rows % 2, cache_dir=None)]
    if dtype in ("float32", "int8") and size > 1000:
        options += [shlo.Options(threads=1, cache_dir=None, cpu=cpu) for cpu in ("avx2", "x86-64")]
    is_largest(x, k, options)
