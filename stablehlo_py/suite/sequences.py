"""Networks over sequences in today's forms: Llama's layers, Mamba's selective scan, speech."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from stablehlo_py.suite.registry import Model, Rng, Size, normal, register


def _matrix(rng: Rng, inputs: int, outputs: int, dtype: Any = np.float32) -> np.ndarray:
    return (normal(rng, inputs, outputs) / np.float32(np.sqrt(inputs))).astype(dtype)


def _root_mean_square(x: jax.Array, scale: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def _rotated(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Rotary embeddings (Su et al. 2021) of (positions, heads, width)."""
    half = x.shape[-1] // 2
    angles = positions[:, None].astype(jnp.float32) * (1e4 ** (-jnp.arange(half) / half))
    cos, sin = (function(angles)[:, None].astype(x.dtype) for function in (jnp.cos, jnp.sin))
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


_LLAMA = {"full": (4, 1024, 16, 4, 2816, 8192), "small": (2, 32, 4, 2, 48, 50)}
_BFLOAT16 = "bfloat16 keeps 8 bits; intermediate results are rounded at other places"


def _llama(size: Size, rng: Rng) -> tuple[Any, Any]:
    """The function of (parameters, tokens, positions, cache, mask) and its parameters: grouped queries, SwiGLU."""
    layers, width, heads, groups, hidden, vocabulary = _LLAMA[size]
    head, dtype = width // heads, ml_dtypes.bfloat16

    def attended(w: Any, x: jax.Array, positions: jax.Array, cache: Any, mask: jax.Array) -> tuple[jax.Array, Any]:
        q = _rotated((x @ w["q"]).reshape(-1, heads, head), positions)
        k, v = jnp.split((x @ w["kv"]).reshape(-1, 2 * groups, head), 2, axis=1)
        k = _rotated(k, positions)
        if cache is not None:
            k, v = (
                lax.dynamic_update_slice(old, new, (positions[0], 0, 0)) for old, new in zip(cache, (k, v), strict=True)
            )
        q = q.reshape(-1, groups, heads // groups, head)
        scores = jnp.einsum("qgnd,kgd->gnqk", q, k).astype(jnp.float32) * head**-0.5
        shares = jax.nn.softmax(jnp.where(mask, scores, -1e30)).astype(x.dtype)
        return jnp.einsum("gnqk,kgd->qgnd", shares, v).reshape(-1, width) @ w["out"], (k, v)

    def function(p: Any, tokens: jax.Array, positions: jax.Array, caches: Any, mask: jax.Array) -> Any:
        x, kept = p["embedding"][tokens], []
        for w, cache in zip(p["layers"], caches or [None] * layers, strict=True):
            y, cache = attended(w, _root_mean_square(x, w["before"]), positions, cache, mask)
            kept.append(cache)
            x = x + y
            y = _root_mean_square(x, w["between"])
            x = x + (jax.nn.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"]
        return (_root_mean_square(x, p["scale"]) @ p["embedding"].T).astype(jnp.float32), kept

    def scale() -> np.ndarray:
        return (1 + 0.1 * normal(rng, width)).astype(dtype)

    parameters = {
        "embedding": (normal(rng, vocabulary, width) / np.float32(np.sqrt(width))).astype(dtype),
        "scale": scale(),
        "layers": [
            {
                "before": scale(),
                "between": scale(),
                "q": _matrix(rng, width, width, dtype),
                "kv": _matrix(rng, width, 2 * groups * head, dtype),
                "out": _matrix(rng, width, width, dtype),
                "gate": _matrix(rng, width, hidden, dtype),
                "up": _matrix(rng, width, hidden, dtype),
                "down": _matrix(rng, hidden, width, dtype),
            }
            for _ in range(layers)
        ],
    }
    return function, parameters


@register("llama-prefill")
def llama_prefill(size: Size, rng: Rng) -> Model:
    """Full: Llama's layers in bfloat16, 4 of 1024, 16 heads on 4 keys and values, SwiGLU of 2816, 128 tokens."""
    function, parameters = _llama(size, rng)
    count = 128 if size == "full" else 9

    def logits(p: Any, tokens: jax.Array) -> jax.Array:
        positions = jnp.arange(count)
        return function(p, tokens, positions, None, positions[:, None] >= positions)[0]

    tokens = rng.integers(0, _LLAMA[size][-1], count, np.int32)
    return Model(logits, parameters, (tokens,), tolerance=6e-2, notes=_BFLOAT16)


@register("llama-decode")
def llama_decode(size: Size, rng: Rng) -> Model:
    """Full: the same, one token behind 300 others, with a cache of 512 places: logits and the new cache."""
    function, parameters = _llama(size, rng)
    layers, width, heads, groups, *_ = _LLAMA[size]
    places, past = (512, 300) if size == "full" else (16, 5)

    def step(p: Any, caches: Any, token: jax.Array, position: jax.Array) -> Any:
        return function(p, token, position, caches, jnp.arange(places) <= position[0])

    def cache() -> np.ndarray:
        return normal(rng, places, groups, width // heads).astype(ml_dtypes.bfloat16)

    caches = [(cache(), cache()) for _ in range(layers)]
    token = rng.integers(0, _LLAMA[size][-1], 1, np.int32)
    inputs = (caches, token, np.array([past], np.int32))
    return Model(step, parameters, inputs, tolerance=6e-2, notes=_BFLOAT16)


@register("mamba")
def mamba(size: Size, rng: Rng) -> Model:
    """Full: Mamba (Gu and Dao 2023), 4 layers of 256, inner width 512, state 16, 256 tokens, the scan step by step."""
    layers, width, inner, state, count = (4, 256, 512, 16, 256) if size == "full" else (2, 8, 12, 4, 9)
    rank, window = max(1, width // 16), 4

    def mixed(w: Any, x: jax.Array) -> jax.Array:
        x, gate = jnp.split(x @ w["in"], 2, axis=-1)
        padded = jnp.pad(x, ((window - 1, 0), (0, 0)))
        x = jax.nn.silu(sum(padded[i : i + count] * w["window"][i] for i in range(window)) + w["bias"])
        rate, into, out_of = jnp.split(x @ w["select"], [rank, rank + state], axis=-1)
        rate = jax.nn.softplus(rate @ w["rate"] + w["rate_bias"])
        decay = -jnp.exp(w["decay"])

        def step(h: jax.Array, now: Any) -> tuple[jax.Array, jax.Array]:
            x, rate, into, out_of = now
            h = h * jnp.exp(rate[:, None] * decay) + (rate * x)[:, None] * into
            return h, h @ out_of

        _, y = lax.scan(step, jnp.zeros((inner, state)), (x, rate, into, out_of))
        return ((y + x * w["skip"]) * jax.nn.silu(gate)) @ w["out"]

    def function(p: Any, x: jax.Array) -> jax.Array:
        for w in p:
            x = x + mixed(w, _root_mean_square(x, w["scale"]))
        return x

    parameters = [
        {
            "scale": 1 + 0.1 * normal(rng, width),
            "in": _matrix(rng, width, 2 * inner),
            "window": 0.5 * normal(rng, window, inner),
            "bias": 0.1 * normal(rng, inner),
            "select": _matrix(rng, inner, rank + 2 * state),
            "rate": _matrix(rng, rank, inner),
            "rate_bias": normal(rng, inner) - 3,
            "decay": np.log(np.tile(np.arange(1, state + 1, dtype=np.float32), (inner, 1))),
            "skip": 1 + 0.1 * normal(rng, inner),
            "out": _matrix(rng, inner, width),
        }
        for _ in range(layers)
    ]
    notes = "errors add up over the steps"
    return Model(function, parameters, (normal(rng, count, width),), tolerance=1e-4, notes=notes)


@register("speech")
def speech(size: Size, rng: Rng) -> Model:
    """Full: 2 s of 16 kHz, logarithmic mel spectrum of 80 bands, two convolutions, 4 encoder layers of 256."""
    full = size == "full"
    seconds, bands, layers, width, heads = (2.0, 80, 4, 256, 4) if full else (0.05, 8, 1, 16, 2)
    window, hop = (400, 160) if full else (64, 32)
    frames = 1 + (int(16_000 * seconds) - window) // hop

    def spectrum(p: Any, audio: jax.Array) -> jax.Array:
        places = jnp.arange(frames)[:, None] * hop + jnp.arange(window)
        bins = jnp.fft.rfft(audio[places] * jnp.hanning(window))
        return jnp.log10(jnp.maximum(jnp.square(jnp.abs(bins)) @ p["bands"], 1e-10))

    def convolved(w: jax.Array, x: jax.Array, stride: int) -> jax.Array:
        return lax.conv_general_dilated(x[None], w, (stride,), "SAME", dimension_numbers=("NHC", "HIO", "NHC"))[0]

    def layer(w: Any, x: jax.Array) -> jax.Array:
        y = _root_mean_square(x, w["before"])
        q, k, v = jnp.split((y @ w["qkv"]).reshape(len(x), 3 * heads, width // heads), 3, axis=1)
        shares = jax.nn.softmax(jnp.einsum("qhd,khd->hqk", q, k) * (width // heads) ** -0.5)
        x = x + jnp.einsum("hqk,khd->qhd", shares, v).reshape(len(x), width) @ w["out"]
        return x + jax.nn.gelu(_root_mean_square(x, w["between"]) @ w["up"], approximate=False) @ w["down"]

    def function(p: Any, audio: jax.Array) -> jax.Array:
        x = jax.nn.gelu(convolved(p["first"], spectrum(p, audio), 1), approximate=False)
        x = jax.nn.gelu(convolved(p["second"], x, 2), approximate=False)
        for w in p["layers"]:
            x = layer(w, x)
        return x

    def kernel(inputs: int) -> np.ndarray:
        return normal(rng, 3, inputs, width) / np.float32(np.sqrt(3 * inputs))

    parameters = {
        "bands": np.maximum(normal(rng, window // 2 + 1, bands), 0),
        "first": kernel(bands),
        "second": kernel(width),
        "layers": [
            {
                "before": 1 + 0.1 * normal(rng, width),
                "between": 1 + 0.1 * normal(rng, width),
                "qkv": _matrix(rng, width, 3 * width),
                "out": _matrix(rng, width, width),
                "up": _matrix(rng, width, 4 * width),
                "down": _matrix(rng, 4 * width, width),
            }
            for _ in range(layers)
        ],
    }
    audio = 0.1 * normal(rng, int(16_000 * seconds))
    return Model(function, parameters, (audio,), tolerance=1e-4, notes="logarithms of small sums")
