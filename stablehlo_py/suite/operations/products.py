"""Products of matrices and vectors: square, flat, tall, batched, of every type."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from stablehlo_py.suite.operations.cases import (
    MILLION,
    Case,
    alike,
    bf16,
    c64,
    case,
    enter,
    f16,
    f32,
    f64,
    i8,
    positive,
)


def _int8(m: int, k: int, n: int) -> Case:
    return case(
        lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32),
        i8(m, k),
        i8(k, n),
        torch=lambda t, a, b: t._int_mm(a, b),
        numpy=lambda a, b: a.astype(np.int32) @ b.astype(np.int32) if m * n <= 1 << 16 else _by_f64(a, b),
    )


def _by_f64(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Exact: the sums are below 2^53."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int32)


def _product(m: int, k: int, n: int) -> Case:
    return alike("matmul", f32(m, k), f32(k, n), tolerance=1e-3)


def _bf16(m: int, k: int, n: int) -> Case:
    return case(jnp.matmul, bf16(m, k, scale=0.1), bf16(k, n, scale=0.1), torch="matmul", tolerance=3e-2)


SQUARE = {
    "matmul-32": _product(32, 32, 32),
    "matmul-128": _product(128, 128, 128),
    "matmul-256": _product(256, 256, 256),
    "matmul-512": _product(512, 512, 512),
    "matmul-1024": _product(1024, 1024, 1024),
    "matmul-2048": _product(2048, 2048, 2048),
    "matmul-bf16-256": _bf16(256, 256, 256),
    "matmul-bf16-512": _bf16(512, 512, 512),
    "matmul-bf16-1024": _bf16(1024, 1024, 1024),
    "matmul-bf16-2048": _bf16(2048, 2048, 2048),
    "matmul-bfloat16": case(
        lambda a, b: a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16),
        f32(512, 512, scale=0.1),
        f32(512, 512, scale=0.1),
        torch=lambda t, a, b: a.bfloat16() @ b.bfloat16(),
        tolerance=3e-2,
    ),
    "matmul-f16-512": case(jnp.matmul, f16(512, 512), f16(512, 512), torch="matmul", tolerance=1e-1),
    "matmul-int8-256": _int8(256, 256, 256),
    "matmul-int8": _int8(512, 512, 512),
    "matmul-int8-1024": _int8(1024, 1024, 1024),
    "matmul-int8-256-of-1024": _int8(256, 1024, 1024),
    "matmul-f64-512": alike("matmul", f64(512, 512), f64(512, 512), tolerance=1e-11),
    "matmul-complex": alike("matmul", c64(256, 256), c64(256, 256), tolerance=1e-3),
}

FORMS = {
    "matmul-10000-of-6": alike("matmul", f32(10_000, 6, 6), f32(10_000, 6, 6)),
    "matmul-256-of-64": alike("matmul", f32(256, 64, 64), f32(256, 64, 64)),
    "matmul-32-of-128": alike("matmul", f32(32, 128, 128), f32(32, 128, 128)),
    "matmul-48-of-128-bf16": case(
        jnp.matmul, bf16(48, 128, 64, scale=0.1), bf16(48, 64, 128, scale=0.1), torch="matmul", tolerance=3e-2
    ),
    "matmul-tall": _product(100_000, 16, 16),
    "matmul-tall-64": _product(10_000, 64, 64),
    "matmul-narrow": _product(2048, 2048, 8),
    "matmul-flat-16": _product(16, 2048, 2048),
    "matmul-flat-16-bf16": _bf16(16, 2048, 2048),
    "matmul-deep": _product(64, 16_384, 64),
    "matmul-inner": alike(lambda m, a, b: a.T @ b, f32(100_000, 16), f32(100_000, 16), tolerance=1e-3),
    "matmul-both-transposed": case(
        lambda a, b: a.T @ b.T,
        f32(512, 512),
        f32(512, 512),
        torch=lambda t, a, b: (a.T @ b.T).contiguous(),
        numpy=lambda a, b: np.ascontiguousarray(a.T @ b.T),
        tolerance=1e-3,
    ),
    "gram": alike(lambda m, a: a @ a.T, f32(512, 512), tolerance=1e-3),
    "vocabulary": alike(lambda m, x, w: x @ w.T, f32(16, 768), f32(50_257, 768), tolerance=1e-3),
    "matrix-vector": alike("matmul", f32(2000, 2000), f32(2000), tolerance=1e-3),
    "matrix-vector-l2": alike("matmul", f32(500, 500), f32(500), tolerance=1e-3),
    "matrix-vector-bf16": case(
        jnp.matmul, bf16(2048, 2048, scale=0.1), bf16(2048, scale=0.1), torch="matmul", tolerance=3e-2
    ),
    "vector-matrix": alike("matmul", f32(2000), f32(2000, 2000), tolerance=1e-3),
    "matrix-vector-f64": alike("matmul", f64(1000, 1000), f64(1000), tolerance=1e-11),
    "inner-product": alike("dot", positive(MILLION), positive(MILLION)),  # of one sign: no sum cancels
    "inner-product-l1": alike("dot", positive(4096), positive(4096)),
    "outer-product": alike("outer", f32(1000), f32(1000)),
    "outer-product-dram": alike("outer", f32(4096), f32(4096)),
    "outer-product-l1": alike("outer", f32(64), f32(64)),
    "attention-scores": alike(
        lambda m, q, k: m.einsum("bhqd,bhkd->bhqk", q, k), f32(4, 12, 128, 64), f32(4, 12, 128, 64), tolerance=1e-3
    ),
    "attention-values": case(
        lambda p, v: jnp.einsum("bhqk,bkhd->bqhd", p, v),
        f32(4, 12, 128, 128),
        f32(4, 128, 12, 64),
        torch=lambda t, p, v: t.einsum("bhqk,bkhd->bqhd", p, v).contiguous(),
        tolerance=1e-3,
    ),
    "contraction-of-3": alike(lambda m, a, b: m.tensordot(a, b, 1), f32(64, 64, 128), f32(128, 64), tolerance=1e-3),
    "chain-of-3": alike(lambda m, a, b, c: a @ b @ c, f32(256, 256), f32(256, 256), f32(256, 256), tolerance=1e-2),
}


def _dense(m: Any, x: Any, w: Any, b: Any) -> Any:
    return m.clip(x @ w + b, 0, None)


def _layer(batch: int, inputs: int, outputs: int) -> Case:
    return alike(_dense, f32(batch, inputs), f32(inputs, outputs), f32(outputs), tolerance=1e-3)


def _perceptron(x: Any, a: Any, b: Any) -> Any:
    return nn.relu(x @ a) @ b


LAYERS = {
    "dense-1x784x1024": _layer(1, 784, 1024),
    "dense-1x64x64": _layer(1, 64, 64),
    "dense-4x512x512": _layer(4, 512, 512),
    "dense-64x784x1024": _layer(64, 784, 1024),
    "perceptron-128x768": case(
        _perceptron,
        f32(128, 768),
        f32(768, 3072, scale=0.04),
        f32(3072, 768, scale=0.04),
        torch=lambda t, x, a, b: t.relu(x @ a) @ b,
        numpy=lambda x, a, b: np.maximum(x @ a, 0) @ b,
        tolerance=1e-3,
    ),
    "perceptron-128x768-bf16": case(
        _perceptron,
        bf16(128, 768),
        bf16(768, 3072, scale=0.04),
        bf16(3072, 768, scale=0.04),
        torch=lambda t, x, a, b: t.relu(x @ a) @ b,
        tolerance=5e-2,
    ),
    "dense-int8": case(
        lambda x, w, s: lax.dot(x, w, preferred_element_type=jnp.int32).astype(jnp.float32) * s,
        i8(64, 1024),
        i8(1024, 1024),
        positive(1024),
        torch=lambda t, x, w, s: t._int_mm(x, w).float() * s,
        numpy=lambda x, w, s: _by_f64(x, w).astype(np.float32) * s,
    ),
    "dense-int8-weights": case(
        lambda x, w, s: x @ (w.astype(jnp.float32) * s),
        f32(4, 1024, scale=0.1),
        i8(1024, 1024),
        positive(1024),
        torch=lambda t, x, w, s: x @ (w.float() * s),
        numpy=lambda x, w, s: x @ (w.astype(np.float32) * s),
        tolerance=1e-3,
    ),
}

enter("product", SQUARE | FORMS | LAYERS)
