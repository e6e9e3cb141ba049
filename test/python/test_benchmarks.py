"""Benchmarks that look into the compiler still find what they look for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_compile_time_of_small_programs() -> None:
    command = [sys.executable, str(BENCHMARKS / "bench_compile_small.py"), "--kinds", "add", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    for line in ("median", "reading", "passes", "kernels", "machine code", "loading"):
        assert f"\n{line}" in done.stdout
