"""How long it takes from nothing to the first result of a library: in a Python process that has imported NumPy, and in
a C program. Writes nothing; run it on an idle machine.

    python benchmarks/bench_library.py [--runs 20]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "test" / "helpers")]

from library_models import library_model  # noqa: E402

import stablehlo_py as shlo  # noqa: E402

PYTHON = """
import time, numpy as np
begin = time.perf_counter()
import stablehlo_py as shlo
library = shlo.load_library("libmlp.so")
loaded = time.perf_counter()
library(*(np.zeros(each.shape, each.dtype) for each in library.inputs))
print(1e3 * (time.perf_counter() - begin), 1e3 * (loaded - begin))
"""
C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "mlp.h"
static float x[32 * 784], w1[784 * 512], b1[512], w2[5120], y[320];
static _Alignas(64) char workspace[MLP_WORKSPACE_BYTES + 1];
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * t.tv_sec + 1e-6 * t.tv_nsec;
}
int main(void) {
  double begin = now();
  int status = mlp(x, w1, b1, w2, y, workspace, MLP_WORKSPACE_BYTES);
  printf("%g", now() - begin);
  return status;
}
"""


def main() -> None:
    """Print medians, in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        for emit in ("shared", "static"):
            shlo.aot.compile(library_model("mlp").artifact, "mlp", emit=emit).write(folder)
        Path(folder, "main.c").write_text(C)
        subprocess.run(["cc", "-O1", "main.c", "libmlp.a", "-lm", "-o", "program"], cwd=folder, check=True)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        python, c, process = [], [], []
        for _ in range(runs):
            said = subprocess.run(
                [sys.executable, "-c", PYTHON], cwd=folder, env=environment, capture_output=True, check=True
            )
            python.append([float(each) for each in said.stdout.split()])
            c.append(float(subprocess.run(["./program"], cwd=folder, capture_output=True, check=True).stdout))
            timed = (
                "import subprocess, time; b = time.perf_counter(); subprocess.run(['./program'], capture_output=True); "
            )
            timed += "print(1e3 * (time.perf_counter() - b))"
            process.append(float(subprocess.run([sys.executable, "-c", timed], cwd=folder, capture_output=True).stdout))
    whole, loading = (statistics.median(each) for each in zip(*python, strict=True))
    print(f"Python, NumPy imported: {whole:.1f} ms to the first result, {loading:.1f} ms of it to load")
    print(f"C: {statistics.median(c):.2f} ms for the first call, {statistics.median(process):.1f} ms for the process")


if __name__ == "__main__":
    main()
