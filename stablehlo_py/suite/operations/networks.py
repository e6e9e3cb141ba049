"""Parts of networks: softmax, normalizations, attention, updates."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax import lax, nn

from stablehlo_py.suite.operations.cases import MILLION, Case, Maker, alike, bf16, case, enter, f32, i32, positive


def _softmax(axis: int, x: Maker, tolerance: float = 1e-4) -> Case:
    return case(
        lambda x: nn.softmax(x, axis),
        x,
        torch=lambda t, x: t.softmax(x, axis),
        numpy=(lambda x: scipy.special.softmax(x, axis)) if tolerance == 1e-4 else None,  # its sums are of x's type
        tolerance=tolerance,
    )


def _layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    centered = wide - wide.mean(-1, keepdims=True)
    y = centered * lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    return (y * scale + bias).astype(x.dtype)


def _normalized(rows: int, width: int, x: Any = f32, tolerance: float = 1e-4) -> Case:
    return case(
        _layer_norm,
        x(rows, width),
        x(width),
        x(width),
        torch=lambda t, x, s, b: t.nn.functional.layer_norm(x, (width,), s, b),
        tolerance=tolerance,
    )


def _moments_norm(m: Any, x: Any, axes: tuple[int, ...]) -> Any:
    mean = m.mean(x, axis=axes, keepdims=True)
    return (x - mean) / m.sqrt(m.mean((x - mean) ** 2, axis=axes, keepdims=True) + 1e-5)


NORMS = {
    "softmax-rows": _softmax(1, f32(1000, 1000)),
    "softmax-l1": _softmax(1, f32(8, 512)),
    "softmax-first-axis": _softmax(0, f32(1000, 1000)),
    "softmax-middle": _softmax(1, f32(100, 100, 100)),
    "softmax-short-rows": _softmax(1, f32(100_000, 10)),
    "softmax-vocabulary": _softmax(1, f32(16, 50_257)),
    "softmax-bf16": _softmax(1, bf16(1000, 1000), 1e-2),
    "log-softmax": case(
        lambda x: nn.log_softmax(x, 1),
        f32(1000, 1000),
        torch=lambda t, x: t.log_softmax(x, 1),
        numpy=lambda x: scipy.special.log_softmax(x, 1),
    ),
    "cross-entropy": case(
        lambda x, y: -jnp.take_along_axis(nn.log_softmax(x, 1), y[:, None], 1).mean(),
        f32(512, 10_000),
        i32(10_000, 512),
        torch=lambda t, x, y: t.nn.functional.cross_entropy(x, y.long()),
    ),
    "layer-norm": _normalized(4096, 768),
    "layer-norm-64": _normalized(16_384, 64),
    "layer-norm-one-row": _normalized(1, 4096),
    "layer-norm-bf16": _normalized(4096, 768, bf16, 5e-2),
    "rms-norm": case(
        lambda x, w: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w,
        f32(1024, 2048),
        f32(2048),
        torch=lambda t, x, w: t.nn.functional.rms_norm(x, (2048,), w, 1e-6),
        numpy=lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6)) * w,
    ),
    "batch-norm": alike(
        lambda m, x, a, b, s, v: (x - a) / m.sqrt(v + 1e-5) * s + b,
        f32(4, 56, 56, 64),
        f32(64),
        f32(64),
        f32(64),
        positive(64),
    ),
    "batch-norm-training": alike(lambda m, x: _moments_norm(m, x, (0, 1, 2)), f32(8, 56, 56, 64)),
    "instance-norm": alike(lambda m, x: _moments_norm(m, x, (1, 2)), f32(8, 56, 56, 64)),
    "group-norm": case(
        lambda x: _moments_norm(jnp, x.reshape(4, 32, 2, 56, 56), (2, 3, 4)).reshape(x.shape),
        f32(4, 64, 56, 56),
        torch=lambda t, x: t.nn.functional.group_norm(x, 32),
    ),
}


def _attention(
    q: jax.Array, k: jax.Array, v: jax.Array, bias: jax.Array | None = None, causal: bool = False
) -> jax.Array:
    """Of queries with as many groups of heads as keys and values have heads."""
    heads = q.shape[1] // k.shape[1]
    if heads > 1:
        k, v = jnp.repeat(k, heads, 1), jnp.repeat(v, heads, 1)
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=jnp.float32) / q.shape[-1] ** 0.5
    if bias is not None:
        scores = scores + bias
    if causal:
        rows, columns = (lax.broadcasted_iota(jnp.int32, scores.shape[-2:], number) for number in (0, 1))
        scores = jnp.where(rows >= columns, scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", nn.softmax(scores, -1).astype(v.dtype), v)


def _heads(
    heads: int, positions: int, *, causal: bool = False, queries: int = 0, groups: int = 1, of: Any = f32,
    tolerance: float = 1e-3,
) -> Case:  # fmt: skip
    """Attention of heads of 64."""
    shared = (1, heads // groups, positions, 64)
    return case(
        lambda q, k, v: _attention(q, k, v, causal=causal),
        of(1, heads, queries or positions, 64),
        of(*shared),
        of(*shared),
        torch=lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=groups > 1
        ),
        tolerance=tolerance,
    )


def _torch_attention_gradient(t: Any, q: Any, k: Any, v: Any) -> Any:
    attention = t.nn.functional.scaled_dot_product_attention
    leaves = [each.detach().requires_grad_() for each in (q, k, v)]
    (attention(*leaves, is_causal=True) ** 2).mean().backward()
    return [leaf.grad.contiguous() for leaf in leaves]


ATTENTION = {
    "attention-512": _heads(8, 512),
    "attention-512-causal": _heads(8, 512, causal=True),
    "attention-512-bf16": _heads(8, 512, of=bf16, tolerance=3e-2),
    "attention-1024-causal": _heads(8, 1024, causal=True),
    "attention-2048-causal": _heads(8, 2048, causal=True),
    "attention-4096-causal": _heads(2, 4096, causal=True),
    "attention-grouped": _heads(8, 512, groups=4, causal=True),
    "attention-decode": _heads(8, 4096, queries=1),
    "attention-decode-grouped": _heads(32, 1024, queries=1, groups=4),
    "attention-bias": case(
        _attention,
        *[f32(1, 8, 512, 64)] * 3,
        f32(1, 8, 512, 512),
        torch=lambda t, q, k, v, b: t.nn.functional.scaled_dot_product_attention(q, k, v, b),
        tolerance=1e-3,
    ),
    "attention-gradient": case(
        jax.grad(lambda q, k, v: (_attention(q, k, v, causal=True) ** 2).mean(), (0, 1, 2)),
        *[f32(1, 8, 512, 64)] * 3,
        torch=_torch_attention_gradient,
        tolerance=1e-3,
    ),
}


def _rotary(m: Any, x: Any, c: Any, s: Any) -> Any:
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return m.concatenate([a * c - b * s, a * s + b * c], -1)


def _adam(m: Any, w: Any, g: Any, first: Any, second: Any) -> Any:
    first = 0.9 * first + 0.1 * g
    second = 0.999 * second + 0.001 * g * g
    return [w - 1e-3 * first / (m.sqrt(second) + 1e-8), first, second]


def _lstm(sigmoid: Any, m: Any, x: Any, h: Any, c: Any, w: Any, u: Any) -> Any:
    gates = x @ w + h @ u
    size = h.shape[1]
    i, f, g, o = (gates[:, number * size : (number + 1) * size] for number in range(4))
    c = sigmoid(f) * c + sigmoid(i) * m.tanh(g)
    return [sigmoid(o) * m.tanh(c), c]


PARTS = {
    "rotary": alike(_rotary, f32(1, 1024, 12, 64), f32(1024, 1, 32), f32(1024, 1, 32)),
    "swiglu": case(
        lambda a, b: nn.silu(a) * b,
        f32(512, 2048),
        f32(512, 2048),
        torch=lambda t, a, b: t.nn.functional.silu(a) * b,
        numpy=lambda a, b: a * scipy.special.expit(a) * b,
    ),
    "embedding": alike(lambda m, w, p, i: w[i] + p, f32(50_000, 256), f32(512, 256), i32(50_000, 512)),
    "adam": alike(_adam, f32(MILLION), f32(MILLION), f32(MILLION), positive(MILLION)),
    "gradient-norm": alike(lambda m, *x: m.sqrt(sum((each**2).sum() for each in x)), *[f32(512, 512)] * 8),
    "lstm-cell": case(
        lambda *a: _lstm(nn.sigmoid, jnp, *a),
        f32(32, 256),
        f32(32, 256),
        f32(32, 256),
        f32(256, 1024, scale=0.1),
        f32(256, 1024, scale=0.1),
        torch=lambda t, *a: [each.contiguous() for each in _lstm(t.sigmoid, t, *a)],
        numpy=lambda *a: _lstm(scipy.special.expit, np, *a),
        tolerance=1e-3,
    ),
    "mixture-gate": case(
        lambda x, w: lax.top_k(nn.softmax(x @ w, -1), 2),
        f32(2048, 256),
        f32(256, 8),
        torch=lambda t, x, w: list(t.topk(t.softmax(x @ w, -1), 2)),
    ),
}

enter("network", NORMS | ATTENTION | PARTS)
