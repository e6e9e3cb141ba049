"""Triangular systems of one right-hand side (kernels/vector_substitution.py)."""

import itertools

import jax
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("cpu", ["", "avx2", "x86-64", "generic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "batch"), [(32, ()), (37, (3,)), (100, ())])
def test_unknowns_are_those_of_numpy(n: int, batch: tuple[int, ...], dtype: type, cpu: str) -> None:
    """The other triangle, and the diagonal where it is one of ones, are never read."""
    for left, lower, transposed, unit in itertools.product((True, False), repeat=4):
        square = 0.1 * RNG.standard_normal((*batch, n, n)) + 2 * np.eye(n)
        read = np.tri(n, k=-1 if unit else 0, dtype=bool)
        read = read if lower else read.T
        a = np.where(read, square, np.nan).astype(dtype)
        b = RNG.standard_normal((*batch, n, 1) if left else (*batch, 1, n)).astype(dtype)

        def solve(a, b, left=left, lower=lower, transposed=transposed, unit=unit):
            return lax.linalg.triangular_solve(
                a, b, left_side=left, lower=lower, transpose_a=transposed, unit_diagonal=unit
            )

        with jax.enable_x64(True):
            exported = jax.export.export(jax.jit(solve), platforms=["cpu"])(a, b)
        options = shlo.Options(threads=1, cache_dir=None, isolate=False, cpu=cpu or None)
        (x,) = shlo.compile(exported, options=options)(a, b)
        known = np.where(read, a, 0).astype(np.float64) + (np.eye(n) if unit else 0)
        known = known.swapaxes(-1, -2) if transposed else known
        sides = known @ x.astype(np.float64) if left else x.astype(np.float64) @ known
        np.testing.assert_allclose(sides, b, 0, 1e-4 if dtype is np.float32 else 1e-12)
