"""Calls of LAPACK's routines on a device: what they compute, against NumPy and against the processor's LAPACK."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.errors import UnsupportedError

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

linalg = jax.lax.linalg
RNG = np.random.default_rng(12)
DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
every_type = pytest.mark.parametrize("dtype", DTYPES)
SHAPES = ((3, 5, 5), (2, 7, 4), (2, 4, 7), (1, 1), (2, 2), (1, 3), (65, 65), (0, 3, 3), (2, 0, 3), (3, 0))
every_form = pytest.mark.parametrize(  # every shape, and every type
    "shape, dtype",
    [*((shape, DTYPES[number % 4]) for number, shape in enumerate(SHAPES)), *((SHAPES[1], d) for d in DTYPES)],
)


@pytest.fixture(autouse=True)
def _device(real_device: object) -> None:
    """Skips where there is no device."""


def normal(*sizes: int, dtype: type) -> np.ndarray:
    x = RNG.standard_normal(sizes)
    return (x + 1j * RNG.standard_normal(sizes) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def hermitian(*sizes: int, dtype: type) -> np.ndarray:
    a = normal(*sizes, dtype=dtype)
    return a + adjoint(a)


def adjoint(a: np.ndarray) -> np.ndarray:
    return a.conj().swapaxes(-1, -2)


def both(function: Callable[..., object], *arrays: np.ndarray) -> list[list[np.ndarray]]:
    """What the device and the processor give, and the device again: the same bits."""
    with jax.enable_x64(True):
        exported = jax.export.export(jax.jit(function), platforms=["cpu"])(*arrays)
    executable = shlo.compile(exported, target="opencl")
    found, again = executable(*arrays), executable(*arrays)
    for one, two in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, two)
    return [[np.asarray(each) for each in results] for results in (found, shlo.compile(exported)(*arrays))]


def close(found: np.ndarray, right: np.ndarray, scale: float = 1.0) -> None:
    """Equal up to a few hundred roundings of numbers of that size."""
    assert (found.shape, found.dtype) == (right.shape, right.dtype)
    tolerance = 300 * np.finfo(found.dtype).eps * max(1.0, scale) if found.dtype.kind in "fc" else 0
    np.testing.assert_allclose(found, right, rtol=0, atol=tolerance)


def largest(a: np.ndarray) -> float:
    return float(np.abs(a).max(initial=0))


def is_unitary(q: np.ndarray) -> None:
    close(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1], dtype=q.dtype), (*q.shape[:-2], *[q.shape[-1]] * 2)))


@every_form
def test_lu(dtype: type, shape: tuple[int, ...]) -> None:
    found, right = both(linalg.lu, normal(*shape, dtype=dtype))
    for ours, theirs in zip(found, right, strict=True):
        close(ours, theirs, largest(theirs))


@pytest.mark.every(2)
@every_form
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(dtype: type, shape: tuple[int, ...], mode: str) -> None:
    found, right = both(lambda a: tuple(jnp.linalg.qr(a, mode=mode)), normal(*shape, dtype=dtype))
    for ours, theirs in zip(found, right, strict=True):
        close(ours, theirs, largest(theirs))


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("shape, dtype", [
    ((3, 5, 5), np.complex64), ((2, 2), np.complex128), ((1, 1), np.float64), ((2, 33, 33), np.float32),
    ((0, 0), np.float32), ((0, 4, 4), np.float64),
])  # fmt: skip
def test_eigenvalues(dtype: type, shape: tuple[int, ...], lower: bool) -> None:
    a = hermitian(*shape, dtype=dtype)
    given = np.tril(a) if lower else np.triu(a)  # the other triangle is not read
    found, right = both(lambda x: linalg.eigh(x, lower=lower, symmetrize_input=False), given)
    vectors, values = found
    close(values, right[1], largest(a) * shape[-1])
    close((vectors * values[..., None, :]) @ adjoint(vectors), a, largest(a) * shape[-1])
    is_unitary(vectors)


@pytest.mark.parametrize("a", [
    np.zeros((4, 4)), np.eye(5), np.diag([1, -1, 1, -1.0]), np.ones((6, 6)), np.diag([1e-30, 1, 1e20]),
    np.array([[0, 1e-200], [1e-200, 0]]), np.array([[1e200, 1e200], [1e200, -1e200]]),
], ids=["zero", "unit", "signs", "rank one", "graded", "tiny", "huge"])  # fmt: skip
def test_difficult_matrices(a: np.ndarray) -> None:
    """Multiple values, those of any size, and directions without a length."""
    scale = largest(a) or 1.0
    (vectors, values), _ = both(lambda x: linalg.eigh(x), a)
    close(values / scale, np.linalg.eigvalsh(a) / scale, 10)
    close((vectors * values / scale) @ vectors.T, a / scale, 10)
    is_unitary(vectors)
    (u, s, vh), _ = both(lambda x: tuple(jnp.linalg.svd(x)), a)
    close(s / scale, np.linalg.svd(a, compute_uv=False) / scale, 10)
    close((u * s / scale) @ vh, a / scale, 10)
    is_unitary(u)
    is_unitary(vh)


@pytest.mark.every(2)
@every_form
@pytest.mark.parametrize("full", [False, True])
def test_singular_values(dtype: type, shape: tuple[int, ...], full: bool) -> None:
    a = normal(*shape, dtype=dtype)
    found, right = both(lambda x: tuple(jnp.linalg.svd(x, full_matrices=full)), a)
    (u, s, vh), least = found, min(shape[-2:])
    close(s, right[1], largest(s))
    assert (u.shape, vh.shape) == (right[0].shape, right[2].shape)
    close((u[..., :least] * s[..., None, :]) @ vh[..., :least, :], a, largest(s))
    is_unitary(u)
    is_unitary(adjoint(vh))


@every_type
def test_singular_values_alone(dtype: type) -> None:
    a = normal(2, 6, 4, dtype=dtype)
    (s,), (right,) = both(lambda x: jnp.linalg.svd(x, compute_uv=False), a)
    close(s, right, largest(right))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_matrices_that_are_not_finite(bad: float) -> None:
    a = np.eye(3)
    a[1, 1] = bad
    (_, values), _ = both(lambda x: linalg.eigh(x), a)
    (s,), _ = both(lambda x: jnp.linalg.svd(x, compute_uv=False), a)
    assert np.isnan(values).all() and np.isnan(s).all()


@pytest.mark.every(2)
@every_type
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_tridiagonal_form(dtype: type, lower: bool, n: int) -> None:
    a = hermitian(2, n, n, dtype=dtype)
    found, right = both(lambda x: linalg.tridiagonal(x, lower=lower), a)
    for ours, theirs in zip(found, right, strict=True):
        close(ours, theirs, 10 * largest(theirs))


@every_type
@pytest.mark.parametrize("n", [1, 2, 8])
def test_tridiagonal_systems(dtype: type, n: int) -> None:
    low, diagonal, up = (normal(3, n, dtype=dtype) for _ in range(3))
    diagonal[0] /= 8  # rows are exchanged
    found, right = both(linalg.tridiagonal_solve, low, diagonal, up, normal(3, n, 2, dtype=dtype))
    close(found[0], right[0], 30 * largest(right[0]))


def test_many_small_matrices() -> None:
    a = normal(300, 6, 6, dtype=np.float32)
    found, _ = both(lambda x: (jnp.linalg.det(x), jnp.linalg.inv(x)), a)
    np.testing.assert_allclose(found[0], np.linalg.det(a.astype(float)), rtol=1e-3, atol=1e-3)
    residual = found[1].astype(float) @ a - np.eye(6)
    assert np.median(np.abs(residual)) < 1e-5


CALL = """func.func @main(%a: tensor<{operand}>) -> tensor<{operand}> {{
  %0:3 = stablehlo.custom_call @{target}(%a) {{mhlo.backend_config = {{{entries}}}}}
    : (tensor<{operand}>) -> (tensor<{operand}>, tensor<3x{pivots}>, tensor<i32>)
  return %0#0 : tensor<{operand}>
}}"""


@pytest.mark.parametrize("target, entries, operand, pivots, reason", [
    ("lapack_sgetrf_ffi", "", "3x3xf64", "i32", "instead of tensor<3x3xf32>"),
    ("lapack_sgetrf_ffi", "", "3x3xf32", "i64", "instead of tensor<3xi32>"),
    ("lapack_ssyevd_ffi", "uplo = 76 : ui8", "3x3xf32", "f32", "has no 'mode'"),
    ("lapack_ssyevd_ffi", "uplo = 77 : ui8, mode = 86 : ui8", "3x3xf32", "f32", "has uplo = 'M'"),
    ("lapack_ssyevd_ffi", "uplo = 76 : ui8, mode = 86 : ui8", "2x3xf32", "f32", "takes square matrices"),
])  # fmt: skip
def test_wrong_calls_are_refused(target: str, entries: str, operand: str, pivots: str, reason: str) -> None:
    text = CALL.format(target=target, entries=entries, operand=operand, pivots=pivots)
    with pytest.raises(UnsupportedError, match=reason):
        shlo.compile(text, target="opencl")
