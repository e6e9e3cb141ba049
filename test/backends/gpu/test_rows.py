"""Reductions over rows and columns at the edges of vectors, subgroups and blocks, run on an OpenCL device as machines
run them whose threads exchange values, and as others do; next to the CPU's kernels."""

from __future__ import annotations

import itertools
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


@pytest.fixture
def sooner(exchanges: bool, request: pytest.FixtureRequest) -> None:
    """The same, built sooner: threads that exchange registers do so through memory, but for a fixed tenth."""
    if exchanges:
        request.getfixturevalue("exchanged_through_memory")


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


@pytest.mark.every(2)
@pytest.mark.parametrize("columns", [3, 3000])
@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "float64", "complex64", "int8", "int32", "int64", "uint8", "int4", "bool"]
)
def test_types_of_rows(sooner: None, dtype: str, columns: int) -> None:
    x = numbers(6, columns, dtype=dtype)
    if dtype == "bool":
        check(lambda x: x & jnp.any(x, axis=1, keepdims=True), x, kind="row")
        check(lambda x: jnp.all(x | (lax.iota("int32", columns) > 1), axis=1), x, kind="row")
    else:
        zero = np.zeros((), dtype)
        total = lambda x: lax.reduce(x, zero, lax.add, (1,))  # noqa: E731
        check(lambda x: x - total(x)[:, None], x, kind="row")
        check(total, x, kind="row")


def test_long_rows_are_read_by_every_level(sooner: None) -> None:
    check(softmax, numbers(2, 70_000, dtype="float32"), kind="row")
    check(softmax, numbers(2, 20_001, dtype="bfloat16"), kind="row")


def test_normalized_rows_of_several_operands(sooner: None) -> None:
    def normalized(x: jax.Array, y: jax.Array, scale: jax.Array, shift: jax.Array) -> tuple[jax.Array, ...]:
        z = x + y
        mean = z.mean(1, keepdims=True)
        variance = ((z - mean) ** 2).mean(1, keepdims=True)
        return (z - mean) * lax.rsqrt(variance + 1e-5) * scale + shift, z, mean[:, 0]

    for columns in (96, 1000, 5000):
        x, y = (numbers(20, columns, dtype="float32") for _ in range(2))
        check(normalized, x, y, numbers(columns, dtype="float32"), numbers(columns, dtype="float32"), kind="row")


def test_several_reductions_at_once(sooner: None) -> None:
    x = numbers(65, 500, dtype="float32")
    check(lambda x: (x.max(1), x.min(1), jnp.argmax(x, 1), x - x.min(1, keepdims=True)), x, kind="row")
    x[3, 77], x[4] = np.nan, -0.0
    check(lambda x: (x.max(1), x.min(1), jnp.argmin(x, 1)), x, kind="row")


def test_rows_of_several_dimensions(sooner: None) -> None:
    x = numbers(3, 5, 8, 16, dtype="float32")
    check(lambda x: x / jnp.sum(jnp.exp(x), axis=(2, 3), keepdims=True), x, kind="row")
    check(lambda x: jnp.sum(x[:, :, :, ::-1] * 2, axis=(2, 3)), x, kind="row")


COLUMNS = {
    "few columns": ((5000, 3), (0,)),
    "a block and one column": ((300, 129), (0,)),
    "vectors of a block": ((257, 1024), (0,)),
    "few rows": ((3, 2052), (0,)),
    "chunks of wide columns": ((4099, 256), (0,)),
    "middle": ((5, 33, 40), (1,)),
    "middle, odd": ((5, 33, 7), (1,)),
    "both ends": ((9, 40, 64), (0, 2)),
    "every other": ((3, 4, 5, 16), (0, 2)),
    "outer and inner, kept between": ((8, 3, 4, 5, 6), (0, 2, 4)),
    "long, in chunks": ((17, 3, 5000), (0, 2)),
    "together": ((70, 9, 4, 8), (0, 1)),
}


@pytest.mark.parametrize(
    ("name", "dtype"), list(zip(COLUMNS, itertools.cycle(["float32", "bfloat16", "int8"]), strict=False))
)
def test_columns(sooner: None, name: str, dtype: str) -> None:
    sizes, axes = COLUMNS[name]
    zero = np.zeros((), dtype)
    x = (numbers(*sizes, dtype="float32") / 3).astype(dtype)
    if dtype == "bfloat16":  # summed in f32
        check(lambda x: jnp.sum(x * 2, axis=axes), x, kind="column")
    else:
        check(lambda x: lax.reduce(x * 2, zero, lax.add, axes) + 1, x, kind="column")


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int64", "int4", "bool", "float16"])
def test_types_of_columns(sooner: None, dtype: str) -> None:
    for sizes in ((70, 33), (1000, 64), (40_000, 8)):
        x = numbers(*sizes, dtype=dtype)
        if dtype == "bool":
            check(lambda x: (jnp.all(x, axis=0), jnp.any(x, axis=0)), x, kind="column")
        elif dtype == "float16":
            check(lambda x: (jnp.max(x, axis=0), jnp.min(x, axis=0)), x, kind="column")
        else:
            check(lambda x: lax.reduce(x, np.zeros((), dtype), lax.add, (0,)), x, kind="column")


def test_several_columns_of_several_operands(sooner: None) -> None:
    x, scale = numbers(513, 260, dtype="float32"), numbers(260, dtype="float32")

    def function(x: jax.Array, scale: jax.Array) -> tuple[jax.Array, ...]:
        return (x * scale).sum(0), (x * x).sum(0) * scale, x.max(0), jnp.argmax(x, 0)

    check(function, x, scale, kind="column")
