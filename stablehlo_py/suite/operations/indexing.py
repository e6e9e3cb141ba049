"""Gathers, scatters, sums by segments, sorts and searches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stablehlo_py.suite.operations.cases import (
    L1,
    MILLION,
    alike,
    ascending,
    bf16,
    case,
    enter,
    f32,
    f64,
    i8,
    i32,
    permutation,
    u8,
)


def _added_at(x: np.ndarray, i: np.ndarray, u: np.ndarray) -> np.ndarray:
    y = x.copy()
    np.add.at(y, i, u)
    return y


def _set_at(x: Any, i: Any) -> Any:
    y = x.clone() if hasattr(x, "clone") else x.copy()
    y[i] = 1.0
    return y


def _segments(t: Any, x: Any, i: Any, reduce: str, start: float) -> Any:
    y = t.full((100, x.shape[1]), start)
    return y.scatter_reduce_(0, i.long()[:, None].expand_as(x), x, reduce, include_self=True)


INDEXING = {
    "gather-rows": alike(lambda m, x, i: x[i], f32(50_000, 64), i32(50_000, 20_000)),
    "gather-rows-bf16": alike(lambda m, x, i: x[i], bf16(50_000, 256), i32(50_000, 2000)),
    "gather-short-rows": alike(lambda m, x, i: x[i], f32(MILLION, 3), i32(MILLION, 100_000)),
    "gather-columns": case(
        lambda x, i: x[:, i],
        f32(1000, 1000),
        i32(1000, 500),
        torch=lambda t, x, i: t.index_select(x, 1, i),
        numpy=lambda x, i: np.take(x, i, 1),
    ),
    "gather-elements": alike(lambda m, x, i: x[i], f32(MILLION), i32(MILLION, MILLION)),
    "gather-from-256": case(
        lambda x, i: x[i.astype(jnp.int32)],
        f32(256),
        u8(MILLION),
        torch=lambda t, x, i: x[i.int()],
        numpy=lambda x, i: x[i],
    ),
    "gather-points": alike(lambda m, x, i, j: x[i, j], f32(1000, 1000), i32(1000, 200_000), i32(1000, 200_000)),
    "take-along-rows": case(
        lambda x, i: jnp.take_along_axis(x, i, 1),
        f32(1000, 1000),
        i32(1000, 1000, 1000),
        torch=lambda t, x, i: t.take_along_dim(x, i.long(), 1),
        numpy=lambda x, i: np.take_along_axis(x, i, 1),
    ),
    "permute-rows": alike(lambda m, x, i: x[i], f32(10_000, 100), permutation(10_000)),
    "scatter-add": case(
        lambda x, i, u: x.at[i].add(u),
        f32(10_000),
        i32(10_000, MILLION),
        f32(MILLION),
        torch=lambda t, x, i, u: t.index_add(x, 0, i, u),
        numpy=_added_at,
        tolerance=1e-3,
    ),
    "scatter-rows": case(
        lambda x, i, u: x.at[i].add(u),
        f32(50_000, 64),
        i32(50_000, 20_000),
        f32(20_000, 64),
        torch=lambda t, x, i, u: t.index_add(x, 0, i, u),
        numpy=_added_at,
    ),
    "scatter-set": case(
        lambda x, i: x.at[i].set(1.0),
        f32(MILLION),
        i32(MILLION, 100_000),
        torch=lambda t, x, i: _set_at(x, i),
        numpy=_set_at,
    ),
    "scatter-maximum": case(
        lambda x, i, u: x.at[i].max(u),
        f32(10_000),
        i32(10_000, 100_000),
        f32(100_000),
        torch=lambda t, x, i, u: t.scatter_reduce(x, 0, i.long(), u, "amax"),
    ),
    "segment-sum": case(
        lambda x, i: jax.ops.segment_sum(x, i, 100),
        f32(100_000, 16),
        i32(100, 100_000),
        torch=lambda t, x, i: t.zeros(100, 16).index_add_(0, i, x),
        tolerance=1e-3,
    ),
    "segment-maximum": case(
        lambda x, i: jax.ops.segment_max(x, i, 100),
        f32(100_000, 16),
        i32(100, 100_000),
        torch=lambda t, x, i: _segments(t, x, i, "amax", -float("inf")),
    ),
    "interpolate": case(
        lambda x: jnp.interp(x, jnp.linspace(-3, 3, 1000), jnp.linspace(0, 1, 1000)),
        f32(100_000),
        numpy=lambda x: np.interp(x, np.linspace(-3, 3, 1000), np.linspace(0, 1, 1000)),
    ),
    "search-sorted": alike("searchsorted", ascending(100_000), f32(100_000)),
    "search-sorted-64": alike("searchsorted", ascending(64), f32(MILLION)),
    "histogram": case(
        lambda x: jnp.histogram(x, bins=100, range=(-4, 4))[0],
        f32(100_000),
        torch=lambda t, x: t.histc(x, 100, -4, 4),
        numpy=lambda x: np.histogram(x, bins=100, range=(-4, 4))[0],
        tolerance=2e-3,  # a number at the edge of two bins
    ),
    "bincount": case(
        lambda x: jnp.bincount(x, length=1000),
        i32(1000, MILLION),
        torch=lambda t, x: t.bincount(x, minlength=1000),
        numpy=lambda x: np.bincount(x, minlength=1000),
    ),
    "unique": case(
        lambda x: jnp.unique(x, size=1000),
        i32(1000, 100_000),
        torch=lambda t, x: t.unique(x),
        numpy=np.unique,
    ),
    "nonzero": case(lambda x: jnp.nonzero(x > 0, size=60_000), f32(100_000)),
}

SORTING = {
    "sort": case(jnp.sort, f32(MILLION), torch=lambda t, x: t.sort(x).values, numpy=np.sort),
    "sort-l1": case(jnp.sort, f32(L1), torch=lambda t, x: t.sort(x).values, numpy=np.sort),
    "sort-100000": case(jnp.sort, f32(100_000), torch=lambda t, x: t.sort(x).values, numpy=np.sort),
    "sort-descending": case(
        lambda x: jnp.sort(x, descending=True),
        f32(100_000),
        torch=lambda t, x: t.sort(x, descending=True).values,
        numpy=lambda x: np.ascontiguousarray(np.sort(x)[::-1]),
    ),
    "sort-f64": case(jnp.sort, f64(100_000), torch=lambda t, x: t.sort(x).values, numpy=np.sort),
    "sort-bf16": case(jnp.sort, bf16(100_000), torch=lambda t, x: t.sort(x).values),
    "sort-integers": case(jnp.sort, i32(1 << 30, MILLION), torch=lambda t, x: t.sort(x).values, numpy=np.sort),
    "sort-int8": case(jnp.sort, i8(MILLION), torch=lambda t, x: t.sort(x).values, numpy=np.sort),
    "sort-rows": case(
        lambda x: jnp.sort(x, axis=1),
        f32(1000, 1000),
        torch=lambda t, x: t.sort(x, 1).values,
        numpy=lambda x: np.sort(x, 1),
    ),
    "sort-columns": case(
        lambda x: jnp.sort(x, axis=0),
        f32(1000, 1000),
        torch=lambda t, x: t.sort(x, 0).values.contiguous(),
        numpy=lambda x: np.sort(x, 0),
    ),
    "sort-short-rows": case(
        lambda x: jnp.sort(x, axis=1),
        f32(100_000, 8),
        torch=lambda t, x: t.sort(x, 1).values,
        numpy=lambda x: np.sort(x, 1),
    ),
    "argsort": case(
        jnp.argsort,
        f32(MILLION),
        torch=lambda t, x: t.argsort(x, stable=True),
        numpy=lambda x: np.argsort(x, kind="stable"),
    ),
    "argsort-rows": case(
        lambda x: jnp.argsort(x, axis=1),
        f32(1000, 1000),
        torch=lambda t, x: t.argsort(x, dim=1, stable=True),
        numpy=lambda x: np.argsort(x, 1, kind="stable"),
    ),
    "sort-key-value": case(
        lambda k, v: lax.sort((k, v), num_keys=1),
        f32(100_000),
        f32(100_000),
        torch=lambda t, k, v: [(s := t.sort(k, stable=True)).values, v[s.indices]],
        numpy=lambda k, v: [k[i := np.argsort(k, kind="stable")], v[i]],
    ),
    "sort-two-keys": case(
        lambda a, b: lax.sort((a, b), num_keys=2),
        i32(100, 100_000),
        f32(100_000),
        numpy=lambda a, b: [a[i := np.lexsort((b, a))], b[i]],
    ),
    "top-1": case(lambda x: lax.top_k(x, 1), f32(64, 50_000), torch=lambda t, x: list(t.topk(x, 1))),
    "top-8": case(lambda x: lax.top_k(x, 8), f32(64, 50_000), torch=lambda t, x: list(t.topk(x, 8))),
    "top-8-of-128": case(lambda x: lax.top_k(x, 8), f32(4096, 128), torch=lambda t, x: list(t.topk(x, 8))),
    "top-100": case(lambda x: lax.top_k(x, 100), f32(MILLION), torch=lambda t, x: list(t.topk(x, 100))),
    "median": case(
        lambda x: jnp.median(x, 1),
        f32(1000, 100),
        torch=lambda t, x: t.quantile(x, 0.5, 1),
        numpy=lambda x: np.median(x, 1),
    ),
    "quantile": case(
        lambda x: jnp.quantile(x, 0.9),
        f32(100_000),
        torch=lambda t, x: t.quantile(x, 0.9),
        numpy=lambda x: np.quantile(x, np.float32(0.9)),
    ),
}

enter("indexing", INDEXING)
enter("sorting", SORTING)
