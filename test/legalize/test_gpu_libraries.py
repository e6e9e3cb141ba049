"""Exports for `cuda` and `rocm` compile for other targets: what JAX keeps of modules and of what GPUs made of them, and
what it exports today."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.legalize.gpu_libraries import targets

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
import jax.scipy.linalg as jsl  # noqa: E402

linalg = jax.lax.linalg
RNG = np.random.default_rng(5)
# Vectors of these decompositions are unique but for signs and phases.
SPECTRAL = ("eigh", "svd")


def kept() -> Iterator[tuple[str, dict]]:
    """Modules that GPUs have run, with arguments and results: JAX's own tests of compatibility, by name."""
    package = pytest.importorskip("jax._src.internal_test_util.export_back_compat_test_data")
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith(("cuda_", "rocm_", "gpu_")):
            continue
        data = importlib.import_module(f"{package.__name__}.{module.name}")
        for name, value in vars(data).items():
            yield from inner(f"{module.name}.{name}", value)


def inner(name: str, value: object) -> Iterator[tuple[str, dict]]:
    if isinstance(value, dict) and "mlir_module_serialized" in value:
        yield name, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from inner(f"{name}.{key}", each)


KEPT = dict(kept())
OLD = ("hipsolver_syevj", "hipsolver_syevd")  # as JAX called it before version 0.5
RUN = {name: data for name, data in KEPT.items() if not set(OLD) & set(data["custom_call_targets"])}


def test_what_is_kept_is_found() -> None:
    called = {target for data in RUN.values() for target in data["custom_call_targets"]}
    assert len(RUN) >= 50 and len(called & targets()) >= 15
    assert {"cusolver_syevd_ffi", "hipsolver_getrf_ffi", "cusparse_gtsv2_ffi", "cu_threefry2x32_ffi"} <= called


@pytest.mark.parametrize("name", RUN)
def test_results_of_gpus(name: str) -> None:
    check_kept(name, "cpu")


# The matrix of sytrd has rank 2: of what is left behind that, the reflections are of rounding errors.
ON_DEVICE = [name for name in RUN if name.endswith((".f32", ".c128", "_04_01")) and "sytrd" not in name]


@pytest.mark.parametrize("name", ON_DEVICE)
def test_results_of_gpus_on_a_device(name: str, real_device: object) -> None:
    check_kept(name, "opencl")


def check_kept(name: str, target: str) -> None:
    """The results are those of the GPU."""
    data = RUN[name]
    executable = shlo.compile(data["mlir_module_serialized"], target=target)
    found = [np.asarray(result) for result in executable(*map(np.asarray, data["inputs"]))]
    expected = [np.asarray(result) for result in data["expected_outputs"]]
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in expected]
    if any(word in name for word in SPECTRAL):
        check_spectrum(found, expected)
        return
    for ours, theirs in zip(found, expected, strict=True):
        close(ours, theirs, np.abs(theirs).max(initial=1))


def check_spectrum(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Values are the same, and matrices that they are put together to."""
    rank = max(result.ndim for result in expected)
    (values,) = [number for number, result in enumerate(expected) if result.ndim == rank - 1]
    scale = np.abs(expected[values]).max()
    close(found[values], expected[values], scale)
    close(put_together(found, values), put_together(expected, values), scale)


def put_together(results: list[np.ndarray], number: int) -> np.ndarray:
    """V diag(w) V^H of eigenvectors, U diag(s) V^H of singular vectors."""
    values, vectors = results[number], [result for n, result in enumerate(results) if n != number]
    first = vectors[0][..., : values.shape[-1]]
    last = vectors[1][..., : values.shape[-1], :] if len(vectors) == 2 else first.conj().swapaxes(-1, -2)
    return (first * values[..., None, :]) @ last


def close(ours: np.ndarray, theirs: np.ndarray, scale: float) -> None:
    exact = ours.dtype.kind not in "fc"
    tolerance = 0 if exact else float(200 * np.finfo(ours.dtype).eps * scale)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)


# --- what JAX exports today -------------------------------------------------------------------------------------------


def normal(*sizes: int, dtype: type = np.float32) -> np.ndarray:
    x = RNG.standard_normal(sizes)
    return (x + 1j * RNG.standard_normal(sizes) if np.dtype(dtype).kind == "c" else x).astype(dtype)


SQUARE = normal(3, 5, 5) + 3 * np.eye(5, dtype=np.float32)
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2)
TALL, WIDE, SIDES, DIAGONAL = normal(3, 6, 4), normal(3, 4, 6), normal(3, 5, 2), normal(3, 5) + 4
PIVOTS = np.array([[3, 1, 6], [2, 2, 2]], np.int32)
ZEROS = np.zeros(5, np.float32)
KEY = np.array([1, 2], np.uint32)


def singular(a: jax.Array, algorithm: str = "DEFAULT", **options: bool) -> jax.Array:
    """Values, and the matrix from all of its parts."""
    u, s, vh = linalg.svd(a, algorithm=getattr(linalg.SvdAlgorithm, algorithm), **options)
    least = s.shape[-1]
    whole = (u[..., :least] * s[..., None, :]) @ vh[..., :least, :]
    edges = [x @ x.conj().swapaxes(-1, -2) for x in (u.conj().swapaxes(-1, -2), vh)]
    return jnp.concatenate([x.ravel() for x in (s.astype(whole.dtype), whole, *edges)])


def eigen(a: jax.Array) -> jax.Array:
    w, v = jnp.linalg.eigh(a)
    return jnp.concatenate(
        [w.astype(a.dtype), ((v * w[..., None, :]) @ v.conj().swapaxes(-1, -2)).reshape(*w.shape[:-1], -1)], -1
    )


def random(draw: Callable[..., jax.Array], *arguments: object) -> Callable[[jax.Array], jax.Array]:
    return lambda key: draw(jax.random.wrap_key_data(key), *arguments)


# Function, argument; the name begins with the targets that exports for cuda hold, without cusolver_ and _ffi.
EXPORTS: dict[str, tuple[Callable[..., object], tuple[np.ndarray, ...]]] = {
    "potrf": (jnp.linalg.cholesky, (POSITIVE,)),
    "geqrf orgqr": (jnp.linalg.qr, (TALL,)),
    "geqrf orgqr complete": (lambda x: jnp.linalg.qr(x, mode="complete"), (TALL,)),
    "geqrf orgqr complex": (jnp.linalg.qr, (normal(4, 3, dtype=np.complex64),)),
    "syevd": (eigen, (POSITIVE,)),
    "syevd complex": (eigen, (normal(2, 4, 4, dtype=np.complex64),)),
    "gesvdj": (singular, (TALL,)),
    "gesvdj wide": (singular, (WIDE,)),
    "gesvdj thin complex": (lambda x: singular(x, full_matrices=False), (normal(3, 6, 4, dtype=np.complex64),)),
    "gesvdj values": (lambda x: jnp.linalg.svd(x, compute_uv=False), (TALL,)),
    "gesvd": (lambda x: singular(x, "QR"), (TALL,)),
    "gesvd wide": (lambda x: singular(x, "QR"), (WIDE,)),
    "gesvd wide thin complex": (lambda x: singular(x, "QR", full_matrices=False), (normal(3, 6, dtype=np.complex64),)),
    "gesvd values": (lambda x: linalg.svd(x, compute_uv=False, algorithm=linalg.SvdAlgorithm.QR), (TALL,)),
    "gesvd wide values": (lambda x: linalg.svd(x, compute_uv=False, algorithm=linalg.SvdAlgorithm.QR), (WIDE,)),
    "getrf": (jnp.linalg.slogdet, (SQUARE,)),
    "getrf cu_lu_pivots_to_permutation": (linalg.lu, (TALL,)),
    "getrf cu_lu_pivots_to_permutation wide": (linalg.lu, (WIDE,)),
    "getrf cu_lu_pivots_to_permutation solve": (jnp.linalg.solve, (SQUARE, SIDES)),
    "cu_lu_pivots_to_permutation": (lambda x: linalg.lu_pivots_to_permutation(x, 7), (PIVOTS,)),
    "sytrd": (linalg.tridiagonal, (POSITIVE,)),
    "cusparse_gtsv2": (linalg.tridiagonal_solve, (DIAGONAL / 4, DIAGONAL, DIAGONAL / 4, SIDES)),
    "ApproxTopK": (lambda x: jax.lax.approx_max_k(x, 2), (DIAGONAL,)),
    "potrf random": (random(jax.random.multivariate_normal, np.zeros(5, np.float32), POSITIVE[0]), (KEY,)),
    "random": (random(jax.random.normal, (7,)), (KEY,)),
    "fft": (jnp.fft.rfft, (DIAGONAL,)),
    "solve_triangular": (lambda a, b: jsl.solve_triangular(a, b, lower=True), (SQUARE, SIDES)),
}  # fmt: skip


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
@pytest.mark.parametrize("name", EXPORTS)
def test_exports(name: str, platform: str) -> None:
    check_export(name, platform, "cpu")


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_on_a_device(name: str, real_device: object) -> None:
    check_export(name, "cuda", "opencl")


def check_export(name: str, platform: str, target: str) -> None:
    """An export gives on a target what JAX gives here."""
    function, arguments = EXPORTS[name]
    if platform == "rocm" and "gtsv" in name:
        pytest.skip("JAX exports none for rocm")
    jitted = jax.jit(function)
    exported = jax.export.export(jitted, platforms=[platform])(*arguments)
    assert called(exported) == expected_calls(name, platform)
    found = shlo.compile(exported, target=target)(*arguments)
    right = jax.tree_util.tree_leaves(jitted(*arguments) if "gesvd" not in name else reference(name, arguments))
    for ours, theirs in zip(found, map(np.asarray, right), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4 * max(1, np.abs(theirs).max()))


def reference(name: str, arguments: tuple[np.ndarray, ...]) -> object:
    """By the algorithm that JAX has for processors."""
    if "values" in name:
        return jnp.linalg.svd(*arguments, compute_uv=False)
    return singular(*arguments, full_matrices="thin" not in name)


def called(exported: jax.export.Exported) -> set[str]:
    names = exported.mlir_module().split("stablehlo.custom_call @")[1:]
    return {name.partition("(")[0] for name in names}


def expected_calls(name: str, platform: str) -> set[str]:
    """The targets that a name of `EXPORTS` begins with."""
    solver = [f"cusolver_{word}_ffi" for word in name.split() if f"cusolver_{word}_ffi" in targets()]
    own = [word for word in name.split() if word.startswith("cu_") or word == "ApproxTopK"]
    own += [f"{word}_ffi" for word in name.split() if word.startswith("cusparse")]
    found = {*solver, *own}
    return (
        {name.replace("cu", "hip", 1) if name.startswith("cu") else name for name in found}
        if platform == "rocm"
        else found
    )


# --- what is refused --------------------------------------------------------------------------------------------------

CALL = """func.func @main(%a: tensor<{type}>) -> tensor<{type}> {{
  %0 = stablehlo.custom_call @{target}(%a) {{mhlo.backend_config = {{{entries}}}}} : (tensor<{type}>) -> tensor<{type}>
  return %0 : tensor<{type}>
}}"""
REFUSED = {
    "cusolver_getrf": ("", "3x3xf32", "as JAX did before version 0.5"),
    "rocsolver_potrf": ("", "3x3xf32", "as JAX did before version 0.5"),
    "mosaic_gpu_v2": ("", "3x3xf32", "a kernel that another compiler"),
    "__gpu$xla.gpu.triton": ("", "3x3xf32", "a kernel of Triton for NVIDIA's GPUs"),
    "cusolver_getrf_ffi": ("", "3x3xf32", "with 1 operands and 1 results, which takes 1 and gives 3"),
    "cusolver_gesvdq_ffi": ("", "3x3xf32", "is not known"),
    "hip_threefry2x32_ffi": ("", "3xui32", "takes four tensors of one type"),
    "cu_lu_pivots_to_permutation": ("", "3xf32", "takes i32 pivots"),
}


@pytest.mark.parametrize("target", REFUSED)
def test_refused(target: str) -> None:
    entries, type_, reason = REFUSED[target]
    text = CALL.format(target=f'"{target}"', entries=entries, type=type_)
    with pytest.raises(UnsupportedError, match=reason):
        shlo.compile(text)


@pytest.mark.parametrize("entries, type_, reason", [
    ("", "3x3xf32", "without the flag lower"),
    ("lower = 1 : i32", "3x3xf32", "without the flag lower"),
    ("lower = true", "3x3xi32", "takes tensors of f32, f64"),
])  # fmt: skip
def test_wrong_configurations_are_refused(entries: str, type_: str, reason: str) -> None:
    text = f"""func.func @main(%a: tensor<{type_}>) -> tensor<{type_}> {{
      %0:2 = stablehlo.custom_call @cusolver_potrf_ffi(%a) {{mhlo.backend_config = {{{entries}}}}}
        : (tensor<{type_}>) -> (tensor<{type_}>, tensor<i32>)
      return %0#0 : tensor<{type_}>
    }}"""
    with pytest.raises(UnsupportedError, match=reason):
        shlo.compile(text)
