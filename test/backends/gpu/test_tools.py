"""The tools, on a device."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo

DEVICE = ("--target", "opencl")
PLANTED = Path(__file__).parents[2] / "debug/planted/rule.py"
# The planted rule takes the sign of %0 away; what is around it is innocent.
MODEL = """func.func @main(%x: tensor<6x300xf32>, %y: tensor<6x300xf32>) -> tensor<6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.negate %y : tensor<6x300xf32>
  %1 = stablehlo.subtract %x, %0 : tensor<6x300xf32>
  %2 = stablehlo.exponential %1 : tensor<6x300xf32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<6x300xf32>, tensor<f32>) -> tensor<6xf32>
  return %3 : tensor<6xf32>
}"""


@pytest.fixture(autouse=True)
def model(real_device, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(MODEL)


def tool(name: str, *arguments: object, status: int = 0) -> str:
    """What a tool prints."""
    command = [sys.executable, "-m", f"stablehlo_py.cli.{name}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == status, done.stderr
    return done.stdout


def test_compile_and_run() -> None:
    tool("compile", "model.mlir", "-o", "model.shlo", *DEVICE)
    x, y = np.random.default_rng(0).standard_normal((2, 6, 300)).astype(np.float32)
    np.savez("inputs.npz", x=x, y=y)
    (expected,) = shlo.compile(MODEL)(x, y)
    for source in (("model.mlir", *DEVICE), ("model.shlo",)):
        tool("run", *source, "--input", "inputs.npz", "--output", "results.npz")
        (found,) = np.load("results.npz").values()
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_bench() -> None:
    tool("bench", "newton", "--rounds", 1, "--json", "times.json", *DEVICE)
    assert "newton" in json.dumps(json.loads(Path("times.json").read_text()))


def test_bisect_and_reduce() -> None:
    assert tool("bisect", "model.mlir", *DEVICE) == "nothing to blame: the answer is that of reference\n"
    tool("reduce", "model.mlir", "-o", "small.mlir", "--load-pass", PLANTED, *DEVICE)
    small = Path("small.mlir").read_text()
    assert "subtract" in small and "negate" in small and "exponential" not in small
    found = tool("bisect", "small.mlir", "--input", "small.npz", "--load-pass", PLANTED, *DEVICE, status=1)
    assert "to blame: rule planted-subtract-negate of pass peephole (stage optimized)" in found


def test_fuzz() -> None:
    assert tool("fuzz", "--count", 3, *DEVICE).startswith("3 programs from seed 0: 3 same")
