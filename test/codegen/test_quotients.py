"""Quotients by constants: bytes by numbers of f32 have the bits of a division, integers are not divided."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.codegen.quotients import reciprocal

RNG = np.random.default_rng(5)
DIVISORS = [255.0, 127.5, 3.0, -127.0, 0.1, 64.0, 1e-30, 1e30, 1e-45, 3e38, 0.0, np.inf, np.nan]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("cpu", [None, "x86-64"])
def test_all_bytes(dtype: type, cpu: str | None) -> None:
    numbers = np.arange(256).astype(np.uint8).view(dtype)
    exported = jax.export.export(
        jax.jit(lambda x: [x.astype(jnp.float32) / np.float32(divisor) for divisor in DIVISORS])
    )(numbers)
    executable = shlo.compile(exported, options=shlo.Options(cache_dir=None, cpu=cpu))
    for divisor, result in zip(DIVISORS, executable(numbers), strict=True):
        with np.errstate(all="ignore"):
            wanted = numbers.astype(np.float32) / np.float32(divisor)
        same = np.isnan(wanted) & np.isnan(result)
        assert np.all(same | (wanted.view(np.uint32) == result.view(np.uint32))), divisor


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_integers(dtype: type) -> None:
    """By a constant LLVM multiplies. By 0 quotients are -1, and -1 as a divisor may leave the type."""
    info = np.iinfo(dtype)
    edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 7, 10]
    numbers = np.concatenate([np.array(edges, dtype), RNG.integers(info.min, info.max, 200, dtype, endpoint=True)])
    divisors = [1, 2, 3, 7, 10, 64, info.max, 0, *([-1, -3, info.min] if info.min else [])]

    def both(x: jax.Array) -> list[jax.Array]:
        constants = [np.array(divisor, dtype) for divisor in divisors]
        return [function(x, jnp.full_like(x, each)) for each in constants for function in (lax.div, lax.rem)]

    executable = shlo.compile(jax.export.export(jax.jit(both))(numbers), options=shlo.Options(cache_dir=None))
    assert "fdiv" not in str(executable.stages["kernels"])
    results = executable(numbers)
    for divisor, quotients, rests in zip(divisors, results[::2], results[1::2], strict=True):
        for number, quotient, rest in zip(numbers.tolist(), quotients.tolist(), rests.tolist(), strict=True):
            wanted = abs(number) // abs(divisor) * (1 if (number < 0) == (divisor < 0) else -1) if divisor else -1
            wanted_rest = number - wanted * divisor if divisor else number
            assert quotient == np.array(wanted).astype(dtype), (number, divisor)
            assert rest == wanted_rest, (number, divisor)


def test_bytes_are_not_divided() -> None:
    def code(dtype: type, divisor: float) -> str:
        x = jax.ShapeDtypeStruct((64,), dtype)
        exported = jax.export.export(jax.jit(lambda x: x.astype(jnp.float32) / divisor))(x)
        return str(shlo.compile(exported, options=shlo.Options(cache_dir=None)).stages["kernels"])

    assert "fdiv" not in code(np.uint8, 255.0)
    assert "fdiv" in code(np.int16, 255.0)
    assert "fdiv" in code(np.uint8, 1e-40)


@pytest.mark.parametrize("divisor", [0.0, np.nan, 3e38, 1e-42])
def test_no_reciprocal(divisor: float) -> None:
    """None is taken that gives other bits: of zero, NaN, and those whose parts underflow or overflow."""
    assert reciprocal(divisor, 0, 255) is None
