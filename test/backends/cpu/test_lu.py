"""LU factorizations of many small matrices (kernels/lu.py)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.api import compile_program

OPTIONS = shlo.Options(threads=1, cache_dir=None)
RNG = np.random.default_rng(0)
DTYPES = (np.float32, np.float64, np.complex64, np.complex128)


def matrices(*sizes: int, dtype: type) -> np.ndarray:
    x = RNG.standard_normal(sizes)
    return (x + 1j * RNG.standard_normal(sizes) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def compiled(function, *arguments, threads: int = 1, cpu: str = ""):
    with jax.enable_x64(True):
        exported = jax.export.export(jax.jit(function), platforms=["cpu"])(*arguments)
    return shlo.compile(exported, options=shlo.Options(threads=threads, cache_dir=None, isolate=False, cpu=cpu or None))


@pytest.mark.every(3)
@pytest.mark.parametrize("cpu", ["", "avx2", "generic"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "columns", "batch"), [(1, 1, 16), (6, 6, 37), (5, 3, 18), (3, 24, 17)])
def test_factors_are_those_of_scipy(rows: int, columns: int, batch: int, dtype: type, cpu: str) -> None:
    a = matrices(batch, rows, columns, dtype=dtype)
    factors, pivots, rows_of = compiled(lax.linalg.lu, a, cpu=cpu)(a)
    tolerance = 30 * rows * np.finfo(dtype).eps
    for matrix, factor, pivot, row in zip(a, factors, pivots, rows_of, strict=True):
        low = np.tril(factor, -1)[:, :rows] + np.eye(rows, min(rows, columns))
        low = low[:, : min(rows, columns)]
        up = np.triu(factor)[: min(rows, columns)]
        np.testing.assert_allclose(low @ up, matrix[row], 0, tolerance)
        np.testing.assert_array_equal(pivot, scipy.linalg.lapack.get_lapack_funcs("getrf", (matrix,))(matrix)[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_depend_on_the_matrix_alone(dtype: type) -> None:
    """Neither on how many threads there are, nor on its place in the batch."""
    a = matrices(16 * 40 + 5, 7, 7, dtype=dtype)
    results = [compiled(lax.linalg.lu, a, threads=threads)(a) for threads in (1, 2, 4)]
    turned = compiled(lax.linalg.lu, a)(np.roll(a, 3, 0))
    for one, two, four, other in zip(*results, turned, strict=True):
        assert one.tobytes() == two.tobytes() == four.tobytes() == np.roll(other, -3, 0).tobytes()


@pytest.mark.parametrize("cpu", ["", "avx2", "generic"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [64, 69])
def test_matrices_by_rows_give_the_same_bits(batch: int, dtype: type, cpu: str) -> None:
    """As those that are transposed for the kernel, also where it writes over what it reads."""
    a = matrices(batch, 5, 4, dtype=dtype)
    by_rows, in_place = (
        compiled(each, a, cpu=cpu) for each in (lax.linalg.lu, lambda x: lax.linalg.lu(jnp.sort(x, 0)))
    )
    assert "hlo.by_rows" in by_rows.stages["fused"]
    assert "hlo.by_rows" in in_place.stages["fused"]
    assert "hlo.inplace" in in_place.stages["scheduled"]
    few = [compiled(lax.linalg.lu, each, cpu=cpu)(each) for each in (a[:35], a[35:])]
    for whole, first, second in zip(by_rows(a), *few, strict=True):
        assert whole.tobytes() == first.tobytes() + second.tobytes()
    a = np.sort(a, 0)
    for one, other in zip(in_place(a), by_rows(a), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_pivots_that_are_zero_are_told(dtype: type) -> None:
    """By the number of the first, as LAPACK does; other matrices are not touched, and of equal sizes the first row is
    taken."""
    a = matrices(20, 4, 4, dtype=dtype)
    a[3] = 0
    a[5, :, 1] = 0
    a[7, 1] = a[7, 0]
    a[9] = 1
    a[11, 1, 2] = np.nan
    letter, name = {"f4": ("s", "f32"), "f8": ("d", "f64"), "c8": ("c", "complex<f32>"), "c16": ("z", "complex<f64>")}[
        np.dtype(dtype).str[1:]
    ]
    matrix = f"tensor<20x4x4x{name}>"
    order = "dense<[1, 2, 0]> : tensor<3xindex>"
    others = "dense<[1, 0]> : tensor<2xindex>, dense<0> : tensor<1xindex>"
    call = (
        f"stablehlo.custom_call @lapack_{letter}getrf_ffi(%a) {{mhlo.backend_config = {{}}, operand_layouts = [{order}]"
    )
    types = f"{matrix}, tensor<20x4xi32>, tensor<20xi32>"
    text = f"""func.func @main(%a: {matrix}) -> ({types}) {{
      %r:3 = {call}, result_layouts = [{order}, {others}]}} : ({matrix}) -> ({types})
      return %r#0, %r#1, %r#2 : {types}
    }}"""
    program = compile_program(text, options=OPTIONS)
    assert not [symbol for symbol in program.symbols if "lapack" in symbol]
    factors, pivots, info = shlo.compile(text, options=OPTIONS)(a)
    np.testing.assert_array_equal(info, [{3: 1, 5: 2, 7: 4, 9: 2}.get(number, 0) for number in range(20)])
    np.testing.assert_array_equal(factors[3], 0)
    np.testing.assert_array_equal(pivots[9], [1, 2, 3, 4])
    assert [number for number in range(20) if not np.isfinite(factors[number]).all()] == [11]


def test_a_batch_of_unknown_size_is_factorized_by_lanes() -> None:
    (n,) = jax.export.symbolic_shape("n")
    exported = jax.export.export(jax.jit(jnp.linalg.inv))(jax.ShapeDtypeStruct((n, 5, 5), np.float32))
    program = shlo.compile(exported, options=OPTIONS)
    for batch in (1, 15, 16, 33):
        a = matrices(batch, 5, 5, dtype=np.float32) + 4 * np.eye(5, dtype=np.float32)
        np.testing.assert_allclose(program(a)[0] @ a, np.broadcast_to(np.eye(5), a.shape), 0, 1e-5)
