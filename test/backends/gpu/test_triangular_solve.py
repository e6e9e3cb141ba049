"""Triangular solves on a device: the bits of the processor's kernel, or, of large systems, its numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import stablehlo_py as shlo

RNG = np.random.default_rng(22)
OPTIONS = shlo.Options(cache_dir=None)
NAMES = {
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float16": "f16",
}


@pytest.fixture(autouse=True)
def _device(real_device: object) -> None:
    """Skips where there is no device."""


@dataclass(frozen=True)
class Form:
    left: bool
    lower: bool
    transpose: str
    unit: bool


FORMS = list(
    itertools.starmap(
        Form,
        itertools.product((True, False), (True, False), ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"), (True, False)),
    )
)
FEW = [FORMS[0], FORMS[9], FORMS[16], FORMS[23]]


def normal(*sizes: int, dtype: str) -> np.ndarray:
    x = RNG.standard_normal(sizes)
    return (x + 1j * RNG.standard_normal(sizes) if dtype.startswith("complex") else x).astype(dtype)


def problem(batch: Sequence[int], n: int, sides: int, form: Form, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """A triangle, NaNs in the other one, and right-hand sides."""
    a = normal(*batch, n, n, dtype=dtype) / max(n, 1) + 2 * np.eye(n)
    kept = np.tril(np.ones((n, n), bool), -form.unit)
    a = np.where(kept if form.lower else kept.T, a, np.nan)
    return a.astype(dtype), normal(*batch, *((n, sides) if form.left else (sides, n)), dtype=dtype)


def solved(a: np.ndarray, b: np.ndarray, form: Form, target: str) -> np.ndarray:
    of_a, of_b = (f"tensor<{'x'.join(map(str, x.shape))}x{NAMES[x.dtype.name]}>" for x in (a, b))
    left, lower, unit = (str(each).lower() for each in (form.left, form.lower, form.unit))
    text = f"""func.func @main(%a: {of_a}, %b: {of_b}) -> {of_b} {{
        %0 = "stablehlo.triangular_solve"(%a, %b) {{
            left_side = {left}, lower = {lower}, unit_diagonal = {unit},
            transpose_a = #stablehlo<transpose {form.transpose}>
        }} : ({of_a}, {of_b}) -> {of_b}
        return %0 : {of_b}
    }}"""
    executable = shlo.compile(text, target=target, options=OPTIONS)
    (found,), (again,) = executable(a, b), executable(a, b)
    np.testing.assert_array_equal(found, again)
    return found


def check(batch: Sequence[int], n: int, sides: int, form: Form, dtype: str) -> None:
    a, b = problem(batch, n, sides, form, dtype)
    found = solved(a, b, form, "opencl")
    np.testing.assert_array_equal(found, solved(a, b, form, "cpu"))
    triangle = np.nan_to_num(a.astype(np.complex128)) + np.eye(n) * form.unit
    triangle = triangle if form.transpose == "NO_TRANSPOSE" else triangle.swapaxes(-1, -2)
    triangle = triangle.conj() if form.transpose == "ADJOINT" else triangle
    back = triangle @ found if form.left else found @ triangle
    error = np.abs(back - b).max(initial=0)
    assert error <= 40 * float(np.finfo(b.dtype).eps) * float(np.abs(b).max(initial=1))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_forms(form: Form) -> None:
    check((2,), 11, 5, form, "complex64")


@pytest.mark.every(2)
@pytest.mark.parametrize("form", FEW, ids=str)
@pytest.mark.parametrize(
    "batch, n, sides, dtype",
    [
        ((), 1, 1, "float32"),
        ((3,), 5, 40, "float64"),  # a thread for each
        ((2,), 8, 3, "float32"),
        ((2, 2), 9, 1, "complex128"),
        ((3,), 16, 2, "float16"),
        ((1,), 40, 33, "float32"),
        ((2,), 33, 70, "float64"),
        ((1,), 100, 9, "float32"),  # the triangle stays in memory
        ((), 300, 20, "float64"),  # and so do the sides
        ((0,), 20, 3, "float32"),
        ((2,), 20, 0, "float32"),
        ((2,), 0, 3, "float32"),
    ],
    ids=str,
)
def test_sizes(batch: tuple[int, ...], n: int, sides: int, dtype: str, form: Form) -> None:
    check(batch, n, sides, form, dtype)


def test_many_sides() -> None:
    """Two of a thread."""
    check((), 10, 1 << 17, FORMS[0], "float32")


@pytest.mark.parametrize("form", FEW, ids=str)
def test_blocks(form: Form) -> None:
    """With products beside them, which are summed in another order."""
    a, b = problem((), 300, 40, form, "float64")
    found, right = (solved(a, b, form, target) for target in ("opencl", "cpu"))
    np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-12)
