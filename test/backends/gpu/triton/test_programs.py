"""Kernels of Triton in programs for CUDA: by plans, in artifacts, and how a driver starts them. What Triton makes of a
source is exchanged for what the fake driver takes: the names of kernels."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.gpu.backend import CudaBackend
from stablehlo_py.backends.gpu.triton import build as build_module
from stablehlo_py.backends.gpu.triton import kernel as kernel_module
from stablehlo_py.backends.gpu.triton.worker import Built, Request
from stablehlo_py.compiler import run_stages
from stablehlo_py.errors import LoadError, OptionError, ResourceError
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.accesses import Accesses
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import CompiledProgram

SIZE, SHARED = 64, 1024
PLAN = "triton 64x32x16, 128 threads, 3 stages"
MODEL = f"""func.func @main(%x: tensor<{SIZE}x{SIZE}xf32>, %y: tensor<{SIZE}x{SIZE}xf32>) -> tensor<{SIZE}xf32> {{
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<{SIZE}x{SIZE}xf32>, tensor<{SIZE}x{SIZE}xf32>) -> tensor<{SIZE}x{SIZE}xf32>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [1]
    : (tensor<{SIZE}x{SIZE}xf32>, tensor<f32>) -> tensor<{SIZE}xf32>
  return %1 : tensor<{SIZE}xf32>
}}"""
OWN = shlo.Options(gpu="sm_90a", cache_dir=None)


@pytest.fixture
def plans(tmp_path: Path) -> Path:
    """A file of plans: that of the product is Triton's."""
    said = json.loads(compile_program(MODEL, target="cuda", options=OWN).stages["plans"])
    said["kernels"][0]["plan"] = PLAN
    file = tmp_path / "plans.json"
    file.write_text(json.dumps(said))
    return file


@pytest.fixture
def options(plans: Path, monkeypatch: pytest.MonkeyPatch) -> shlo.Options:
    """Those of a program with a kernel of Triton, which is not asked."""

    def build(request: Request) -> Built:
        return Built(request.symbol.encode(), "", SHARED, request.warps * 32, 0)

    monkeypatch.setattr(kernel_module, "build", build)
    monkeypatch.setattr(build_module, "require_triton", lambda: "3.9.0")
    return replace(OWN, generators=("triton",), plans=plans)


def with_fake_kernels(program: CompiledProgram) -> CompiledProgram:
    """With code of our own kernels that the fake driver takes."""
    host, code, *others = program.objects
    own = " ".join(name for name in program.kernels if name not in program.modules).encode()
    return replace(program, objects=[host.replace(sha256(code).digest(), sha256(own).digest()), own, *others])


def test_a_program(options: shlo.Options, plans: Path) -> None:
    program = compile_program(MODEL, target="cuda", options=options)
    (symbol,) = program.modules
    assert symbol in program.kernels and len(program.kernels) > 1
    assert program.objects[2:] == [symbol.encode()]
    assert json.loads(program.stages["plans"])["kernels"][0]["plan"] == PLAN
    source = program.stages["triton"]
    assert isinstance(source, str) and f"def {symbol}(in0, in1, out0):" in source and "tl.dot" in source
    assert source.strip() == str(run_stages(shlo.load(MODEL), "", "triton", options, target="cuda")).strip()
    kernels = str(program.stages["kernels"])
    assert f"gpu.module @{symbol} {{\nllvm.func @{symbol}() attributes {{gpu.kernel}}\n}}" in kernels
    assert f"kernelcc @{symbol}(" not in kernels and f"@{symbol}::@{symbol} blocks in" in kernels
    assert f"kernels by Triton: {symbol}\n" in program.report
    again = artifact.deserialize(artifact.serialize(program))
    assert (again.modules, again.objects, again.stages["triton"]) == (program.modules, program.objects, source)


@pytest.mark.parametrize(
    ("gpu", "needs"), [("sm_80", {"sm_80"}), ("sm_90", {"sm_90", "sm_90a"}), ("sm_90a", {"sm_90a"})]
)
def test_what_a_gpu_must_have(options: shlo.Options, plans: Path, gpu: str, needs: set[str]) -> None:
    """Triton's code for a machine with `wgmma` is for that very one."""
    plans.write_text(plans.read_text().replace("sm_90a", gpu))
    program = compile_program(MODEL, target="cuda", options=replace(options, gpu=gpu))
    assert {name for name in program.features if name.startswith("sm_")} == needs


def test_launches(cuda_device: Callable[..., int], options: shlo.Options) -> None:
    """Inputs, outputs and scratch memory are what all kernels get; Triton's has a pointer more."""
    program = with_fake_kernels(compile_program(MODEL, target="cuda", options=options))
    executable = Executable(program)
    matrix = np.ones((SIZE, SIZE), np.float32)
    executable(matrix, matrix)
    (name, (blocks, threads, shared, _, parameters)), *others = cuda_device.launches()
    assert name == program.modules[0] and len(others) == len(program.kernels) - 1
    assert (blocks, threads, shared) == (2, 128, SHARED)
    assert parameters == 8 * (2 + 1 + 1 + 1)
    matrix_bytes = SIZE * SIZE * 4
    assert program.accesses[0] == Accesses((matrix_bytes, matrix_bytes, 0, 0, 0), (0, 0, matrix_bytes, 0, 0))
    assert cuda_device.live()["modules"] == 2


def test_code_of_another_program(cuda_device: Callable[..., int], options: shlo.Options) -> None:
    """The host's part knows the digests of all modules."""
    program = with_fake_kernels(compile_program(MODEL, target="cuda", options=options))
    with pytest.raises(LoadError, match="generated for another description"):
        Executable(replace(program, objects=[*program.objects[:2], b"another"]))
    for objects, modules in ((program.objects[:2], program.modules), (program.objects, ("nowhere",))):
        with pytest.raises(LoadError, match="kernels have objects of their own"):
            artifact.deserialize(artifact.serialize(replace(program, objects=objects, modules=modules)))


def test_the_autotuner_gets_candidates() -> None:
    """Behind the one that our template chooses, before what it could do otherwise."""
    from stablehlo_py.backends.common.fusion import fusions
    from stablehlo_py.backends.gpu.kernels import candidates
    from stablehlo_py.backends.gpu.target import SM_90A
    from stablehlo_py.mlir import ir

    module = run_stages(shlo.load(MODEL), "", "scheduled", target="cuda")
    with module.context, ir.Location.unknown():
        function = fusions(module)[0]
        own = [each.plan for each in candidates(function, SM_90A)]
        found = [each.plan for each in candidates(function, replace(SM_90A, generators=("triton",)))]
    more = [plan for plan in found if plan not in own]
    assert PLAN in more and all(plan.startswith("triton ") for plan in more)
    assert found == [own[0], *more, *own[1:]]


def test_a_part_of_the_key(options: shlo.Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the generator is asked, and its version, which also compiles what models call."""
    backend = CudaBackend()
    assert "triton 3.9.0" in backend.describe(options)
    monkeypatch.setattr(build_module, "triton_version", lambda: "3.8.0")
    assert "triton 3.8.0" in backend.describe(replace(options, generators=()))
    assert options.key != replace(options, generators=()).key
    monkeypatch.setattr(build_module, "require_triton", lambda: "3.10.0")
    assert "triton 3.10.0" in backend.describe(options)


def test_refusals(plans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"there is no generator 'mosaic'(.|\n)*triton"):
        shlo.Options(generators="mosaic", autotune=True)
    with pytest.raises(OptionError, match=r"generators is \('triton',\), and nothing chooses(.|\n)*autotune"):
        shlo.Options(generators="triton")
    with pytest.raises(OptionError, match="backend 'opencl' does not take kernels of the generator 'triton'"):
        compile_program(MODEL, target="opencl", options=shlo.Options(generators="triton", plans=plans, cache_dir=None))
    with pytest.raises(OptionError, match=rf"has no plan '{PLAN}' on sm_90a"):
        compile_program(MODEL, target="cuda", options=replace(OWN, plans=plans))
    monkeypatch.setattr(build_module, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"Triton is not installed(.|\n)*stablehlo-py\[triton\]"):
        compile_program(MODEL, target="cuda", options=replace(OWN, generators=("triton",), plans=plans))
