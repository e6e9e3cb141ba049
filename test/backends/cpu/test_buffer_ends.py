"""No kernel reads or writes behind the end of a buffer, or before its begin: there lie pages that may not be touched.

Each program holds a kernel of each kind. Rows are a bit longer than a vector: their tails are masked, overlap, or are
read one by one.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from guarded import call_guarded
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.backends.cpu import compile

RNG = np.random.default_rng(0)
# Elements of a row, by types: one or two more than vectors of 128, 256 or 512 bits have, or many of them.
SIZES = {"f4": (5, 11), "f8": (5, 11), "c8": (5, 11), "c16": (3, 5), "i4": (11,), "i1": (35,), "bfloat16": (19,)}
ROWS = 3


def programs(x: jax.Array, y: jax.Array, square: jax.Array) -> list[jax.Array]:
    """One result of each kind of kernel, for rows x and y of some length n, and matrices of n x n."""
    n, vector = x.shape[1], x[0]
    results = [
        x * y + x,
        jnp.sum(x * y, 1),
        jnp.sum(x, 0),
        jnp.sum(jnp.pad(x, ((0, 0), (1, 2))) * 2, 1),
        jnp.prod(jnp.concatenate([x, x[:, ::-1]], 1), 1),
        jnp.cumsum(x * y, 1),
        jnp.cumsum(x, 0),
        x.T,
        jnp.concatenate([x, x * y], 1),
        jnp.concatenate([x, x[:2]], 0),
        jnp.pad(x, ((1, 0), (1, 2))),
        x[:, ::-1],
        x @ square,
        square @ vector,
        vector @ square,
        x[jnp.array([2, 0, 2, 1])],
        x.at[jnp.array([2, 0])].add(vector),
        lax.dynamic_update_slice(x, x[:2, : max(1, n - 2)] * 3, (1, 0)),
        jnp.einsum("bi,bi->b", x, y),
        lax.reduce_window(x, jnp.zeros((), x.dtype), lax.add, (1, min(3, n)), (1, 1), "SAME"),
        jnp.repeat(x, 3, 1),
    ]
    if jnp.issubdtype(x.dtype, jnp.inexact) and x.dtype != jnp.bfloat16:
        lower = square + 4 * jnp.eye(n, dtype=x.dtype)
        solve = functools.partial(lax.linalg.triangular_solve, lower, left_side=True, lower=True)
        results += [jnp.fft.fft(x), solve(x.T), solve(vector[:, None]), jnp.exp(x), x / jnp.sum(x, 1, keepdims=True)]
    if not jnp.iscomplexobj(x):
        results += [jnp.sort(x, 1), jnp.argmax(x, 1), jax.nn.softmax(x.astype(jnp.float32), 1)]
    return results


@pytest.mark.parametrize("name", SIZES)
def test_nothing_is_touched_around_buffers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the code of light programs: llvmlite's LLVM changes nothing before it makes machine code."""
    monkeypatch.setattr(compile, "LIGHT_CHARACTERS", 1 << 30)
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    for n in SIZES[name]:
        arrays = [RNG.integers(1, 4, size).astype(dtype) for size in ((ROWS, n), (ROWS, n), (n, n))]
        with jax.enable_x64(True):
            exported = jax.export.export(jax.jit(programs), platforms=["cpu"])(*arrays)
        options = shlo.Options(threads=1, cache_dir=None, isolate=False)
        executable = shlo.compile(exported, options=options)
        expected = executable(*arrays)
        for at_end in (True, False):
            for mine, right in zip(call_guarded(executable, arrays, expected, at_end=at_end), expected, strict=True):
                assert mine.tobytes() == right.tobytes()
