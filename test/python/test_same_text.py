"""Equal modules have equal stages and equal machine code, in whatever process they are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stablehlo_py import suite

DYNAMIC = """func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?xf32> {
  %init = stablehlo.constant dense<0.0> : tensor<f32>
  %z = stablehlo.add %x, %y : tensor<?x4xf32>
  %s = stablehlo.reduce(%z init: %init) applies stablehlo.add across dimensions = [1]
    : (tensor<?x4xf32>, tensor<f32>) -> tensor<?xf32>
  return %s : tensor<?xf32>
}"""
COMPILE = """
import hashlib, pathlib, sys
import stablehlo_py as shlo
from stablehlo_py.api import compile_program

options = shlo.Options(threads=2, cache_dir=None, isolate=False)
path = pathlib.Path(sys.argv[1])
for stage, text in shlo.compile(path, options=options).stages.items():
    print(stage, hashlib.sha256(text.encode()).hexdigest())
for number, content in enumerate(compile_program(path, options=options).objects):
    print("object file", number, hashlib.sha256(content).hexdigest())
"""


@pytest.mark.parametrize("name", ["lstm", "branches", "dynamic"])
def test_processes_agree(name: str, tmp_path: Path) -> None:
    """Whatever order sets of strings have, and wherever ops lie in memory."""
    path = tmp_path / "model"
    if name == "dynamic":
        path.write_text(DYNAMIC)
    else:
        path.write_bytes(suite.export(suite.build(name, "small")).mlir_module_serialized)
    said = []
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", COMPILE, str(path)]
        finished = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert finished.returncode == 0, finished.stderr
        said.append(finished.stdout.splitlines())
    assert len(said[0]) > 8
    assert said[0] == said[1] == said[2]
