"""Exports for `cuda` and `rocm` compile for other targets: what JAX keeps of modules and of what GPUs made of them, and
what it exports today."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.legalize.gpu_libraries import refused, targets

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


# --- eigenvalues of general matrices, pivots of columns ---------------------------------------------------------------


VENDORS = {"cuda": "cu", "rocm": "hip"}


def general(dtype: type) -> np.ndarray:
    """Matrices with pairs of complex eigenvalues, and with real ones."""
    return normal(4, 5, 5, dtype=dtype)


class NewCusolver:
    """What JAX asks a machine that has one for."""

    @staticmethod
    def cusolver_get_version() -> int:
        return 11701


def exported_with(function: Callable[..., object], platform: str, target: str, a: np.ndarray) -> jax.export.Exported:
    """JAX promises nothing about this target, and wants to be told that one knows."""
    checks = [jax.export.DisabledSafetyCheck.custom_call(target)]
    return jax.export.export(jax.jit(function), platforms=[platform], disabled_checks=checks)(a)


def eigenvectors(a: np.ndarray, w: np.ndarray, v: np.ndarray, left: bool = False) -> None:
    """They belong to the values, and have the length 1."""
    a = a.conj().swapaxes(-1, -2) if left else a
    w = w.conj() if left else w
    np.testing.assert_allclose(a @ v, v * w[..., None, :], atol=2e-4 if np.finfo(a.dtype).eps > 1e-9 else 1e-11)
    np.testing.assert_allclose(np.linalg.norm(v, axis=-2), 1, rtol=1e-5)


@pytest.mark.parametrize("platform, implementation, sides", [
    *((platform, None, (left, right)) for platform in ("cuda", "rocm") for left in (0, 1) for right in (0, 1)),
    ("cuda", "MAGMA", (1, 1)),
    ("cuda", "CUSOLVER", (0, 1)),
    ("cuda", "CUSOLVER", (0, 0)),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_general_eigenvalues(platform, implementation, sides, dtype, monkeypatch) -> None:
    is_real = np.dtype(dtype).kind == "f"
    target = f"{VENDORS[platform]}hybrid_eig_{'real' if is_real else 'comp'}"
    if implementation == "CUSOLVER":
        monkeypatch.setattr("jax._src.lax.linalg.cuda_versions", NewCusolver)
        target = "cusolver_geev_ffi"
    chosen = implementation and getattr(linalg.EigImplementation, implementation)
    left, right = map(bool, sides)

    def function(a: jax.Array) -> list[jax.Array]:
        return linalg.eig(a, compute_left_eigenvectors=left, compute_right_eigenvectors=right, implementation=chosen)

    with jax.enable_x64(True):
        a = general(dtype)
        exported = exported_with(function, platform, target, a)
        wanted = np.asarray(jnp.linalg.eig(a)[0])
    assert called(exported) == {target}
    values, *vectors = (np.asarray(result) for result in shlo.compile(exported)(a))
    close(np.sort_complex(values), np.sort_complex(wanted), 10 * np.abs(wanted).max())
    assert len(vectors) == left + right
    for each, is_left in zip(vectors, [True][: int(left)] + [False][: int(right)], strict=True):
        eigenvectors(a, values, each, is_left)


def test_eigenvalues_of_what_is_not_finite() -> None:
    """They are NaN, as JAX has it on processors."""
    a = general(np.float32)
    a[2, 1, 3] = np.inf
    exported = exported_with(jnp.linalg.eig, "cuda", "cuhybrid_eig_real", a)
    values, vectors = (np.asarray(result) for result in shlo.compile(exported)(a))
    assert np.isnan(values[2]).all() and np.isnan(vectors[2]).all()
    assert np.isfinite(values[[0, 1, 3]]).all() and np.isfinite(vectors[[0, 1, 3]]).all()


@pytest.mark.parametrize("use_magma", [None, True])
@pytest.mark.parametrize("platform", ["cuda", "rocm"])
@pytest.mark.parametrize("shape", [(3, 6, 4), (4, 6)])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_pivots_of_columns(shape, platform, use_magma, dtype) -> None:
    a = normal(*shape, dtype=dtype)
    target = f"{VENDORS[platform]}hybrid_geqp3"

    def function(x: jax.Array) -> list[jax.Array]:
        return linalg.qr(x, pivoting=True, full_matrices=False, use_magma=use_magma)

    exported = exported_with(function, platform, target, a)
    assert target in called(exported) <= targets()
    q, r, order = (np.asarray(result) for result in shlo.compile(exported)(a))
    wanted = [np.asarray(each) for each in jax.jit(lambda x: linalg.qr(x, pivoting=True, full_matrices=False))(a)]
    assert np.array_equal(order, wanted[2])
    for ours, theirs in ((q, wanted[0]), (r, wanted[1])):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


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
    "cuhybrid_eig_real": ("", "3x3xf32", "which takes 1 and gives 5"),
    "hiphybrid_geqp3": ("", "3x3xf32", "which takes 2 and gives 3"),
    "cusolver_geev_ffi": ("", "3x3xf32", "which takes 1 and gives 5"),
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


@pytest.mark.parametrize("entries, type_, reason", [
    ("left = false, magma = \"auto\"", "3x3xf32", "without the flag right"),
    ("left = false, right = false", "3x3xcomplex<f32>", "does not take"),
])  # fmt: skip
def test_wrong_eigenvalues_are_refused(entries: str, type_: str, reason: str) -> None:
    vectors, w = type_.replace("f32", "complex<f32>") if "complex" not in type_ else type_, "3xf32"
    types = f"tensor<{w}>, tensor<{w}>, tensor<{vectors}>, tensor<{vectors}>, tensor<i32>"
    text = f"""func.func @main(%a: tensor<{type_}>) -> tensor<{w}> {{
      %0:5 = stablehlo.custom_call @cuhybrid_eig_real(%a) {{mhlo.backend_config = {{{entries}}}}}
        : (tensor<{type_}>) -> ({types})
      return %0#0 : tensor<{w}>
    }}"""
    with pytest.raises(UnsupportedError, match=reason):
        shlo.compile(text)


# --- all that JAX calls on GPUs ---------------------------------------------------------------------------------------

#: How JAX's sources write the names of targets, for either platform.
NAME = re.compile(
    r"""f?["']((?:\{(?:target_name_prefix|platform)\}|cu|hip)(?:_?[a-z][a-z0-9_]*)|__cudnn\$\w+|mosaic_gpu\w*)["']"""
)
PREFIX = re.compile(r"\{\w+\}")
#: What looks like one, and is none: names of platforms, of plugins, and of functions of Python.
NO_TARGETS = re.compile(r"cuda\w*|cudnn\w*|cublas\w*|cufft\w*|cupti\w*|cu(r|s|t|m)\w*|hip|mosaic_gpu")


def targets_in_sources() -> set[str]:
    """Those that JAX's lowerings for GPUs name in the installed sources."""
    package = Path(jax.__file__).parent
    files = [*package.glob("_src/lax/*.py"), *package.glob("_src/random/*.py"), *package.glob("_src/cudnn/*.py")]
    files += [*package.glob("experimental/sparse/*.py"), package / "_src/gpu_rnn.py"]
    found: set[str] = set()
    for file in (each for each in files if each.exists()):
        for name in NAME.findall(file.read_text()):
            if name.startswith("{"):
                found |= {PREFIX.sub(vendor, name) for vendor in ("cu", "hip")}
            elif name.endswith("_ffi") or not NO_TARGETS.fullmatch(name):
                found.add(name)
    return found


def test_whatever_jax_calls_on_gpus_is_known_or_refused_by_name() -> None:
    found = targets_in_sources()
    assert {"cusolver_getrf_ffi", "hiphybrid_geqp3", "cuhybrid_eig_comp", "__cudnn$fmhaSoftmax"} <= found
    assert {"cusparse_csr_matvec_ffi", "cusolver_csrlsvqr_ffi", "cu_cholesky_update_ffi"} <= found
    unknown = {name for name in found if name not in targets() and not refused(name)}
    assert not unknown
    assert not {name for name in targets() if refused(name)}
    for name in sorted(found - targets()):
        text = CALL.format(target=f'"{name}"', entries="", type="3x3xf32")
        with pytest.raises(UnsupportedError, match="has no counterpart here") as caught:
            shlo.compile(text)
        assert "platform 'cpu'" in str(caught.value) and name in refused(name)[0]
