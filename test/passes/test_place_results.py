"""Results of loops that are computed where they are stacked: the same bits, and when."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 64), dtype=np.float32)
W = (RNG.standard_normal((64, 64), dtype=np.float32) * 0.2).astype(np.float32)


def both(x: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The next value is computed from what is stacked, so nothing of it is computed by the update."""
    sine, cosine = jnp.sin(x), jnp.cos(x)
    return x - sine / (cosine + 3), (sine, cosine)


def elementwise(x: jax.Array, w: jax.Array) -> object:
    return lax.scan(lambda c, _: both(c), x, None, 7)


def product(x: jax.Array, w: jax.Array) -> object:
    return lax.scan(lambda c, _: (jnp.tanh(c) * 0.9 + 0.1, jnp.tanh(c) @ w), x, None, 5)


def rows(x: jax.Array, w: jax.Array) -> object:
    def step(c: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        weights = jax.nn.softmax(c)
        return c * 0.9 + weights, weights

    return lax.scan(step, x, None, 5, reverse=True)


def gradient(x: jax.Array, w: jax.Array) -> object:
    return jax.grad(lambda x: lax.scan(lambda c, _: (both(c * w[0])[0], None), x, None, 9)[0].sum())(x)


def nested(x: jax.Array, w: jax.Array) -> object:
    return lax.scan(lambda c, _: elementwise(c, w), x, None, 3)  # type: ignore[arg-type,return-value]


def past_the_end(x: jax.Array, w: jax.Array) -> object:
    """Places are clamped."""

    def step(i: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        value, (sine, _) = both(state[0])
        return value, lax.dynamic_update_slice(state[1], sine[None], (3 * i - 2, 0, 0))

    return lax.fori_loop(0, 6, step, (x, jnp.zeros((5, *x.shape), x.dtype)))


FUNCTIONS = [elementwise, product, rows, gradient, nested, past_the_end]


def compiled(function: Callable[..., object], x: np.ndarray, *disable: str, threads: int = 1) -> shlo.CompiledModel:
    exported = jax.export.export(jax.jit(function))(x, W)
    options = shlo.Options(cache_dir=None, threads=threads, disable=("unroll-loops", *disable))
    return shlo.compile(exported, options=options)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_bits_are_those_of_copies(function: Callable[..., object], threads: int) -> None:
    ours, plain = compiled(function, X, threads=threads), compiled(function, X, "place-results")
    assert "hlo.placed" in ours.stages["scheduled"]
    assert "hlo.placed" not in plain.stages["scheduled"]
    for result, expected in zip(ours(X, W), plain(X, W), strict=True):
        assert np.asarray(result).tobytes() == np.asarray(expected).tobytes()
    for result, right in zip(ours(X, W), jax.tree.leaves(jax.jit(function)(X, W)), strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-4)


def carried_too(x: jax.Array, w: jax.Array) -> object:
    return lax.scan(lambda c, _: (jnp.sin(c) + 1,) * 2, x, None, 7)


def read_too(x: jax.Array, w: jax.Array) -> object:
    def step(carry: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        value, total = carry
        stacked = jnp.cos(value) @ w
        return (jnp.sin(value) + 1, total + stacked @ w), stacked

    return lax.scan(step, (x, jnp.zeros_like(x)), None, 4)


@pytest.mark.parametrize("function", [carried_too, read_too])
def test_what_others_read_too_has_memory_of_its_own(function: Callable[..., object]) -> None:
    ours = compiled(function, X)
    assert "hlo.placed" not in ours.stages["scheduled"]
    for result, right in zip(ours(X, W), jax.tree.leaves(jax.jit(function)(X, W)), strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-4)


def test_places_that_are_not_aligned_are_copied_to() -> None:
    x = X[:, :13].copy()
    ours = compiled(elementwise, x[:3])
    assert "hlo.placed" not in ours.stages["scheduled"]
    np.testing.assert_allclose(ours(x[:3], W)[1], jax.jit(elementwise)(x[:3], W)[1][0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("width", "count"), [(4, 0), (16, 1)])
def test_windows_of_several_rows_may_begin_at_any_of_them(width: int, count: int) -> None:
    """Each of which has to be aligned, not just the window."""

    def rows_of_a_table(x: jax.Array, w: jax.Array) -> object:
        def step(i: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            value, (sine, _) = both(state[0])
            return value, lax.dynamic_update_slice(state[1], sine, (3 * i, 0))

        return lax.fori_loop(0, 9, step, (x, jnp.zeros((100, width), x.dtype)))

    x = X[:32, :width].copy()
    ours = compiled(rows_of_a_table, x)
    assert ours.stages["scheduled"].count("hlo.placed") == count
    for result, right in zip(ours(x, W), jax.tree.leaves(jax.jit(rows_of_a_table)(x, W)), strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-4)
