"""shlo-compile: what it writes and prints, and how it ends."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.base import get_backend
from stablehlo_py.backends.cpu import features
from stablehlo_py.cli import compile as tool_module
from stablehlo_py.compiler import module_stages

MODEL = """func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = stablehlo.add %x, %x : tensor<2x3xf32>
  %z = stablehlo.sine %y : tensor<2x3xf32>
  return %z : tensor<2x3xf32>
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Tool = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tool(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tool:
    """tool(*arguments) -> (status, stdout, stderr) in a folder with model.mlir."""
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(MODEL)

    def call(*arguments: object) -> tuple[int, str, str]:
        try:
            status = tool_module.main([str(argument) for argument in arguments])
        except SystemExit as exit_:  # argparse
            status = int(exit_.code or 0)
        return (status, *capfd.readouterr())

    return call


def works(path: str) -> bool:
    return np.allclose(shlo.load_executable(path)(X)[0], np.sin(2 * X), atol=1e-6)


def test_help(tool: Tool) -> None:
    status, out, _ = tool("--help")
    assert status == 0
    for option in ("--output", "--cpu", "--dump-stages", "--disable", "--quiet", "exit status:"):
        assert option in out
    assert max(map(len, out.splitlines())) <= 120


def test_an_artifact_is_written_next_to_the_module(tool: Tool) -> None:
    status, out, err = tool("model.mlir")
    assert (status, err) == (0, "")
    assert "kernels:" in out
    assert "wrote model.shloexe" in out
    assert works("model.shloexe")


def test_a_model_with_symbolic_dimensions_is_one_artifact(tool: Tool) -> None:
    Path("model.mlir").write_text(MODEL.replace("2x3", "?x3"))
    status, out, err = tool("model.mlir")
    assert (status, err) == (0, "")
    assert "wrote model.shloexe" in out
    loaded = shlo.load_executable("model.shloexe")
    for rows in (1, 2, 50):
        x = np.resize(X, (rows, 3))
        np.testing.assert_allclose(loaded(x)[0], np.sin(2 * x), atol=1e-6)
    assert loaded.compilations == 0


def test_quiet(tool: Tool) -> None:
    assert tool("model.mlir", "--quiet", "-o", "other.bin") == (0, "", "")
    assert works("other.bin")


def test_stages_are_dumped(tool: Tool) -> None:
    assert tool("model.mlir", "--quiet", "--dump-stages", "stages")[0] == 0
    names = sorted(file.name for file in Path("stages").iterdir())
    backend = get_backend("cpu")
    assert [name.split("-", 1)[1].split(".")[0] for name in names] == [*module_stages(backend), *backend.stages]
    assert all(file.stat().st_size for file in Path("stages").iterdir())
    assert "hlo.sine" in next(Path("stages").glob("*-optimized.mlir")).read_text()


def test_a_cache_is_used(tool: Tool) -> None:
    for _ in range(2):
        assert tool("model.mlir", "--quiet", "--cache-dir", "cache")[0] == 0
    assert len(list(Path("cache").iterdir())) == 1
    assert works("model.shloexe")


@pytest.mark.parametrize(
    "options",
    ["--opt-level=0", "--threads=1", "--cpu=x86-64", "--disable=cse,licm", "--no-isolate", "--target=cpu"],
)
def test_options(tool: Tool, options: str) -> None:
    assert tool("model.mlir", "--quiet", options) == (0, "", "")
    assert works("model.shloexe")


def test_code_for_a_cpu_that_this_one_is_not(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "missing_features", lambda required: list(required))
    assert tool("model.mlir", "--quiet", "--cpu", "avx2") == (0, "", "")
    with pytest.raises(shlo.LoadError, match="lacks avx2, fma"):
        shlo.load_executable("model.shloexe")


def test_from_a_pipe_to_a_process_of_its_own(tmp_path: Path) -> None:
    output = tmp_path / "model.shloexe"
    command = [sys.executable, "-m", "stablehlo_py.cli.compile", "-", "--quiet", "-o", str(output)]
    done = subprocess.run(command, input=MODEL, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert works(str(output))


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((), 2),
        (("missing.mlir",), 3),
        (("model.mlir", "--opt-level", "7"), 2),
        (("model.mlir", "--cpu", "pdp11"), 2),
        (("model.mlir", "--target", "abacus"), 2),
        (("model.mlir", "--disable", "nothing-of-this-name"), 2),
        (("model.mlir", "--entry", "missing"), 2),
        (("model.mlir", "--output", "missing/model.shloexe"), 3),
        (("model.mlir", "--cache-dir", "model.mlir"), 3),
        (("model.mlir", "--dump-stages", "model.mlir"), 3),
        (("broken.mlir",), 3),
        (("symbolic.mlir",), 4),
        (("unsupported.mlir",), 4),
    ],
)
def test_how_it_ends(tool: Tool, arguments: tuple[str, ...], status: int) -> None:
    Path("broken.mlir").write_text("func.func @main( {")
    Path("symbolic.mlir").write_text(
        """func.func @main(%x: tensor<?xf32>, %n: tensor<1xf32>) -> tensor<?xf32> {
          %0 = stablehlo.convert %n : (tensor<1xf32>) -> tensor<1xi32>
          %1 = stablehlo.dynamic_broadcast_in_dim %x, %0, dims = [0] : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
          return %1 : tensor<?xf32> }"""
    )
    Path("unsupported.mlir").write_text(MODEL.replace("stablehlo.sine %y", "stablehlo.custom_call @f(%y)").replace(
        "@f(%y) : tensor<2x3xf32>", "@f(%y) : (tensor<2x3xf32>) -> tensor<2x3xf32>"))  # fmt: skip
    found, out, err = tool(*arguments)
    assert (found, out) == (status, "")
    assert err
    assert "Traceback" not in err
    assert not list(Path().rglob("*.shloexe"))


@pytest.mark.parametrize("name", ["opt", "compile", "run", "bench", "bisect", "reduce", "fuzz", "accuracy"])
def test_every_tool_prints_its_version_and_takes_backend_and_cpu(name: str, capsys: pytest.CaptureFixture) -> None:
    module = importlib.import_module(f"stablehlo_py.cli.{name}")
    with pytest.raises(SystemExit) as ended:
        module.main(["--version"])
    assert ended.value.code == 0
    packages, cpu = capsys.readouterr().out.splitlines()
    for package in ("stablehlo-py", "torch-mlir", "llvmlite", "LLVM", "Python"):
        assert re.search(rf"{package} [\d.]+", packages)
    assert re.match(r"CPU: [\w-]+, on [\w-]+, \d+ threads", cpu)
    with pytest.raises(SystemExit):
        module.main(["--help"])
    text = capsys.readouterr().out
    assert "--cpu CPU" in text and "--version" in text
    assert ("--target BACKEND" in text) == (name != "accuracy")
