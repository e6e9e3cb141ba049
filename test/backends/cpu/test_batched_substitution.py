"""Triangular systems of which a vector holds one side each (kernels/triangular_solve.py)."""

import itertools

import jax
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo

RNG = np.random.default_rng(0)
FORMS = list(itertools.product((True, False), repeat=4))  # left, lower, transposed, unit


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize(("n", "sides", "batch"), [(5, 1, 37), (16, 1, 16)])
def test_unknowns_are_those_of_numpy(n: int, sides: int, batch: int, dtype: type) -> None:
    """The other triangle, and the diagonal where it is one of ones, are never used; no bit depends on a system's place
    in the batch, or on threads."""
    is_complex = np.dtype(dtype).kind == "c"
    read = [
        (np.tri(n, k=-unit, dtype=bool) if lower else np.tri(n, k=-unit, dtype=bool).T) for _, lower, _, unit in FORMS
    ]
    square = 0.1 * RNG.standard_normal((batch, n, n)) + (2 + 1j if is_complex else 2) * np.eye(n)
    a = np.array([np.where(one, square, np.nan) for one in read]).astype(dtype)
    b = RNG.standard_normal((batch, n, sides)) + 1j * is_complex * RNG.standard_normal((batch, n, sides))
    b = (b if is_complex else b.real).astype(dtype)

    def solve(a, b):
        return [
            lax.linalg.triangular_solve(
                one,
                b if left else b.mT,
                left_side=left,
                lower=lower,
                transpose_a=transposed,
                conjugate_a=transposed and is_complex,
                unit_diagonal=unit,
            )
            for one, (left, lower, transposed, unit) in zip(a, FORMS, strict=True)
        ]

    with jax.enable_x64(True):
        exported = jax.export.export(jax.jit(solve), platforms=["cpu"])(a, b)
    one, many = (
        shlo.compile(exported, options=shlo.Options(threads=threads, cache_dir=None, isolate=False))
        for threads in (1, 4)
    )
    turned = many(np.roll(a, 1, 1), np.roll(b, 1, 0))
    for known, mask, (left, _, transposed, unit), x, other in zip(a, read, FORMS, one(a, b), turned, strict=True):
        assert x.tobytes() == np.roll(other, -1, 0).tobytes()
        matrix = np.where(mask, known, 0).astype(np.complex128) + unit * np.eye(n)
        matrix = matrix.swapaxes(-1, -2).conj() if transposed else matrix
        expected = b if left else b.swapaxes(-1, -2)
        np.testing.assert_allclose(
            matrix @ x if left else x @ matrix, expected, 0, 1e-12 if dtype is np.float64 else 1e-5
        )
