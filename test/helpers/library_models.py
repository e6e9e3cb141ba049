"""JAX functions that tests compile to libraries, with inputs."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

RNG = np.random.default_rng(7)  # `library_model` says where it begins


class LibraryModel(NamedTuple):
    """An exported model, and arguments of a call of it."""

    artifact: bytes
    inputs: tuple[np.ndarray, ...]


def _weights(*shape: int) -> np.ndarray:
    scale = 1 / np.sqrt(shape[0] if len(shape) < 4 else np.prod(shape[:3]))
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def _floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _exported(function: Callable[..., object], *inputs: np.ndarray) -> LibraryModel:
    shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in inputs]
    exported = export.export(jax.jit(function))(*shapes)
    kept = tuple(inputs[number] for number in exported.module_kept_var_idx)  # JAX drops what is not used
    return LibraryModel(bytes(exported.serialize()), kept)


def _mlp() -> LibraryModel:
    def mlp(x, w1, b1, w2):
        return jax.nn.softmax(jnp.tanh(x @ w1 + b1) @ w2)

    return _exported(mlp, _floats(32, 784), _weights(784, 512), _weights(512), _weights(512, 10))


def _cnn() -> LibraryModel:
    kernels, dense = [_weights(3, 3, 1, 8), _weights(3, 3, 8, 16)], _weights(16 * 7 * 7, 10)

    def cnn(image):
        layout, pool = ("NHWC", "HWIO", "NHWC"), (1, 2, 2, 1)
        for kernel in kernels:
            image = jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=layout)
            image = jax.lax.reduce_window(jax.nn.relu(image), -jnp.inf, jax.lax.max, pool, pool, "VALID")
        return image.reshape(len(image), -1) @ dense

    return _exported(cnn, _floats(4, 28, 28, 1))


def _lstm() -> LibraryModel:
    w, u, b = _weights(16, 128), _weights(32, 128), _weights(128)

    def lstm(sequence):
        def step(state, x):
            hidden, cell = state
            i, f, g, o = jnp.split(x @ w + hidden @ u + b, 4, axis=-1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), hidden

        start = jnp.zeros((4, 32)), jnp.zeros((4, 32))
        return jax.lax.scan(step, start, sequence)

    return _exported(lstm, _floats(20, 4, 16))


def _transformer() -> LibraryModel:
    width, heads, layers = 64, 4, 2
    table = _weights(100, width)
    blocks = [[_weights(width, 3 * width), _weights(width, width), _weights(width, 256), _weights(256, width)]] * layers
    blocks = [[np.array(each + 0.01 * number) for each in block] for number, block in enumerate(blocks)]

    def norm(x):
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def transformer(tokens):
        x = jnp.asarray(table)[tokens]
        batch, length, _ = x.shape
        mask = jnp.tril(jnp.ones((length, length), bool))
        for wqkv, wo, w1, w2 in blocks:
            q, k, v = (t.reshape(batch, length, heads, -1) for t in jnp.split(norm(x) @ wqkv, 3, -1))
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads)
            weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
            x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(batch, length, width) @ wo
            x = x + jax.nn.gelu(norm(x) @ w1) @ w2
        return norm(x) @ jnp.asarray(table).T

    return _exported(transformer, RNG.integers(0, 100, (2, 24), np.int32))


def _symbolic() -> LibraryModel:
    (size,) = export.symbolic_shape("b")
    w1, w2 = _weights(20, 30), _weights(30, 5)
    shape = jax.ShapeDtypeStruct((size, 20), np.float32)
    exported = export.export(jax.jit(lambda x: (jnp.tanh(x @ w1) @ w2, x.sum(0))))(shape)
    return LibraryModel(bytes(exported.serialize()), (_floats(6, 20),))


def _random() -> LibraryModel:
    def draw(key, mean):
        first, second = jax.random.split(jax.random.wrap_key_data(key))
        return jax.random.normal(first, (100,)) + mean, jax.random.randint(second, (7, 3), 0, 1000)

    return _exported(draw, np.array([1, 2], np.uint32), np.float32([0.5]))


def _lapack() -> LibraryModel:
    basis, _ = np.linalg.qr(_floats(12, 12))

    def solve(a, b):
        values, vectors = jnp.linalg.eigh(a)
        return values, jnp.abs(vectors), jnp.linalg.solve(a, b)

    values = np.arange(1, 13, dtype=np.float32)  # far from each other, so that vectors are the same by any LAPACK
    return _exported(solve, (basis * values) @ basis.T, _floats(12, 2))


def _mixed() -> LibraryModel:
    """Several element types, scalars, an argument that is not used, an empty one."""

    def mixed(x, flags, key, unused, nothing, z):
        return jnp.sort(x)[::-1], flags.sum(), (x * key).astype(jnp.bfloat16), z * 2j, nothing + 1, jnp.any(flags)

    inputs = _floats(50), RNG.random(9) < 0.5, np.int8([3])[0:1], _floats(2), _floats(0, 3), np.complex64([1 + 2j, 3j])
    return _exported(mixed, *inputs)


def _donating() -> LibraryModel:
    """A result in the memory of an argument."""
    shapes = jax.ShapeDtypeStruct((40, 30), np.float32), jax.ShapeDtypeStruct((30,), np.float32)
    step = jax.jit(lambda state, x: (jnp.tanh(state) + x, x.sum()), donate_argnums=0)
    return LibraryModel(bytes(export.export(step)(*shapes).serialize()), (_floats(40, 30), _floats(30)))


_MODELS = {
    "mlp": _mlp,
    "cnn": _cnn,
    "lstm": _lstm,
    "transformer": _transformer,
    "symbolic": _symbolic,
    "draws": _random,
    "lapack": _lapack,
    "mixed": _mixed,
    "donating": _donating,
}
NAMES = tuple(_MODELS)


@cache
def library_model(name: str) -> LibraryModel:
    """One of `NAMES`, with numbers that follow from its name, whoever asks for it first."""
    RNG.bit_generator.state = np.random.default_rng(zlib.crc32(name.encode())).bit_generator.state
    return _MODELS[name]()
