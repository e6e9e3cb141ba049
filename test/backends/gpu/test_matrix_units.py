"""Products in tiles, by matrix units and without: executed on an OpenCL device, which exchanges registers instead, and
as text for machines that have matrix units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from device_kernels import device_text
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.backends.gpu.backend import OpenClBackend
from stablehlo_py.backends.gpu.kernels import dot as dot_module
from stablehlo_py.backends.gpu.target import GFX90A, GFX942, GFX1100, OPENCL, SM_90, SM_90A, GpuTarget
from stablehlo_py.codegen.matrix_units import MATRIX_UNITS
from stablehlo_py.compiler import run_stages

OPTIONS = shlo.Options(cache_dir=None, threads=1)
RANDOM = np.random.default_rng(0)
pytestmark = pytest.mark.usefixtures("exchanged_through_memory")
MMA = tuple(name for name in MATRIX_UNITS if name.startswith("mma"))
WGMMA = tuple(name for name in MATRIX_UNITS if name.startswith("wgmma"))
FEW, MANY = 1 << 16, 1  # threads that the machine has: tiles are small where it has many


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, preferred_element_type=jnp.float32)


def floats(*sizes: int, dtype: str = "bfloat16") -> np.ndarray:
    return RANDOM.standard_normal(sizes).astype(dtype)


def numbers(*sizes: int, dtype: str) -> np.ndarray:
    return RANDOM.integers(-128, 128, sizes).astype(dtype) if dtype == "int8" else floats(*sizes, dtype=dtype)


def are_exchanged(executable: shlo.Executable) -> bool:
    """Whether threads exchange registers, or give them each other through memory."""
    return any(name in executable.stages["kernels"] for name in ("sub_group_shuffle", "shlo_race_give"))


def check(
    monkeypatch: pytest.MonkeyPatch,
    resident: int,
    function: Callable[..., object],
    *arrays: np.ndarray,
    units: tuple[str, ...] = MMA,
    copies: bool = False,
    **changes: bool,
) -> str:
    """A function of JAX gives what the CPU's program gives, but for the order of sums, and the same bits again. Returns
    the kernels."""
    target = replace(OPENCL, matrix_units=units, resident=resident, shared_bytes=96 << 10, copies=copies, **changes)
    monkeypatch.setattr(OpenClBackend, "target", lambda self, options: target)
    with jax.enable_x64(True):
        text = jax.jit(function).lower(*arrays).as_text()
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    assert units != MMA or are_exchanged(executable)
    (wanted,) = shlo.compile(text, options=OPTIONS)(*arrays)
    (first,), (again,) = executable(*arrays), executable(*arrays)
    assert first.tobytes() == again.tobytes()
    tolerance = {"float32": 1e-3 if changes.get("tf32") else 3e-6, "float64": 1e-14, "int32": 0}.get(
        first.dtype.name, 1e-2
    )
    np.testing.assert_allclose(
        first.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance * np.sqrt(arrays[0].size)
    )
    return executable.stages["kernels"]


@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize(
    ("layout", "m", "n", "k", "resident"),
    [
        ("nn", 64, 64, 64, FEW),
        ("nt", 100, 72, 40, FEW),
        ("tn", 64, 64, 64, FEW),
        ("nn", 33, 65, 50, FEW),
        ("tn", 130, 200, 96, MANY),
    ],
)
def test_products(monkeypatch: pytest.MonkeyPatch, layout: str, m: int, n: int, k: int, resident: int) -> None:
    dtype = "float16" if layout == "tn" else "bfloat16"
    a, b = (floats(*sizes, dtype=dtype) for sizes in ((m, k), (k, n)))
    if layout == "nn":
        check(monkeypatch, resident, product, a, b)
    elif layout == "nt":
        check(monkeypatch, resident, lambda a, b: product(a, b.T), a, b.T.copy())
    else:
        check(monkeypatch, resident, lambda a, b: product(a.T, b), a.T.copy(), b)


@pytest.mark.every(2)
@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize(("dtype", "unit"), [("int8", "i8"), ("float64", "f64"), ("float32", "tf32")])
@pytest.mark.parametrize(("layout", "m", "n", "k"), [("nn", 64, 80, 64), ("nt", 33, 40, 80), ("tn", 48, 64, 100)])
def test_other_types(
    monkeypatch: pytest.MonkeyPatch, layout: str, m: int, n: int, k: int, dtype: str, unit: str
) -> None:
    a, b = (numbers(*sizes, dtype=dtype) for sizes in ((m, k), (k, n)))
    turned = [layout[0] == "t", layout[1] == "t"]
    arrays = [each.T.copy() if is_turned else each for each, is_turned in zip((a, b), turned, strict=True)]
    result = "int32" if dtype == "int8" else dtype

    def function(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.matmul(a.T if turned[0] else a, b.T if turned[1] else b, preferred_element_type=result)

    (name,) = (each for each in MMA if each.endswith(unit))
    check(monkeypatch, FEW, function, *arrays, units=(name,), copies=layout == "nn", tf32=unit == "tf32")


@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize(("layout", "m", "n", "k"), [("nn", 64, 80, 264), ("tn", 33, 48, 50)])
def test_three_products(monkeypatch: pytest.MonkeyPatch, layout: str, m: int, n: int, k: int) -> None:
    """By TF32 as exact as without it: next to sums in f64, no worse than twice the error of the CPU's program."""
    a, b = floats(*((k, m) if layout == "tn" else (m, k)), dtype="float32"), floats(k, n, dtype="float32")

    def function(a: jax.Array, b: jax.Array) -> jax.Array:
        return (a.T if layout == "tn" else a) @ b

    target = replace(OPENCL, resident=FEW, shared_bytes=96 << 10, splits_f32=True)
    monkeypatch.setattr(OpenClBackend, "target", lambda self, options: target)
    text = jax.jit(function).lower(a, b).as_text()
    monkeypatch.setattr(dot_module, "fastest", lambda kernels: kernels[-1])
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    assert are_exchanged(executable)
    (found,), (wanted,) = executable(a, b), shlo.compile(text, options=OPTIONS)(a, b)
    exact = (a.T if layout == "tn" else a).astype(np.float64) @ b.astype(np.float64)
    assert np.abs(found - exact).mean() <= 2 * np.abs(wanted - exact).mean()
    # Infinities, NaN, and numbers that have no neighbour of 11 bits.
    special = np.asarray([np.inf, -np.inf, np.nan, np.finfo(np.float32).max, 1e-45, 1.5], np.float32)
    a[:], b[:] = 0, 0
    for place, number in enumerate(special):
        a[place, place] = number
    b[: special.size, : special.size] = np.where(np.eye(special.size) > 0, 1 / 3, 0)
    np.testing.assert_allclose(executable(a, b)[0], shlo.compile(text, options=OPTIONS)(a, b)[0], rtol=3e-7)


@pytest.mark.usefixtures("real_device")
def test_sums_of_integers_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = numbers(40, 2048, dtype="int8"), numbers(2048, 72, dtype="int8")
    kernels = check(
        monkeypatch, FEW, lambda a, b: jnp.matmul(a, b, preferred_element_type="int32") * 3, a, b, units=MMA
    )
    assert "@fusion_0_total" in kernels


@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize("dtypes", [("float8_e4m3fn", "float8_e5m2"), ("float8_e4m3fn", "bfloat16")])
def test_narrow_floats(monkeypatch: pytest.MonkeyPatch, dtypes: tuple[str, str]) -> None:
    """A unit multiplies what it can hold without rounding."""
    check(monkeypatch, FEW, product, floats(40, 64, dtype=dtypes[0]), floats(64, 40, dtype=dtypes[1]))


def test_what_units_hold() -> None:
    def found(*operands: str, result: str = "f32", **changes: bool) -> list[str]:
        return [unit.name for unit in replace(SM_90, **changes).units_for(operands[0], operands[-1], result)]

    assert found("f8E3M4", "f8E5M2") == ["mma.m16n8k16.bf16", "mma.m16n8k16.f16"]
    assert found("f16", "f8E5M2") == found("f16", result="f16") == ["mma.m16n8k16.f16"]
    assert found("bf16", "f16") == found("f32") == found("f16", result="bf16") == []
    assert found("f32", tf32=True) == found("bf16", "f16", tf32=True) == ["mma.m16n8k8.tf32"]
    assert found("i8", result="i32") == ["mma.m16n8k32.i8"]
    assert found("i8", result="i8") == found("ui8", result="i32") == found("i16", result="i32") == []
    assert found("f64", result="f64") == found("f32", "f64", result="f64") == ["mma.m8n8k4.f64"]


@pytest.mark.every(2)
@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize(
    ("layout", "m", "n", "k"), [("nn", 64, 64, 64), ("nt", 100, 72, 136), ("tn", 130, 64, 200), ("nn", 33, 65, 50)]
)
def test_warpgroups(monkeypatch: pytest.MonkeyPatch, layout: str, m: int, n: int, k: int, copies: bool) -> None:
    a, b = (floats(*sizes, dtype="float16") for sizes in ((m, k), (k, n)))
    turned = [layout[0] == "t", layout[1] == "t"]
    arrays = [each.T.copy() if is_turned else each for each, is_turned in zip((a, b), turned, strict=True)]

    def function(a: jax.Array, b: jax.Array) -> jax.Array:
        return product(a.T if turned[0] else a, b.T if turned[1] else b)

    check(monkeypatch, MANY, function, *arrays, units=WGMMA, copies=copies)


@pytest.mark.every(2)
@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("sizes", [(128, 132, 64), (33, 65, 50), (40, 64, 600)])
def test_without_matrix_units(monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int, int], dtype: str) -> None:
    """Operands in all layouts, copied asynchronously where they are stored."""
    m, n, k = sizes
    a, b = floats(m, k, dtype=dtype), floats(k, n, dtype=dtype)
    for turned in ("", "a", "b"):
        x, y = a.T.copy() if turned == "a" else a, b.T.copy() if turned == "b" else b

        def function(x: jax.Array, y: jax.Array, turned: str = turned) -> jax.Array:
            return jnp.tanh((x.T if turned == "a" else x) @ (y.T if turned == "b" else y) / 8)

        check(monkeypatch, MANY if k == 64 else FEW, function, x, y, units=(), copies=True)


@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize(("units", "depth"), [(MMA, 8 * 32), (WGMMA, 2 * 8 * 64 + 8)])
def test_few_tiles_are_split(monkeypatch: pytest.MonkeyPatch, units: tuple[str, ...], depth: int) -> None:
    """Several blocks add up the sums of a tile, and the second kernel has the epilogue."""
    a, b, c = floats(40, 2 * depth), floats(2 * depth, 72), floats(72, dtype="float32")
    kernels = check(
        monkeypatch, FEW, lambda a, b, c: jnp.tanh(product(a, b) / 64 + c), a, b, c, units=units, copies=True
    )
    assert "@fusion_0_total" in kernels


@pytest.mark.usefixtures("real_device")
def test_fused_products(monkeypatch: pytest.MonkeyPatch) -> None:
    check(
        monkeypatch,
        FEW,
        lambda a, b, c: jax.nn.gelu((a * 2).astype(jnp.bfloat16) @ b + c),
        floats(96, 64, dtype="float32"),
        floats(64, 80),
        floats(80),
    )
    queries, keys = floats(2, 40, 3, 32), floats(2, 40, 3, 32)
    check(monkeypatch, FEW, lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), queries, keys)


@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize(
    ("dimensions", "input_sizes", "kernel_sizes", "groups"),
    [
        (("NHWC", "HWIO", "NHWC"), (2, 9, 10, 32), (3, 3, 16, 64), 2),
        (("NCHW", "OIHW", "NCHW"), (2, 12, 8, 8), (32, 12, 3, 3), 1),
    ],
)
def test_convolutions(
    monkeypatch: pytest.MonkeyPatch,
    dimensions: tuple[str, str, str],
    input_sizes: tuple[int, ...],
    kernel_sizes: tuple[int, ...],
    groups: int,
) -> None:
    def function(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(
            x, kernel, (2, 1), "SAME", dimension_numbers=dimensions, feature_group_count=groups,
            preferred_element_type=jnp.float32,
        )  # fmt: skip

    check(monkeypatch, FEW, function, floats(*input_sizes), floats(*kernel_sizes))


@pytest.mark.usefixtures("real_device")
def test_what_lies_outside_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products that are not there count as zero, whatever lies in memory behind them."""
    a, b = floats(40, 24), floats(24, 40)
    a[:, 5], b[5, :] = 0, np.inf
    a[3, :], b[:, 3] = np.nan, 1
    check(monkeypatch, FEW, product, a, b)


def kernels(target: GpuTarget, sizes: tuple[int, int, int], dtype: str, result: str = "float32") -> str:
    m, n, k = sizes
    specs = [jax.ShapeDtypeStruct(each, dtype) for each in ((m, k), (k, n))]
    result = {"int8": "int32", "float64": "float64"}.get(dtype, result)
    with jax.enable_x64(True):
        text = jax.jit(lambda a, b: jnp.matmul(a, b, preferred_element_type=result)).lower(*specs).as_text()
    return device_text(run_stages(shlo.load(text), "", "scheduled", target="opencl"), target)


@pytest.mark.parametrize(("target", "dtype", "name"), [
    (SM_90, "bfloat16", "llvm.nvvm.mma.m16n8k16.row.col.bf16"),
    (SM_90, "float16", "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"),
    (SM_90A, "bfloat16", "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"),
    (GFX942, "bfloat16", "llvm.amdgcn.mfma.f32.16x16x16bf16.1k"),
    (GFX942, "float16", "llvm.amdgcn.mfma.f32.16x16x16f16"),
    (GFX942, "float32", "llvm.amdgcn.mfma.f32.16x16x4f32"),
    (GFX942, "float64", "llvm.amdgcn.mfma.f64.16x16x4f64"),
    (GFX942, "int8", "llvm.amdgcn.mfma.i32.16x16x32.i8"),
    (GFX90A, "int8", "llvm.amdgcn.mfma.i32.16x16x16i8"),
    (GFX1100, "bfloat16", "llvm.amdgcn.wmma.f32.16x16x16.bf16"),
    (GFX1100, "float16", "llvm.amdgcn.wmma.f32.16x16x16.f16"),
    (GFX1100, "int8", "llvm.amdgcn.wmma.i32.16x16x16.iu8"),
    (SM_90, "float64", "llvm.nvvm.mma.m8n8k4.row.col.f64"),
    (SM_90, "int8", "llvm.nvvm.mma.m16n8k32.row.col.s8"),
    (replace(SM_90, tf32=True), "float32", "llvm.nvvm.mma.m16n8k8.row.col.tf32"),
])  # fmt: skip
def test_instructions(target: GpuTarget, dtype: str, name: str) -> None:
    text = kernels(target, (4096, 4096, 4096), dtype)
    assert name in text
    assert ("ldmatrix.sync.aligned.m8n8.x4.trans" in text) == (target is SM_90 and dtype in ("bfloat16", "float16"))
    assert name not in kernels(target, (4096, 4096, 4096), "float16" if dtype != "float16" else "float32")
    assert name not in kernels(OPENCL, (4096, 4096, 4096), dtype)


def test_tiles_fill_the_machine() -> None:
    """A large product has tiles of 128 x 128 results, one that has too few of these for the machine smaller ones."""
    assert "nvvm.reqntid = array<i32: 256, 1, 1>" in kernels(SM_90, (4096, 4096, 64), "bfloat16")
    assert "nvvm.reqntid = array<i32: 128, 1, 1>" in kernels(SM_90, (512, 512, 64), "bfloat16")
