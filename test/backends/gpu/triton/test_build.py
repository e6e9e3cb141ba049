"""Sources of Triton as machine code: Triton and its own assembler take them, and multiply by matrix units."""

from __future__ import annotations

import re
from dataclasses import replace

import jax.numpy as jnp
import pytest
from triton_products import needs_triton, products, whole

from stablehlo_py.backends.gpu.target import SM_80, SM_90A, GpuTarget
from stablehlo_py.backends.gpu.triton import build as build_module
from stablehlo_py.backends.gpu.triton.build import build
from stablehlo_py.backends.gpu.triton.worker import Request
from stablehlo_py.errors import ResourceError, UnsupportedError

SQUARE = (128, 128)


@needs_triton
@pytest.mark.parametrize(
    ("target", "of", "unit"),
    [
        (SM_80, "bfloat16", r"mma\.sync\.aligned\.m16n8k16\S*\.f32\.bf16\.bf16\.f32"),
        (SM_80, "float16", r"mma\.sync\.aligned\.m16n8k16\S*\.f32\.f16\.f16\.f32"),
        (SM_90A, "bfloat16", r"wgmma\.mma_async\S*\.f32\.bf16\.bf16"),
        (replace(SM_90A, tf32=True), "float32", r"wgmma\.mma_async\S*\.f32\.tf32\.tf32"),
        (SM_90A, "float32", r"fma\.rn\.f32"),  # as exact as f32 is
    ],
)
def test_machine_code(target: GpuTarget, of: str, unit: str) -> None:
    arrays = [whole(*SQUARE).astype(of), whole(*SQUARE).astype(of)]
    with products(jnp.matmul, arrays, target) as found:
        kernel = next(each for each in found if each.tiling.rows == each.tiling.columns == 64)
        made = kernel.emit()
        built = build(kernel.request)
    assert re.search(unit, built.ptx)
    assert made.module is not None and made.module.binary == built.cubin
    assert built.cubin.startswith(b"\x7fELF") and built.scratch_bytes == 0
    (launch,) = made.launches
    assert (launch.blocks, launch.threads, launch.shared_bytes) == (4, kernel.tiling.threads, built.shared_bytes)
    assert built.ptx.count(".param .u64") == len(arrays) + 1 + 2  # Triton's own two


@needs_triton
def test_epilogues_round_after_each_op() -> None:
    """No multiplication is fused with an addition; what has `.rn`, no assembler fuses either."""
    arrays = [whole(*SQUARE) for _ in range(4)]
    with products(lambda a, b, c, d: (a @ b) * c + d, arrays) as (kernel, *_):
        ptx = build(kernel.request).ptx
    results = kernel.tiling.rows * kernel.tiling.columns // kernel.tiling.threads
    assert (ptx.count("mul.rn.f32"), ptx.count("add.rn.f32")) == (results, results)


@needs_triton
def test_what_triton_refuses() -> None:
    source = "import triton\n\n@triton.jit\ndef kernel(in0):\n    nowhere(in0)\n"
    with pytest.raises(UnsupportedError, match=r"Triton does not compile the kernel 'kernel': \w+: (.|\n)*nowhere"):
        build(Request(source, "kernel", ("*fp32",), 80, 4, 3))


def test_a_process_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_module, "require_triton", lambda: "3.9")
    monkeypatch.setattr(build_module, "python_command", lambda code: ["sh", "-c", "echo out of luck >&2; exit 1"])
    with pytest.raises(UnsupportedError, match="does not compile the kernel 'ends': its process ended: out of luck"):
        build(Request("", "ends", (), 80, 4, 3))


def test_triton_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_module, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"Triton is not installed(.|\n)*pip install 'stablehlo-py\[triton\]'"):
        build(Request("", "missing", (), 80, 4, 3))


def test_large_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Triton takes of shared memory is known when it has compiled."""
    wanted = build_module.Built(b"", "", SM_80.shared_bytes + 1, 128, 0)
    monkeypatch.setattr("stablehlo_py.backends.gpu.triton.kernel.build", lambda request: wanted)
    with (
        products(jnp.matmul, [whole(*SQUARE), whole(*SQUARE)], SM_80) as (kernel, *_),
        pytest.raises(UnsupportedError, match=rf"the plan '{kernel.plan}' of 'fusion_0' takes \d+ bytes of shared"),
    ):
        kernel.emit()
