"""Custom calls that have a kernel of their own, or become ops, run on a device. Those of LAPACK's routines:
test_lapack.py; those without a kernel: test_refusals.py."""

from __future__ import annotations

import numpy as np
import pytest

import stablehlo_py as shlo

jax = pytest.importorskip("jax")
RNG = np.random.default_rng(11)


def normal(*sizes: int) -> np.ndarray:
    return RNG.standard_normal(sizes).astype(np.float32)


def sparse_product(values, columns, rows, dense):
    from jax.experimental import sparse

    return sparse.BCSR((values, columns, rows), shape=(30, 40)) @ dense


def sparse_arguments() -> list[np.ndarray]:
    mask = RNG.random((30, 40)) < 0.2
    rows = np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(np.int32)
    return [normal(rows[-1]), np.nonzero(mask)[1].astype(np.int32), rows, normal(40, 7)]


def positive(size: int) -> np.ndarray:
    root = normal(size, size)
    return root @ root.T + size * np.eye(size, dtype=np.float32)


def tridiagonal(lower, diagonal, upper, right):
    return jax.lax.linalg.tridiagonal_solve(lower, diagonal, upper, right, perturb_singular=True)


CASES = {
    "cpu_csr_sparse_dense_ffi": (sparse_product, sparse_arguments),
    "tridiagonal_solve_perturbed_ffi": (tridiagonal, lambda: [normal(9), normal(9), normal(9), normal(9, 2)]),
    "lapack_spotrf_ffi": (jax.numpy.linalg.cholesky, lambda: [positive(9)]),
    "lapack_strsm_ffi": (jax.scipy.linalg.solve_triangular, lambda: [positive(9), normal(9, 4)]),
}


@pytest.mark.parametrize("name", CASES)
def test_custom_calls(real_device, name) -> None:
    function, arguments = CASES[name]
    arrays = arguments()
    checks = [jax.export.DisabledSafetyCheck.custom_call(name)]
    exported = jax.export.export(jax.jit(function), platforms=["cpu"], disabled_checks=checks)(*arrays)
    assert f"@{name}" in exported.mlir_module()
    found, expected = (shlo.compile(exported.serialize(), target=each)(*arrays) for each in ("opencl", "cpu"))
    for ours, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, right, rtol=1e-5, atol=1e-5)
