"""Rows that are shorter than a vector, of numbers that no machine gathers: every element, on every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo

RNG = np.random.default_rng(0)
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "flip of rows": lambda m, x: m.flip(x, 2),
    "flip of elements": lambda m, x: m.flip(x, 3),
    "pad": lambda m, x: m.pad(x, ((0, 0), (0, 0), (1, 2), (2, 3))),
    "roll": lambda m, x: m.roll(x, 3, 3),
    "repeat": lambda m, x: m.repeat(x, 3, 2),
    "tile": lambda m, x: m.tile(x, (1, 2, 1, 2)),
    "slice": lambda m, x: x[:, :, 1::2],
    "every second": lambda m, x: x[..., ::2],
    "a bias": lambda m, x: x ^ x[0, 0, 0] if x.dtype == bool else x + x[0, 0, 0],
    "take": lambda m, x: m.take(x, np.array([2, 0, 3, 1, 1]), 2),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("cpu", ["", "avx2", "x86-64", "generic"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_elements_are_those_of_numpy(name: str, cpu: str) -> None:
    function = FUNCTIONS[name]
    for dtype in (np.int8, np.bool_, ml_dtypes.bfloat16):
        for width in (3, 8, 24, 33):
            x = (RNG.standard_normal((2, 5, 6, width)) * 9).astype(dtype)
            exported = jax.export.export(jax.jit(lambda x: function(jnp, x)), platforms=["cpu"])(x)
            options = shlo.Options(cache_dir=None, isolate=False, cpu=cpu or None)
            (result,) = shlo.compile(exported, options=options)(x)
            assert np.asarray(result).tobytes() == function(np, x).tobytes(), (dtype, width)


@pytest.mark.parametrize("name", ["flip of rows", "repeat", "slice"])
def test_elements_are_not_read_one_by_one(name: str) -> None:
    x = np.zeros((20, 30, 40, 24), np.int8)
    exported = jax.export.export(jax.jit(lambda x: FUNCTIONS[name](jnp, x)), platforms=["cpu"])(x)
    text = str(shlo.compile(exported, options=shlo.Options(cache_dir=None)).stages["kernels"])
    assert "insertelement" not in text
