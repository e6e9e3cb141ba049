"""Multi-layer perceptrons: flax, flax in bfloat16, equinox."""

from __future__ import annotations

from typing import Any

import equinox
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from stablehlo_py.suite.registry import Model, Rng, Size, flax_model, normal, register


class Mlp(nn.Module):
    """Dense layers with ReLU between them."""

    widths: tuple[int, ...]
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in self.widths[:-1]:
            x = nn.relu(nn.Dense(width, dtype=self.dtype)(x))
        return nn.Dense(self.widths[-1], dtype=self.dtype)(x)


def shape_of(size: Size) -> tuple[int, int, tuple[int, ...]]:
    """Batch, features, and the widths of the layers."""
    return (64, 784, (1024, 1024, 10)) if size == "full" else (8, 28, (32, 16, 10))


@register("mlp")
def mlp(size: Size, rng: Rng) -> Model:
    """Full: batch 64, 784-1024-1024-10."""
    batch, features, widths = shape_of(size)
    return flax_model(Mlp(widths), rng, normal(rng, batch, features))


@register("mlp-bfloat16")
def mlp_bfloat16(size: Size, rng: Rng) -> Model:
    """The same network computing in bfloat16 from float32 weights."""
    batch, features, widths = shape_of(size)
    notes = "bfloat16 keeps 8 bits; intermediate results are rounded at other places"
    return flax_model(Mlp(widths, jnp.bfloat16), rng, normal(rng, batch, features), tolerance=3e-2, notes=notes)


@register("equinox-mlp")
def equinox_mlp(size: Size, rng: Rng) -> Model:
    """Full: batch 64, 256 in, 4 layers of 512 with tanh, 32 out; vmap over a single-example function."""
    batch, features, width, depth, out = (64, 256, 512, 4, 32) if size == "full" else (4, 12, 24, 2, 5)
    network = equinox.nn.MLP(features, out, width, depth, activation=jnp.tanh, key=jax.random.key(0))
    arrays, static = equinox.partition(network, equinox.is_array)
    arrays = jax.tree.map(lambda a: normal(rng, *a.shape) * np.float32(a.shape[-1] ** -0.5), arrays)

    def function(parameters: Any, x: jax.Array) -> jax.Array:
        return jax.vmap(equinox.combine(parameters, static))(x)

    return Model(function, arrays, (normal(rng, batch, features),))
