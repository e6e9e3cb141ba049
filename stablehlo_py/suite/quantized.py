"""Networks in integers of 8 bits: a transformer whose activations are scaled as they come, and a convolutional network
with scales that were fixed before."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stablehlo_py.suite.registry import Model, Rng, Size, normal, register


def _weights(rng: Rng, *shape: int) -> dict[str, np.ndarray]:
    """Integers with a scale for each column, of the variance of a fan-in."""
    fan_in = int(np.prod(shape[:-1]))
    scale = (1 + 0.2 * rng.random(shape[-1], np.float32)) / np.float32(40 * np.sqrt(fan_in))
    integers = np.clip(np.rint(40 * rng.standard_normal(shape)), -127, 127).astype(np.int8)
    return {"integers": integers, "scale": scale, "bias": np.float32(0.1) * normal(rng, shape[-1])}


def _dense(w: Any, x: jax.Array) -> jax.Array:
    """The product of rows, each scaled to its largest element, and weights of 8 bits."""
    scale = jnp.max(jnp.abs(x), axis=-1, keepdims=True) / 127 + 1e-9
    rows = jnp.round(x / scale).astype(jnp.int8)
    sums = lax.dot_general(rows, w["integers"], (((x.ndim - 1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
    return sums.astype(jnp.float32) * scale * w["scale"] + w["bias"]


def _normalized(x: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + 1e-6)


@register("transformer-int8")
def transformer_int8(size: Size, rng: Rng) -> Model:
    """Full: an encoder of 6 layers of 768, 12 heads, batch 1, 128 tokens; products of int8 by int8 to int32."""
    layers, width, heads, tokens = (6, 768, 12, 128) if size == "full" else (2, 16, 2, 7)

    def attended(w: Any, x: jax.Array) -> jax.Array:
        q, k, v = jnp.split(_dense(w["qkv"], x).reshape(tokens, 3 * heads, width // heads), 3, axis=1)
        scores = jnp.einsum("qhd,khd->hqk", q, k) * (width // heads) ** -0.5
        return _dense(w["out"], jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores), v).reshape(tokens, width))

    def function(p: Any, x: jax.Array) -> jax.Array:
        for w in p:
            x = x + attended(w, _normalized(x))
            x = x + _dense(w["down"], jax.nn.gelu(_dense(w["up"], _normalized(x))))
        return x

    parameters = [
        {
            "qkv": _weights(rng, width, 3 * width),
            "out": _weights(rng, width, width),
            "up": _weights(rng, width, 4 * width),
            "down": _weights(rng, 4 * width, width),
        }
        for _ in range(layers)
    ]
    notes = "a rounding error before a number is rounded to 8 bits may change it by one step"
    return Model(function, parameters, (normal(rng, tokens, width),), tolerance=5e-2, notes=notes)


@register("resnet18-int8")
def resnet18_int8(size: Size, rng: Rng) -> Model:
    """Full: the convolutions of ResNet-18 in int8 with sums in int32, one 224x224 image; scales are powers of two."""
    stages, width, pixels, classes = ((2, 2, 2, 2), 64, 224, 1000) if size == "full" else ((1, 1), 8, 16, 10)

    def convolved(w: Any, x: jax.Array, stride: int = 1) -> jax.Array:
        """Sums with a bias, back to 8 bits by a shift that rounds to the nearest."""
        sums = lax.conv_general_dilated(
            x,
            w["integers"],
            (stride, stride),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            preferred_element_type=jnp.int32,
        )
        return (sums + w["bias"] + (1 << w["shift"].shape[0] >> 1)) >> w["shift"].shape[0]

    def narrowed(x: jax.Array, least: int) -> jax.Array:
        return jnp.clip(x, least, 127).astype(jnp.int8)

    def function(p: Any, x: jax.Array) -> jax.Array:
        x = narrowed(convolved(p["stem"], x, 2), 0)
        x = lax.reduce_window(x, jnp.int8(-128), lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for number, block in enumerate(p["blocks"]):
            stride = 2 if "shortcut" in block and number else 1
            y = narrowed(convolved(block["first"], x, stride), 0)
            y = convolved(block["second"], y)
            kept = convolved(block["shortcut"], x, stride) if "shortcut" in block else x.astype(jnp.int32)
            x = narrowed(y + kept, 0)
        mean = x.astype(jnp.float32).mean((1, 2))
        return mean @ p["dense"]

    def kernel(window: int, inputs: int, outputs: int) -> dict[str, np.ndarray]:
        shift = round(np.log2(40 * np.sqrt(window * window * inputs)))
        integers = np.clip(np.rint(40 * rng.standard_normal((window, window, inputs, outputs))), -127, 127)
        bias = rng.integers(-4, 5, outputs, np.int32) << shift
        # The shift is a fact of the program: the length of an array.
        return {"integers": integers.astype(np.int8), "bias": bias, "shift": np.zeros(shift, np.int8)}

    blocks, inputs = [], width
    for stage, many in enumerate(stages):
        for number in range(many):
            outputs = width << stage
            block = {"first": kernel(3, inputs, outputs), "second": kernel(3, outputs, outputs)}
            if number == 0 and stage:
                block["shortcut"] = kernel(1, inputs, outputs)
            blocks.append(block)
            inputs = outputs
    dense = normal(rng, inputs, classes) / np.float32(64 * np.sqrt(inputs))
    parameters = {"stem": kernel(7, 3, width), "blocks": blocks, "dense": dense}
    image = rng.integers(-128, 128, (1, pixels, pixels, 3)).astype(np.int8)
    return Model(function, parameters, (image,))
