"""Processes that have Python, NumPy and ml_dtypes, and nothing else: no MLIR, no LLVM, no JAX."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import stablehlo_py

ROOT = Path(stablehlo_py.__file__).resolve().parent.parent
ALONE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch_mlir", "llvmlite", "jax", "jaxlib", "scipy"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Refuse())
import numpy as np
import stablehlo_py as shlo

def compiling():
    parts = ("codegen", "passes", "legalize", "frontend", "backends.common", "mlir", "passmanager.pass")
    return [name for name in sys.modules if name.startswith(tuple(f"stablehlo_py.{part}" for part in parts))]

"""


def alone(script: str, *arguments: object, **environment: str) -> str:
    """What a script prints in a process without a compiler."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE + script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert not done.stderr, done.stderr
    assert not done.returncode, done.returncode
    return done.stdout
