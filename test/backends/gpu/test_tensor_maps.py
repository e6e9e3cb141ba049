"""Products whose tiles come by tensor maps: executed on an OpenCL device, whose threads copy the boxes, and as machine
code of the GPU that has them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.common.fusion import Fusion, fusions
from stablehlo_py.backends.gpu import ptx
from stablehlo_py.backends.gpu.backend import CudaBackend, OpenClBackend
from stablehlo_py.backends.gpu.kernels import candidates, dot
from stablehlo_py.backends.gpu.kernels.boxes import Boxes, BoxProduct, kernels
from stablehlo_py.backends.gpu.kernels.product import DotProduct, Product
from stablehlo_py.backends.gpu.kernels.tiled import TiledProduct
from stablehlo_py.backends.gpu.target import OPENCL, SM_90A, GpuTarget
from stablehlo_py.codegen.matrix_units import MATRIX_UNITS
from stablehlo_py.codegen.tensor_maps import TensorMap
from stablehlo_py.compiler import run_stages
from stablehlo_py.mlir import ir

OPTIONS = shlo.Options(cache_dir=None, threads=1)
RANDOM = np.random.default_rng(0)
WGMMA = tuple(name for name in MATRIX_UNITS if name.startswith("wgmma"))
# Units of 8 bits first, as targets have them.
EMULATED = replace(
    OPENCL,
    matrix_units=tuple(sorted(WGMMA, key=lambda name: ".f8" not in name)),
    resident=1,
    shared_bytes=96 << 10,
    maps=True,
)


def floats(*sizes: int) -> np.ndarray:
    return RANDOM.standard_normal(sizes).astype("bfloat16")


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, preferred_element_type=jnp.float32)


def f8_product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Of numbers that are stored in 8 bits."""
    return product(a, b.T)


def plans(text: str, target: GpuTarget) -> list[str]:
    module = run_stages(shlo.load(text), "", "scheduled", target="opencl")
    with module.context, ir.Location.unknown():
        (function,) = fusions(module)
        return [candidate.plan for candidate in candidates(function, target)]


def by_plan(tmp_path: Path, text: str, plan: str) -> shlo.Executable:
    """The program whose only kernel has this plan."""
    said = json.loads(shlo.compile(text, target="opencl", options=OPTIONS).stages["plans"])
    said["kernels"][0]["plan"] = plan
    file = tmp_path / "plans.json"
    file.write_text(json.dumps(said))
    executable = shlo.compile(text, target="opencl", options=replace(OPTIONS, plans=str(file)))
    assert plan in executable.stages["plans"]
    return executable


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch, real_device: object) -> Iterator[GpuTarget]:
    monkeypatch.setattr(OpenClBackend, "target", lambda self, options: EMULATED)
    return EMULATED


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (product, [(64, 64), (64, 64)]),
        (lambda a, b: product(a, b.T), [(104, 136), (72, 136)]),
        (lambda a, b: product(a.T, b), [(200, 136), (200, 64)]),
        (lambda a, b: product(a.T, b.T), [(56, 40), (72, 56)]),
        (lambda a, b: jnp.tanh(product(a, b)), [(3, 40, 72), (3, 72, 80)]),
        (lambda a, b: jnp.einsum("bqhd,bkhd->bhqk", a, b), [(2, 40, 3, 64), (2, 48, 3, 64)]),
        (f8_product, [(104, 208), (72, 208)]),
    ],
)
def test_products(
    emulated: GpuTarget, tmp_path: Path, function: Callable[..., jax.Array], sizes: list[tuple[int, ...]]
) -> None:
    """Rows, columns and sums that end inside of a tile, batches of one and of two dimensions: the same bits as without
    maps."""
    arrays = [floats(*each).astype("float8_e4m3fn" if function is f8_product else "bfloat16") for each in sizes]
    text = jax.jit(function).lower(*arrays).as_text()
    (plan, *_) = [each for each in plans(text, emulated) if "tensor maps" in each and "2 stages" not in each]
    (found,) = by_plan(tmp_path, text, plan)(*arrays)
    tile = plan.split("tensor maps ")[1].split(",")[0]
    (without, *_) = [each for each in plans(text, emulated) if tile in each and "tensor maps" not in each]
    (wanted,) = by_plan(tmp_path, text, without)(*arrays)
    assert found.tobytes() == wanted.tobytes()
    (close,) = shlo.compile(text, options=OPTIONS)(*arrays)
    np.testing.assert_allclose(found.astype(np.float32), close.astype(np.float32), rtol=1e-2, atol=1e-2)


def test_parts(monkeypatch: pytest.MonkeyPatch, real_device: object, tmp_path: Path) -> None:
    """Parts of sums begin at other steps than the first, and their sums lie before the maps."""
    few = replace(EMULATED, resident=1 << 16)
    monkeypatch.setattr(OpenClBackend, "target", lambda self, options: few)
    a, b = floats(64, 2048), floats(2048, 64)
    text = jax.jit(product).lower(a, b).as_text()
    (plan, *_) = [each for each in plans(text, few) if "tensor maps 64x64" in each and "4 stages, 4 parts" in each]
    (found,) = by_plan(tmp_path, text, plan)(a, b)
    (wanted,) = shlo.compile(text, options=OPTIONS)(a, b)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (product, [(64, 68), (68, 64)]),  # lines are no multiples of 16 bytes
        (lambda a, b: product(a[:, 4:68], b), [(64, 128), (64, 64)]),
        (lambda a, b: product(a[:, ::2], b), [(64, 128), (64, 64)]),
        (lambda a, b: product(a[::-1], b), [(64, 64), (64, 64)]),
    ],
)
def test_what_has_no_map(function: Callable[..., jax.Array], sizes: list[tuple[int, ...]]) -> None:
    text = jax.jit(function).lower(*(jax.ShapeDtypeStruct(each, "bfloat16") for each in sizes)).as_text()
    found = plans(text, EMULATED)
    assert len(found) > 1
    assert not any("tensor maps" in plan for plan in found)


def maps_of(function: Callable[..., jax.Array], *sizes: tuple[int, ...]) -> list[Boxes]:
    """The boxes of both operands of a product in tiles of 128 x 256."""
    text = jax.jit(function).lower(*(jax.ShapeDtypeStruct(each, "bfloat16") for each in sizes)).as_text()
    module = run_stages(shlo.load(text), "", "scheduled", target="cuda")
    with module.context, ir.Location.unknown():
        (function_,) = fusions(module)
        product_ = DotProduct(Fusion.read(function_), SM_90A)
        (kernel,) = (
            each
            for each in kernels(product_, [MATRIX_UNITS["wgmma.m64k16.bf16"]], more=True)
            if isinstance(each, BoxProduct) and (each.tiling.rows, each.tiling.columns) == (128, 256)
        )
        return [boxes for boxes in kernel.boxes if boxes is not None]


def test_maps() -> None:
    """What the engine is told: sizes and boxes from neighbours outwards, strides in bytes, where an operand begins."""
    a, b = maps_of(product, (512, 96), (96, 264))
    assert (a.map, a.offset) == (TensorMap(16, (96, 512), (192,), (64, 128)), 0)
    assert (b.map, b.offset) == (TensorMap(16, (264, 96), (528,), (64, 64)), 0)
    assert (a.map.box_bytes, b.map.box_bytes) == (128 * 128, 64 * 128)
    a, b = maps_of(lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), (2, 512, 3, 64), (2, 256, 3, 64))
    assert a.map == TensorMap(16, (64, 512, 3, 2), (384, 128, 512 * 384), (64, 128, 1, 1))
    assert b.map == TensorMap(16, (64, 256, 3, 2), (384, 128, 256 * 384), (64, 256, 1, 1))


@pytest.mark.skipif(not ptx.makes_tensor_maps(), reason="ptxas of CUDA 12.7 or newer is not installed")
@pytest.mark.skipif(not ptx.find_tool("nvdisasm"), reason="nvdisasm is not installed")
def test_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread asks for both operands of a stage, five boxes of at most 64 columns or 256 rows; no thread reads
    operands from global memory."""
    sizes = jax.ShapeDtypeStruct((4096, 4096), "bfloat16")
    text = jax.jit(lambda a, b: product(a, b).astype(a.dtype)).lower(sizes, sizes).as_text()
    monkeypatch.setattr(dot, "_tiled", lambda product, more=False: [largest(product)])
    program = compile_program(text, target="cuda", options=shlo.Options(cache_dir=None, gpu="sm_90a"))
    listing = ptx.disassembly(program.objects[1])
    found = Counter(
        re.findall(r"\b(HGMMA\.64x256x16|UTMALDG\.2D|UTMACCTL\.IV|SYNCS\.EXCH|LDGSTS|LDG|SPILL)\b", listing)
    )
    stages = 4
    assert found == {"HGMMA.64x256x16": 4, "UTMALDG.2D": 5 * (stages - 1), "UTMACCTL.IV": 2, "SYNCS.EXCH": stages}


def largest(product: Product) -> TiledProduct:
    return kernels(product, [MATRIX_UNITS["wgmma.m64k16.bf16"]], more=True)[0]


def test_older_assemblers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take strides for others, and of a driver's own nothing is known."""
    options = shlo.Options(gpu="sm_90a")
    for version, makes in (("12.6.85", False), ("12.9.1", True), ("13.0.0", True), ("", False)):
        monkeypatch.setattr(ptx, "assembler", lambda version=version: version)
        assert CudaBackend().target(options).maps is makes
    assert not CudaBackend().target(replace(options, gpu="sm_90")).maps
