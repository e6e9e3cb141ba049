"""Directories, files, memory and machines that are not what a program needs."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.cpu import features
from stablehlo_py.errors import EXIT_BAD_INPUT
from stablehlo_py.runtime import memory, program

TEXT = """func.func @main(%x: tensor<40x50xf32>) -> tensor<50xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.tanh %x : tensor<40x50xf32>
  %s = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<40x50xf32>, tensor<f32>) -> tensor<50xf32>
  return %s : tensor<50xf32>
}"""  # noqa: E501
X = np.linspace(-1, 1, 2000, dtype=np.float32).reshape(40, 50)
EXPECTED = np.tanh(X).sum(0)


def compile_cached(directory: Path, **options: object) -> shlo.Executable:
    return shlo.compile(TEXT, options=shlo.Options(cache_dir=directory, **options))  # type: ignore[arg-type]


def works(executable: shlo.Executable) -> bool:
    return np.allclose(executable(X)[0], EXPECTED, atol=1e-4)


# --- the cache -------------------------------------------------------------------------------------------------------


def compiled_count(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each compilation."""
    from stablehlo_py import compiler

    counted: list[int] = []
    original = compiler.compile_module
    monkeypatch.setattr(compiler, "compile_module", lambda *arguments: counted.append(1) or original(*arguments))
    return counted


def test_options_that_change_no_code_share_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = compiled_count(monkeypatch)
    other = tmp_path / "elsewhere" / ".." / "cache"
    for options in ({}, {"dump_dir": tmp_path / "dump"}, {"isolate": True}, {"verify": True}):
        assert works(compile_cached(tmp_path / "cache", **options))
    (tmp_path / "elsewhere").mkdir()
    assert works(compile_cached(other))
    assert len(counted) == 1
    more = len(os.sched_getaffinity(0)) + 1  # than are taken by default
    for options in ({"threads": more}, {"threads": 99}, {"opt_level": 0}, {"cpu": "x86-64"}, {"disable": ("cse",)}):
        assert works(compile_cached(tmp_path / "cache", **options))
    assert len(counted) == 6
    assert list((tmp_path / "dump").iterdir())


def test_processes_that_share_a_cache(tmp_path: Path) -> None:
    code = """
        import sys
        import numpy as np
        import stablehlo_py as shlo
        text, cache = sys.argv[1:]
        x = np.ones((40, 50), np.float32)
        for level in (0, 1):
            for disabled in ((), ("cse",), ("licm",)):
                options = shlo.Options(cache_dir=cache, opt_level=level, disable=disabled)
                for _ in range(2):
                    assert abs(shlo.compile(text, options=options)(x)[0][0] - 40 * np.tanh(1)) < 1e-3
    """
    command = [sys.executable, "-c", textwrap.dedent(code), TEXT, str(tmp_path)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert len(list(tmp_path.iterdir())) == 6
    assert not list(tmp_path.glob(".partial-*"))


def test_the_environment_names_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STABLEHLO_PY_CACHE_DIR", str(tmp_path))
    shlo.compile(TEXT)
    assert len(list(tmp_path.iterdir())) == 1


# --- directories -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["a file", "under a file", "read-only"])
def test_dump_directories_that_cannot_be_used(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    directory = {"a file": file, "under a file": file / "x", "read-only": tmp_path}[place]
    counted = compiled_count(monkeypatch)
    if place == "read-only":
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(shlo.ResourceError) as caught:
        shlo.compile(TEXT, options=shlo.Options(dump_dir=directory))
    assert str(directory) in str(caught.value)
    assert caught.value.remedy
    assert caught.value.exit_status == EXIT_BAD_INPUT
    assert not counted, "found out only after the work was done"


@pytest.mark.parametrize("path", ["missing.mlir", ".", "model.mlir/inside"])
def test_sources_that_cannot_be_read(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.mlir").write_text(TEXT)
    for options in (shlo.Options(), shlo.Options(cache_dir=tmp_path / "cache")):
        with pytest.raises(shlo.ResourceError):
            shlo.compile(path, options=options)
    with pytest.raises(shlo.ResourceError):
        shlo.load_executable(path)


# --- memory ----------------------------------------------------------------------------------------------------------


def test_a_model_for_more_memory_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """func.func @main(%x: tensor<900x900xf32>) -> tensor<900x900xf32> {
      %a = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<900x900xf32>, tensor<900x900xf32>) -> tensor<900x900xf32>
      %b = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : (tensor<900x900xf32>, tensor<900x900xf32>) -> tensor<900x900xf32>
      return %b : tensor<900x900xf32>
    }"""  # noqa: E501
    monkeypatch.setattr(memory, "physical_memory", lambda: 1 << 20)
    with pytest.raises(shlo.ResourceError, match="GiB") as caught:
        shlo.compile(text)
    assert caught.value.remedy


def test_memory_that_the_system_refuses() -> None:
    with pytest.raises(shlo.ResourceError, match="not to be had"):
        memory.Block(1 << 62)


# --- machines --------------------------------------------------------------------------------------------------------


def test_an_artifact_for_a_cpu_with_more_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.shloexe"
    shlo.compile(TEXT, options=shlo.Options(cpu="avx2")).save(path)
    monkeypatch.setattr(features, "missing_features", lambda required: [name for name in required if name == "fma"])
    with pytest.raises(shlo.LoadError, match="lacks fma") as caught:
        shlo.load_executable(path)
    assert "haswell" in str(caught.value)
    assert "cpu=" in (caught.value.remedy or "")
    baseline = tmp_path / "baseline.shloexe"
    shlo.compile(TEXT, options=shlo.Options(cpu="x86-64")).save(baseline)
    assert works(shlo.load_executable(baseline))


def test_an_artifact_for_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.shloexe"
    shlo.compile(TEXT).save(path)
    monkeypatch.setattr(program, "this_machine", lambda: "riscv64-plan9")
    with pytest.raises(shlo.LoadError, match="riscv64-plan9"):
        shlo.load_executable(path)
