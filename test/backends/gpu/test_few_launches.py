"""Small work that is one kernel, for it takes long to start one: run on an OpenCL device, next to the CPU's kernels."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.api import compile_program

OPTIONS = shlo.Options(cache_dir=None, threads=1)
RANDOM = np.random.default_rng(0)


@pytest.fixture
def device(real_device: object) -> None:
    """Skips where there is no device."""


def numbers(dtype: str, *sizes: int) -> np.ndarray:
    """Of a type, some of them negative."""
    return (RANDOM.standard_normal(sizes) * 3).astype(dtype)


def check(function: Callable[..., object], kernels: int, *arrays: np.ndarray) -> None:
    """A function of JAX has so many kernels, and gives the bits that the CPU's program gives."""
    text = jax.jit(function).lower(*arrays).as_text()
    names = compile_program(text, target="opencl", options=OPTIONS).kernels
    assert len(names) == kernels, names
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    for a, b in zip(executable(*arrays), shlo.compile(text, options=OPTIONS)(*arrays), strict=True):
        assert a.tobytes() == b.tobytes()


def springs(x: jax.Array) -> jax.Array:
    """Forces between neighbours, both of which get them."""
    along, down = x[:, 1:] - x[:, :-1], x[1:] - x[:-1]
    force = jnp.zeros_like(x).at[:, :-1].add(along).at[:, 1:].add(-along).at[:-1].add(down).at[1:].add(-down)
    return force.at[0, 0].set(0).at[0, -1].set(1)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "int8", "float64", "complex64"])
def test_a_chain_of_updates(dtype: str) -> None:
    """Six of them. Forces are computed before where two updates read them."""
    with jax.enable_x64(True):
        check(springs, 1 if dtype.startswith("int") else 3, numbers("float32", 20, 30, 3).astype(dtype))


@pytest.mark.usefixtures("device")
def test_updates_that_are_computed_from_what_they_overwrite() -> None:
    x, y = numbers("float32", 40), numbers("float32", 7)
    check(lambda x, y: x.at[3:10].multiply(y).at[5:12].max(y).at[20:22].add(x[20:22] * x[:2]), 1, x, y)


@pytest.mark.usefixtures("device")
def test_values_that_are_no_numbers_and_zeros_stay() -> None:
    """Outside of the window, too."""
    x, y = np.array([-0.0, np.nan, np.inf, -np.inf, -0.0, 1.0], "float32"), np.array([0.0, np.nan], "float32")
    check(lambda x, y: x.at[1:3].add(y).at[2:4].set(y), 1, x, y)


@pytest.mark.usefixtures("device")
def test_an_update_in_a_loop() -> None:
    """One kernel for each of the trips, which are unrolled."""
    x = numbers("float32", 30)
    check(lambda x: jax.lax.fori_loop(0, 5, lambda k, x: x.at[3:9].add(k).at[0].set(x[-1]), x), 5, x)


@pytest.mark.usefixtures("device")
def test_lookups_in_tables() -> None:
    """Indices are computed where they are used, and the sums of some tables are one kernel."""
    tables, places = numbers("float32", 3, 50, 8), RANDOM.integers(0, 50, (3, 20, 4)).astype(np.int32)

    def function(tables: jax.Array, places: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(table[place].sum(1) for table, place in zip(tables, places, strict=True))

    check(function, 1, tables, places)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(("how", "kernels"), [("add", 2), ("set", 4)])
@pytest.mark.parametrize("dtype", ["int32", "int8"])
def test_scatters_into_what_is_constant(how: str, kernels: int, dtype: str) -> None:
    """They compute it, and updates that are constant. One kernel computes indices; what sorts them has three."""
    places = RANDOM.integers(-30, 30, 500).astype(np.int32)
    check(lambda i: getattr(jnp.zeros((30, 3), dtype).at[i], how)(1), kernels, places)
