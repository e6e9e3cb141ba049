"""Attention with a mask that says by indices which keys a query sees."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Seen = Callable[[jax.Array, jax.Array], jax.Array]
Function = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def masked(seen: Seen, value: float = -np.inf, scale: float = 0.25) -> Function:
    """A function of queries, keys and values: [places, heads, depth] each. `value` is the score of what is not seen."""

    def function(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("qhd,khd->hqk", q, k) * scale
        i, j = (lax.broadcasted_iota(jnp.int32, scores.shape[1:], d) for d in range(2))
        return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(jnp.where(seen(i, j), scores, value)), v)

    return function


#: The first query sees nothing.
causal = masked(lambda i, j: i > j, -1e30)
