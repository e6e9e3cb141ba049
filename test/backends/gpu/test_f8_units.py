"""Products of floats of 8 bits by matrix units that take them: executed on an OpenCL device, whose threads exchange
registers instead or read shared memory as the unit does, and as code for machines that have the units."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.cpu.target import baseline_target
from stablehlo_py.backends.gpu.backend import OpenClBackend
from stablehlo_py.backends.gpu.compile import lower
from stablehlo_py.backends.gpu.kernels import candidates
from stablehlo_py.backends.gpu.machine_code import assembly, machine_code
from stablehlo_py.backends.gpu.ptx import assemble, disassembly, find_tool
from stablehlo_py.backends.gpu.target import GFX942, OPENCL, SM_80, SM_90, SM_90A, SM_100, GpuTarget
from stablehlo_py.backends.gpu.usage import of_object, of_ptxas
from stablehlo_py.codegen.matrix_units import MATRIX_UNITS
from stablehlo_py.compiler import run_stages
from stablehlo_py.mlir import ir

OPTIONS = shlo.Options(cache_dir=None, threads=1)
RANDOM = np.random.default_rng(0)
pytestmark = pytest.mark.usefixtures("exchanged_through_memory")
MMA, WGMMA = (
    tuple(name for name in MATRIX_UNITS if name.startswith(f"{shape}.f8")) for shape in ("mma.m16n8k32", "wgmma.m64k32")
)
E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"
FNUZ = ("float8_e4m3fnuz", "float8_e5m2fnuz")
MANY, FEW = 1 << 16, 256  # threads that the machine has: sums are split where it has many


def product(a: jax.Array, b: jax.Array, result: str = "float32") -> jax.Array:
    return jnp.matmul(a, b, preferred_element_type=result)


def emulated(units: tuple[str, ...], resident: int = FEW, copies: bool = True) -> GpuTarget:
    return replace(OPENCL, matrix_units=units, resident=resident, shared_bytes=96 << 10, copies=copies)


def run(
    monkeypatch: pytest.MonkeyPatch, target: GpuTarget, function: Callable[..., object], *arrays: np.ndarray
) -> tuple[np.ndarray, str]:
    """The result of a function of JAX, and the plan of its one kernel."""
    monkeypatch.setattr(OpenClBackend, "target", lambda self, options: target)
    executable = shlo.compile(jax.jit(function).lower(*arrays).as_text(), target="opencl", options=OPTIONS)
    (kernel,) = json.loads(executable.stages["plans"])["kernels"]
    (first,), (again,) = executable(*arrays), executable(*arrays)
    assert first.tobytes() == again.tobytes()
    return first, kernel["plan"]


def whole(*sizes: int, dtype: str, most: int = 4) -> np.ndarray:
    """Whole numbers, of which sums are exact."""
    return RANDOM.integers(-most, most + 1, sizes).astype(dtype)


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


@pytest.mark.every(2)
@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize("units", [MMA, WGMMA], ids=["mma", "wgmma"])
@pytest.mark.parametrize(
    ("layout", "types", "m", "n", "k", "copies"),
    [
        ("nt", (E4M3, E5M2), 100, 64, 208, True),
        ("nn", (E5M2, E4M3), 64, 72, 256, True),
        ("tt", (E5M2, E5M2), 68, 33, 140, False),
        ("nn", (E4M3, E4M3), 33, 65, 50, False),
    ],
)
def test_products(
    monkeypatch: pytest.MonkeyPatch,
    layout: str,
    types: tuple[str, str],
    m: int,
    n: int,
    k: int,
    copies: bool,
    units: tuple[str, ...],
) -> None:
    """Operands in all layouts, also those that are turned on their way: every sum is exact."""
    a, b = whole(m, k, dtype=types[0]), whole(k, n, dtype=types[1])
    turned = [layout[0] == "t", layout[1] == "t"]
    arrays = [each.T.copy() if is_turned else each for each, is_turned in zip((a, b), turned, strict=True)]
    found, plan = run(
        monkeypatch,
        emulated(units, copies=copies),
        lambda a, b: product(a.T if turned[0] else a, b.T if turned[1] else b),
        *arrays,
    )
    assert plan.startswith("mma.m16n8k32.f8" if units is MMA else "wgmma.m64k32.f8")
    np.testing.assert_array_equal(found, exact(a, b))


@pytest.mark.every(2)
@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize("units", [MMA, WGMMA], ids=["mma", "wgmma"])
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_every_number(monkeypatch: pytest.MonkeyPatch, dtype: str, units: tuple[str, ...]) -> None:
    """All codes, infinities and NaN too, times one, on both sides."""
    codes = np.zeros((256, 32), dtype)
    codes[:, 5] = np.arange(256, dtype=np.uint8).view(dtype)
    one = np.zeros((32, 32), dtype)
    one[5, :] = 1
    wanted = np.broadcast_to(codes[:, 5:6].astype(np.float32), (256, 32))
    found, _ = run(monkeypatch, emulated(units), product, codes, one)
    np.testing.assert_array_equal(found, wanted)
    found, _ = run(monkeypatch, emulated(units), product, one.T.copy(), codes.T.copy())
    np.testing.assert_array_equal(found, wanted.T)


@pytest.mark.usefixtures("real_device")
def test_sums_of_few_bits_are_promoted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit that keeps 14 bits of sums adds up 128 products: a sum of thousands is off by what each part is. Without
    that, its error grows with the sum."""
    a, b = (np.abs(RANDOM.standard_normal(sizes)).astype(E4M3) for sizes in ((64, 4096), (4096, 64)))
    target = emulated(WGMMA)
    found, plan = run(monkeypatch, target, product, a, b)
    assert "1 parts" in plan
    error = np.abs(found / exact(a, b) - 1).max()
    assert 0 < error < 2 * 2.0**-13
    for name in WGMMA:
        monkeypatch.setitem(MATRIX_UNITS, name, replace(MATRIX_UNITS[name], promoted=0))
    found, _ = run(monkeypatch, target, product, a, b)
    assert np.abs(found / exact(a, b) - 1).max() > 5 * error
    found, _ = run(monkeypatch, emulated(MMA), product, a, b)
    assert np.abs(found / exact(a, b) - 1).max() < 1e-6, "sums of f32"


@pytest.mark.usefixtures("real_device")
def test_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = whole(64, 4096, dtype=E4M3, most=2), whole(4096, 64, dtype=E5M2, most=2)
    found, plan = run(monkeypatch, emulated(WGMMA, MANY), product, a, b)
    assert "1 parts" not in plan
    np.testing.assert_array_equal(found, exact(a, b))


def scaled(a: jax.Array, b: jax.Array, of_a: jax.Array, of_b: jax.Array, bias: jax.Array) -> jax.Array:
    """A layer of a model whose operands are quantized to 8 bits: one scale of each, a bias, an activation."""
    return jax.nn.relu(product(a, b) * (of_a * of_b) + bias)


def requantized(a: jax.Array, b: jax.Array, of_a: jax.Array, of_b: jax.Array, bias: jax.Array) -> jax.Array:
    """The same, whose result is what the next layer takes: in range, in 8 bits."""
    return jnp.clip(scaled(a, b, of_a, of_b, bias), -448, 448).astype(E4M3)


def by_rows(a: jax.Array, b: jax.Array, of_a: jax.Array, of_b: jax.Array, bias: jax.Array) -> jax.Array:
    """A scale for each row and each column, results of 16 bits."""
    return ((product(a, b) * of_a[:, None]) * of_b + bias).astype(jnp.bfloat16)


@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize(("function", "units"), [(scaled, MMA), (requantized, WGMMA), (by_rows, WGMMA)])
def test_scales_are_an_epilogue(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., jax.Array], units: tuple[str, ...]
) -> None:
    """They are applied where the sums are, in the same kernel: the result is what the CPU's program has."""
    arrays = [whole(96, 160, dtype=E4M3), whole(160, 56, dtype=E4M3)]
    sizes = [(96,), (56,), (56,)] if function is by_rows else [(), (), (56,)]
    arrays += [np.asarray(RANDOM.uniform(0.5, 2, each), np.float32) for each in sizes]
    found, plan = run(monkeypatch, emulated(units), function, *arrays)
    assert "k32.f8" in plan
    (wanted,) = shlo.compile(jax.jit(function).lower(*arrays).as_text(), options=OPTIONS)(*arrays)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.usefixtures("real_device")
def test_batches_and_computed_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands that are quantized in the kernel, of which some are turned."""

    def function(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.einsum("bik,bkj->bij", (x * 2).astype(E4M3), w, preferred_element_type="float32")

    x, w = whole(3, 40, 136, dtype="float32"), whole(3, 136, 48, dtype=E4M3)
    found, plan = run(monkeypatch, emulated(WGMMA), function, x, w)
    assert "k32.f8" in plan
    np.testing.assert_array_equal(found, exact(2 * x, w))


@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize(
    ("dimensions", "sizes", "kernel_sizes", "units"),
    [
        (("NHWC", "HWIO", "NHWC"), (2, 9, 10, 32), (3, 3, 32, 64), WGMMA),
        (("NCHW", "OIHW", "NCHW"), (2, 12, 8, 8), (32, 12, 3, 3), MMA),
    ],
)
def test_convolutions(
    monkeypatch: pytest.MonkeyPatch,
    dimensions: tuple[str, str, str],
    sizes: tuple[int, ...],
    kernel_sizes: tuple[int, ...],
    units: tuple[str, ...],
) -> None:
    def function(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(
            x, kernel, (2, 1), "SAME", dimension_numbers=dimensions, preferred_element_type=jnp.float32
        )

    arrays = whole(*sizes, dtype=E4M3), whole(*kernel_sizes, dtype=E4M3)
    found, plan = run(monkeypatch, emulated(units), function, *arrays)
    assert "k32.f8" in plan
    (wanted,) = shlo.compile(jax.jit(function).lower(*arrays).as_text(), options=OPTIONS)(*arrays)
    np.testing.assert_array_equal(found, wanted)


# --- which unit ------------------------------------------------------------------------------------------------------


def test_what_units_hold() -> None:
    def found(target: GpuTarget, left: str, right: str, result: str = "f32") -> str:
        return next((unit.name for unit in target.units_for(left, right, result)), "")

    for result in ("f32", "bf16", "f16", "f8E4M3FN", "f8E5M2"):
        assert found(SM_90, "f8E4M3FN", "f8E5M2", result) == "mma.m16n8k32.f8E4M3FN.f8E5M2"
    assert found(SM_90A, "f8E5M2", "f8E4M3FN") == "wgmma.m64k32.f8E5M2.f8E4M3FN"
    assert found(SM_100, "f8E5M2", "f8E5M2") == "mma.m16n8k32.f8E5M2"
    assert found(SM_80, "f8E5M2", "f8E5M2") == "mma.m16n8k16.bf16"
    assert found(SM_90, "f8E4M3FN", "f8E4M3FN", "f64") == "mma.m8n8k4.f64"
    # Units take what they have every value of: this one has infinities, that one -0, and those are narrower.
    assert found(SM_90, "f8E4M3", "f8E4M3FN") == "mma.m16n8k16.bf16"
    assert found(SM_90, "f8E4M3FNUZ", "f8E4M3FNUZ") == "mma.m16n8k16.bf16"
    assert found(SM_90, "f4E2M1FN", "f8E4M3FN") == "mma.m16n8k32.f8E4M3FN"
    assert found(GFX942, "f8E4M3FNUZ", "f8E5M2FNUZ") == "mfma.16x16x32.f8E4M3FNUZ.f8E5M2FNUZ"
    assert found(GFX942, "f8E4M3FN", "f8E4M3FN") == "mfma.16x16x16.bf16"


def plans(target: GpuTarget, function: Callable[..., object], *specs: jax.ShapeDtypeStruct) -> list[str]:
    module = run_stages(shlo.load(jax.jit(function).lower(*specs).as_text()), "", "scheduled", target="opencl")
    with module.context, ir.Location.unknown():
        (fusion,) = fusions(module)
        return [candidate.plan for candidate in candidates(fusion, target)]


def test_who_asks_for_f32_gets_it() -> None:
    """Sums in fewer bits are for models that multiply numbers of 8 bits."""
    sizes = jax.ShapeDtypeStruct((512, 512), E4M3)

    def converted(dtype: str) -> Callable[..., jax.Array]:
        return lambda a, b: lax.dot_general(a.astype(dtype), b.astype(dtype), (((1,), (1,)), ((), ())))

    assert plans(SM_90A, lambda a, b: product(a, b.T), sizes, sizes)[0].startswith("wgmma.m64k32")
    exact_ones = plans(SM_90A, converted("float32"), sizes, sizes)
    assert exact_ones and all("k16.bf16" in plan for plan in exact_ones), "by units of 16 bits, which keep them"


def test_tensor_maps_bring_what_lies_along_the_products() -> None:
    sizes = jax.ShapeDtypeStruct((512, 512), E4M3)
    assert any("tensor maps" in plan for plan in plans(SM_90A, lambda a, b: product(a, b.T), sizes, sizes))
    assert not any("tensor maps" in plan for plan in plans(SM_90A, product, sizes, sizes))


# --- code ------------------------------------------------------------------------------------------------------------


def ir_of(target: GpuTarget, types: tuple[str, str], layout: str) -> str:
    """LLVM IR of a product of 4096 x 4096 matrices, with scales."""
    specs = [jax.ShapeDtypeStruct((4096, 4096), each) for each in types]

    def function(a: jax.Array, b: jax.Array, scale: jax.Array) -> jax.Array:
        return (product(a, b.T if layout == "nt" else b) * scale).astype(jnp.bfloat16)

    text = jax.jit(function).lower(*specs, jax.ShapeDtypeStruct((), "float32")).as_text()
    return lower(run_stages(shlo.load(text), "", "scheduled", target="opencl"), "llvm", target, baseline_target())


CODE = [
    (SM_90A, (E4M3, E4M3), "nt", {"QGMMA.64x128x32.F32.E4M3.E4M3": 4}),
    (SM_90A, (E4M3, E5M2), "nn", {"QGMMA.64x128x32.F32.E4M3.E5M2": 4}),
    # No machine code of these has products of 8 bits but by wgmma: ptxas itself makes this of mma.m16n8k32.
    (SM_90, (E5M2, E4M3), "nt", {"HMMA.16816.F32": 64, "F2FP.F16.E5M2.UNPACK_B": 64, "F2FP.F16.E4M3.UNPACK_B": 32}),
    (SM_100, (E4M3, E4M3), "nn", {"HMMA.16816.F32": 64, "F2FP.F16.E4M3.UNPACK_B": 96}),
]


@pytest.mark.skipif(not find_tool("ptxas"), reason="ptxas is not installed")
@pytest.mark.parametrize(("target", "types", "layout", "counts"), CODE)
def test_nvidia(target: GpuTarget, types: tuple[str, str], layout: str, counts: dict[str, int]) -> None:
    """Nothing spills, nothing converts by arithmetic. Registers hold both the sums and their parts."""
    ptx = machine_code(ir_of(target, types, layout), target)
    binary, report = assemble(ptx, target.name)
    (usage,) = of_ptxas(report).values()
    assert usage.spills == 0 and usage.registers < 255
    names = [f"e{each[8]}m{each[10]}" for each in types]
    if target is SM_90A:
        assert ptx.count(f"wgmma.mma_async.sync.aligned.m64n128k32.f32.{names[0]}.{names[1]}".encode()) == 4
    else:
        assert all(f"cvt.rn.f16x2.{name}x2".encode() in ptx for name in names)
    if find_tool("nvdisasm"):
        listing = disassembly(binary)
        assert Counter(re.findall(r"QGMMA[.\w]*|HMMA[.\w]*|F2FP[.\w]*UNPACK_B|QMMA[.\w]*", listing)) == counts


@pytest.mark.parametrize("left", FNUZ)
@pytest.mark.parametrize("right", FNUZ)
def test_gfx942(left: str, right: str) -> None:
    """The unit gets the right operand first."""
    source = ir_of(GFX942, (left, right), "nt")
    short = {FNUZ[0]: "fp8", FNUZ[1]: "bf8"}
    found = Counter(re.findall(r"v_mfma\w+", assembly(source, GFX942)))
    assert found == {f"v_mfma_f32_16x16x32_{short[right]}_{short[left]}": 32}
    (usage,) = of_object(machine_code(source, GFX942)).values()
    assert usage.spills == 0
