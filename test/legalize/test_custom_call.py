"""Library calls of JAX's CPU lowering: Cholesky factorizations and triangular solves, batched, of every float type."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stablehlo_py
from stablehlo_py.errors import UnsupportedError

DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
every_type = pytest.mark.parametrize("dtype", DTYPES)
OPTIONS = stablehlo_py.Options(threads=1, cache_dir=None)
RNG = np.random.default_rng(3)


def random(*sizes: int, dtype: type) -> np.ndarray:
    x = RNG.standard_normal(sizes)
    return (x + 1j * RNG.standard_normal(sizes) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def positive(*sizes: int, dtype: type) -> np.ndarray:
    a = random(*sizes, dtype=dtype)
    return a @ a.conj().swapaxes(-1, -2) + np.eye(sizes[-1], dtype=dtype)


def check(function: Callable[..., jax.Array], *arrays: np.ndarray) -> np.ndarray:
    """The compiled export gives what JAX gives, NaN at the same places."""
    with jax.enable_x64(True):
        exported = jax.export.export(jax.jit(function), platforms=["cpu"])(*arrays)
        expected = np.asarray(jax.jit(function)(*arrays))
        (ours,) = stablehlo_py.compile(exported, options=OPTIONS)(*arrays)
    assert ours.dtype == expected.dtype
    tolerance = 50 * np.finfo(expected.dtype).eps
    np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance * np.nanmax(np.abs(expected), initial=0))
    return ours


@every_type
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(dtype: type, upper: bool) -> None:
    a = positive(3, 6, 6, dtype=dtype)
    check(lambda a: jnp.linalg.cholesky(a, upper=upper), a[0])
    a[1] *= -1  # one matrix of the batch has no factor: NaN in its triangle, and there only
    result = check(lambda a: jnp.linalg.cholesky(a, upper=upper), a)
    assert np.isnan(result[1]).sum() == 21 and not np.isnan(result[[0, 2]]).any()


@pytest.mark.parametrize("zero", range(4))
def test_a_pivot_of_zero_has_no_factor(zero: int) -> None:
    a = np.eye(4, dtype=np.float32)
    a[zero, zero] = 0
    assert np.isnan(check(jnp.linalg.cholesky, a)).any()


@pytest.mark.parametrize("uplo", "LU")
def test_info_is_the_number_of_the_first_bad_pivot(uplo: str) -> None:
    matrices = np.stack([np.eye(3, dtype=np.float64) for _ in range(5)])
    matrices[1, 0, 0], matrices[2, 1, 1], matrices[3, 2, 2], matrices[4, 1, 1] = -1, 0, np.nan, -3
    text = f"""func.func @main(%a: tensor<5x3x3xf64>) -> tensor<5xi32> {{
      %0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {{
        mhlo.backend_config = {{uplo = {ord(uplo)} : ui8}}}} : (tensor<5x3x3xf64>) -> (tensor<5x3x3xf64>, tensor<5xi32>)
      return %0#1 : tensor<5xi32>
    }}"""
    (info,) = stablehlo_py.compile(text, options=OPTIONS)(matrices)
    assert info.tolist() == [0, 1, 2, 3, 2]


@every_type
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(("transpose", "conjugate"), [(False, False), (True, False), (True, True)])
def test_triangular_solve(dtype: type, left: bool, lower: bool, transpose: bool, conjugate: bool) -> None:
    a = random(2, 6, 6, dtype=dtype) / 4 + 2 * np.eye(6, dtype=dtype)
    b = random(2, *((6, 5) if left else (5, 6)), dtype=dtype)
    for unit in (False, True):

        def solve(a: jax.Array, b: jax.Array, unit: bool = unit) -> jax.Array:
            return lax.linalg.triangular_solve(
                a,
                b,
                left_side=left,
                lower=lower,
                transpose_a=transpose,
                conjugate_a=conjugate,
                unit_diagonal=unit,
            )

        check(solve, a, b)
        check(solve, a[0], b[0])


def test_other_library_functions_are_named() -> None:
    a, b = random(4, 4, dtype=np.float32), random(4, 2, dtype=np.float32)
    exported = jax.export.export(jax.jit(jnp.linalg.solve), platforms=["cpu"])(a, b)
    with pytest.raises(UnsupportedError, match="lapack_sgetrf_ffi"):
        stablehlo_py.compile(exported, options=OPTIONS)


def test_a_call_without_a_typed_configuration_is_refused() -> None:
    text = """func.func @main(%a: tensor<3x3xf32>) -> tensor<3x3xf32> {
      %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>)
      return %0#0 : tensor<3x3xf32>
    }"""
    with pytest.raises(UnsupportedError, match="without a typed configuration"):
        stablehlo_py.compile(text, options=OPTIONS)
