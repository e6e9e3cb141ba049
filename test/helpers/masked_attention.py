"""Attention with a mask that says by indices which keys a query sees."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Seen = Callable[[jax.Array, jax.Array], jax.Array]
Function = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]

MASKS: dict[str, Seen] = {
    "causal": lambda i, j: i >= j,
    "some more": lambda i, j: j - i <= 30,
    "some less, rows that see nothing": lambda i, j: i - j > 70,
    "window": lambda i, j: (i >= j) & (i - j < 70),
    "window that is left out": lambda i, j: ~((i < j) | (i - j >= 70)),
    "window to both sides": lambda i, j: (j - i < 20) & (i - j < 90) & ~(i < 0),
    "one key": lambda i, j: i == j,
    "not all is known": lambda i, j: (i >= j) & ((i ^ j) % 3 != 0),
}


def masked(seen: Seen, value: float = -np.inf, scale: float = 0.25) -> Function:
    """A function of queries, keys and values: [places, heads, depth] each. `value` is the score of what is not seen."""

    def function(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("qhd,khd->hqk", q, k) * scale
        i, j = (lax.broadcasted_iota(jnp.int32, scores.shape[1:], d) for d in range(2))
        return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(jnp.where(seen(i, j), scores, value)), v)

    return function


#: The first query sees nothing.
causal = masked(lambda i, j: i > j, -1e30)


def with_gradients(function: Callable[..., jax.Array]) -> Callable[..., tuple[jax.Array, ...]]:
    """The result and the gradients of all arguments but the last one, which is the result's gradient."""

    def both(*given: jax.Array) -> tuple[jax.Array, ...]:
        result, backward = jax.vjp(function, *given[:-1])
        return (result, *backward(given[-1]))

    return both
