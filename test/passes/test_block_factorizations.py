"""Blocked factorizations and solves against SciPy: every form, element type and number of splits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import scipy.linalg

from stablehlo_py.backends.base import get_backend
from stablehlo_py.compiler import run_stages
from stablehlo_py.frontend.load import load
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.passes.block_factorizations import BlockFactorizations
from stablehlo_py.runtime.loading import executable

RNG = np.random.default_rng(3)
ELEMENTS = {"f4": "f32", "f8": "f64", "c8": "complex<f32>", "c16": "complex<f64>"}
TOLERANCE = {"f4": 1e-5, "f8": 1e-13, "c8": 1e-5, "c16": 1e-13}


def random(dtype: str, *sizes: int) -> np.ndarray:
    real = RNG.standard_normal(sizes)
    return (real + 1j * RNG.standard_normal(sizes) if dtype[0] == "c" else real).astype(dtype)


def run(op: str, arrays: Sequence[np.ndarray], block: int) -> np.ndarray:
    """`op` on arrays, whose last one has the result's type."""
    types = [f"tensor<{'x'.join(map(str, array.shape))}x{ELEMENTS[array.dtype.str[1:]]}>" for array in arrays]
    arguments = ", ".join(f"%{number}: {type_}" for number, type_ in enumerate(types))
    text = f"func.func @main({arguments}) -> {types[-1]} {{\n  %r = {op} : ({', '.join(types)}) -> {types[-1]}\n"
    module = load(text + f"  return %r : {types[-1]}\n}}\n")
    options = Options(threads=1)
    with module.context, ir.Location.unknown():
        run_stages(module, "", "hlo", options)
        ops = str(module).count("hlo.triangular_solve") + str(module).count("hlo.cholesky")
        BlockFactorizations(block=block).run(module)
        assert str(module).count("hlo.triangular_solve") + str(module).count("hlo.cholesky") > ops
        run_stages(module, "hlo", "scheduled", options)
        program = get_backend("cpu").compile(module, options)
    return executable(program)(*arrays)[0]


@pytest.mark.every(2)
@pytest.mark.parametrize("block", [2, 3])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_cholesky(dtype: str, lower: bool, block: int) -> None:
    a = random(dtype, 2, 9, 9)
    a = (a @ a.conj().swapaxes(-1, -2) + 9 * np.eye(9)).astype(dtype)
    result = run(f'"stablehlo.cholesky"(%0) {{lower = {str(lower).lower()}}}', [a], block)
    for one, factor in zip(a, result, strict=True):
        np.testing.assert_allclose(factor, scipy.linalg.cholesky(one, lower), atol=10 * TOLERANCE[dtype])


def test_matrix_that_is_not_definite() -> None:
    """NaNs begin at the row where the factorization fails."""
    a = np.eye(8, dtype="f4")
    a[5, 5] = -1
    result = run('"stablehlo.cholesky"(%0) {lower = true}', [a], 2)
    np.testing.assert_array_equal(result[:5, :5], np.eye(5))
    assert np.isnan(result[5:, 5]).all() and np.isnan(result[7, 7])


@pytest.mark.every(2)
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("form", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_triangular_solve(dtype: str, left: bool, lower: bool, form: str, unit: bool) -> None:
    """The other triangle, and a unit diagonal, hold numbers that must not be read."""
    n, sides = 9, 33
    a = random(dtype, 2, n, n) + 9 * np.eye(n, dtype=dtype)
    b = random(dtype, 2, n, sides) if left else random(dtype, 2, sides, n)
    attributes = f"left_side = {str(left).lower()}, lower = {str(lower).lower()}, unit_diagonal = {str(unit).lower()}"
    op = f'"stablehlo.triangular_solve"(%0, %1) {{{attributes}, transpose_a = #stablehlo<transpose {form}>}}'
    result = run(op, [a, b], 2)
    for matrix, wanted, x in zip(a, b, result, strict=True):
        triangle = np.tril(matrix, -unit) if lower else np.triu(matrix, unit)
        triangle = triangle + unit * np.eye(n)
        used = {"NO_TRANSPOSE": triangle, "TRANSPOSE": triangle.T, "ADJOINT": triangle.conj().T}[form]
        product = used @ x if left else x @ used
        np.testing.assert_allclose(product, wanted, atol=1000 * TOLERANCE[dtype] if unit else 100 * TOLERANCE[dtype])
