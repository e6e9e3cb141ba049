"""Random inputs suit what a program does with them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablehlo_py import suite
from stablehlo_py.debug.engines import ENGINES
from stablehlo_py.debug.inputs import random_inputs, roles_of
from stablehlo_py.debug.random_arrays import Role, random_array
from stablehlo_py.debug.settings import Settings

X = np.zeros((8, 16), np.float32)
W = np.zeros((16, 4), np.float32)
V = np.zeros(16, np.float32)
TABLE = np.zeros((100, 16), np.float32)
TOKENS = np.zeros(8, np.int32)
ONE = np.zeros((), np.float32)
SQUARE = np.zeros((6, 6), np.float32)


def exported(function, *arrays: np.ndarray) -> bytes:  # type: ignore[no-untyped-def]
    return bytes(
        jax.export.export(jax.jit(function, keep_unused=True), platforms=["cpu"])(*arrays).mlir_module_serialized
    )


def _loop(x: jax.Array, w: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, 3, lambda _, h: jnp.tanh(h @ w), x)


@pytest.mark.parametrize(
    ("function", "arrays", "roles"),
    [
        (lambda x, w: x @ w, [X, W], [Role(), Role("weight", 0.25)]),
        (lambda x, w: jnp.tanh(x) @ w.T.T, [X, W], [Role(), Role("weight", 0.25)]),
        (lambda w, x: w.T @ jnp.tanh(x).T, [W, X], [Role("weight", 0.25), Role()]),
        (_loop, [SQUARE, np.zeros((6, 6), np.float32)], [Role(), Role("weight", 1 / 6**0.5)]),
        (lambda t, i: t[i] + 1, [TABLE, TOKENS], [Role(), Role("index", 100)]),
        (lambda i, x: x * jax.nn.one_hot(i, 16), [TOKENS, X], [Role("index", 16), Role()]),
        (lambda x, i: jax.lax.dynamic_slice_in_dim(x, i, 3), [X, np.int32(0)], [Role(), Role("index", 6)]),
        (lambda x, i: x.at[i].add(1), [X, TOKENS], [Role(), Role("index", 8)]),
        (
            lambda x, m, v, s, b: (x - m) * jax.lax.rsqrt(v + 1e-5) * s + b,
            [X, V, V, V, V],
            [Role(), Role(), Role("positive"), Role("scale"), Role()],
        ),
        (lambda p, g, r: p - r * g, [X, X, ONE], [Role(), Role(), Role("rate")]),
        (lambda v, g: g / (jnp.sqrt(0.9 * v + 0.1 * g * g) + 1e-8), [V, V], [Role("positive"), Role()]),
        (lambda x, y: x / y, [X, X], [Role(), Role("divisor")]),
        (jnp.arcsin, [X], [Role("inside one")]),
        (lambda x, y, n: (x + y) * n, [X, X, X], [Role(), Role(), Role()]),
    ],
)
def test_roles(function, arrays: list[np.ndarray], roles: list[Role]) -> None:  # type: ignore[no-untyped-def]
    assert roles_of(exported(function, *arrays), [np.shape(array) for array in arrays]) == roles


def test_arrays_of_every_role() -> None:
    generator = np.random.default_rng(0)
    float32, sizes = np.dtype(np.float32), (50, 50)

    def drawn(*role: object, dtype: np.dtype = float32) -> np.ndarray:
        return random_array(generator, dtype, sizes, Role(*role))  # type: ignore[arg-type]

    assert drawn("weight", 0.1).std() == pytest.approx(0.1, rel=0.1)
    assert drawn("scale").mean() == pytest.approx(1, abs=0.01)
    assert drawn("rate").max() < 0.02
    assert 0.5 <= drawn("positive").min() < drawn("positive").max() <= 1.5
    assert np.abs(drawn("divisor")).min() >= 0.5
    assert np.abs(drawn("inside one")).max() <= 0.9
    assert drawn("above one").min() > 1
    assert np.linalg.eigvalsh(drawn("matrix")).min() > 1
    assert set(drawn("index", 3, dtype=np.dtype(np.int8)).reshape(-1)) == {0, 1, 2}


def test_the_same_seed_gives_the_same_inputs() -> None:
    module = exported(lambda x, w: x @ w, X, W)
    one, two, other = (random_inputs(module, [X.dtype] * 2, [X.shape, W.shape], None, seed) for seed in (1, 1, 2))
    for a, b, c in zip(one, two, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)
    plain = random_inputs(None, [X.dtype] * 2, [X.shape, W.shape], None, 1)
    np.testing.assert_array_equal(plain[0], one[0])


@pytest.mark.parametrize("name", ["bert", "train-mlp", "resnet18"])
def test_values_of_deep_models_stay_in_range(name: str) -> None:
    model = suite.build(name)
    arrays = model.arrays()
    module = bytes(suite.export(model).mlir_module_serialized)
    inputs = random_inputs(module, [array.dtype for array in arrays], [array.shape for array in arrays], None, 0)
    for result in ENGINES["hlo"](module, inputs, Settings()):
        assert np.abs(result.astype(np.float64)).max() < 100
