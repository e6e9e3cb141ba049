"""Run tests: JAX functions exported, compiled by us, and compared with XLA's results."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.debug.compare import difference_of

RNG = np.random.default_rng(7)


def normal(*sizes: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.normal(size=sizes).astype(dtype)


def integers(*sizes: int, low: int = 0, high: int = 10, dtype: type = np.int32) -> np.ndarray:
    return RNG.integers(low, high, sizes).astype(dtype)


def positive_definite(n: int) -> np.ndarray:
    a = normal(n, n)
    return a @ a.T + n * np.eye(n, dtype=np.float32)


def scan_rows(xs: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.scan(lambda carry, x: (carry * 0.9 + x, carry.sum()), jnp.zeros(xs.shape[1]), xs)


def lorenz(state: jax.Array) -> jax.Array:
    def step(_: int, s: jax.Array) -> jax.Array:
        x, y, z = s
        return s + 0.01 * jnp.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])

    return lax.fori_loop(0, 100, step, state)


def newton(x: jax.Array) -> jax.Array:
    def unfinished(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        y, count = state
        return (jnp.abs(y * y - x) > 1e-6 * x) & (count < 50)

    return lax.while_loop(unfinished, lambda s: (0.5 * (s[0] + x / s[0]), s[1] + 1), (x, 0))[0]


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("bshd,bthd->bhst", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)


def layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


def batch_norm(x: jax.Array) -> jax.Array:
    return (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5)


def convolution(
    dimension_numbers: tuple[str, str, str] = ("NHWC", "HWIO", "NHWC"), **options: object
) -> Callable[..., jax.Array]:
    return lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=dimension_numbers, **options)


def pooled(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def write_cache(cache: jax.Array, row: jax.Array, at: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice(cache, row, (0, at, 0))


def key_bits(seed: jax.Array) -> jax.Array:
    return jax.random.bits(jax.random.wrap_key_data(seed), (257,), jnp.uint32)


def dropout(x: jax.Array, seed: jax.Array) -> jax.Array:
    keep = jax.random.bernoulli(jax.random.wrap_key_data(seed), 0.8, x.shape)
    return jnp.where(keep, x / 0.8, 0.0)


CASES: dict[str, tuple[Callable[..., object], tuple[np.ndarray, ...]]] = {
    "add": (lambda x, y: x + y, (normal(5, 7), normal(5, 7))),
    "scalar": (lambda x: x * 2 + 1, (np.float32(3.0).reshape(()),)),
    "identity": (lambda x: x, (normal(4),)),
    "constant": (lambda x: (x, jnp.arange(12.0).reshape(3, 4) ** 2), (normal(2),)),
    "zero_size": (lambda x: (x * 2, x.sum()), (normal(0, 3),)),
    "swapped": (lambda x, y: (y, x, y), (normal(3), normal(4))),
    "broadcast": (lambda x, y: x[:, None] * y[None, :], (normal(5), normal(9))),
    "gelu": (jax.nn.gelu, (normal(33, 65),)),
    "elementary": (
        lambda x: (
            jnp.exp(x),
            jnp.log(jnp.abs(x)),
            jnp.tanh(x),
            jnp.sin(x),
            jnp.cos(x),
            jnp.expm1(x),
            jnp.log1p(jnp.abs(x)),
        ),
        (normal(1000),),
    ),
    "elementary_f64": (
        lambda x: (jnp.exp(x), jnp.tanh(x), jnp.sin(x), jnp.sqrt(jnp.abs(x))),
        (normal(100, dtype=np.float64),),
    ),
    "power": (lambda x, y: jnp.abs(x) ** y, (normal(100), normal(100))),
    "erf": (jax.scipy.special.erf, (normal(100),)),
    "integers": (
        lambda x, y: (x + y, x * y, x // y, x % y, x & y, x ^ y, x << 2, x >> 1),
        (integers(50, low=-20, high=20), integers(50, low=1, high=9)),
    ),
    "unsigned": (
        lambda x, y: (x - y, x // y, x % y, x >> 3),
        (integers(50, dtype=np.uint32), integers(50, low=1, dtype=np.uint32)),
    ),
    "bool": (
        lambda x, y: ((x > 0) & (y > 0), (x > 0) | (y > 0), ~(x > 0), jnp.any(x > 2), jnp.all(x < 9)),
        (normal(9), normal(9)),
    ),
    "bf16": (
        lambda x, y: (x * y + x, (x @ y.T), x.sum(1)),
        (normal(8, 16, dtype=jnp.bfloat16), normal(8, 16, dtype=jnp.bfloat16)),
    ),
    "f16": (lambda x, y: x * y + x, (normal(8, 16, dtype=np.float16), normal(8, 16, dtype=np.float16))),
    "complex": (
        lambda x, y: (x * y + x, jnp.abs(x), jnp.real(x / y)),
        (normal(20).astype(np.complex64) * (1 + 2j), normal(20) + 1j * normal(20).astype(np.complex64)),
    ),
    "convert": (
        lambda x: (x.astype(jnp.int32), x.astype(jnp.bfloat16), x.astype(jnp.uint8), x.astype(bool)),
        (np.abs(normal(40)) * 9,),
    ),
    "transpose": (lambda x: x.transpose(2, 0, 1) + 1, (normal(33, 17, 65),)),
    "slices": (lambda x: (x[2:9:3, ::-1], x[:, 1:], jnp.flip(x, 0)), (normal(12, 7),)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y * 2, x], 1), (normal(4, 5), normal(4, 3))),
    "pad": (lambda x: lax.pad(x, jnp.float32(9), ((1, 2, 1), (-1, 3, 0))), (normal(5, 6),)),
    "iota_select": (lambda x: jnp.where(jnp.tril(jnp.ones((9, 9), bool)), x, -1e9), (normal(9, 9),)),
    "sum_all": (lambda x: x.sum(), (normal(300, 300),)),
    "sum_rows": (lambda x: x.sum(1), (normal(50, 333),)),
    "sum_columns": (lambda x: x.sum(0), (normal(333, 50),)),
    "sum_middle": (lambda x: x.sum(1), (normal(5, 33, 17),)),
    "max_min": (lambda x: (x.max(0), x.min(1), x.max()), (normal(40, 41),)),
    "argmax": (lambda x: (x.argmax(1), x.argmin(0)), (normal(40, 41),)),
    "softmax": (jax.nn.softmax, (normal(17, 100),)),
    "log_softmax": (lambda x: jax.nn.log_softmax(x, axis=0), (normal(17, 100),)),
    "layer_norm": (layer_norm, (normal(9, 77), normal(77), normal(77))),
    "batch_norm": (batch_norm, (normal(3, 8, 8, 20),)),
    "cumsum": (lambda x: jnp.cumsum(x, axis=1), (normal(5, 40),)),
    "matmul": (lambda x, y: x @ y, (normal(33, 65), normal(65, 47))),
    "matmul_transposed": (lambda x, y: (x @ y.T, (y @ x.T).T), (normal(33, 65), normal(47, 65))),
    "matmul_bias_relu": (lambda x, w, b: jax.nn.relu(x @ w + b), (normal(16, 32), normal(32, 40), normal(40))),
    "matvec": (lambda a, x: (a @ x, x @ a.T), (normal(100, 64), normal(64))),
    "batched_matmul": (lambda x, y: x @ y, (normal(3, 2, 9, 11), normal(3, 2, 11, 5))),
    "integer_matmul": (lambda x, y: x @ y, (integers(5, 6), integers(6, 7))),
    "matmul_f64": (lambda x, y: x @ y, (normal(13, 14, dtype=np.float64), normal(14, 15, dtype=np.float64))),
    "attention": (attention, (normal(2, 12, 3, 16), normal(2, 12, 3, 16), normal(2, 12, 3, 16))),
    "conv": (convolution(window_strides=(1, 1), padding="SAME"), (normal(2, 9, 10, 5), normal(3, 3, 5, 21))),
    "conv_strided": (convolution(window_strides=(2, 2), padding="SAME"), (normal(2, 15, 15, 3), normal(7, 7, 3, 32))),
    "conv_depthwise": (
        convolution(window_strides=(1, 1), padding="SAME", feature_group_count=24),
        (normal(1, 8, 8, 24), normal(3, 3, 1, 24)),
    ),
    "conv_transposed": (
        convolution(window_strides=(1, 1), padding=((1, 2), (1, 2)), lhs_dilation=(2, 2)),
        (normal(1, 6, 6, 8), normal(3, 3, 8, 16)),
    ),
    "conv_dilated": (
        convolution(window_strides=(1, 1), padding="VALID", rhs_dilation=(2, 2)),
        (normal(1, 9, 9, 4), normal(3, 3, 4, 8)),
    ),
    "conv_nchw": (
        convolution(("NCHW", "OIHW", "NCHW"), window_strides=(1, 1), padding="SAME"),
        (normal(1, 4, 8, 8), normal(16, 4, 3, 3)),
    ),
    "conv_1d": (
        convolution(("NWC", "WIO", "NWC"), window_strides=(1,), padding="SAME"),
        (normal(2, 30, 4), normal(5, 4, 9)),
    ),
    "conv_gradient": (
        lambda x, w: jax.grad(
            lambda x, w: jnp.sum(convolution(window_strides=(2, 2), padding="SAME")(x, w) ** 2), (0, 1)
        )(x, w),
        (normal(2, 8, 8, 3), normal(3, 3, 3, 16)),
    ),
    "pool": (pooled, (normal(2, 9, 9, 20),)),
    "pool_average": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        (normal(2, 8, 8, 20),),
    ),
    "pool_gradient": (lambda x: jax.grad(lambda x: jnp.sum(pooled(x) ** 2))(x), (normal(2, 9, 9, 20),)),
    "gather": (lambda x, i: x[i], (normal(20, 9), integers(13, high=20))),
    "gather_nd": (lambda x, i, j: x[i, j], (normal(20, 9), integers(13, high=20), integers(13, high=9))),
    "take_along": (lambda x, i: jnp.take_along_axis(x, i, 1), (normal(6, 9), integers(6, 4, high=9))),
    "scatter_add": (lambda x, i, u: x.at[i].add(u), (normal(20, 9), integers(13, high=20), normal(13, 9))),
    "scatter_set": (lambda x, i, u: x.at[i].set(u), (normal(20, 9), np.arange(5, 15, dtype=np.int32), normal(10, 9))),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 1), (3, 4)), (normal(20, 9), np.int32(6).reshape(()))),
    "cache": (write_cache, (normal(2, 10, 4), normal(2, 1, 4), np.int32(7).reshape(()))),
    "sort": (lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0)), (normal(30, 31),)),
    "top_k": (lambda x: lax.top_k(x, 5), (normal(6, 50),)),
    "scan": (scan_rows, (normal(12, 5),)),
    "scan_wide": (scan_rows, (normal(12, 500),)),
    "lorenz": (lorenz, (np.array([1.0, 1.0, 1.0], np.float32),)),
    "newton": (newton, (np.float32(7.0).reshape(()),)),
    "vmapped_newton": (jax.vmap(newton), (np.abs(normal(9)) + 1,)),
    "cond": (
        lambda p, x: lax.cond(p > 0, lambda x: x * 2, lambda x: x - 1, x),
        (np.int32(1).reshape(()), normal(40, 3)),
    ),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x), (np.int32(2).reshape(()), normal(100))),
    "map": (lambda x: lax.map(lambda row: jnp.sort(row) * row.sum(), x), (normal(4, 9),)),
    "random_bits": (key_bits, (np.array([1, 2], np.uint32),)),
    "dropout": (dropout, (normal(30, 30), np.array([1, 2], np.uint32))),
    "cholesky": (jnp.linalg.cholesky, (positive_definite(9),)),
    "triangular": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        (np.tril(positive_definite(6)), normal(6, 3)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_xla(name: str) -> None:
    function, arrays = CASES[name]
    wide = any(array.dtype in (np.float64, np.int64) for array in arrays)
    with jax.enable_x64(wide), jax.default_matmul_precision("highest"):
        specs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
        exported = jax.export.export(jax.jit(function))(*specs)
        expected = jax.tree_util.tree_leaves(jax.jit(function)(*arrays))
    results = shlo.compile(exported)(*arrays)
    assert len(results) == len(expected)
    for ours, theirs in zip(results, map(np.asarray, expected), strict=True):
        assert ours.dtype == theirs.dtype
        exact = ours.dtype.kind in "iub"
        narrow = ours.dtype.itemsize == 2 and not exact
        assert difference_of(ours, theirs) <= (0 if exact else 2e-2 if narrow else 1e-4)
