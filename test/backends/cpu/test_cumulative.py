"""Cumulative operations: rows in lanes, and columns in blocks, against NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.backends.cpu.kernels import cumulative

RNG = np.random.default_rng(0)
CPUS = ["", "avx2", "x86-64"]
SIZES = [(16, 16), (37, 53), (5, 16, 33), (70, 100), (3, 100), (40, 7)]


def compiled(function, *arrays: np.ndarray, cpu: str = "") -> shlo.runtime.executable.Executable:
    with jax.enable_x64(True):
        exported = jax.export.export(jax.jit(function), platforms=["cpu"])(*arrays)
    return shlo.compile(exported, options=shlo.Options(threads=2, cache_dir=None, isolate=False, cpu=cpu or None))


@pytest.mark.every(3)
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint16], ids=lambda dtype: dtype.__name__)
def test_integers_in_both_directions(dtype: type, sizes: tuple[int, ...], cpu: str) -> None:
    x, last = RNG.integers(0, 100, sizes).astype(dtype), len(sizes) - 1
    run = compiled(lambda x: (lax.cumsum(x, last), lax.cumsum(x, last, reverse=True), lax.cummax(x, last)), x, cpu=cpu)
    expected = (
        np.cumsum(x, -1, dtype=dtype),
        np.cumsum(x[..., ::-1], -1, dtype=dtype)[..., ::-1],
        np.maximum.accumulate(x, -1),
    )
    for result, right in zip(run(x), expected, strict=True):
        np.testing.assert_array_equal(result, right)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16], ids=lambda dtype: dtype.__name__)
def test_floats_are_added_in_order(dtype: type, cpu: str) -> None:
    """As one after the other: the bits are those of a row that is walked alone."""
    x = (RNG.standard_normal((37, 53)) * 9).astype(dtype)
    run = compiled(lambda x: lax.cumsum(x, 1), x, cpu=cpu)
    alone = compiled(lambda x: lax.cumsum(x, 1), x[:1], cpu=cpu)
    rows = [np.asarray(alone(x[row : row + 1])[0]) for row in range(len(x))]
    assert np.asarray(run(x)[0]).tobytes() == np.concatenate(rows).tobytes()


def test_a_combiner_of_many_instructions() -> None:
    x = RNG.standard_normal((20, 45)).astype(np.float32)
    (result,) = compiled(lambda x: lax.cumlogsumexp(x, 1), x)(x)
    np.testing.assert_allclose(result, np.logaddexp.accumulate(x.astype(np.float64), 1), rtol=1e-5, atol=1e-5)


def test_rows_are_in_lanes() -> None:
    x = RNG.standard_normal((64, 64)).astype(np.float32)
    assert "shufflevector" in str(compiled(lambda x: lax.cumprod(x, 1), x).stages["kernels"])


@pytest.mark.every(4)
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("sizes", [(200, 37), (3, 50, 200), (2, 700, 1030), (2700, 600), (5, 9, 3)], ids=str)
@pytest.mark.parametrize(
    "dtype", [np.int8, np.int32, np.float32, np.float64, ml_dtypes.bfloat16], ids=lambda dtype: dtype.__name__
)
def test_columns_are_rows_of_the_transposed_array(dtype: type, sizes: tuple[int, ...], cpu: str) -> None:
    x, of = (RNG.standard_normal(sizes) * 9).astype(dtype), len(sizes) - 2
    columns = compiled(lambda x: (lax.cumsum(x, of), lax.cummax(x, of, reverse=True)), x, cpu=cpu)
    rows = compiled(
        lambda x: (lax.cumsum(x, of + 1), lax.cummax(x, of + 1, reverse=True)), np.swapaxes(x, -1, -2).copy(), cpu=cpu
    )
    expected = rows(np.swapaxes(x, -1, -2).copy())
    for result, right in zip(columns(x), expected, strict=True):
        assert np.asarray(result).tobytes() == np.swapaxes(np.asarray(right), -1, -2).tobytes()


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("sizes", [(40, 37), (3, 50, 8), (700, 530)], ids=str)
def test_columns_of_complex_numbers(sizes: tuple[int, ...], cpu: str) -> None:
    x, of = RNG.integers(-99, 99, sizes) + 1j * RNG.integers(-99, 99, sizes), len(sizes) - 2
    run = compiled(lambda x: (lax.cumsum(x, of), lax.cumsum(x, of, reverse=True)), x.astype(np.complex64), cpu=cpu)
    for result, right in zip(run(x.astype(np.complex64)), (x, np.flip(x, of)), strict=True):
        expected = np.cumsum(right, of)
        np.testing.assert_array_equal(result, expected if right is x else np.flip(expected, of))


def test_strips_of_columns_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no cache holds the array, blocks of a page meet some rows one after the other."""
    x = RNG.standard_normal((900, 1101)).astype(np.float32)
    run = compiled(lambda x: lax.cumlogsumexp(x, 0), x)
    kernels = run.stages["kernels"]  # made when it is read
    monkeypatch.setattr(cumulative._Columns, "_strip", lambda self, target: 1)
    alone = compiled(lambda x: lax.cumlogsumexp(x, 0), x)
    assert kernels != alone.stages["kernels"]
    assert np.asarray(run(x)[0]).tobytes() == np.asarray(alone(x)[0]).tobytes()


@pytest.mark.parametrize("size", [40, 1275])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16], ids=lambda dtype: dtype.__name__)
def test_sums_of_logarithms_grow_to_their_end(dtype: type, size: int) -> None:
    """A combiner that is rounded to 16 bits at every step would stop adding small numbers to a large one."""
    x = RNG.standard_normal((3, size)).astype(dtype)
    rest = np.array(-np.inf, dtype)
    run = compiled(lambda x: (lax.cumlogsumexp(x, 1), lax.reduce(x, rest, jnp.logaddexp, (1,))), x)
    exact = np.logaddexp.accumulate(x.astype(np.float64), axis=1)
    for result, right in zip(run(x), (exact, exact[:, -1]), strict=True):
        tolerance = float(ml_dtypes.finfo(dtype).eps) * np.abs(exact).max()
        np.testing.assert_allclose(np.asarray(result).astype(np.float64), right, rtol=0, atol=tolerance)
