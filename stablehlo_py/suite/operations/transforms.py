"""Fourier transforms and linear algebra."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.fft
import scipy.linalg
from jax import lax
from jax.numpy import fft, linalg
from jax.scipy import linalg as jsp

from stablehlo_py.suite.operations.cases import Case, Maker, alike, c64, c128, case, definite, enter, f32


def _fft(name: str, x: Maker, tolerance: float = 1e-3) -> Case:
    numpy = getattr(scipy.fft, name)  # which NumPy's is as fast as, or slower than
    return case(getattr(fft, name), x, torch=f"fft.{name}", numpy=numpy, tolerance=tolerance)


FOURIER = {
    "fft-1024": _fft("fft", c64(1024)),
    "fft-16384": _fft("fft", c64(16_384)),
    "fft-262144": _fft("fft", c64(1 << 18)),
    "fft-1000-rows-of-1024": _fft("fft", c64(1000, 1024)),
    "fft-10000-rows-of-32": _fft("fft", c64(10_000, 32)),
    "fft-100-rows-of-1000": _fft("fft", c64(100, 1000)),
    "fft-prime": _fft("fft", c64(100, 1009)),
    "fft-prime-10007": _fft("fft", c64(4, 10_007)),
    "fft-columns": case(
        lambda x: fft.fft(x, axis=0),
        c64(512, 512),
        torch=lambda t, x: t.fft.fft(x, dim=0).contiguous(),
        numpy=lambda x: scipy.fft.fft(x, axis=0),
        tolerance=1e-3,
    ),
    "fft-f64": _fft("fft", c128(100, 1024), 1e-11),
    "fft2": _fft("fft2", c64(512, 512)),
    "fft-3d": _fft("fftn", c64(64, 64, 64)),
    "rfft": _fft("rfft", f32(1000, 1024)),
    "rfft2": _fft("rfft2", f32(512, 512)),
    "irfft": _fft("irfft", c64(1000, 513)),
    "convolution-by-fft": alike(
        lambda m, x, w: m.fft.irfft(m.fft.rfft(x) * m.fft.rfft(w)), f32(16, 16_384), f32(16, 16_384), tolerance=1e-2
    ),
}


def _triangular(a: Maker, b: Maker) -> Case:
    return case(
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        a,
        b,
        torch=lambda t, a, b: t.linalg.solve_triangular(a, b, upper=False).contiguous(),
        numpy=lambda a, b: np.ascontiguousarray(scipy.linalg.solve_triangular(a, b, lower=True)),
    )


def _cholesky(x: Maker) -> Case:
    return case(
        linalg.cholesky, x, torch=lambda t, x: t.linalg.cholesky(x).contiguous(), numpy=lambda x: np.linalg.cholesky(x)
    )


def _row_major(name: str, *makers: Maker, tolerance: float = 1e-4) -> Case:
    """Of jax.numpy.linalg, NumPy and PyTorch, of which the last may hand out columns."""
    function = getattr(np.linalg, name)
    return case(
        getattr(linalg, name),
        *makers,
        torch=lambda t, *x: getattr(t.linalg, name)(*x).contiguous(),
        numpy=lambda *x: np.ascontiguousarray(function(*x)),
        tolerance=tolerance,
    )


def _qr(x: Maker) -> Case:
    """The absolute values of the upper triangle: signs are each library's own."""
    return case(
        lambda x: jnp.abs(linalg.qr(x)[1]),
        x,
        torch=lambda t, x: t.abs(t.linalg.qr(x)[1]).contiguous(),
        numpy=lambda x: np.abs(np.linalg.qr(x)[1]),
        tolerance=1e-3,
    )


def _sizes_of_eigenvectors(m: Any, x: Any) -> Any:
    return m.abs(m.linalg.eigh(x)[1]) @ m.abs(x)


LINEAR_ALGEBRA = {
    "cholesky-64": _cholesky(definite(64, 64)),
    "cholesky-512": _cholesky(definite(512, 512)),
    "cholesky-1024": _cholesky(definite(1024, 1024)),
    "cholesky-5000-of-8": _cholesky(definite(5000, 8, 8)),
    "triangular-solve": _triangular(definite(512, 512), f32(512, 512)),
    "triangular-solve-vector": _triangular(definite(512, 512), f32(512, 1)),
    "qr": _qr(f32(512, 512)),
    "qr-tall": _qr(f32(2000, 50)),
    "svd": case(
        lambda x: linalg.svd(x, compute_uv=False),
        f32(200, 200),
        torch="linalg.svdvals",
        numpy=lambda x: np.linalg.svd(x, compute_uv=False),
    ),
    "eigh": alike("linalg.eigvalsh", definite(200, 200)),
    "eigh-vectors": alike(_sizes_of_eigenvectors, definite(100, 100), tolerance=1e-2),
    "inverse": _row_major("inv", definite(300, 300)),
    "inverse-5000-of-4": _row_major("inv", definite(5000, 4, 4)),
    "solve": _row_major("solve", definite(512, 512), f32(512, 8)),
    "solve-1024": _row_major("solve", definite(1024, 1024), f32(1024, 64)),
    "solve-5000-of-6": _row_major("solve", definite(5000, 6, 6), f32(5000, 6, 1)),
    "determinants-5000-of-6": alike("linalg.det", f32(5000, 6, 6), tolerance=1e-3),
    "log-determinant": alike(lambda m, x: m.linalg.slogdet(x)[1], definite(512, 512)),
    "cholesky-solve": case(
        lambda a, b: jsp.cho_solve((jnp.linalg.cholesky(a), True), b),
        definite(256, 256),
        f32(256, 16),
        torch=lambda t, a, b: t.cholesky_solve(b, t.linalg.cholesky(a)).contiguous(),
        numpy=lambda a, b: np.ascontiguousarray(scipy.linalg.cho_solve((np.linalg.cholesky(a), True), b)),
    ),
}

enter("transform", FOURIER | LINEAR_ALGEBRA)
