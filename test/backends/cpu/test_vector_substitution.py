"""Triangular systems of one right-hand side (kernels/vector_substitution.py)."""

import itertools

import jax
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo

RNG = np.random.default_rng(0)


def normal(dtype: type, *sizes: int) -> np.ndarray:
    parts = RNG.standard_normal((2, *sizes))
    return parts[0] + 1j * parts[1] if issubclass(dtype, np.complexfloating) else parts[0]


@pytest.mark.parametrize("cpu", ["", "avx2", "x86-64", "generic"])
@pytest.mark.parametrize(
    ("dtype", "n", "batch"),
    [
        *itertools.product((np.float32, np.float64), (32, 100), [()]),
        *itertools.product((np.float32, np.float64, np.complex64, np.complex128), [37], [(3,)]),
    ],
)
def test_unknowns_are_those_of_numpy(dtype: type, n: int, batch: tuple[int, ...], cpu: str) -> None:
    """The other triangle, and the diagonal where it is one of ones, are never read. Transposed complex matrices are
    conjugated, too."""
    for left, lower, transposed, unit in itertools.product((True, False), repeat=4):
        square = 0.1 * normal(dtype, *batch, n, n) + 2 * np.eye(n)
        read = np.tri(n, k=-1 if unit else 0, dtype=bool)
        read = read if lower else read.T
        a = np.where(read, square, np.nan).astype(dtype)
        b = normal(dtype, *batch, *((n, 1) if left else (1, n))).astype(dtype)

        def solve(a, b, left=left, lower=lower, transposed=transposed, unit=unit):
            return lax.linalg.triangular_solve(
                a,
                b,
                left_side=left,
                lower=lower,
                transpose_a=transposed,
                conjugate_a=transposed and np.iscomplexobj(a),
                unit_diagonal=unit,
            )

        with jax.enable_x64(True):
            exported = jax.export.export(jax.jit(solve), platforms=["cpu"])(a, b)
        options = shlo.Options(threads=1, cache_dir=None, isolate=False, cpu=cpu or None)
        (x,) = shlo.compile(exported, options=options)(a, b)
        known = np.where(read, a, 0).astype(np.complex128) + (np.eye(n) if unit else 0)
        known = known.swapaxes(-1, -2).conj() if transposed else known
        sides = known @ x.astype(np.complex128) if left else x.astype(np.complex128) @ known
        np.testing.assert_allclose(sides, b, 0, 1e-4 if dtype in (np.float32, np.complex64) else 1e-12)
