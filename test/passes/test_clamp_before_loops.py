"""Gathers in loops by places that do not change: those outside of the table are clamped all the same."""

from __future__ import annotations

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int8])
@pytest.mark.parametrize("edges", [40, 41])
def test_places_outside_of_the_table(edges: int, dtype: type) -> None:
    nodes = 50
    low, high = (-100, 120) if np.iinfo(dtype).min < 0 else (0, 120)
    source, target = (RNG.integers(low, high, edges).astype(dtype) for _ in range(2))

    def function(rank: jax.Array, source: jax.Array, target: jax.Array) -> jax.Array:
        def step(_: int, rank: jax.Array) -> jax.Array:
            read = lax.gather(
                rank,
                source[:, None],
                lax.GatherDimensionNumbers((), (0,), (0,)),
                (1,),
                mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
            )
            dropped = lax.ScatterDimensionNumbers((), (0,), (0,))
            return lax.scatter_add(jnp.ones_like(rank), target[:, None], 0.5 * read, dropped, mode="drop")

        return lax.fori_loop(0, 40, step, rank)

    rank = RNG.random(nodes, np.float32)
    exported = jax.export.export(jax.jit(function))(rank, source, target)
    executable = shlo.compile(exported, options=shlo.Options(cache_dir=None))
    assert "hlo.in_bounds" in executable.stages["fused"]
    expected = rank
    for _ in range(40):
        after = np.ones(nodes, np.float32)
        read = expected[np.clip(source.astype(np.int64), 0, nodes - 1)] * np.float32(0.5)
        for at, value in zip(target.astype(np.int64), read, strict=True):
            if 0 <= at < nodes:
                after[at] += value
        expected = after
    np.testing.assert_array_equal(executable(rank, source, target)[0], expected)
