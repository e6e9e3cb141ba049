"""Building blocks on their own: softmax, layer norm, attention, a mixture of experts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stablehlo_py.suite.registry import Model, Rng, Size, normal, register


@register("softmax")
def softmax(size: Size, rng: Rng) -> Model:
    """Full: softmax and log-softmax of 4096 rows of 1024."""
    rows, columns = (4096, 1024) if size == "full" else (6, 37)

    def function(_: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.nn.softmax(x), jax.nn.log_softmax(x)

    return Model(function, {}, (4 * normal(rng, rows, columns),))


@register("layer-norm")
def layer_norm(size: Size, rng: Rng) -> Model:
    """Full: 4096 rows of 768, with scale and bias."""
    rows, columns = (4096, 768) if size == "full" else (6, 35)

    def function(p: Any, x: jax.Array) -> jax.Array:
        mean = x.mean(-1, keepdims=True)
        variance = jnp.square(x - mean).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-6) * p["scale"] + p["bias"]

    parameters = {"scale": 1 + 0.1 * normal(rng, columns), "bias": normal(rng, columns)}
    return Model(function, parameters, (3 + 2 * normal(rng, rows, columns),))


@register("attention")
def attention(size: Size, rng: Rng) -> Model:
    """Full: causal multi-head attention, batch 4, 256 positions, 12 heads of 64."""
    batch, positions, heads, width = (4, 256, 12, 64) if size == "full" else (2, 9, 2, 8)

    def function(_: Any, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width)
        causal = jnp.tril(jnp.ones((positions, positions), bool))
        scores = jnp.where(causal, scores, jnp.finfo(jnp.float32).min)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)

    shape = (batch, positions, heads, width)
    inputs = (normal(rng, *shape), normal(rng, *shape), normal(rng, *shape))
    return Model(function, {}, inputs)


@register("mixture-of-experts")
def mixture_of_experts(size: Size, rng: Rng) -> Model:
    """Full: 512 tokens of 256, 8 experts of 512, 2 experts a token: top_k, argsort, gather, scatter-add."""
    tokens, width, experts, hidden, chosen = (512, 256, 8, 512, 2) if size == "full" else (12, 8, 4, 16, 2)
    capacity = 2 * tokens * chosen // experts

    def function(p: Any, x: jax.Array) -> jax.Array:
        gates, expert = jax.lax.top_k(jax.nn.softmax(x @ p["router"]), chosen)
        gates = (gates / gates.sum(-1, keepdims=True)).reshape(-1)
        expert = expert.reshape(-1)
        # Sort the (token, expert) pairs by expert; an expert keeps its first `capacity` pairs.
        order = jnp.argsort(expert, stable=True)
        sorted_expert = expert[order]
        start = jnp.zeros(experts, jnp.int32).at[expert].add(1).cumsum() - jnp.bincount(expert, length=experts)
        place = jnp.arange(tokens * chosen) - start[sorted_expert]
        slot = jnp.where(place < capacity, sorted_expert * capacity + place, experts * capacity)
        token = order // chosen
        batch = jnp.zeros((experts * capacity, width)).at[slot].set(x[token], mode="drop")
        batch = batch.reshape(experts, capacity, width)
        batch = jnp.einsum("ecw,ewh->ech", batch, p["up"])
        batch = jnp.einsum("ech,ehw->ecw", jax.nn.silu(batch), p["down"]).reshape(-1, width)
        outputs = batch.at[slot].get(mode="fill", fill_value=0) * gates[order][:, None]
        return jnp.zeros_like(x).at[token].add(outputs)

    parameters = {
        "router": normal(rng, width, experts) / np.sqrt(width, dtype=np.float32),
        "up": normal(rng, experts, width, hidden) / np.sqrt(width, dtype=np.float32),
        "down": normal(rng, experts, hidden, width) / np.sqrt(hidden, dtype=np.float32),
    }
    return Model(function, parameters, (normal(rng, tokens, width),))
