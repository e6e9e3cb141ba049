"""Gradients of attention with masks that say by indices which places see each other: tiles that are left out change no
bit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from masked_attention import MASKS, masked, with_gradients

import stablehlo_py as shlo
from stablehlo_py.backends.common.band import Band
from stablehlo_py.backends.gpu.backend import OpenClBackend
from stablehlo_py.backends.gpu.kernels import scores_band
from stablehlo_py.backends.gpu.kernels.scores_band import Skipping
from stablehlo_py.backends.gpu.target import OPENCL
from stablehlo_py.codegen.builder import Index
from stablehlo_py.codegen.matrix_units import MATRIX_UNITS

OPTIONS = shlo.Options(cache_dir=None, threads=1)
RANDOM = np.random.default_rng(0)
NEVER = 1 << 30
MMA = tuple(name for name in MATRIX_UNITS if name.startswith("mma"))
Function = Callable[..., tuple[jax.Array, ...]]


@pytest.fixture(autouse=True)
def _device(real_device: object) -> None:
    """Skips where there is no device."""


@pytest.fixture
def matrix_units(monkeypatch: pytest.MonkeyPatch, exchanged_through_memory: None) -> None:
    """Kernels for NVIDIA's units, which exchange registers instead."""
    target = replace(OPENCL, resident=1 << 10, matrix_units=MMA, shared_bytes=160 << 10)
    monkeypatch.setattr(OpenClBackend, "target", lambda self, options: target)


@contextmanager
def least(tiles: int) -> Iterator[None]:
    """Fewer tiles are not left out."""
    known, scores_band.LEAST_TILES = scores_band.LEAST_TILES, tiles
    try:
        yield
    finally:
        scores_band.LEAST_TILES = known


def floats(*sizes: int, dtype: str = "float32") -> np.ndarray:
    """Normally distributed numbers."""
    return RANDOM.standard_normal(sizes).astype(jnp.dtype(dtype))


def operands(queries: int, keys: int, depth: int = 8, dtype: str = "float32") -> list[np.ndarray]:
    """Queries, keys, values, and the gradient of the result: [places, heads, depth] each."""
    return [floats(count, 2, depth, dtype=dtype) for count in (queries, keys, keys, queries)]


def compiled(text: str, skips: int) -> shlo.Executable:
    """A program, of whose kernels so many leave out tiles."""
    with least(2 if skips else NEVER):
        executable = shlo.compile(text, target="opencl", options=OPTIONS)
    found = re.findall(r"@(fusion_\d+_masked)\(", executable.stages["kernels"])
    assert len(set(found)) == skips, found
    return executable


class Programs:
    """A function's programs: of which so many kernels leave out tiles, none does, and that of the CPU."""

    def __init__(self, function: Function, arrays: Sequence[np.ndarray], skips: int = 3) -> None:
        text = jax.jit(function).lower(*arrays).as_text()
        self.some, self.all_ = (compiled(text, skips=each) for each in (skips, 0))
        self.right = shlo.compile(text, options=OPTIONS)

    def check(self, *arrays: np.ndarray, close: float = 5e-6) -> list[np.ndarray]:
        """That no bit changes, and results are those of the CPU's program."""
        found = self.some(*arrays)
        for some, all_, right in zip(found, self.all_(*arrays), self.right(*arrays), strict=True):
            assert (np.isnan(some) == np.isnan(all_)).all()
            assert np.where(np.isnan(some), 0, some).tobytes() == np.where(np.isnan(all_), 0, all_).tobytes()
            if close < np.inf:
                np.testing.assert_allclose(some.astype("f8"), right.astype("f8"), rtol=close, atol=close)
        return found


def check(function: Function, *arrays: np.ndarray, skips: int = 3, close: float = 5e-6) -> list[np.ndarray]:
    """One call of all programs."""
    return Programs(function, arrays, skips).check(*arrays, close=close)


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    value = -1e30 if "window" in name or "see nothing" in name else -np.inf
    check(with_gradients(masked(MASKS[name], value)), *operands(130, 150))


@pytest.mark.parametrize(("queries", "keys"), [(150, 130), (129, 129)])
def test_lengths(queries: int, keys: int) -> None:
    check(with_gradients(masked(MASKS["causal"])), *operands(queries, keys))


@pytest.mark.parametrize("value", [-1e30, -50.0, 3.0])
def test_scores_that_are_no_higher_than_the_mask(value: float) -> None:
    """Of queries that see no key, or see keys whose scores are about as low as the mask: masked ones count."""
    q, k, v, of_result = operands(130, 150)
    programs = Programs(with_gradients(masked(lambda i, j: i - j >= 5, value)), (q, k, v, of_result))
    q[20:30] = 0
    programs.check(q, k, v, of_result, close=1e-4)
    q[70], k[:, :, 0] = [-4e29] + [0] * 7, np.abs(k[:, :, 0]) + 10
    programs.check(q, k, v, of_result, close=np.inf)


def test_operands_that_are_not_finite() -> None:
    """Zero times these is NaN, also of places that do not see each other, and so is zero times a product too large."""
    programs = Programs(with_gradients(masked(MASKS["causal"], -1e30)), operands(130, 150))
    for which in range(4):
        for value in (np.inf, np.nan, 3e38):
            arrays = operands(130, 150)
            for at in (3, 80):
                arrays[which][at, 1, 7] = value
            found = programs.check(*arrays, close=np.inf)
            assert value == 3e38 or any(np.isnan(each).any() for each in found)


def test_tiles_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kernels do not look at operands, what is not finite is in no result of places that do not see it."""

    def tiles_of(self: Skipping, band: Band, first: Index) -> tuple[Index, Index]:
        low, high = (self.p.f.idiv(place, band.tile) for place in band.range())
        return self.p.f.bounded(low, 0, 4), self.p.f.bounded(high, 0, 4)

    monkeypatch.setattr(Skipping, "tiles_of", tiles_of)
    function = with_gradients(masked(MASKS["causal"]))
    executable = compiled(jax.jit(function).lower(*(floats(256, 2, 8),) * 4).as_text(), skips=3)
    arrays = operands(256, 256)
    arrays[1][192:] = np.nan  # keys: columns of the gradient of queries
    _, of_queries, *_ = executable(*arrays)
    assert np.isnan(of_queries[192:]).all() and not np.isnan(of_queries[:192]).any()
    arrays = operands(256, 256)
    arrays[3][:64] = np.nan  # the result's gradient: columns of that of values
    _, _, of_keys, of_values = executable(*arrays)
    for found in (of_keys, of_values):
        assert np.isnan(found[:64]).all() and not np.isnan(found[64:]).any()


def test_a_softmax_that_is_computed_again() -> None:
    """Its maximum takes what the mask gives where nothing is seen, once."""
    function = jax.checkpoint(masked(lambda i, j: i > j, -2.0))
    check(with_gradients(function), *operands(130, 150), skips=5)
    check(with_gradients(jax.checkpoint(masked(MASKS["causal"], -1e30))), *operands(130, 150), skips=5)


@pytest.mark.parametrize("kind", ["dropout", "softcap", "bias", "scale of keys"])
def test_work_on_scores(kind: str) -> None:
    """What is selected, is below one, or is added before the mask changes nothing; what is multiplied with weights for
    every key may be infinite."""
    keep = jnp.asarray(RANDOM.random((2, 130, 150)) < 0.8)
    bias, scale = jnp.asarray(floats(2, 130, 150)), jnp.asarray(floats(150))

    def function(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("qhd,khd->hqk", q, k) * 0.25
        i, j = (jax.lax.broadcasted_iota(jnp.int32, scores.shape[1:], d) for d in range(2))
        if kind == "softcap":
            scores = 5 * jnp.tanh(scores / 5)
        if kind == "bias":
            scores += bias
        weights = jax.nn.softmax(jnp.where(i >= j, scores, -jnp.inf))
        if kind == "dropout":
            weights = jnp.where(keep, weights / 0.8, 0)
        if kind == "scale of keys":
            weights = weights * scale
        return jnp.einsum("hqk,khd->qhd", weights, v)

    check(with_gradients(function), *operands(130, 150), skips={"dropout": 5, "scale of keys": 0}.get(kind, 3))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_types(dtype: str) -> None:
    with jax.enable_x64(dtype == "float64"):
        close = 1e-12 if dtype == "float64" else 0.2
        function = with_gradients(masked(MASKS["window"], -1e4))
        check(function, *operands(130, 150, dtype=dtype), close=close)


def shared(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


def test_shared_keys() -> None:
    """Tiles of queries have those of several heads, side by side."""
    arrays = floats(130, 4, 8), floats(130, 2, 8), floats(130, 2, 8), floats(130, 4, 8)
    check(with_gradients(shared), *arrays)


@pytest.mark.usefixtures("matrix_units")
def test_matrix_units() -> None:
    function = with_gradients(masked(MASKS["window"], -1e30))
    arrays = operands(130, 150, 16, "bfloat16")
    programs = Programs(function, arrays)
    programs.check(*arrays, close=0.2)
    arrays[3][3, 1, 5] = np.inf
    assert np.isnan(programs.check(*arrays, close=np.inf)[3][140, 1, 5])


@pytest.mark.usefixtures("matrix_units")
def test_shared_keys_by_matrix_units() -> None:
    arrays = (floats(*sizes, dtype="bfloat16") for sizes in ((140, 4, 16), (140, 2, 16), (140, 2, 16), (140, 4, 16)))
    check(with_gradients(shared), *arrays, close=0.1)


def test_masks_that_are_constants() -> None:
    """Arrays of a model; `fold` makes such of small ones."""
    seen = np.tril(np.ones((130, 150), bool), 5)

    def function(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.where(seen, jnp.einsum("qhd,khd->hqk", q, k), -jnp.inf)
        return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores), v)

    check(with_gradients(function), *operands(130, 150))
