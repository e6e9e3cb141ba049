"""Sums over scores without an array of them: the gradient of attention, on an OpenCL device."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stablehlo_py as shlo

OPTIONS = shlo.Options(cache_dir=None, threads=1)
RANDOM = np.random.default_rng(0)
Function = Callable[..., object]


@pytest.fixture(autouse=True)
def _device(real_device: object) -> None:
    """Skips where there is no device."""


def numbers(*sizes: int, dtype: str = "float32") -> np.ndarray:
    return RANDOM.standard_normal(sizes).astype(dtype)


def attention(q: jax.Array, k: jax.Array, v: jax.Array, bias: jax.Array | float = 0.0) -> jax.Array:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.125 + bias
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)


def with_gradients(function: Function, arguments: int = 3) -> Function:
    """The result and the gradients of all arguments; the last argument is the result's gradient."""

    def both(*given: jax.Array) -> tuple[object, ...]:
        result, backward = jax.vjp(function, *given[:arguments])
        return (result, *backward(given[arguments]))

    return both


def kinds(executable: shlo.Executable) -> Counter[str]:
    return Counter(re.findall(r'hlo\.fusion = "(\w+)"', executable.stages["scheduled"]))


def check(function: Function, *arrays: np.ndarray, tolerance: float = 2e-6) -> Counter[str]:
    """The same as on the processor, where nothing is fused so; the same bits again. Returns the kinds of fusions."""
    text = jax.jit(function).lower(*arrays).as_text()
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    results = executable(*arrays)
    for found, again, wanted in zip(
        results, executable(*arrays), shlo.compile(text, options=OPTIONS)(*arrays), strict=True
    ):
        assert found.tobytes() == again.tobytes()
        one, other = found.astype(np.float64), wanted.astype(np.float64)
        assert np.abs(one - other).max() <= tolerance * max(1.0, np.abs(other).max())
    return kinds(executable)


SIZES = {
    "tiles that end inside": ((2, 3, 70, 20), (2, 3, 90, 36)),
    "one query": ((2, 3, 1, 20), (2, 3, 90, 36)),
    "one tile": ((1, 1, 16, 8), (1, 1, 16, 8)),
    "more columns than one kernel has": ((1, 2, 70, 20), (1, 2, 90, 144)),
    "an odd number of squares of columns": ((1, 2, 40, 20), (1, 2, 50, 136)),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name: str) -> None:
    queries, values = SIZES[name]
    q, k, v = numbers(*queries), numbers(*values[:3], queries[3]), numbers(*values)
    found = check(with_gradients(attention), q, k, v, numbers(*queries[:3], values[3]))
    if queries[2] > 1:  # the products of one query are no products of matrices
        assert (found["attention"], found["scores"], found["dot"]) == (1, 3, 0)


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [4, 2])
def test_attention_of_jax(heads: int, causal: bool, dtype: str) -> None:
    """With as many heads of keys as of queries, and with half of them."""

    def function(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal)

    q, k, v, of_result = (numbers(2, 48, each, 32, dtype=dtype) for each in (4, heads, heads, 4))
    found = check(with_gradients(function), q, k, v, of_result, tolerance=2e-6 if dtype == "float32" else 1e-2)
    assert (found["attention"], found["scores"], found["dot"]) == (1, 3, 0)


def test_a_softmax_that_is_computed_again() -> None:
    """Its maximum and its sum are reductions like others."""
    q, k, v = (numbers(2, 3, 40, 20) for _ in range(3))
    found = check(with_gradients(jax.checkpoint(attention)), q, k, v, numbers(2, 3, 40, 20))
    assert (found["attention"], found["scores"], found["dot"]) == (1, 5, 0)


def test_biases_are_read_where_scores_are_computed() -> None:
    q, k, v, bias = *(numbers(2, 3, 40, 20) for _ in range(3)), numbers(3, 40, 40)
    found = check(with_gradients(lambda q, k, v: attention(q, k, v, bias)), q, k, v, numbers(2, 3, 40, 20))
    assert (found["attention"], found["scores"], found["dot"]) == (1, 3, 0)


def test_sums_that_are_converted() -> None:
    """Of scores of 16 bits: maximum and sum are so, too, and the weights in attention's own softmax are not exact."""

    def function(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.softmax(q @ k.T * 0.1, axis=1) @ v

    arrays = [numbers(40, 16, dtype="bfloat16") for _ in range(4)]
    assert check(with_gradients(function), *arrays, tolerance=2e-2)["scores"]


def test_f64() -> None:
    with jax.enable_x64(True):
        q, k, v, of_result = (numbers(1, 2, 40, 20, dtype="float64") for _ in range(4))
        found = check(with_gradients(attention), q, k, v, of_result, tolerance=1e-14)
    assert (found["attention"], found["scores"], found["dot"]) == (1, 3, 0)


def test_scores_that_others_need_are_stored() -> None:
    """The gradient of a bias for all batches; weights that are a result; products too deep to compute again."""

    def weights(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = jax.nn.softmax(q @ k.T, axis=-1)
        return found, found @ v

    q, k, v, bias = *(numbers(2, 3, 40, 20) for _ in range(3)), numbers(3, 40, 40)
    assert not check(with_gradients(attention, 4), q, k, v, bias, numbers(2, 3, 40, 20))["scores"]
    given = [numbers(40, 20) for _ in range(3)]

    def both(q: jax.Array, k: jax.Array, v: jax.Array, *of_results: jax.Array) -> tuple[object, ...]:
        results, backward = jax.vjp(weights, q, k, v)
        return (*results, *backward(of_results))

    assert not check(both, *given, numbers(40, 40), numbers(40, 20))["scores"]
    deep = [numbers(1, 1, 20, 300) for _ in range(4)]
    assert not check(with_gradients(attention), *deep)["scores"]
