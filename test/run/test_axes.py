"""Operations along an axis, long ones among them: as exact as XLA's, and all they read and write is theirs.

What is exact is the same operation on wider numbers. XLA's results of the same type say what rounding costs that nobody
can help. A failure names its case; all cases: --whole.
"""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np
import pytest
from guarded import call_guarded

import stablehlo_py as shlo
from stablehlo_py.suite.axes import operations

TYPES = (np.float32, np.float16, ml_dtypes.bfloat16, np.complex64, np.int8, np.int32)
CASES = [(name, np.dtype(each)) for each in TYPES for name in operations(np.dtype(each))]
PLACES = [
    ((3, 1275), 1),
    ((1275, 5), 0),
    ((6, 37, 10), 1),
    ((2100,), 0),
    ((9, 20, 3), 2),
    ((40, 130), 0),
    ((90, 37, 1), 1),
]


def argument(sizes: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Small numbers, whose sums f16 holds."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(sizes) * (20 if dtype.kind == "i" else 0.25)
    if dtype.kind == "c":
        return (x + 1j * rng.standard_normal(sizes)).astype(dtype)
    return x.astype(dtype)


def wide(dtype: np.dtype) -> np.dtype:
    """A type whose rounding does not count."""
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def error(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest one, relative to the largest number."""
    with np.errstate(invalid="ignore"):
        off = np.where(found == exact, 0, np.abs(found - exact))
    return float(np.max(off, initial=0) / np.max(np.abs(exact), initial=1e-30))


@pytest.mark.every(6)
@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_along_an_axis(case: tuple[str, np.dtype], place: tuple[tuple[int, ...], int]) -> None:
    (name, dtype), (sizes, axis) = case, place
    x = argument(sizes, dtype)
    with jax.enable_x64(True):
        function = jax.jit(lambda x: operations(dtype)[name](x, axis))
        exported, theirs = jax.export.export(function)(x), np.asarray(function(x))
        exact = theirs if dtype.kind == "i" else np.asarray(function(x.astype(wide(dtype))))
    executable = shlo.compile(exported, options=shlo.Options(threads=1, cache_dir=None, isolate=False))
    (ours,) = call_guarded(executable, [x], [theirs], at_end=sum(sizes) % 2 == 1)
    if theirs.dtype != dtype or dtype.kind == "i":
        np.testing.assert_array_equal(ours, theirs)
        return
    own, xla = (error(each.astype(exact.dtype), exact) for each in (ours, theirs))
    epsilons = 4 if dtype.itemsize == 2 else 128  # sums of f32, and not of 16 bits, depend on their order
    assert own <= max(2 * xla, epsilons * float(ml_dtypes.finfo(dtype).eps))
