"""Loops along antidiagonals: which nests become one loop, and results with and without the pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo

Function = Callable[[jax.Array, jax.Array], Any]
RANDOM = np.random.default_rng(0)


def compiled(function: Function, rows: int, columns: int) -> tuple[list[np.ndarray], list[np.ndarray], int]:
    """Results with and without the pass, and the loops that are left."""
    x, y = (RANDOM.standard_normal(size).astype(np.float32) for size in (rows, columns))
    exported = jax.export.export(jax.jit(function))(x, y)
    ours = shlo.compile(exported, options=shlo.Options(cache_dir=None))
    plain = shlo.compile(exported, options=shlo.Options(cache_dir=None, disable=("skew-loops",)))
    results = ours(x, y)
    for result, expected in zip(results, jax.tree.leaves(jax.jit(function)(x, y)), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    return list(results), list(plain(x, y)), ours.stages["optimized"].count("scf.while")


def grid(
    step: Callable[..., jax.Array],
    first: Callable[[jax.Array], jax.Array],
    before: Callable[[jax.Array], jax.Array] = lambda above: above[1:],
    reverse: tuple[bool, bool] = (False, False),
    whole: bool = True,
) -> Function:
    """Rows from `step(left, above, diagonal, x, y, cost)`, each after `first` of its number; all of them or the last
    one."""

    def function(x: jax.Array, y: jax.Array) -> Any:
        costs = jnp.abs(x[:, None] - y[None])

        def row(above: jax.Array, now: Any) -> Any:
            number, x, costs = now

            def column(left: jax.Array, now: Any) -> Any:
                value = step(left, now[0], now[1], x, now[2], now[3])
                return value, value

            start = first(number)
            _, values = lax.scan(column, start, (before(above), above[:-1], y, costs), reverse=reverse[1])
            values = jnp.concatenate([values, start[None]] if reverse[1] else [start[None], values])
            return values, values[:-1] if reverse[1] else values[1:]

        start = jnp.arange(y.size + 1, dtype=jnp.float32)
        last, rows = lax.scan(row, start, (jnp.arange(x.size), x, costs), reverse=reverse[0])
        return (last, rows) if whole else last[-1]

    return function


def border(number: jax.Array) -> jax.Array:
    return jnp.float32(5)


def counted(number: jax.Array) -> jax.Array:
    return (number + 1).astype(jnp.float32)


def distance(left: jax.Array, up: jax.Array, diagonal: jax.Array, x: jax.Array, y: jax.Array, cost: jax.Array) -> Any:
    return jnp.minimum(jnp.minimum(left, up) + 1, diagonal + cost)


def smooth(left: jax.Array, up: jax.Array, diagonal: jax.Array, x: jax.Array, y: jax.Array, cost: jax.Array) -> Any:
    return 0.3 * jnp.tanh(left + x * up) + 0.2 * jnp.sin(diagonal * y) + cost


@pytest.mark.parametrize("step", [distance, smooth])
@pytest.mark.parametrize("first", [border, counted])
@pytest.mark.parametrize(("rows", "columns"), [(9, 9), (8, 21), (30, 11)])
def test_grids(step: Callable[..., jax.Array], first: Callable[..., jax.Array], rows: int, columns: int) -> None:
    ours, plain, loops = compiled(grid(step, first), rows, columns)
    assert loops == 1
    for one, other in zip(ours, plain, strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_from_the_last_one_on() -> None:
    function = grid(smooth, border, before=lambda above: above[:-1], reverse=(True, True))
    ours, plain, loops = compiled(lambda x, y: function(x, y)[1], 12, 10)
    assert loops == 1
    np.testing.assert_array_equal(ours[0], plain[0])


@pytest.mark.parametrize("step", [distance, smooth])
def test_gradients(step: Callable[..., jax.Array]) -> None:
    function = grid(step, border, whole=False)
    ours, plain, loops = compiled(jax.grad(lambda x, y: function(x, y) ** 2, (0, 1)), 13, 10)
    assert loops == 2
    for one, other in zip(ours, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        grid(smooth, border, reverse=(True, False)),
        grid(smooth, border, reverse=(False, True)),
        # The row above is needed further on than it is computed.
        grid(smooth, border, before=lambda above: jnp.concatenate([above[2:], above[:1]])),
        # A row needs all of the row above.
        grid(smooth, border, before=lambda above: above[1:] / jnp.max(above)),
        lambda x, y: lax.scan(lambda s, x: (lax.scan(lambda s, y: (s * 0.9 + y, s), s, y)[0] + x, s), x[0], x),
    ],
)
def test_nests_that_stay(function: Function) -> None:
    assert compiled(function, 12, 10)[2] == 2


@pytest.mark.parametrize(("rows", "columns"), [(7, 9), (60, 9), (9, 7)])
def test_few_rows_or_columns_stay(rows: int, columns: int) -> None:
    assert compiled(grid(smooth, border), rows, columns)[2] == (2 if columns > 8 else 1)
