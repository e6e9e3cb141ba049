"""Operations along one axis of an array: what has to run equally well, and be equally right, whichever axis it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Along: TypeAlias = Callable[[jax.Array, int], Any]  # of an array and an axis


def window(x: jax.Array, axis: int) -> jax.Array:
    """Sums of five neighbours along the axis."""
    sizes = [5 if number == axis else 1 for number in range(x.ndim)]
    return lax.reduce_window(x, np.zeros((), x.dtype), lax.add, sizes, [1] * x.ndim, "SAME")


def padded(x: jax.Array, axis: int) -> jax.Array:
    """Three zeros before, four behind."""
    return jnp.pad(x, [(3, 4) if number == axis else (0, 0) for number in range(x.ndim)])


def every_third(x: jax.Array, axis: int) -> jax.Array:
    """A slice."""
    return lax.slice_in_dim(x, 1, None, 3, axis)


def taken(x: jax.Array, axis: int) -> jax.Array:
    """A gather in a random order."""
    return jnp.take(x, np.random.default_rng(0).permutation(x.shape[axis]), axis)


def scanned(x: jax.Array, axis: int) -> jax.Array:
    """A recursive filter: `lax.scan`."""
    rows = jnp.moveaxis(x, axis, 0)
    return lax.scan(lambda carry, row: ((carry + row) * np.asarray(0.5, x.dtype),) * 2, rows[0], rows)[1]


def product(x: jax.Array, axis: int) -> jax.Array:
    """With a vector, along the axis."""
    return jnp.tensordot(x, jnp.ravel(x)[: x.shape[axis]], ([axis], [0]))


# All types have these, those with an order the next, floats the last.
ANY: dict[str, Along] = {
    "sum": lambda x, axis: x.sum(axis),
    "product-sum": lambda x, axis: (x * x).sum(axis),
    "any": lambda x, axis: (x == 3).any(axis),
    "cumsum": lambda x, axis: jnp.cumsum(x, axis, dtype=x.dtype),
    "cumprod": lambda x, axis: jnp.cumprod(x, axis, dtype=x.dtype),
    "flip": lambda x, axis: jnp.flip(x, axis),
    "roll": lambda x, axis: jnp.roll(x, 5, axis),
    "difference": lambda x, axis: jnp.diff(x, axis=axis),
    "pad": padded,
    "slice": every_third,
    "repeat": lambda x, axis: jnp.repeat(x, 2, axis),
    "concatenate": lambda x, axis: jnp.concatenate([x, x * x], axis),
    "take": taken,
    "broadcast": lambda x, axis: x + jnp.expand_dims(lax.index_in_dim(x, 0, axis, keepdims=False), axis),
    "matrix-vector": product,
    "window": window,
}
ORDERED: dict[str, Along] = {
    "max": lambda x, axis: x.max(axis),
    "argmax": lambda x, axis: x.argmax(axis),
    "cummax": lambda x, axis: lax.cummax(x, axis),
    "sort": lambda x, axis: jnp.sort(x, axis),
    "scan": scanned,
}
FLOATS: dict[str, Along] = {
    "exp-sum": lambda x, axis: jnp.exp(x).sum(axis),
    "tanh-product": lambda x, axis: (1 + jnp.tanh(x) * 1e-3).prod(axis),
    "mean": lambda x, axis: x.mean(axis),
    "variance": lambda x, axis: x.var(axis),
    "norm": lambda x, axis: jnp.linalg.norm(x, axis=axis),
    "logsumexp": lambda x, axis: jax.nn.logsumexp(x, axis),
    "softmax": lambda x, axis: jax.nn.softmax(x, axis),
    "log-softmax": lambda x, axis: jax.nn.log_softmax(x, axis),
    "standardize": lambda x, axis: jax.nn.standardize(x, axis),
    "cumsum-exp": lambda x, axis: jnp.cumsum(jnp.exp(x), axis),
    "cumlogsumexp": lambda x, axis: lax.cumlogsumexp(x, axis),
    "window-exp": lambda x, axis: window(jnp.exp(x), axis),
    "gradient-of-max": lambda x, axis: jax.grad(lambda x: x.max(axis).sum())(x),
    "gradient-of-softmax": lambda x, axis: jax.grad(lambda x: (jax.nn.softmax(x, axis) ** 2).sum())(x),
    "gradient-of-cumsum": lambda x, axis: jax.grad(lambda x: (jnp.cumsum(x, axis) ** 2).sum())(x),
}


def operations(dtype: np.dtype) -> dict[str, Along]:
    """Those of an element type, by name."""
    if dtype.kind == "c":
        return ANY
    return ANY | ORDERED | (FLOATS if jnp.issubdtype(dtype, jnp.floating) else {})
