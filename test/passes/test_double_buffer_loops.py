"""Loops that alternate between buffers: results for all numbers of trips, and what is copied."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo

OPTIONS = shlo.Options(cache_dir=None)
X = np.random.default_rng(0).standard_normal((3, 400)).astype(np.float32)


def turned(x: jax.Array) -> jax.Array:
    return x[::-1, ::-1] * 0.75 - x * 0.5


def one(x: jax.Array, trips: jax.Array | int) -> jax.Array:
    return lax.fori_loop(0, trips, lambda _, x: turned(x), x)


def two(x: jax.Array, trips: jax.Array | int) -> jax.Array:
    """What the second carry was becomes the first one."""
    return lax.fori_loop(0, trips, lambda i, state: (state[1], turned(state[1]) - state[0] / (i + 3)), (x, x + 1))[1]


def nested(x: jax.Array, trips: jax.Array | int) -> jax.Array:
    return lax.fori_loop(0, trips, lambda _, x: one(x, 9) - turned(x), x)


def compiled(function, *arguments):
    exported = jax.export.export(jax.jit(function))(*arguments)
    return shlo.compile(exported, options=OPTIONS), shlo.compile(
        exported, options=shlo.Options(cache_dir=None, disable=("double-buffer-loops",))
    )


@pytest.mark.parametrize("function", [one, two, nested])
@pytest.mark.parametrize("trips", [9, 10, 13])
def test_results_are_the_same(function, trips: int) -> None:
    ours, plain = compiled(lambda x: function(x, trips), X)
    assert ours.stages["scheduled"].count("func.call") > plain.stages["scheduled"].count("func.call")
    (result,), (expected,) = ours(X), plain(X)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_allclose(result, jax.jit(lambda x: function(x, trips))(X), atol=1e-4)


def test_loops_of_unknown_trips_copy() -> None:
    ours, plain = compiled(one, X, np.int32(5))
    assert ours.stages["scheduled"] == plain.stages["scheduled"]
    for trips in (0, 1, 4, 5):
        (result,), (expected,) = ours(X, np.int32(trips)), plain(X, np.int32(trips))
        np.testing.assert_array_equal(result, expected)
