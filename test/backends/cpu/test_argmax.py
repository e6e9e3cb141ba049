"""Places of the best element of a vector."""

from __future__ import annotations

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

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


def best(x: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
    """The largest element and its first place. Both are read, so it stays one reduction."""

    def choose(left: tuple[jax.Array, jax.Array], right: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        (a, i), (b, j) = left, right
        first = (a > b) | ((a == b) & (i < j))
        return jnp.where(first, a, b), jnp.where(first, i, j)

    places = lax.broadcasted_iota(jnp.int32, x.shape, axis)
    return lax.reduce((x, places), (jnp.float32(-np.inf), jnp.int32(1 << 30)), choose, (axis,))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "sizes", [*((40, width) for width in (1, 3, 16, 33, 64, 100, 130)), (0, 5), (5, 0), (0, 0), (1, 70)], ids=str
)
def test_operands_are_computed_where_they_are_compared(sizes: tuple[int, int], axis: int) -> None:
    """Sums, of which some are equal; several vectors of columns at a time; nothing."""
    rows, moves = (RNG.integers(-4, 5, each).astype(np.float32) for each in (sizes[:1], sizes))
    exported = jax.export.export(jax.jit(lambda rows, moves: best(rows[:, None] + moves, axis)))(rows, moves)
    executable = shlo.compile(exported, options=shlo.Options(cache_dir=None))
    assert executable.stages["fused"].count(" call @fusion") == 1
    ways = rows[:, None] + moves
    values, places = executable(rows, moves)
    np.testing.assert_array_equal(values, ways.max(axis, initial=-np.inf))
    np.testing.assert_array_equal(places, ways.argmax(axis) if sizes[axis] else np.full(sizes[1 - axis], 1 << 30))


@pytest.mark.parametrize("sizes", [(12, 5, 24), (40000,), (17, 300), (300, 17), (3, 128)], ids=str)
def test_places_of_booleans(sizes: tuple[int, ...]) -> None:
    """They are reductions of conditions, not of pairs; none of the elements, some, or all are true."""
    for axis in range(len(sizes)):
        exported = jax.export.export(jax.jit(lambda x, axis=axis: (jnp.argmax(x, axis), jnp.argmin(x, axis))))(
            jax.ShapeDtypeStruct(sizes, np.bool_)
        )
        executable = shlo.compile(exported, options=shlo.Options(cache_dir=None))
        assert "reduce_general" not in executable.stages["fused"]
        for share in (0.0, 0.03, 0.5, 1.0):
            x = RNG.random(sizes) < share
            most, least = executable(x)
            np.testing.assert_array_equal(most, x.argmax(axis))
            np.testing.assert_array_equal(least, x.argmin(axis))


def test_argmax_names_the_first_nan() -> None:
    x = RNG.standard_normal((4, 300)).astype(np.float32)
    x[0, [250, 37, 40]] = x[1, 299] = x[2, 0] = np.nan
    exported = jax.export.export(jax.jit(lambda x: jnp.argmax(x, axis=1)))(x)
    (ours,) = shlo.compile(exported, options=shlo.Options(cache_dir=None))(x)
    np.testing.assert_array_equal(ours, np.argmax(x, axis=1))
