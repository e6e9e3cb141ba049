"""Reductions over rows and columns at the edges of vectors, subgroups and blocks, run on an OpenCL device as machines
run them whose threads exchange values, and as others do; next to the CPU's kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.backends.gpu.backend import OpenClBackend
from stablehlo_py.backends.gpu.target import OPENCL

OPTIONS = shlo.Options(cache_dir=None, threads=1)
RANDOM = np.random.default_rng(0)
TOLERANCE = {"float32": 1e-4, "float64": 1e-12, "complex64": 1e-4, "bfloat16": 2e-2, "float16": 4e-3}

pytestmark = pytest.mark.usefixtures("real_device")


@pytest.fixture(params=[True, False], ids=["exchanges", "shared"])
def exchanges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether threads exchange values; blocks are as large as on a GPU where they do."""
    target = replace(OPENCL, exchanges=True, most_threads=1024) if request.param else OPENCL
    monkeypatch.setattr(OpenClBackend, "target", lambda self, options: target)
    return request.param


def numbers(*sizes: int, dtype: str) -> Any:
    """Normally distributed, as an array of JAX where NumPy lacks the type."""
    return (
        jnp.asarray(RANDOM.standard_normal(sizes) * 3).astype(dtype)
        if "int4" in dtype
        else (RANDOM.standard_normal(sizes) * 3).astype(dtype)
    )


def check(function: Callable[..., object], *arrays: Any, kind: str) -> shlo.Executable:
    """A function of JAX gives what the CPU's program gives, the same bits in every call."""
    with jax.enable_x64(True):
        text = jax.jit(function).lower(*arrays).as_text()
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    assert kind in executable.report()
    arguments = [np.asarray(array) for array in arrays]
    wanted = shlo.compile(text, options=OPTIONS)(*arguments)
    first, again = executable(*arguments), executable(*arguments)
    for a, b, c in zip(first, again, wanted, strict=True):
        assert a.tobytes() == b.tobytes()
        close = TOLERANCE.get(a.dtype.name, 0)
        np.testing.assert_allclose(
            a.astype(np.complex128), c.astype(np.complex128), rtol=close, atol=close * 10, equal_nan=True
        )
    return executable


def softmax(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x, axis=-1)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(5, 2), (3, 31), (70, 32), (33, 33), (9, 127), (2050, 8), (7, 1000), (600, 64), (2, 4097), (3, 8192), (1, 65539)],
)
def test_two_levels(exchanges: bool, rows: int, columns: int) -> None:
    executable = check(softmax, numbers(rows, columns, dtype="float32"), kind="row")
    assert ("sub_group_shuffle" in executable.stages["kernels"]) == (exchanges and columns > 2)


@pytest.mark.parametrize("columns", [3, 40, 1024, 3000])
@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "float64", "complex64", "int8", "int32", "int64", "uint8", "int4", "bool"]
)
def test_types_of_rows(exchanges: bool, dtype: str, columns: int) -> None:
    x = numbers(6, columns, dtype=dtype)
    if dtype == "bool":
        check(lambda x: x & jnp.any(x, axis=1, keepdims=True), x, kind="row")
        check(lambda x: jnp.all(x | (lax.iota("int32", columns) > 1), axis=1), x, kind="row")
    else:
        zero = np.zeros((), dtype)
        total = lambda x: lax.reduce(x, zero, lax.add, (1,))  # noqa: E731
        check(lambda x: x - total(x)[:, None], x, kind="row")
        check(total, x, kind="row")


def test_long_rows_are_read_by_every_level(exchanges: bool) -> None:
    check(softmax, numbers(2, 70_000, dtype="float32"), kind="row")
    check(softmax, numbers(2, 20_001, dtype="bfloat16"), kind="row")


def test_normalized_rows_of_several_operands(exchanges: bool) -> None:
    def normalized(x: jax.Array, y: jax.Array, scale: jax.Array, shift: jax.Array) -> tuple[jax.Array, ...]:
        z = x + y
        mean = z.mean(1, keepdims=True)
        variance = ((z - mean) ** 2).mean(1, keepdims=True)
        return (z - mean) * lax.rsqrt(variance + 1e-5) * scale + shift, z, mean[:, 0]

    for columns in (96, 1000, 5000):
        x, y = (numbers(20, columns, dtype="float32") for _ in range(2))
        check(normalized, x, y, numbers(columns, dtype="float32"), numbers(columns, dtype="float32"), kind="row")


def test_several_reductions_at_once(exchanges: bool) -> None:
    x = numbers(65, 500, dtype="float32")
    check(lambda x: (x.max(1), x.min(1), jnp.argmax(x, 1), x - x.min(1, keepdims=True)), x, kind="row")
    x[3, 77], x[4] = np.nan, -0.0
    check(lambda x: (x.max(1), x.min(1), jnp.argmin(x, 1)), x, kind="row")


def test_rows_of_several_dimensions(exchanges: bool) -> None:
    x = numbers(3, 5, 8, 16, dtype="float32")
    check(lambda x: x / jnp.sum(jnp.exp(x), axis=(2, 3), keepdims=True), x, kind="row")
    check(lambda x: jnp.sum(x[:, :, :, ::-1] * 2, axis=(2, 3)), x, kind="row")
