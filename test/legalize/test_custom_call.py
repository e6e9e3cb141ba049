"""Library calls of JAX's CPU lowering: Cholesky factorizations and triangular solves, batched, of every float type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import sparse

import stablehlo_py
from stablehlo_py.errors import ShloError, UnsupportedError

DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
every_type = pytest.mark.parametrize("dtype", DTYPES)
OPTIONS = stablehlo_py.Options(threads=1, cache_dir=None)
RNG = np.random.default_rng(3)


def random(*sizes: int, dtype: type) -> np.ndarray:
    x = RNG.standard_normal(sizes)
    return (x + 1j * RNG.standard_normal(sizes) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def positive(*sizes: int, dtype: type) -> np.ndarray:
    a = random(*sizes, dtype=dtype)
    return a @ a.conj().swapaxes(-1, -2) + np.eye(sizes[-1], dtype=dtype)


def check(function: Callable[..., jax.Array], *arrays: np.ndarray) -> np.ndarray:
    """The compiled export gives what JAX gives, NaN at the same places."""
    with jax.enable_x64(True):
        exported = jax.export.export(jax.jit(function), platforms=["cpu"])(*arrays)
        expected = np.asarray(jax.jit(function)(*arrays))
        (ours,) = stablehlo_py.compile(exported, options=OPTIONS)(*arrays)
    assert ours.dtype == expected.dtype
    tolerance = 50 * np.finfo(expected.dtype).eps
    np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance * np.nanmax(np.abs(expected), initial=0))
    return ours


@every_type
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(dtype: type, upper: bool) -> None:
    a = positive(3, 6, 6, dtype=dtype)
    check(lambda a: jnp.linalg.cholesky(a, upper=upper), a[0])
    a[1] *= -1  # one matrix of the batch has no factor: NaN in its triangle, and there only
    result = check(lambda a: jnp.linalg.cholesky(a, upper=upper), a)
    assert np.isnan(result[1]).sum() == 21 and not np.isnan(result[[0, 2]]).any()


@pytest.mark.parametrize("zero", range(4))
def test_a_pivot_of_zero_has_no_factor(zero: int) -> None:
    a = np.eye(4, dtype=np.float32)
    a[zero, zero] = 0
    assert np.isnan(check(jnp.linalg.cholesky, a)).any()


@pytest.mark.parametrize("uplo", "LU")
def test_info_is_the_number_of_the_first_bad_pivot(uplo: str) -> None:
    matrices = np.stack([np.eye(3, dtype=np.float64) for _ in range(5)])
    matrices[1, 0, 0], matrices[2, 1, 1], matrices[3, 2, 2], matrices[4, 1, 1] = -1, 0, np.nan, -3
    text = f"""func.func @main(%a: tensor<5x3x3xf64>) -> tensor<5xi32> {{
      %0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {{
        mhlo.backend_config = {{uplo = {ord(uplo)} : ui8}},
        operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>],
        result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<0> : tensor<1xindex>]
      }} : (tensor<5x3x3xf64>) -> (tensor<5x3x3xf64>, tensor<5xi32>)
      return %0#1 : tensor<5xi32>
    }}"""
    (info,) = stablehlo_py.compile(text, options=OPTIONS)(matrices)
    assert info.tolist() == [0, 1, 2, 3, 2]


@pytest.mark.every(3)
@every_type
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(("transpose", "conjugate"), [(False, False), (True, False), (True, True)])
def test_triangular_solve(dtype: type, left: bool, lower: bool, transpose: bool, conjugate: bool) -> None:
    a = random(2, 6, 6, dtype=dtype) / 4 + 2 * np.eye(6, dtype=dtype)
    b = random(2, *((6, 5) if left else (5, 6)), dtype=dtype)
    for unit in (False, True):

        def solve(a: jax.Array, b: jax.Array, unit: bool = unit) -> jax.Array:
            return lax.linalg.triangular_solve(
                a,
                b,
                left_side=left,
                lower=lower,
                transpose_a=transpose,
                conjugate_a=conjugate,
                unit_diagonal=unit,
            )

        check(solve, a, b)
        check(solve, a[0], b[0])


@every_type
def test_the_other_triangle_stays(dtype: type) -> None:
    a = positive(4, 4, dtype=dtype)
    marked = a.copy()
    marked[np.triu_indices(4, 1)] = 7
    kind = {"f4": "f32", "f8": "f64", "c8": "complex<f32>", "c16": "complex<f64>"}[np.dtype(dtype).str[1:]]
    letter = {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}[np.dtype(dtype).str[1:]]
    text = f"""func.func @main(%a: tensor<4x4x{kind}>) -> tensor<4x4x{kind}> {{
      %0:2 = stablehlo.custom_call @lapack_{letter}potrf_ffi(%a) {{
        mhlo.backend_config = {{uplo = {ord("L")} : ui8}}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
        result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]
      }} : (tensor<4x4x{kind}>) -> (tensor<4x4x{kind}>, tensor<i32>)
      return %0#0 : tensor<4x4x{kind}>
    }}"""
    (factor,) = stablehlo_py.compile(text, options=OPTIONS)(marked)
    assert (factor[np.triu_indices(4, 1)] == 7).all()
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(a), rtol=1e-4, atol=1e-5)


def _call(target: str, configuration: str = "") -> str:
    return f"""func.func @main(%a: tensor<3x3xf32>) -> tensor<3x3xf32> {{
      %0:2 = stablehlo.custom_call @{target}(%a) {{
        {configuration} operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
        result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]
      }} : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>)
      return %0#0 : tensor<3x3xf32>
    }}"""


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("lapack_sgetrf", "as JAX did before version 0.5\n  help: export the model with JAX 0.5 or newer"),
        ("xla_ffi_python_cpu_callback", "calls a Python function of the process that made the model"),
        ("lapack_spotrf_ffi", "without uplo in a typed configuration"),
        ("lapack_spotfr_ffi", "not known to the CPU backend\n  help: did you mean 'lapack_spotrf_ffi'"),
    ],
)
def test_calls_that_are_refused(target: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        stablehlo_py.compile(_call(target), options=OPTIONS)
    assert message in str(caught.value)
    assert "<text>:2:14" in str(caught.value)


# --- JAX's functions, through LAPACK ----------------------------------------------------------------------------------

L = lax.linalg
REAL_FUNCTIONS: dict[str, tuple[Callable[..., object], str]] = {
    "lu": (L.lu, "g"),
    "solve": (jnp.linalg.solve, "gs"),
    "inv": (jnp.linalg.inv, "g"),
    "det": (jnp.linalg.det, "g"),
    "qr": (jnp.linalg.qr, "t"),
    "qr_complete": (lambda a: jnp.linalg.qr(a, mode="complete"), "t"),
    "qr_pivoting": (lambda a: L.qr(a, pivoting=True, full_matrices=False), "t"),
    "svd": (jnp.linalg.svd, "t"),
    "svdvals": (lambda a: jnp.linalg.svd(a, full_matrices=False, compute_uv=False), "t"),
    "svd_qr": (lambda a: L.svd(a, algorithm=L.SvdAlgorithm.QR, full_matrices=False), "t"),
    "pinv": (jnp.linalg.pinv, "t"),
    "lstsq": (jnp.linalg.lstsq, "tu"),
    "eigh": (jnp.linalg.eigh, "h"),
    "eigvalsh": (jnp.linalg.eigvalsh, "h"),
    "eig": (L.eig, "g"),
    "eigvals": (jnp.linalg.eigvals, "g"),
    "schur": (L.schur, "g"),
    "expm": (jax.scipy.linalg.expm, "g"),
    "hessenberg": (L.hessenberg, "g"),
    "tridiagonal": (L.tridiagonal, "h"),
    "tridiagonal_solve": (L.tridiagonal_solve, "vvvs"),
    "tridiagonal_solve_perturbed": (partial(L.tridiagonal_solve, perturb_singular=True), "vvvs"),
    "cho_solve": (lambda a, b: jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(a), True), b), "ps"),
}
UNSTABLE = [
    jax.export.DisabledSafetyCheck.custom_call(f"lapack_{letter}{name}_ffi")
    for letter in "sdcz"
    for name in ("geqp3", "gesvd")
]
UNSTABLE += [
    jax.export.DisabledSafetyCheck.custom_call(name)
    for name in ("tridiagonal_solve_perturbed_ffi", "cpu_csr_sparse_dense_ffi")
]
ONE_MATRIX = frozenset(("lstsq",))  # functions that take no batch


def _argument(kind: str, batch: tuple[int, ...], dtype: type) -> np.ndarray:
    """g: general, h: Hermitian, p: positive, t: tall, s: right-hand sides of g, u: of t, v: a diagonal of g."""
    if kind == "p":
        return positive(*batch, 5, 5, dtype=dtype)
    sizes = {"g": (5, 5), "h": (5, 5), "t": (6, 3), "s": (5, 2), "u": (6, 2), "v": (5,)}[kind]
    a = random(*batch, *sizes, dtype=dtype)
    return (a + a.conj().swapaxes(-1, -2)) if kind == "h" else a


@pytest.mark.parametrize(("dtype", "batch"), [(np.float32, (3,)), (np.float64, ())])
@pytest.mark.parametrize("name", REAL_FUNCTIONS)
def test_functions_of_jax(name: str, dtype: type, batch: tuple[int, ...]) -> None:
    function, kinds = REAL_FUNCTIONS[name]
    arrays = [_argument(kind, () if name in ONE_MATRIX else batch, dtype) for kind in kinds]
    with jax.enable_x64(True):
        compiled = jax.jit(function)
        exported = jax.export.export(compiled, platforms=["cpu"], disabled_checks=UNSTABLE)(*arrays)
        expected = [np.asarray(result) for result in jax.tree.leaves(compiled(*arrays))]
        results = stablehlo_py.compile(exported, options=OPTIONS)(*arrays)
    for ours, theirs in zip(results, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(ours, theirs, rtol=500 * eps, atol=500 * eps * np.abs(theirs).max(initial=1))


def _compiled(function: Callable[..., object], *arrays: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What the compiled export gives, and what JAX gives."""
    with jax.enable_x64(True):
        compiled = jax.jit(function)
        exported = jax.export.export(compiled, platforms=["cpu"], disabled_checks=UNSTABLE)(*arrays)
        expected = [np.asarray(result) for result in jax.tree.leaves(compiled(*arrays))]
        return list(stablehlo_py.compile(exported, options=OPTIONS)(*arrays)), expected


@every_type
def test_singular_tridiagonal_systems(dtype: type) -> None:
    n, batch = 7, 6
    low, diagonal, up = (random(batch, n, dtype=dtype) for _ in range(3))
    low[:, 0] = up[:, -1] = 0
    known = random(batch, n, 3, dtype=dtype)
    diagonal[0], up[0] = 0, 0  # nilpotent
    low[1], diagonal[1], up[1] = 0, 0, 0
    diagonal[2, 3] = low[2, 3] = 0
    low[3], up[3], diagonal[3] = 0, 0, np.finfo(dtype).tiny  # dividing by it overflows
    low[4, 1:], up[4, :-1], diagonal[4] = 1, 1, 2 * np.cos(np.pi / (n + 1))  # minus an eigenvalue
    for rows in (1, 2, n):
        arrays = [a[:, :rows] for a in (low, diagonal, up, known)]
        (ours,), (theirs,) = _compiled(partial(L.tridiagonal_solve, perturb_singular=True), *arrays)
        finite = np.isfinite(theirs)
        assert (np.isfinite(ours) == finite).all() and finite.mean() > 0.5
        # Nearly singular systems amplify a rounding by 1 / eps: the directions agree.
        for one, other in zip(np.where(finite, ours, 0), np.where(finite, theirs, 0), strict=True):
            scale = np.abs(other).max(axis=0, initial=np.finfo(dtype).tiny)
            # The sign of a pivot of zero is the solution's. That of a complex quotient of zero is the formula's.
            if np.dtype(dtype).kind == "c" and np.vdot(one / scale, other / scale).real < 0:
                one = -one
            np.testing.assert_allclose(one / scale, other / scale, rtol=0, atol=1e3 * np.finfo(dtype).eps)


@every_type
def test_a_tiny_system_is_scaled_up(dtype: type) -> None:
    # Not against JAX: XLA takes denormal numbers for zero.
    tiny, r = np.finfo(dtype).tiny, (1 + RNG.random((3, 2))).astype(dtype)
    zeros, diagonal = np.zeros(3, dtype), np.full(3, tiny / 8, dtype)
    text = _export_text(partial(L.tridiagonal_solve, perturb_singular=True), zeros, diagonal, zeros, r)
    (ours,) = stablehlo_py.compile(text, options=OPTIONS)(zeros, diagonal, zeros, r * tiny)
    np.testing.assert_allclose(ours, 8 * r, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.int32, *DTYPES])
@pytest.mark.parametrize("width", [None, 1, 3, 17])
def test_sparse_rows_times_dense(dtype: type, width: int | None) -> None:
    dense = RNG.integers(-3, 4, (5, 6)) * (RNG.random((5, 6)) < 0.4)
    dense[2] = 0
    matrix = sparse.BCSR.fromdense(jnp.asarray(dense), nse=20)
    data = np.asarray(matrix.data).astype(dtype)
    other = RNG.integers(-4, 5, (6,) if width is None else (6, width)).astype(dtype)

    def product(data: jax.Array, other: jax.Array) -> jax.Array:
        return sparse.BCSR((data, matrix.indices, matrix.indptr), shape=matrix.shape) @ other

    text = _export_text(product, data, other)
    assert "cpu_csr_sparse_dense_ffi" in text
    (ours,) = stablehlo_py.compile(text, options=OPTIONS)(data, other)
    np.testing.assert_array_equal(ours, dense.astype(dtype) @ other)


def _export_text(function: Callable[..., object], *arrays: np.ndarray) -> str:
    with jax.enable_x64(True):
        return str(
            jax.export.export(jax.jit(function), platforms=["cpu"], disabled_checks=UNSTABLE)(*arrays).mlir_module()
        )


@pytest.mark.parametrize("aggregate", [True, False])
@pytest.mark.parametrize(("function", "axis"), [(lax.approx_max_k, -1), (lax.approx_min_k, 0)])
def test_approximate_top_k(function: Callable[..., object], axis: int, aggregate: bool) -> None:
    a = RNG.integers(-9, 9, (6, 40)).astype(np.float32)  # ties: lower indices first
    k = 3
    ours, theirs = _compiled(partial(function, k=k, reduction_dimension=axis, aggregate_to_topk=aggregate), a)
    sign = -1 if function is lax.approx_max_k else 1
    order = np.argsort(sign * a, axis=axis, kind="stable")
    for result, expected in zip(ours, theirs, strict=True):
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    first = np.take(order, range(ours[1].shape[axis]), axis=axis)
    np.testing.assert_array_equal(ours[1], first)
    np.testing.assert_array_equal(ours[0], np.take_along_axis(a, first, axis=axis))
    np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("target", ["LayoutConstraint", "annotate_device_placement", "Sharding", "AllocateBuffer"])
def test_targets_that_compute_nothing(target: str) -> None:
    operand = "" if target == "AllocateBuffer" else "%x"
    types = "tensor<3xf32>" if operand else ""
    text = f"""func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {{
      %0 = stablehlo.custom_call @{target}({operand}) : ({types}) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }}"""
    x = np.arange(3, dtype=np.float32)
    (result,) = stablehlo_py.compile(text, options=OPTIONS)(x)
    np.testing.assert_array_equal(result, x if operand else 0 * x)


def test_a_sink_of_values_takes_its_operand_and_does_nothing() -> None:
    import jax.export

    def function(x: jax.Array) -> jax.Array:
        jax.lax.dce_sink(x + 1, prevent_mlir_dce=True)
        return 2 * x

    x = np.arange(3, dtype=np.float32)
    checks = [jax.export.DisabledSafetyCheck.custom_call("dce_sink")]
    exported = jax.export.export(jax.jit(function), disabled_checks=checks)(x)
    assert "dce_sink" in exported.mlir_module()
    np.testing.assert_array_equal(stablehlo_py.compile(exported, options=OPTIONS)(x)[0], 2 * x)


WINDOWS = """func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %window = stablehlo.constant dense<5> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %padding = stablehlo.constant dense<[[4, 0]]> : tensor<1x2xi32>
  %0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %zero, %window, %one, %one, %one, %padding)
    {called_computations = [@add]} : (tensor<5xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>,
    tensor<1xi32>, tensor<1x2xi32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}
"""


def test_dynamic_windows_of_a_static_module() -> None:
    (sums,) = stablehlo_py.compile(WINDOWS, options=OPTIONS)(np.arange(5, dtype=np.float32))
    np.testing.assert_array_equal(sums, [0, 1, 3, 6, 10])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {
                "dense<5> : tensor<1xi32>": "dense<5> : tensor<1x1xi32>",
                "<f32>, tensor<1xi32>": "<f32>, tensor<1x1xi32>",
            },
            "four numbers and two of padding for each dimension",
        ),
        (
            {"constant dense<5> :": "bitcast_convert %part : (tensor<1xf32>) ->"},
            "windows that are not given by constants",
        ),
    ],
    ids=["rank", "data"],
)
def test_dynamic_windows_that_are_not_known(changes: dict[str, str], message: str) -> None:
    part = "  %part = stablehlo.slice %x [0:1] : (tensor<5xf32>) -> tensor<1xf32>\n"
    text = WINDOWS.replace("  %window =", part + "  %window =")
    for old, new in changes.items():
        text = text.replace(old, new, 1)
    with pytest.raises(ShloError, match=message):
        stablehlo_py.compile(text, options=OPTIONS)
