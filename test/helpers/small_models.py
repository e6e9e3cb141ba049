"""Small models, one for each way of computing that depends on the machine: functions of JAX, with arguments."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

RNG = np.random.default_rng(0)


def normal(*shape: int, dtype: str = "f4") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def integers(*shape: int, dtype: str = "i4", low: int = 0, high: int = 1000) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(dtype)


def mlp(x, a, b, c):
    return jax.nn.softmax(jax.nn.gelu(x @ a + c) @ b)


def convolution(x, w):
    y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.lax.reduce_window(jnp.maximum(y, 0), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def depthwise(x, w):
    return jax.lax.conv_general_dilated(
        x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=x.shape[-1]
    )


def lstm(x, w, u, b):
    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[1], u.shape[0]))
    return jax.lax.scan(step, (zero, zero), x)[1]


def attention(x, qkv, out, scale):
    q, k, v = (part.reshape(*x.shape[:2], 4, -1) for part in jnp.split(x @ qkv, 3, axis=-1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(q.shape[-1]))
    seen = np.tril(np.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1)
    y = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ out + x
    return scale * (y - y.mean(-1, keepdims=True)) * jax.lax.rsqrt(y.var(-1, keepdims=True) + 1e-5)


def layers(x, *weights):
    """Equal kernels in many places: their operands come from a table."""
    for w in weights:
        x = jnp.tanh(x @ w)
        x = x - x.mean(-1, keepdims=True)
    return x


def complexes(x, y):
    z = jax.lax.complex(x, y)
    return jnp.real(z @ z.T), jnp.abs(z), jnp.imag(jnp.exp(z)), jnp.real(z * jnp.conj(z) / (1 + z))


def solving(a, b):
    lower = jnp.tril(a) + 9 * jnp.eye(a.shape[0], dtype=a.dtype)
    return jax.scipy.linalg.solve_triangular(lower, b, lower=True), jnp.linalg.cholesky(lower @ lower.T)


def small_formats(x):
    kinds = (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.int4, jnp.uint8)
    back = [x.astype(kind).astype(jnp.float32) for kind in kinds]
    return (*back, jax.lax.population_count(x.astype(jnp.int32)), jax.lax.clz(x.astype(jnp.int32) + 9))


def searching(x, goal):
    def step(state):
        low, high, trips = state
        middle = (low + high) / 2
        return jnp.where(middle**3 < goal, middle, low), jnp.where(middle**3 < goal, high, middle), trips + 1

    found = jax.lax.while_loop(lambda state: jnp.max(state[1] - state[0]) > 1e-4, step, (x * 0, x * 0 + 9, 0))
    branch = jax.lax.switch(found[2] % 3, [lambda y: y + 1, lambda y: y * 2, lambda y: -y], found[0])
    return found[0], found[2], branch


def sorting(x, i):
    order = jnp.argsort(x, axis=0)
    return jnp.sort(x, axis=1), order, jax.lax.top_k(x.T, 5), jnp.sort(i)[::-1]


def reductions(x):
    return x.sum(), x.sum(0), x.max(1), jnp.argmin(x, 0), jnp.cumsum(x, 1), jnp.prod(x[:3], 0), jnp.any(x > 2, 1)


def narrow(x, h, b):
    return x.astype(jnp.float16), x.astype(jnp.bfloat16), h.astype(jnp.float32) * 2, (h * h + h), (b * 3 - b), h @ h.T


def bytes_(a, b):
    wide = jax.lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
    return wide, (wide // 64).astype(jnp.int8), a.astype(jnp.int32).sum(1)


def byte_products(a, b, u, v, x, w):
    """In all layouts and signs, with depths that are no multiple of four."""

    def product(a, b, i, j):
        return jax.lax.dot_general(a, b, (((i,), (j,)), ((), ())), preferred_element_type=jnp.int32)

    layout = ("NHWC", "HWIO", "NHWC")
    y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout, preferred_element_type=jnp.int32)
    signed = product(a, b, 1, 0), product(a, b.T, 1, 1), product(a.T, b, 0, 0), product(a.T, b.T, 0, 1)
    return *signed, product(u, v, 1, 0), product(u, b, 1, 0), product(a, v, 1, 0), product(a[:, :3], b[:3], 1, 0), y


def doubles(x, y):
    return x @ y, jnp.sin(x), jnp.exp(x), jnp.log1p(x * x), x / (y.T + 3), jnp.tanh(x), x.astype(jnp.int64)


def whole(i, j, k):
    return i * i // j, i % j, k // 7, k * k % 1000003, jnp.bitwise_xor(i, j) << 3, k.astype(jnp.float32), i.astype("f8")


def functions(x):
    y = jnp.abs(x) + 0.1
    return jnp.sin(x), jnp.cos(x * 100), jnp.tan(x), jnp.exp(x), jnp.log(y), y**1.7, jnp.sqrt(y), jnp.arctan2(x, y)


def rounding(x):
    return jnp.floor(x), jnp.ceil(x), jnp.round(x), jnp.trunc(x), x.astype(jnp.int32), jnp.sign(x), jnp.mod(x, 0.7)


def places(x, i, v):
    updated = x.at[i].add(v)
    moved = jax.lax.dynamic_update_slice(x, v[:2], (i[0], 3))
    return jnp.take(x, i, axis=0), updated, moved, jnp.flip(x, 1), jnp.pad(x, ((1, 2), (0, 3))), x.T.reshape(-1, 5)


def spectrum(x):
    y = jnp.fft.fft(x)
    return jnp.real(y), jnp.imag(y), jnp.abs(y) ** 2


def random(seed):
    key = jax.random.wrap_key_data(seed)
    return jax.random.uniform(key, (33,)), jax.random.normal(key, (20,)), jax.random.bits(key, (10,))


MODELS: dict[str, tuple[Callable[..., object], list[np.ndarray]]] = {
    "mlp": (mlp, [normal(8, 100), normal(100, 70), normal(70, 10), normal(70)]),
    "convolution": (convolution, [normal(2, 12, 12, 5), normal(3, 3, 5, 18)]),
    "depthwise": (depthwise, [normal(1, 9, 9, 12), normal(3, 3, 1, 12)]),
    "lstm": (lstm, [normal(7, 3, 10), normal(10, 64), normal(16, 64), normal(64)]),
    "attention": (attention, [normal(2, 9, 32), normal(32, 96), normal(32, 32), normal(32)]),
    "layers": (layers, [normal(3, 20), *(normal(20, 20) for _ in range(7))]),
    "complexes": (complexes, [normal(5, 6), normal(5, 6)]),
    "solving": (solving, [normal(9, 9), normal(9, 4)]),
    "small_formats": (small_formats, [normal(57) * 5]),
    "searching": (searching, [normal(30), np.abs(normal(30)) * 50]),
    "sorting": (sorting, [normal(40, 13), integers(50)]),
    "reductions": (reductions, [normal(37, 29)]),
    "narrow": (narrow, [normal(9, 33), normal(9, 33, dtype="f2"), normal(40).astype("bfloat16")]),
    "bytes": (
        bytes_,
        [integers(20, 50, dtype="i1", low=-128, high=128), integers(50, 40, dtype="i1", low=-128, high=128)],
    ),
    "byte_products": (
        byte_products,
        [
            integers(19, 51, dtype="i1", low=-128, high=128),
            integers(51, 26, dtype="i1", low=-128, high=128),
            integers(19, 51, dtype="u1", high=256),
            integers(51, 26, dtype="u1", high=256),
            integers(1, 7, 7, 10, dtype="i1", low=-128, high=128),
            integers(3, 3, 10, 12, dtype="i1", low=-128, high=128),
        ],
    ),
    "doubles": (doubles, [normal(7, 10, dtype="f8"), normal(10, 7, dtype="f8")]),
    "whole": (
        whole,
        [integers(33, low=-999), integers(33, low=1, high=50), integers(33, dtype="i8", low=-(1 << 40), high=1 << 40)],
    ),
    "functions": (functions, [normal(101)]),
    "rounding": (rounding, [normal(77) * 9]),
    "places": (places, [normal(20, 15), integers(6, high=18), normal(6, 15)]),
    "spectrum": (spectrum, [normal(3, 48)]),
    "random": (random, [integers(2, dtype="u4")]),
}


def exported(name: str) -> jax.export.Exported:
    """The model as JAX exports it; with 64 bits, where it has arguments of such."""
    function, arrays = MODELS[name]
    with jax.enable_x64(any(array.dtype.itemsize == 8 for array in arrays)):
        return jax.export.export(jax.jit(function))(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays))
