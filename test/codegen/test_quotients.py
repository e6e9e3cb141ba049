"""Quotients of bytes by constants have the bits of a division."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.codegen.quotients import reciprocal

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
