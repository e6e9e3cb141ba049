"""Elementary functions of the reductions of short rows: computed for as many rows as a vector has lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo

FUNCTIONS: dict[str, Callable[[Any, jax.Array, jax.Array], Any]] = {
    "exp of a sum": lambda x, w: jnp.exp(x.sum(1) / 64),
    "logsumexp": lambda x, w: jax.nn.logsumexp(x, 1),
    "two results": lambda x, w: (jnp.log(jnp.abs(x).max(1)), jnp.exp(x.min(1)) * w),
    "a number of each row": lambda x, w: jnp.tanh(x.mean(1) * w) + w,
    "places": lambda x, w: jnp.sin(jnp.argmax(x, 1) * w),
}
ROWS = (15, 16, 41)


def executable(name: str, x: np.ndarray, w: np.ndarray, **options: Any) -> shlo.Executable:
    exported = jax.export.export(jax.jit(FUNCTIONS[name]), platforms=["cpu"])(x, w)
    return shlo.compile(exported, options=shlo.Options(cache_dir=None, isolate=False, **options))


def arguments(rows: int, columns: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(rows * columns)
    return random.standard_normal((rows, columns)).astype(dtype), random.random(rows).astype(dtype)


@pytest.mark.every(3)
@pytest.mark.parametrize("cpu", ["", "avx2", "x86-64", "generic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16], ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_jax(name: str, dtype: type, cpu: str) -> None:
    precision = {np.float32: 2e-6, np.float64: 1e-12}.get(dtype, 4e-2)
    with jax.enable_x64(dtype is np.float64):
        for rows in ROWS:
            for columns in (19, 64):
                x, w = arguments(rows, columns, dtype)
                results = executable(name, x, w, cpu=cpu or None)(x, w)
                expected = jax.tree.leaves(FUNCTIONS[name](x, w))
                for result, one in zip(results, expected, strict=True):
                    found, wanted = (np.asarray(each).astype(np.float64) for each in (result, one))
                    np.testing.assert_allclose(found, wanted, precision, precision, err_msg=f"{rows} x {columns}")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_threads_change_no_bit(name: str) -> None:
    x, w = arguments(4001, 37, np.float32)
    one, two = (executable(name, x, w, threads=threads)(x, w) for threads in (1, 2))
    assert [np.asarray(each).tobytes() for each in one] == [np.asarray(each).tobytes() for each in two]


def test_no_function_of_one_number_is_left() -> None:
    x, w = arguments(4001, 64, np.float32)
    text = str(executable("exp of a sum", x, w, cpu="avx2").stages["kernels"])
    fused = [line for line in text.splitlines() if "llvm.intr.fma" in line]
    assert fused
    assert all(line.endswith("vector<8xf32>") for line in fused)
