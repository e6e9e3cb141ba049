"""Leave to use AMX, which a process has to ask for: programs in Python, libraries in C, and both where it is refused.

That is so where a thread has an alternate signal stack too small for tiles.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from one_kernel import here

import stablehlo_py as shlo
from stablehlo_py.aot.compile import Build
from stablehlo_py.api import compile_program
from stablehlo_py.backends.cpu import features
from stablehlo_py.backends.cpu.code import require_host
from stablehlo_py.backends.cpu.target import AMX, AVX512_VNNI, host_target, required_features, without_units
from stablehlo_py.options import Options
from stablehlo_py.runtime.entry import NO_TILES, OK

GCC = shutil.which("gcc") or shutil.which("cc")
TEXT = """
func.func @main(%a: tensor<40x96xbf16>, %b: tensor<96x50xbf16>) -> tensor<40x50xf32> {
  %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<40x96xbf16>, tensor<96x50xbf16>) -> tensor<40x50xf32>
  return %c : tensor<40x50xf32>
}
"""
TANH = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = stablehlo.tanh %a : tensor<4xf32>
  return %b : tensor<4xf32>
}
"""
needs_tiles = pytest.mark.skipif(not here(AMX), reason="this CPU has no AMX, or lets this process use none")
needs_c = pytest.mark.skipif(GCC is None or not here(AVX512_VNNI), reason="needs a C compiler, and AVX-512 with VNNI")
# With an argument, the thread has an alternate stack of 8 KiB.
CALLER = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include "product.h"

int main(int count, char **names) {
  static uint16_t a[40][96], b[96][50];
  static float c[40][50];
  static char stack[8192];
  static _Alignas(64) char workspace[PRODUCT_WORKSPACE_BYTES + 1];
  stack_t small = {stack, 0, sizeof stack};
  if (count > 1 && sigaltstack(&small, 0)) return 9;
  for (int i = 0; i < 40; i++) for (int k = 0; k < 96; k++) a[i][k] = 0x3f80;
  for (int k = 0; k < 96; k++) for (int j = 0; j < 50; j++) b[k][j] = 0x4000;
  int status = product(&a[0][0], &b[0][0], &c[0][0], workspace, PRODUCT_WORKSPACE_BYTES);
  printf("%d %g %s\n", status, c[39][49], shlo_status_text(status));
  return 0;
}
"""
SMALL_STACK = """
import ctypes
class Stack(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
memory = ctypes.create_string_buffer(8192)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(memory), 0, 8192)), None) == 0
"""


def python(*lines: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], check=True, capture_output=True, text=True, timeout=120
    ).stdout


@cache
def library(cpus: tuple[str, ...]) -> Build:
    if len(cpus) == 1:
        return shlo.aot.compile(TEXT, "product", emit="static", options=Options(cpu=cpus[0]))
    return shlo.aot.compile(TEXT, "product", emit="static", cpus=cpus)


def said(cpus: tuple[str, ...], folder: Path, *arguments: str) -> list[str]:
    """The status of a call of a library, a result, and the status's text."""
    build = library(cpus)
    build.write(folder)
    (folder / "caller.c").write_text(CALLER)
    command = [str(GCC), "-std=c11", "-Wall", "-Werror", f"-I{shlo.get_include()}", "-I.", "caller.c", build.links[0]]
    subprocess.run([*command, "-lm", "-o", "caller"], cwd=folder, check=True)
    output = subprocess.run(["./caller", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout
    return output.strip().split(" ", 2)


def test_what_programs_need() -> None:
    """One without products on AMX runs where there is none."""
    tiles = set(features.TILE_FEATURES)
    assert tiles <= set(compile_program(TEXT, options=Options(cpu="amx")).features)
    assert not tiles & set(compile_program(TANH, options=Options(cpu="amx")).features)
    assert set(required_features(AMX)) - set(required_features(without_units(AMX))) == tiles
    assert without_units(AVX512_VNNI) is AVX512_VNNI


def test_the_host_without_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has what it has besides, and refuses programs that use AMX, by name."""
    program = compile_program(TEXT, options=Options(cpu="amx"))
    monkeypatch.setattr(features, "tiles_permitted", lambda: False)
    assert host_target.__wrapped__().matrix_units == ()
    everything = [features._SYSTEM_NAMES.get(name, name) for name in required_features(AMX)]
    monkeypatch.setattr(features, "present", lambda: frozenset(everything))
    assert features.missing_features(required_features(AMX)) == list(features.TILE_FEATURES)
    with pytest.raises(shlo.LoadError, match="uses AMX, which the system does not let this process use") as caught:
        require_host(program, program.features)
    assert "avx512bf16" in str(caught.value.remedy)
    monkeypatch.setattr(features, "present", lambda: frozenset(everything) - {"amx_tile", "amx_bf16", "amx_int8"})
    with pytest.raises(shlo.LoadError, match="lacks amx-tile, amx-bf16"):
        require_host(program, program.features)


@needs_tiles
def test_threads_and_children_have_leave() -> None:
    """A thread that was there before, and a forked child."""
    lines = f"""
import os, threading
import ml_dtypes, numpy as np
go, done = threading.Event(), []
thread = threading.Thread(target=lambda: (go.wait(), done.append(executable(a, b)[0])))
thread.start()
import stablehlo_py as shlo
executable = shlo.compile({TEXT!r}, options=shlo.Options(cpu="amx"))
a, b = np.ones((40, 96), ml_dtypes.bfloat16), np.full((96, 50), 2, ml_dtypes.bfloat16)
go.set()
thread.join()
assert (done[0] == 192).all()
child = os.fork()
if not child:
    os._exit(0 if (executable(a, b)[0] == 192).all() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert python(lines) == "0\n"


@needs_tiles
def test_a_process_that_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.shloexe"
    shlo.compile(TEXT, options=Options(cpu="amx")).save(path)
    lines = f"""
import stablehlo_py as shlo
import ml_dtypes, numpy as np
a, b = np.ones((40, 96), ml_dtypes.bfloat16), np.full((96, 50), 2, ml_dtypes.bfloat16)
assert (shlo.compile({TEXT!r})(a, b)[0] == 192).all()
try:
    shlo.load_executable({str(path)!r})
except shlo.LoadError as error:
    print(error)
"""
    assert "uses AMX, which the system does not let this process use" in python(SMALL_STACK, lines)


@needs_c
def test_a_library_asks_by_itself(tmp_path: Path) -> None:
    """It refuses a call where it gets none."""
    wanted = [str(OK), "192"] if here(AMX) else [str(NO_TILES), "0"]
    assert said(("amx",), tmp_path)[:2] == wanted
    assert said(("amx",), tmp_path, "refuse") == [
        str(NO_TILES),
        "0",
        "the CPU has no AMX, or the system does not let this process use it",
    ]


@needs_c
@pytest.mark.parametrize("arguments", [(), ("refuse",)], ids=["leave", "no leave"])
def test_a_library_with_code_for_others_takes_that(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert said(("avx512vnni", "amx"), tmp_path, *arguments)[:2] == [str(OK), "192"]


def test_other_systems_are_refused() -> None:
    for triple in ("x86_64-pc-windows-msvc", "x86_64-none-elf"):
        with pytest.raises(shlo.OptionError, match="is for Linux"):
            shlo.aot.compile(TEXT, "product", triple=triple, options=Options(cpu="amx"))


@needs_c
def test_c_for_it_has_no_tiles() -> None:
    program = compile_program(TEXT, target="c", options=Options(cpu="amx"))
    assert not set(program.features) & set(features.TILE_FEATURES)
