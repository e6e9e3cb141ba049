"""Whole training steps: loss, gradients, Adam (optax). Parameters are the weights and the optimizer's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from stablehlo_py.suite.perceptrons import Mlp, shape_of
from stablehlo_py.suite.registry import Model, Rng, Size, initialize, normal, register

_NOTES = "Adam divides by a root of small numbers: tiny gradients turn rounding into visible steps"


def _step(loss: Callable[..., jax.Array], rng: np.random.Generator, weights: Any) -> tuple[Callable[..., Any], Any]:
    """The step function over ((weights, state), *batch) -> (new weights, new state, loss), and its first parameters."""
    # epsilon far above its default: with 1e-8, an element whose gradient is all rounding moves by a full step. The
    # rate is high, and the losses are sums, not means, so that a wrong gradient shows in the new weights.
    optimizer = optax.adam(1e-1, eps=1e-4)
    state = jax.tree.map(np.array, optimizer.init(weights))
    # A used state, as in the middle of training: moments that are not zero, second moments positive.
    adam = state[0]._replace(
        count=np.array(10, np.int32),
        mu=jax.tree.map(lambda w: (0.01 * rng.standard_normal(w.shape)).astype(w.dtype), weights),
        nu=jax.tree.map(lambda w: (0.001 + 0.001 * rng.random(w.shape)).astype(w.dtype), weights),
    )

    def function(parameters: Any, *batch: Any) -> Any:
        old, old_state = parameters
        value, gradients = jax.value_and_grad(loss)(old, *batch)
        updates, new_state = optimizer.update(gradients, old_state, old)
        return optax.apply_updates(old, updates), new_state, value

    return function, (weights, (adam, *state[1:]))


def _cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).sum()


@register("train-mlp")
def train_mlp(size: Size, rng: Rng) -> Model:
    """Full: batch 64, 784-1024-1024-10, cross entropy, Adam."""
    batch, features, widths = shape_of(size)
    network = Mlp(widths)
    x = normal(rng, batch, features)
    weights = initialize(rng, jax.eval_shape(network.init, jax.random.key(0), x))

    def loss(w: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        return _cross_entropy(network.apply(w, images), labels)

    function, parameters = _step(loss, rng, weights)
    labels = rng.integers(0, widths[-1], batch, np.int32)
    return Model(function, parameters, (x, labels), tolerance=1e-4, notes=_NOTES)


class ConvNet(nn.Module):
    """Two convolutions with max-pooling, dropout, two dense layers."""

    widths: tuple[int, int]
    hidden: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in self.widths:
            x = nn.relu(nn.Conv(width, (3, 3))(x))
            x = nn.max_pool(x, (2, 2), (2, 2))
        x = nn.relu(nn.Dense(self.hidden)(x.reshape(x.shape[0], -1)))
        x = nn.Dropout(0.25, deterministic=False)(x)
        return nn.Dense(10)(x)


@register("train-convnet")
def train_convnet(size: Size, rng: Rng) -> Model:
    """Full: batch 64 of 28x28x1, convolutions of 32 and 64, dense 128; dropout drawn from a threefry key."""
    batch, pixels, widths, hidden = (64, 28, (32, 64), 128) if size == "full" else (4, 12, (4, 6), 16)
    network = ConvNet(widths, hidden)
    x = normal(rng, batch, pixels, pixels, 1)
    keys = {"params": jax.random.PRNGKey(0), "dropout": jax.random.PRNGKey(1)}
    weights = initialize(rng, jax.eval_shape(network.init, keys, x))

    def loss(w: Any, images: jax.Array, labels: jax.Array, key: jax.Array) -> jax.Array:
        return _cross_entropy(network.apply(w, images, rngs={"dropout": key}), labels)

    function, parameters = _step(loss, rng, weights)
    labels = rng.integers(0, 10, batch, np.int32)
    inputs = (x, labels, np.array([7, 11], np.uint32))
    return Model(function, parameters, inputs, tolerance=1e-4, notes=_NOTES)


class Transformer(nn.Module):
    """A causal pre-norm transformer; the embedding's gradient is a scatter-add."""

    vocabulary: int
    positions: int
    width: int
    heads: int
    layers: int

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocabulary, self.width)(tokens)
        x = x + nn.Embed(self.positions, self.width)(jnp.arange(tokens.shape[-1]))
        mask = nn.make_causal_mask(tokens)
        for _ in range(self.layers):
            x = x + nn.MultiHeadDotProductAttention(self.heads)(nn.LayerNorm()(x), mask=mask)
            y = nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm()(x)))
            x = x + nn.Dense(self.width)(y)
        return nn.Dense(self.vocabulary)(nn.LayerNorm()(x))


@register("train-transformer")
def train_transformer(size: Size, rng: Rng) -> Model:
    """Full: batch 8 of 64 tokens, vocabulary 4096, 4 layers of 256, 4 heads."""
    full = size == "full"
    batch, positions, vocabulary, width, heads, layers = (8, 64, 4096, 256, 4, 4) if full else (2, 6, 20, 16, 2, 2)
    network = Transformer(vocabulary, positions, width, heads, layers)
    tokens = rng.integers(0, vocabulary, (batch, positions), np.int32)
    weights = initialize(rng, jax.eval_shape(network.init, jax.random.key(0), tokens))

    def loss(w: Any, ids: jax.Array, labels: jax.Array) -> jax.Array:
        return _cross_entropy(network.apply(w, ids), labels)

    function, parameters = _step(loss, rng, weights)
    inputs = (tokens, np.roll(tokens, -1, axis=1))
    return Model(function, parameters, inputs, tolerance=1e-4, notes=_NOTES)
