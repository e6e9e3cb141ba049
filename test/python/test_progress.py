"""What a listener hears of a compilation, and that tools show it on terminals only."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import stablehlo_py as shlo
from stablehlo_py import progress

MODEL = """func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = stablehlo.sine %x : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
"""


def test_a_listener_hears_every_stage_in_order() -> None:
    heard: list[str] = []
    with progress.listening(heard.append):
        shlo.compile(MODEL)
    shlo.compile(MODEL)  # nobody listens any more
    assert heard[:5] == ["stablehlo", "hlo", "optimized", "fused", "scheduled"]
    assert heard[5:] == ["codegen", "kernels 0/1", "machine code"]


def test_the_tools_show_it_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "model.mlir").write_text(MODEL)
    command = [sys.executable, "-m", "stablehlo_py.cli.compile", str(tmp_path / "model.mlir")]
    reader, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, text=True, env=environment, check=True)
    os.close(terminal)
    shown = os.read(reader, 1 << 16).decode()
    os.close(reader)
    assert "compiling" in shown
    assert "compiling" not in done.stdout
    plain = subprocess.run(command, capture_output=True, text=True, check=True)
    assert plain.stderr == ""
