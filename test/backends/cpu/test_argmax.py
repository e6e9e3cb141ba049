"""Places of the best element of a vector."""

from __future__ import annotations

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import stablehlo_py as shlo

RNG = np.random.default_rng(11)


@pytest.mark.parametrize("size", [1 << 14, 20_001, 65_535])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_argmax_of_a_long_vector_is_read_once(size: int, dtype: type) -> None:
    """Places at the ends of pieces, in the overlap of the last two, several of them, and none that stands out."""
    shown = jax.ShapeDtypeStruct((size,), dtype)
    exported = jax.export.export(jax.jit(lambda x: (jnp.argmax(x), jnp.argmin(-x))))(shown)
    executable = shlo.compile(exported, options=shlo.Options(cache_dir=None))
    assert "dynamic_slice" in executable.stages["optimized"]
    x = RNG.integers(-4, 5, size).astype(dtype)
    places = [(0,), (size - 1,), (127, 128), (255, 256, 257), (size - 130, size - 3), (size // 2, size - 1), ()]
    numbers = [100, np.nan, np.inf] if dtype is np.float32 else [100]
    for place in places:
        for number in numbers:
            y = x.copy()
            y[list(place)] = number
            assert [int(each) for each in executable(y)] == [np.argmax(y)] * 2, (place, number)
    same = np.full(size, -np.inf if dtype is np.float32 else np.iinfo(dtype).min + 1, dtype)
    assert [int(each) for each in executable(same)] == [0, 0]


@pytest.mark.parametrize("width", [3, 16, 33, 64, 100, 130])
def test_columns_are_compared_several_vectors_at_a_time(width: int) -> None:
    """What is compared is computed there: sums, of which some are equal and some are NaN."""

    def function(best: jax.Array, moves: jax.Array) -> tuple[jax.Array, ...]:
        ways = best[:, None] + moves
        return ways.argmax(0), ways.argmin(0), (moves - best[:, None]).argmax(1)

    best, moves = (RNG.integers(-4, 5, sizes).astype(np.float32) for sizes in ((40,), (40, width)))
    moves[5, width // 2] = moves[31, width // 2] = moves[7, 0] = np.nan
    exported = jax.export.export(jax.jit(function))(best, moves)
    executable = shlo.compile(exported, options=shlo.Options(cache_dir=None))
    ways = best[:, None] + moves
    expected = ways.argmax(0), ways.argmin(0), (moves - best[:, None]).argmax(1)
    for actual, wanted in zip(executable(best, moves), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)
