"""Cholesky factorizations and triangular solves, compiled from StableHLO text and compared with NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest
import scipy.linalg

import stablehlo_py as shlo

RNG = np.random.default_rng(13)
bf16 = ml_dtypes.bfloat16


def random(*sizes: int, dtype: object) -> np.ndarray:
    dtype = np.dtype(dtype)
    numbers = RNG.standard_normal(sizes)
    return (numbers + 1j * RNG.standard_normal(sizes) if dtype.kind == "c" else numbers).astype(dtype)


def kernel(text: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return shlo.compile(text)(*arrays)


def agree(ours: np.ndarray, theirs: np.ndarray, tolerance: float) -> None:
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(ours.astype(wide), theirs.astype(wide), rtol=tolerance, atol=tolerance)


def positive_definite(batch: tuple[int, ...], n: int, dtype: object) -> np.ndarray:
    a = random(*batch, n, n, dtype=dtype)
    return (a @ np.conj(np.swapaxes(a, -1, -2)) + n * np.eye(n)).astype(dtype)


def matrix_text(name: str, types: Sequence[tuple[tuple[int, ...], str]], attributes: str) -> str:
    """A module of one op over matrices; its result is like the last operand."""
    spelled = ["tensor<" + "".join(f"{size}x" for size in sizes) + f"{element}>" for sizes, element in types]
    arguments = ", ".join(f"%{number}: {type_}" for number, type_ in enumerate(spelled))
    operands = ", ".join(f"%{number}" for number in range(len(spelled)))
    return f"""func.func @main({arguments}) -> {spelled[-1]} {{
      %r = "stablehlo.{name}"({operands}) <{{{attributes}}}> : ({", ".join(spelled)}) -> {spelled[-1]}
      return %r : {spelled[-1]}
    }}"""


ELEMENT = {"float32": "f32", "float64": "f64", "complex64": "complex<f32>", "complex128": "complex<f64>"}


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", ELEMENT)
@pytest.mark.parametrize(("batch", "n"), [((), 1), ((), 5), ((3,), 17), ((2, 2), 8), ((2,), 0), ((0,), 3)])
def test_cholesky(batch: tuple[int, ...], n: int, dtype: str, lower: bool) -> None:
    a = positive_definite(batch, n, dtype)
    used = np.tril(a) if lower else np.triu(a)  # the other triangle may hold anything
    used = used + (np.triu(np.full_like(a, np.nan), 1) if lower else np.tril(np.full_like(a, np.nan), -1))
    if not a.size:
        used = a
    (result,) = kernel(matrix_text("cholesky", [(a.shape, ELEMENT[dtype])], f"lower = {str(lower).lower()}"), used)
    factor = np.linalg.cholesky(a) if a.size else a
    expected = factor if lower else np.conj(np.swapaxes(factor, -1, -2))
    agree(result, expected, 1e-12 if dtype in ("float64", "complex128") else 2e-5)


def test_cholesky_of_a_matrix_that_is_not_positive_definite_is_nan() -> None:
    (result,) = kernel(
        matrix_text("cholesky", [((2, 2), "f32")], "lower = true"), np.array([[1, 2], [2, 1]], np.float32)
    )
    assert np.isnan(result[1, 1])


@pytest.mark.parametrize("dtype", [np.float16, bf16])
def test_factorizations_in_narrow_floats(dtype: object) -> None:
    element = {"float16": "f16", "bfloat16": "bf16"}[np.dtype(dtype).name]
    a = positive_definite((), 4, np.float64).astype(dtype)
    b = random(4, 3, dtype=dtype)
    precision = 20 * float(ml_dtypes.finfo(dtype).eps)
    (factor,) = kernel(matrix_text("cholesky", [(a.shape, element)], "lower = true"), a)
    exact = np.linalg.cholesky(a.astype(np.float64))
    agree(factor, exact, precision)
    attributes = (
        "left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>"
    )
    (solved,) = kernel(matrix_text("triangular_solve", [(a.shape, element), (b.shape, element)], attributes), a, b)
    expected = scipy.linalg.solve_triangular(a.astype(np.float64), b.astype(np.float64), lower=True)
    agree(solved, expected, precision)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize(
    ("dtype", "unit"), [("float32", True), ("float64", False), ("complex64", False), ("complex128", True)]
)
@pytest.mark.parametrize(("n", "m"), [(9, 5), (11, 70)])
def test_triangular_solve(left: bool, lower: bool, transpose: str, dtype: str, unit: bool, n: int, m: int) -> None:
    a = random(3, n, n, dtype=dtype) * 0.3 + 2 * np.eye(n, dtype=dtype)
    a = a.astype(dtype)
    b = random(3, n, m, dtype=dtype) if left else random(3, m, n, dtype=dtype)
    flags = f"left_side = {str(left).lower()}, lower = {str(lower).lower()}, unit_diagonal = {str(unit).lower()}"
    attributes = f"{flags}, transpose_a = #stablehlo<transpose {transpose}>"
    (result,) = kernel(
        matrix_text("triangular_solve", [(a.shape, ELEMENT[dtype]), (b.shape, ELEMENT[dtype])], attributes), a, b
    )
    expected = np.empty_like(b)
    code = {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}[transpose]
    for number in range(3):
        if left:
            expected[number] = scipy.linalg.solve_triangular(a[number], b[number], code, lower, unit)
        else:  # x op(a) = b is op(a)^T x^T = b^T
            side = {"N": a[number].T, "T": a[number], "C": np.conj(a[number])}[code]
            turned = lower != (code == "N")
            expected[number] = scipy.linalg.solve_triangular(side, b[number].T, "N", turned, unit).T
    agree(result, expected, 1e-10 if dtype in ("float64", "complex128") else 1e-4)


def solve_text(a: np.ndarray, b: np.ndarray, left: bool, lower: bool, transpose: str, unit: bool) -> str:
    """A module of one triangular solve."""
    flags = f"left_side = {str(left).lower()}, lower = {str(lower).lower()}, unit_diagonal = {str(unit).lower()}"
    attributes = f"{flags}, transpose_a = #stablehlo<transpose {transpose}>"
    return matrix_text("triangular_solve", [(x.shape, ELEMENT[x.dtype.name]) for x in (a, b)], attributes)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE"])
@pytest.mark.parametrize(
    ("dtype", "unit", "batch", "n", "m"),
    [("float32", False, (), 256, 128), ("float32", True, (2,), 259, 37), ("float64", False, (), 301, 32)],
)
def test_triangular_solve_by_blocks(
    left: bool, lower: bool, transpose: str, dtype: str, unit: bool, batch: tuple[int, ...], n: int, m: int
) -> None:
    a = (random(*batch, n, n, dtype=dtype) / n + 2 * np.eye(n)).astype(dtype)
    b = random(*batch, *((n, m) if left else (m, n)), dtype=dtype)
    text = solve_text(a, b, left, lower, transpose, unit)
    wide = np.tril(a.astype(np.float64)) if lower else np.triu(a.astype(np.float64))
    if unit:
        wide += np.eye(n) - wide * np.eye(n)
    wide = wide if transpose == "NO_TRANSPOSE" else np.swapaxes(wide, -1, -2)
    expected = np.linalg.solve(wide, b) if left else b @ np.linalg.inv(wide)
    results = [shlo.compile(text, options=shlo.Options(threads=threads))(a, b)[0] for threads in (1, 4)]
    agree(results[0], expected, 1e-12 if dtype == "float64" else 1e-5)
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(
    ("dtype", "batch", "n"), [("float32", (), 384), ("float32", (2,), 259), ("float64", (), 301), ("float64", (), 256)]
)
def test_cholesky_by_blocks(dtype: str, batch: tuple[int, ...], n: int, lower: bool) -> None:
    a = positive_definite(batch, n, dtype)
    other = np.triu(np.full_like(a, np.nan), 1)  # the other triangle may hold anything
    used = np.tril(a) + other if lower else np.triu(a) + np.swapaxes(other, -1, -2)
    text = matrix_text("cholesky", [(a.shape, ELEMENT[dtype])], f"lower = {str(lower).lower()}")
    results = [shlo.compile(text, options=shlo.Options(threads=threads))(used)[0] for threads in (1, 2, 4)]
    factor = np.linalg.cholesky(a.astype(np.float64))
    agree(results[0], factor if lower else np.swapaxes(factor, -1, -2), 1e-12 if dtype == "float64" else 2e-5)
    assert len({result.tobytes() for result in results}) == 1


def test_cholesky_by_blocks_of_a_matrix_that_is_not_positive_definite_is_nan() -> None:
    """From the row on where the factorization fails."""
    a = np.eye(300, dtype=np.float32)
    a[200, 200] = -1
    (result,) = kernel(matrix_text("cholesky", [(a.shape, "f32")], "lower = true"), a)
    np.testing.assert_array_equal(result[:200], np.eye(300, dtype=np.float32)[:200])
    assert np.isnan(result.diagonal()[200])


def test_code_of_large_factorizations_does_not_grow() -> None:
    """It is the same loops for any size."""
    texts = []
    for n in (512, 2048):
        text = matrix_text("cholesky", [((n, n), "f32")], "lower = true")
        texts.append(shlo.compile(text, options=shlo.Options(threads=2)).stages["kernels"])
    assert len(texts[1]) < 1.01 * len(texts[0])


@pytest.mark.parametrize(("a", "b"), [((1, 1), (1, 1)), ((4, 4), (4, 0)), ((0, 0), (0, 3)), ((0, 4, 4), (0, 4, 2))])
def test_triangular_solve_of_nearly_nothing(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    attributes = (
        "left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>"
    )
    left, right = np.ones(a, np.float32), np.ones(b, np.float32)
    (result,) = kernel(matrix_text("triangular_solve", [(a, "f32"), (b, "f32")], attributes), left, right)
    assert result.shape == b
    np.testing.assert_array_equal(result, right)
