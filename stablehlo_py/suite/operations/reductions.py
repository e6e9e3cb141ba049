"""Reductions along every pattern of axes, cumulative operations and windows."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax import lax, nn

from stablehlo_py.suite.operations.cases import (
    DRAM,
    L1,
    L2,
    MILLION,
    alike,
    bf16,
    c64,
    case,
    enter,
    f32,
    f64,
    i8,
    i32,
)

SUMS = {
    "sum": alike("sum", f32(1000, 1000)),
    "sum-l1": alike("sum", f32(L1)),
    "sum-dram": alike("sum", f32(DRAM), tolerance=1e-3),
    "sum-rows": alike(lambda m, x: x.sum(1), f32(1000, 1000)),
    "sum-columns": alike(lambda m, x: x.sum(0), f32(1000, 1000)),
    "sum-columns-dram": alike(lambda m, x: x.sum(0), f32(4096, 4096), tolerance=1e-3),
    "sum-short-rows": alike(lambda m, x: x.sum(1), f32(100_000, 10)),
    "sum-columns-tall": alike(lambda m, x: x.sum(0), f32(100_000, 10), tolerance=1e-3),
    "sum-middle": alike(lambda m, x: x.sum(1), f32(100, 100, 100)),
    "sum-outer-and-inner": alike(lambda m, x: x.sum((0, 2)), f32(100, 100, 100)),
    "sum-all-but-channels": alike(lambda m, x: x.sum((0, 1, 2)), f32(8, 56, 56, 64), tolerance=1e-3),
    "sum-all-but-second": alike(lambda m, x: x.sum((0, 2, 3)), f32(8, 64, 56, 56), tolerance=1e-3),
    "sum-bf16-rows": case(
        lambda x: x.sum(1), bf16(1000, 1000), torch=lambda t, x: x.sum(1), tolerance=2e-2
    ),  # NumPy rounds each sum to bf16
    "sum-f64-rows": alike(lambda m, x: x.sum(1), f64(1000, 1000), tolerance=1e-11),
    "sum-complex": alike("sum", c64(MILLION), tolerance=1e-3),
    "sum-int8-rows": case(
        lambda x: x.sum(1, dtype=jnp.int32),
        i8(1000, 1000),
        torch=lambda t, x: x.sum(1, dtype=t.int32),
        numpy=lambda x: x.sum(1, dtype=np.int32),
    ),
    "product-rows": alike(lambda m, x: x.prod(1), f32(1000, 1000)),
    "mean-columns": alike(lambda m, x: x.mean(0), f32(1000, 1000)),
    "variance": alike(lambda m, x: m.var(x, axis=0, correction=0), f32(1000, 1000)),
    "deviation-rows": alike(lambda m, x: m.std(x, axis=1, correction=0), f32(1000, 1000)),
    "norm-rows": alike(lambda m, x: m.sqrt((x * x).sum(1)), f32(1000, 1000)),
    "row-products": alike(lambda m, x, y: (x * y).sum(1), f32(1000, 1000), f32(1000, 1000)),
    "squared-distances": alike(lambda m, a, b: ((a[:, None] - b[None]) ** 2).sum(-1), f32(192, 192), f32(192, 192)),
    "trace": alike("trace", f32(2000, 2000)),
}

EXTREMES = {
    "maximum": case(jnp.max, f32(MILLION), torch="max", numpy=np.max),
    "maximum-dram": case(jnp.max, f32(DRAM), torch="max", numpy=np.max),
    "maximum-rows": case(lambda x: x.max(1), f32(1000, 1000), torch=lambda t, x: x.amax(1), numpy=lambda x: x.max(1)),
    "minimum-integers": case(
        lambda x: x.min(1), i32(99, 1000, 1000), torch=lambda t, x: x.amin(1), numpy=lambda x: x.min(1)
    ),
    "maximum-int8": case(lambda x: x.max(1), i8(1000, 1000), torch=lambda t, x: x.amax(1), numpy=lambda x: x.max(1)),
    "any": alike(lambda m, x: (x > 3).any(1), f32(1000, 1000)),
    "all": alike(lambda m, x: (x < 10).all(), f32(MILLION)),
    "count": case(
        lambda x: (x > 0).sum(), f32(MILLION), torch=lambda t, x: (x > 0).sum(), numpy=lambda x: np.count_nonzero(x > 0)
    ),
    "argmax": alike("argmax", f32(MILLION)),
    "argmin-l1": alike("argmin", f32(L1)),
    "argmin-l2": alike("argmin", f32(L2)),
    "argmax-rows": alike(lambda m, x: m.argmax(x, 1), f32(1000, 1000)),
    "argmax-columns": alike(lambda m, x: m.argmax(x, 0), f32(1000, 1000)),
    "argmin-middle": alike(lambda m, x: m.argmin(x, 1), f32(100, 100, 100)),
    "argmin-short-rows": alike(lambda m, x: m.argmin(x, 1), f32(100_000, 10)),
    "argmax-int8-rows": case(
        lambda x: jnp.argmax(x, 1), i8(1000, 1000), numpy=lambda x: np.argmax(x, 1)
    ),  # PyTorch's choice among equals is its own
    "logsumexp": case(
        lambda x: nn.logsumexp(x, 1),
        f32(1000, 1000),
        torch=lambda t, x: t.logsumexp(x, 1),
        numpy=lambda x: scipy.special.logsumexp(x, 1),
    ),
    "logsumexp-columns": case(
        lambda x: nn.logsumexp(x, 0),
        f32(1000, 1000),
        torch=lambda t, x: t.logsumexp(x, 0),
        numpy=lambda x: scipy.special.logsumexp(x, 0),
    ),
}

CUMULATIVE = {
    "cumsum": alike(lambda m, x: m.cumsum(x, 0), f32(MILLION), tolerance=1e-3),
    "cumsum-rows": alike(lambda m, x: m.cumsum(x, 1), f32(1024, 1024), tolerance=1e-3),
    "cumsum-columns": alike(lambda m, x: m.cumsum(x, 0), f32(1024, 1024), tolerance=1e-3),
    "cumsum-integers": case(
        lambda x: jnp.cumsum(x, 1),
        i32(99, 1024, 1024),
        torch=lambda t, x: t.cumsum(x, 1, dtype=t.int32),
        numpy=lambda x: np.cumsum(x, 1, dtype=np.int32),
    ),
    "cumprod-rows": alike(lambda m, x: m.cumprod(x, 1), f32(1024, 1024)),
    "cummax": case(
        lambda x: lax.cummax(x, 1),
        f32(1024, 1024),
        torch=lambda t, x: t.cummax(x, 1).values,
        numpy=lambda x: np.maximum.accumulate(x, 1),
    ),
    "cumlogsumexp": case(lambda x: lax.cumlogsumexp(x, 1), f32(256, 1024), torch=lambda t, x: t.logcumsumexp(x, 1)),
    "associative-scan": case(
        lambda x: lax.associative_scan(jnp.add, x, axis=1),
        f32(256, 1024),
        torch=lambda t, x: t.cumsum(x, 1),
        numpy=lambda x: np.cumsum(x, 1),
        tolerance=1e-3,
    ),
}


def _pool(window: int, stride: int, padding: str = "VALID") -> Any:
    return lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, window, window, 1), (1, stride, stride, 1), padding)


def _torch_pool(t: Any, x: Any, name: str, *facts: int) -> Any:
    """Of images whose channels are last."""
    return getattr(t.nn.functional, name)(x.permute(0, 3, 1, 2), *facts).permute(0, 2, 3, 1).contiguous()


def _torch_pool_gradient(t: Any, x: Any) -> Any:
    x = x.permute(0, 3, 1, 2)
    y, places = t.nn.functional.max_pool2d(x, 2, return_indices=True)
    ones = t.ones_like(y)
    back = t.ops.aten.max_pool2d_with_indices_backward(ones, x, [2, 2], [2, 2], [0, 0], [1, 1], False, places)
    return back.permute(0, 2, 3, 1).contiguous()


def _mean_pool(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4


WINDOWS = {
    "max-pool-2x2": case(_pool(2, 2), f32(8, 112, 112, 64), torch=lambda t, x: _torch_pool(t, x, "max_pool2d", 2)),
    "max-pool-3x3": case(
        _pool(3, 2, "SAME"),
        f32(1, 112, 112, 64),
        torch=lambda t, x: _torch_pool(
            t, t.nn.functional.pad(x, (0, 0, 0, 1, 0, 1), value=-math.inf), "max_pool2d", 3, 2
        ),
    ),
    "mean-pool-2x2": case(_mean_pool, f32(4, 112, 112, 64), torch=lambda t, x: _torch_pool(t, x, "avg_pool2d", 2)),
    "mean-of-images": alike(lambda m, x: x.mean((1, 2)), f32(8, 56, 56, 64)),
    "sum-pool-channels-first": case(
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 1, 1), "SAME"),
        f32(1, 64, 56, 56),
        torch=lambda t, x: t.nn.functional.avg_pool2d(x, 3, 1, 1, divisor_override=1),
    ),
    "window-of-101": case(
        lambda x: lax.reduce_window(x, 0.0, lax.add, (101,), (1,), "SAME"),
        f32(100_000),
        torch=lambda t, x: t.nn.functional.avg_pool1d(x[None], 101, 1, 50)[0] * 101,
    ),
    "max-pool-gradient": case(
        jax.grad(lambda x: _pool(2, 2)(x).sum()), f32(4, 112, 112, 32), torch=_torch_pool_gradient
    ),
}

enter("reduction", SUMS | EXTREMES | CUMULATIVE | WINDOWS)
