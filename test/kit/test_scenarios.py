"""The sorts of new hardware of docs/adding-a-backend.md: what the page describes, run as far as it goes here. The
package for an accelerator without LLVM: test_new_backend.py."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py import targets
from stablehlo_py.api import compile_program
from stablehlo_py.backends.base import get_backend
from stablehlo_py.backends.cpu.target_machine import emit_object
from stablehlo_py.backends.gpu.backend import CudaBackend, OpenClBackend
from stablehlo_py.backends.gpu.target import NAMED, OPENCL, GpuTarget
from stablehlo_py.compiler import run_stages
from stablehlo_py.frontend.load import load
from stablehlo_py.mlir import ir

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/docs"))
from snippets import snippets  # noqa: E402

OPTIONS = shlo.Options(cache_dir=None, threads=1)
MODEL = (ROOT / "test/docs/files/model.mlir").read_text()
X = np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16)
W = np.linspace(1, -1, 64, dtype=np.float32).reshape(16, 4)
CROSS = ("powerpc64le-linux-gnu-gcc", "qemu-ppc64le")
PACKAGES = "gcc-powerpc64le-linux-gnu libc6-dev-ppc64el-cross qemu-user"
EM_PPC64 = 21  # in the header of an ELF file
CALLER = r"""
#include <stdio.h>
#include <stdlib.h>
#include "shlo_call.h"

int shlo_main(const shlo_call *call);

int main(void) {  /* x and w on stdin, the result on stdout */
  static float x[8 * 16], w[16 * 4], result[8 * 4];
  if (fread(x, sizeof x, 1, stdin) != 1 || fread(w, sizeof w, 1, stdin) != 1) return 9;
  const void *inputs[] = {x, w};
  void *outputs[] = {result};
  shlo_call call = {sizeof call};
  call.inputs = inputs, call.outputs = outputs, call.workspace = aligned_alloc(64, 1 << 20);
  int status = shlo_main(&call);
  fwrite(result, sizeof result, 1, stdout);
  return status;
}
"""


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Backends of one test are not known to the next one."""
    monkeypatch.setattr(targets, "_registered", dict(targets._registered))
    yield
    targets._made.cache_clear()


def described() -> Any:
    """The page's description of a CPU, as a namespace."""
    (snippet,) = (each for each in snippets(ROOT / "docs/adding-a-backend.md") if each.word == "power9.py")
    assert len(snippet.text.splitlines()) <= 30
    namespace: dict[str, Any] = {}
    exec(compile(snippet.text, snippet.place, "exec"), namespace)
    return namespace


def power9_object() -> bytes:
    """The model as an object file for POWER9."""
    namespace = described()
    targets.register_backend("power9", namespace["Power9Backend"])
    module = load(MODEL)
    with module.context, ir.Location.unknown():
        run_stages(module, "", "scheduled", OPTIONS, target="power9")
        text = get_backend("power9").lower(module, "llvm", OPTIONS)
    return emit_object(text, namespace["POWER9"], public=["shlo_main"])


def test_a_cpu_that_llvm_knows_gets_an_object_file() -> None:
    made = power9_object()
    assert made[:4] == b"\x7fELF" and int.from_bytes(made[18:20], "little") == EM_PPC64


@pytest.mark.skipif(not all(map(shutil.which, CROSS)), reason=f"needs Debian's {PACKAGES}")
def test_a_cpu_that_llvm_knows_computes_what_this_one_does(tmp_path: Path) -> None:
    (tmp_path / "model.o").write_bytes(power9_object())
    (tmp_path / "main.c").write_text(CALLER)
    include = str(ROOT / "stablehlo_py/include")
    build = [CROSS[0], "-O1", "-static", "-I", include, "main.c", "model.o", "-lm", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True)
    done = subprocess.run([CROSS[1], "./main"], cwd=tmp_path, input=X.tobytes() + W.tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr
    result = np.frombuffer(done.stdout, np.float32).reshape(8, 4)
    np.testing.assert_allclose(result, shlo.compile(MODEL, options=OPTIONS)(X, W)[0], rtol=1e-5)


def test_a_device_that_llvm_knows_gets_code_and_its_listing() -> None:
    ada = replace(NAMED["sm_80"], name="sm_89")

    class AdaBackend(CudaBackend):
        name = "ada"

        def target(self, options: shlo.Options) -> GpuTarget:
            return ada

        def described(self, name: str) -> GpuTarget:
            return ada

    targets.register_backend("ada", AdaBackend)
    program = compile_program(MODEL, target="ada", options=OPTIONS)
    assert program.backend == "ada" and program.features[0] in ("sm_89", "compute_89")
    assert ".target sm_89" in get_backend("ada").listings(program)["ptx"]()


def test_a_device_that_llvm_knows_runs_what_its_description_says(real_device: object) -> None:
    class SmallBlocks(OpenClBackend):
        name = "small-blocks"

        def target(self, options: shlo.Options) -> GpuTarget:
            return replace(OPENCL, block=64)

    targets.register_backend("small-blocks", SmallBlocks)
    executable = shlo.compile(MODEL, target="small-blocks", options=OPTIONS)
    np.testing.assert_allclose(executable(X, W)[0], shlo.compile(MODEL, options=OPTIONS)(X, W)[0], rtol=1e-5)
