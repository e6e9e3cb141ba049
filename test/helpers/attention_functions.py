"""Attention as JAX's users write it, for tests of every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def attend(q: jax.Array, k: jax.Array, v: jax.Array, **options: Any) -> jax.Array:
    return jax.nn.dot_product_attention(q, k, v, **options)


def written_out(
    q: jax.Array, k: jax.Array, v: jax.Array, score: Callable[[jax.Array], jax.Array] = lambda x: x
) -> jax.Array:
    """[..., queries, depth] each."""
    scores = score(q @ jnp.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    return jax.nn.softmax(scores, axis=-1) @ v


SCORES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "soft cap": lambda x: 5 * jnp.tanh(x / 5),
    "slope": lambda x: x - 0.1 * jnp.abs(jnp.arange(x.shape[-2])[:, None] - jnp.arange(x.shape[-1])),
    "rounded": lambda x: x.astype(jnp.bfloat16).astype(jnp.float32),
}


def divided_late(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """As those write it who know that rows may be empty."""
    scores = jnp.where(mask, jnp.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1]), -jnp.inf)
    largest = jnp.max(scores, axis=-1, keepdims=True)
    weights = jnp.exp(scores - jnp.where(jnp.isfinite(largest), largest, 0))
    total = weights.sum(-1, keepdims=True)
    result = jnp.einsum("hqk,khd->hqd", weights, v) / jnp.where(total == 0, 1, total)
    return result.transpose(1, 0, 2)
