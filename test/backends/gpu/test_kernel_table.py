"""The script that lists the kernels of the models for GPUs (docs/performance-gpu.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "benchmarks/gpu_kernels.py"


def test_a_model_and_a_gpu(tmp_path: Path) -> None:
    journal = tmp_path / "kernels.jsonl"
    command = [sys.executable, SCRIPT, "softmax", "--size", "small", "--gpu", "gfx942", "--journal", journal]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    (row,) = map(json.loads, journal.read_text().splitlines())
    kernels = {kind: registers for _, kind, _, _, registers, *_ in row["kernels"]}
    assert kernels["row"] > 0 and row["code"] > 0
