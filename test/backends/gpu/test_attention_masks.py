"""Attention with masks that say by indices which keys a query sees: tiles that are not gone through change no bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from masked_attention import MASKS, Function, masked

import stablehlo_py as shlo
from stablehlo_py.backends.gpu.backend import OpenClBackend
from stablehlo_py.backends.gpu.kernels import attention_band
from stablehlo_py.backends.gpu.kernels.attention_band import Skipping
from stablehlo_py.backends.gpu.target import OPENCL
from stablehlo_py.codegen.builder import I1
from stablehlo_py.codegen.matrix_units import MATRIX_UNITS

OPTIONS = shlo.Options(cache_dir=None, threads=1)
RANDOM = np.random.default_rng(0)
NEVER = 1 << 30
MMA = tuple(name for name in MATRIX_UNITS if name.startswith("mma"))


@pytest.fixture(autouse=True)
def _device(real_device: object) -> None:
    """Skips where there is no device."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that few blocks keep busy, so that no keys are split, and tiles that are skipped however few."""
    monkeypatch.setattr(OpenClBackend, "target", lambda self, options: replace(OPENCL, resident=1 << 10))
    monkeypatch.setattr(attention_band, "LEAST_TILES", 2)


@pytest.fixture
def matrix_units(monkeypatch: pytest.MonkeyPatch, exchanged_through_memory: None) -> None:
    """Kernels for NVIDIA's units, which exchange registers instead."""
    target = replace(OPENCL, resident=1 << 10, matrix_units=MMA, shared_bytes=96 << 10)
    monkeypatch.setattr(OpenClBackend, "target", lambda self, options: target)


@contextmanager
def least(tiles: int) -> Iterator[None]:
    """Fewer tiles are not skipped."""
    known, attention_band.LEAST_TILES = attention_band.LEAST_TILES, tiles
    try:
        yield
    finally:
        attention_band.LEAST_TILES = known


def floats(*sizes: int, dtype: str = "float32") -> np.ndarray:
    """Normally distributed numbers."""
    return RANDOM.standard_normal(sizes).astype(jnp.dtype(dtype))


def text_of(function: Function, *arrays: np.ndarray) -> str:
    return jax.jit(function).lower(*arrays).as_text()


def compiled(text: str, skips: bool) -> shlo.Executable:
    """A program, whose kernels skip tiles or do not."""
    with least(2 if skips else NEVER):
        executable = shlo.compile(text, target="opencl", options=OPTIONS)
    assert "1 attention" in executable.report()
    assert ("_finite(" in executable.stages["kernels"]) == skips
    return executable


class Programs:
    """A function's programs: one that skips tiles, where any can be, one that skips none, and that of the CPU."""

    def __init__(self, function: Function, arrays: Sequence[np.ndarray], skips: bool = True) -> None:
        text = text_of(function, *arrays)
        self.every = compiled(text, skips=False)
        self.some = compiled(text, skips=True) if skips else self.every
        self.right = shlo.compile(text, options=OPTIONS)

    def check(self, *arrays: np.ndarray) -> np.ndarray:
        """Tiles are skipped, which changes no bit, and results are those of the CPU's program."""
        (found,), (every,), (wanted,) = self.some(*arrays), self.every(*arrays), self.right(*arrays)
        assert np.where(np.isnan(found), 0, found).tobytes() == np.where(np.isnan(every), 0, every).tobytes()
        assert (np.isnan(found) == np.isnan(every)).all()
        close = 2e-2 if wanted.dtype.itemsize == 2 else 5e-6
        np.testing.assert_allclose(found.astype("f8"), wanted.astype("f8"), rtol=close, atol=close)
        return found


def check(function: Function, *arrays: np.ndarray, skips: bool = True) -> np.ndarray:
    """One call of all programs."""
    return Programs(function, arrays, skips).check(*arrays)


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    value = -1e30 if "window" in name else -np.inf
    check(masked(MASKS[name], value), floats(150, 2, 8), floats(230, 2, 8), floats(230, 2, 8))


@pytest.mark.parametrize("function", [masked(lambda i, j: i + 0 * j >= 0), masked(lambda i, j: (i * j) % 2 == 0)])
def test_what_does_not_bound_keys(function: Function) -> None:
    check(function, floats(70, 2, 8), floats(130, 2, 8), floats(130, 2, 8), skips=False)


@pytest.mark.parametrize("value", [-1e30, -50.0, 3.0, np.inf, np.nan])
def test_scores_that_are_no_higher_than_the_mask(value: float) -> None:
    """Of queries that see no key, or see keys whose scores are about as low as the mask: masked ones count."""
    q, k, v = floats(150, 2, 8), floats(230, 2, 8), floats(230, 2, 8)
    q[20:30] = 0
    q[100], k[:, :, 0] = [-4e29] + [0] * 7, np.abs(k[:, :, 0]) + 10
    q[101], q[102] = -np.inf, np.nan
    found = check(masked(lambda i, j: i - j >= 5, value), q, k, v)
    if value == -1e30:  # all weights are the same
        np.testing.assert_allclose(found[:5], np.broadcast_to(v.mean(0), (5, 2, 8)), atol=1e-5)


@pytest.mark.parametrize(("value", "mask"), [(np.inf, -np.inf), (-np.inf, -1e30), (np.nan, -1e30)])
def test_values_that_are_not_finite(value: float, mask: float) -> None:
    """Zero times these is NaN, also where a query does not see the key."""
    q, k, v = floats(130, 2, 8), floats(230, 2, 8), floats(230, 2, 8)
    v[229, 1, 7] = value
    found = check(masked(MASKS["causal"], mask), q, k, v)
    assert np.isnan(found[:, 1, 7]).all() and np.isnan(found).sum() == 130


def test_keys_and_queries_that_are_not_finite() -> None:
    q, k, v = floats(130, 2, 8), floats(230, 2, 8), floats(230, 2, 8)
    k[200], q[7, 0], q[70, 1, 0], k[3] = np.nan, np.nan, np.inf, np.abs(k[3])
    found = check(masked(MASKS["causal"]), q, k, v)
    assert np.isnan(found[7, 0]).all() and np.isnan(found[70, 1]).all() and np.isfinite(found[:7]).all()


def test_tiles_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a kernel is told that values are finite which are not, they are in no result of the tiles before."""
    monkeypatch.setattr(Skipping, "_are_finite", lambda self, batch: self.p.f.const(True, I1))
    q, k, v = floats(256, 2, 8), floats(256, 2, 8), floats(256, 2, 8)
    for name, first, last in (("causal", 192, 256), ("window", 0, 192)):
        v[:] = floats(256, 2, 8)
        v[192 if name == "causal" else 10] = np.nan
        (found,) = compiled(text_of(masked(MASKS[name]), q, k, v), skips=True)(q, k, v)
        rows = np.isnan(found).all((1, 2))
        assert rows[first:last].all() and not rows[:first].any() and not rows[last:].any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_types(dtype: str) -> None:
    with jax.enable_x64(dtype == "float64"):
        arrays = floats(70, 2, 8, dtype=dtype), floats(150, 2, 8, dtype=dtype), floats(150, 2, 8, dtype=dtype)
        check(masked(MASKS["window"]), *arrays)
        check(masked(MASKS["causal"], -1e4), *arrays)


def test_shared_keys_and_odd_orders() -> None:
    """Rows of several heads in a block, keys and values whose neighbours lie elsewhere."""

    def grouped(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]

    check(grouped, floats(90, 6, 8), floats(150, 2, 8), floats(150, 2, 8))

    def turned(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("dhk,qhd->hkq", k, q)
        i, j = (lax.broadcasted_iota(jnp.int32, scores.shape[1:], d) for d in (1, 0))
        weights = jax.nn.softmax(jnp.where(i < j, -jnp.inf, scores), axis=1)
        return jnp.einsum("hkq,hdk->hdq", weights, v)

    check(turned, floats(90, 2, 8), floats(8, 2, 152), floats(2, 8, 152))


@pytest.mark.usefixtures("matrix_units")
@pytest.mark.parametrize(("name", "value"), [("window", -np.inf), ("some more", -1e30), ("not all is known", -1e30)])
def test_matrix_units(name: str, value: float) -> None:
    q, k, v = (floats(n, 1, 16, dtype="bfloat16") for n in (70, 150, 150))
    programs = Programs(masked(MASKS[name], value), (q, k, v))
    programs.check(q, k, v)
    v[140, 0, 3] = np.inf
    assert not np.isfinite(programs.check(q, k, v)[:, 0, 3]).any()


@pytest.mark.every(2)
@pytest.mark.usefixtures("exchanged_through_memory")
@pytest.mark.parametrize("units", [(), MMA])
@pytest.mark.parametrize("value", [-np.inf, -1e30, 2.0])
def test_parts_of_the_keys(value: float, units: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks have parts of what their queries see. Masked keys that count are added where parts are put together."""
    target = replace(OPENCL, resident=1 << 16, matrix_units=units, shared_bytes=96 << 10)
    monkeypatch.setattr(OpenClBackend, "target", lambda self, options: target)
    dtype, close = ("bfloat16", 2e-2) if units else ("float32", 5e-6)
    q, k, v = (floats(n, 2, 16, dtype=dtype) for n in (70, 300, 300))
    function = masked(lambda i, j: (j - i < 90) & (i - j < 60) & (i > 4) & (i < 66 - j), value)
    text = text_of(function, q, k, v)
    executable, reference = compiled(text, skips=True), shlo.compile(text, options=OPTIONS)
    assert "_total(" in executable.stages["kernels"]
    for last in (1.0, np.inf):
        v[299, 0, 3] = last
        (found,), (wanted,) = executable(q, k, v), reference(q, k, v)
        np.testing.assert_allclose(found.astype("f8"), wanted.astype("f8"), rtol=close, atol=close)
    assert not np.isfinite(found[:, 0, 3]).all()
