"""GPUs by name: what programs are compiled for without one, what they say that they need, and the tools of CUDA."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.base import get_backend
from stablehlo_py.backends.gpu import ptx
from stablehlo_py.backends.gpu.capability import best_gpu, needs, require_capability, runs_on
from stablehlo_py.backends.gpu.target import NAMED
from stablehlo_py.backends.gpu.usage import Usage, _unpacked, of_ptxas
from stablehlo_py.errors import InternalError, LoadError, OptionError, ResourceError
from stablehlo_py.options import GPUS
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.program import CompiledProgram
from stablehlo_py.runtime.stages import stage_texts

MODEL = """
func.func @main(%x: tensor<8x100xf32>) -> tensor<8x100xf32> {
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %m = stablehlo.reduce(%x init: %lowest) applies stablehlo.maximum across dimensions = [1] : (tensor<8x100xf32>, tensor<f32>) -> tensor<8xf32>
  %all = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<8xf32>) -> tensor<8x100xf32>
  %d = stablehlo.subtract %x, %all : tensor<8x100xf32>
  return %d : tensor<8x100xf32>
}
"""  # noqa: E501
PTX = """.version 8.3
.target sm_90
.address_size 64
.visible .entry first(.param .u64 p) { ret; }
.visible .entry second(
  .param .u64 p
) {
  ret.bogus;
}
"""
has_ptxas = pytest.mark.skipif(not ptx.find_tool("ptxas"), reason="ptxas is not installed")
has_nvdisasm = pytest.mark.skipif(not ptx.find_tool("nvdisasm"), reason="nvdisasm is not installed")


def backend_of(gpu: str) -> str:
    return "cuda" if gpu.startswith("sm_") else "rocm"


def compiled(gpu: str) -> CompiledProgram:
    return compile_program(MODEL, target=backend_of(gpu), options=shlo.Options(gpu=gpu, cache_dir=None))


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without a toolkit and without packages of NVIDIA; tools may be put into the folder `bin`."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(ptx, "find_spec", lambda name: None)
    (tmp_path / "bin").mkdir()
    return monkeypatch


def tool(folder: Path, name: str, script: str) -> None:
    """A tool of the toolkit in a folder, by its shell script."""
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


# --- names ------------------------------------------------------------------------------------------------------------


def test_every_name_has_a_description() -> None:
    assert tuple(NAMED) == GPUS
    assert all(target.name == name and target.rates.bandwidth > 0 < target.rates.f32 for name, target in NAMED.items())


@pytest.mark.parametrize(
    ("target", "gpu", "message"),
    [
        ("cuda", "gfx942", r"'cuda' generates no code for gpu='gfx942'\n.*use one of sm_80, sm_90, sm_90a, sm_100"),
        ("cuda", "sm_9", r"'cuda' generates no code for gpu='sm_9'"),
        ("rocm", "sm_90", r"'rocm' generates no code for gpu='sm_90'\n.*use one of gfx90a, gfx942, gfx1100"),
        ("cuda", None, r"which GPU .* is not said, and the backend 'cuda' finds none here\n.*gpu=.*sm_80"),
        ("rocm", None, r"which GPU .* is not said, and the backend 'rocm' finds none here\n.*--gpu.*gfx90a"),
        ("opencl", "sm_90", r"code of the backend 'opencl' is for all devices, gpu is 'sm_90'"),
        ("cpu", "sm_90", r"the backend 'cpu' generates no code for GPUs, gpu is 'sm_90'\n.*target='cuda'"),
    ],
)
def test_wrong_names(monkeypatch, target, gpu, message) -> None:
    """Whether there is a cache, or not: its key needs the description."""
    if gpu is None:
        monkeypatch.setattr(type(get_backend(target)), "present", lambda backend, device: None)
    options = shlo.Options(gpu=gpu, cache_dir=None)
    with pytest.raises(OptionError, match=message):
        compile_program(MODEL, target=target, options=options)
    with pytest.raises(OptionError, match=message):
        get_backend(target).describe(options)


def test_a_gpu_that_is_no_name() -> None:
    with pytest.raises(OptionError, match=r"gpu is 90\n.*use one of sm_80, .*, or None for the one of this machine"):
        shlo.Options(gpu=90)


def test_keys_of_the_cache_differ(no_tools, tmp_path) -> None:
    keys = {gpu: get_backend(backend_of(gpu)).describe(shlo.Options(gpu=gpu)) for gpu in GPUS}
    assert len({*keys.values()}) == len(GPUS)
    for version in ("13.0.1", "13.5.37"):  # machine code, and machine code of another assembler
        tool(tmp_path, "ptxas", f"echo 'Cuda compilation tools, release 13, V{version}'")
        ptx._version.cache_clear()
        keys[version] = get_backend("cuda").describe(shlo.Options(gpu="sm_90"))
        assert f" ptxas {version}" in keys[version]
    ptx._version.cache_clear()
    assert len({*keys.values()}) == len(GPUS) + 2


def test_the_cache_keeps_programs_apart(tmp_path) -> None:
    for gpu in ("gfx90a", "gfx942", "gfx90a"):
        program = compile_program(MODEL, target="rocm", options=shlo.Options(gpu=gpu, cache_dir=tmp_path))
        assert (program.target, needs(program.features)) == (gpu, [gpu])
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2


# --- what a program needs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("need", "here", "elsewhere"),
    [
        ("sm_80", [(8, 0), (8, 6), (8, 9)], [(7, 5), (9, 0), (10, 0)]),
        ("sm_90", [(9, 0)], [(8, 9), (10, 0)]),
        ("sm_90a", [(9, 0)], [(8, 0), (10, 0)]),
        ("sm_100", [(10, 0), (10, 3)], [(9, 0), (12, 0)]),
        ("compute_80", [(8, 0), (8, 6), (9, 0), (12, 0)], [(7, 5)]),
        ("compute_90a", [(9, 0)], [(8, 9), (10, 0)]),
        ("gfx942", [], [(9, 4), (9, 0)]),
    ],
)
def test_where_code_runs(need, here, elsewhere) -> None:
    assert all(runs_on(need, capability) for capability in here)
    assert not any(runs_on(need, capability) for capability in elsewhere)
    require_capability(["avx2", need], here[0], "a GPU") if here else None
    with pytest.raises(LoadError, match=rf"compiled for {need}, and does not run on the old one, which is sm_"):
        require_capability(["avx2", need], elsewhere[0], "the old one")


def test_the_best_name_for_a_gpu() -> None:
    found = {capability: best_gpu(capability) for capability in ((7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0))}
    named = {(8, 0): "sm_80", (8, 9): "sm_80", (9, 0): "sm_90a", (10, 0): "sm_100", (12, 0): "sm_100"}
    assert found == {(7, 5): None, **named}
    with pytest.raises(LoadError, match=r"(?s)which is sm_89.*compile the model with Options\(gpu='sm_80'\)"):
        require_capability(["sm_90"], (8, 9), "RTX 4090")
    with pytest.raises(LoadError, match=r"(?s)which is sm_75.*use a newer GPU"):
        require_capability(["sm_90"], (7, 5), "T4")


@pytest.mark.parametrize("gpu", GPUS)
def test_a_program_without_a_gpu(gpu, no_tools) -> None:
    """It says what it needs, and keeps the names of its kernels; without an assembler, PTX travels."""
    program = compiled(gpu)
    need = gpu.replace("sm_", "compute_")
    assert (program.backend, program.target, needs(program.features)) == (backend_of(gpu), gpu, [need])
    assert len(program.objects) == 2 and program.kernels == ("fusion_0",)
    assert f"for {gpu}" in program.report
    if need == gpu:
        assert program.objects[1].startswith(b"\x7fELF") and b"fusion_0.kd" in program.objects[1]
    else:
        assert f".target {gpu}\n".encode() in program.objects[1] and b".entry fusion_0(" in program.objects[1]


def test_amd_says_what_a_kernel_takes() -> None:
    assert re.search(r"registers of a thread: at most \d+; spills: none", compiled("gfx942").report)


READ = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch_mlir", "llvmlite", "jax", "jaxlib", "scipy"):
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Refuse())
from stablehlo_py.runtime import artifact
from stablehlo_py.backends.gpu.capability import needs

program = artifact.load(sys.argv[1])
print(program.backend, needs(program.features), program.kernels, program.constants[0][:3].tolist())
"""


@pytest.mark.parametrize("gpu", ["sm_90", "gfx942", None])
def test_a_bundle_is_read_without_a_compiler(gpu, tmp_path) -> None:
    """And is whole again: code, constants, what it needs."""
    table = ", ".join(str(number) for number in range(100))
    model = f"""
func.func @main(%x: tensor<100xi32>) -> tensor<100xi32> {{
  %c = stablehlo.constant dense<[{table}]> : tensor<100xi32>
  %0 = stablehlo.add %x, %c : tensor<100xi32>
  return %0 : tensor<100xi32>
}}"""
    backend = "opencl" if gpu is None else backend_of(gpu)
    program = compile_program(model, target=backend, options=shlo.Options(gpu=gpu, cache_dir=None))
    path = tmp_path / "bundle.shloexe"
    artifact.save(program, path)
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == f"{backend} {needs(program.features)} ('fusion_0',) [0, 1, 2]\n"
    assert artifact.load(path).objects == program.objects


# --- tools of CUDA ----------------------------------------------------------------------------------------------------


@has_ptxas
@pytest.mark.parametrize("gpu", [name for name in GPUS if name.startswith("sm_")])
def test_machine_code(gpu) -> None:
    program = compiled(gpu)
    assert (program.target, needs(program.features)) == (gpu, [gpu])
    assert program.objects[1].startswith(b"\x7fELF")
    assert re.search(r"registers of a thread: at most \d+; spills: none", program.report)
    assert compiled(gpu).objects == program.objects


@has_ptxas
@has_nvdisasm
def test_the_listing_of_machine_code() -> None:
    assert "/*0000*/" in stage_texts(compiled("sm_90"))["sass"]
    assert "sass" not in stage_texts(compiled("gfx942"))


@has_ptxas
def test_ptxas_refuses() -> None:
    """The kernel is named."""
    with pytest.raises(InternalError, match=r"ptxas refused the generated code of second: .*line 8.*bogus"):
        ptx.assemble(PTX.encode(), "sm_90")
    assert ptx.assemble(PTX.replace(".bogus", "").encode(), "sm_90")[0].startswith(b"\x7fELF")


@has_ptxas
@pytest.mark.parametrize(("text", "gpu"), [(PTX.replace("8.3", "77.1"), "sm_90"), (PTX, "sm_990")])
def test_ptxas_is_too_old(text, gpu) -> None:
    with pytest.raises(ResourceError, match=rf"(?s)ptxas is too old for {gpu}: .*help: install a newer one"):
        ptx.assemble(text.encode(), gpu)


def test_missing_tools(no_tools) -> None:
    for missing in (lambda: ptx.assemble(b"", "sm_90"), lambda: ptx.disassembly(b"")):
        with pytest.raises(ResourceError, match=r"there is no (ptxas|nvdisasm) here.*\n.*pip install nvidia-cuda-nvcc"):
            missing()
    assert (ptx.find_tool("ptxas"), ptx.assembler()) == (None, "")


def test_tools_of_packages(no_tools, tmp_path) -> None:
    """Those of a newer CUDA before those of an older one, and the toolkit's before both."""
    for folder in ("cuda_nvcc", "cu9", "cu13"):
        (tmp_path / "nvidia" / folder / "bin").mkdir(parents=True)
        tool(tmp_path / "nvidia" / folder, "ptxas", "")
    found = type("Spec", (), {"submodule_search_locations": [str(tmp_path / "nvidia")]})
    no_tools.setattr(ptx, "find_spec", lambda name: found)
    assert ptx.find_tool("ptxas") == str(tmp_path / "nvidia/cu13/bin/ptxas")
    tool(tmp_path, "ptxas", "")
    assert ptx.find_tool("ptxas") == str(tmp_path / "bin/ptxas")


def test_a_tool_that_does_not_run(no_tools, tmp_path) -> None:
    tool(tmp_path, "ptxas", "")
    (tmp_path / "bin/ptxas").write_bytes(b"\x7fELF and no more")
    with pytest.raises(ResourceError, match="ptxas cannot be run: Exec format error"):
        ptx.assemble(b"", "sm_90")
    tool(tmp_path, "nvdisasm", f"{shutil.which('sh') or '/bin/sh'} -c 'echo worse than nothing >&2; exit 3'")
    with pytest.raises(ResourceError, match="nvdisasm failed: worse than nothing"):
        ptx.disassembly(b"")


@pytest.mark.parametrize("gpu", GPUS)
def test_a_program_that_launches_nothing(gpu) -> None:
    """A transform of no numbers: neither kernels nor the functions that they would call."""
    empty = "tensor<3x0x17xcomplex<f32>>"
    text = f"""func.func @main(%x: {empty}) -> {empty} {{
      %0 = stablehlo.fft %x, type = FFT, length = [0, 17] : ({empty}) -> {empty}
      return %0 : {empty}
    }}"""
    program = compile_program(text, target=backend_of(gpu), options=shlo.Options(gpu=gpu, cache_dir=None))
    assert program.objects[1] == b""


# --- what they say ----------------------------------------------------------------------------------------------------

SAID = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a.b' for 'sm_90'
ptxas info    : Function properties for a.b
    48 bytes stack frame, 40 bytes spill stores, 36 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 48 bytes cumulative stack size, 1024 bytes smem, 16 bytes cmem[2]
ptxas info    : Compiling entry function 'c' for 'sm_90'
ptxas info    : Function properties for c
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
"""


def test_the_report_of_ptxas() -> None:
    assert of_ptxas(SAID) == {"a.b": Usage(255, 0, 40, 48, 1024), "c": Usage(8, 0, 0, 0, 0)}
    assert of_ptxas("ptxas info    : 0 bytes gmem\n") == {}


def test_message_pack() -> None:
    """Of every length that is written in another way (the format's specification)."""
    for packed, value in (
        (b"\x07", 7),
        (b"\xcc\xff", 255),
        (b"\xcd\x01\x00", 256),
        (b"\xce\x00\x01\x00\x00", 65536),
        (b"\xcf" + (1 << 40).to_bytes(8, "big"), 1 << 40),
        (b"\xa2ab", "ab"),
        (b"\xd9\x21" + b"a" * 33, "a" * 33),
        (b"\xda\x01\x00" + b"a" * 256, "a" * 256),
        (b"\x92\x01\xc3", [1, True]),
        (b"\xdc\x00\x10" + b"\x01" * 16, [1] * 16),
        (b"\x81\xa1k\xc0", {"k": None}),
        (b"\xde\x00\x01\xa1k\xc2", {"k": False}),
    ):
        assert _unpacked(packed + b"?", 0) == (value, len(packed))
    with pytest.raises(ValueError, match="0xca"):
        _unpacked(b"\xca\0\0\0\0", 0)
