"""How fast the C file of each model is, next to our own native code, with one thread each: `python
benchmarks/bench_c.py [--size small] [MODEL ...]`. The C compiler is `cc`, or what `CC` names. Prints the least times of
a call in milliseconds, their ratio, and the geometric mean of the ratios."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence

import numpy as np

import stablehlo_py as shlo
from stablehlo_py import suite


def least_time(executable: shlo.Executable, arrays: Sequence[np.ndarray], seconds: float) -> float:
    """The least time of a call, among as many as fit, but at least three."""
    executable(*arrays)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        executable(*arrays)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="of the suite; default: all")
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each of both (default: 1)")
    options = parser.parse_args()
    logarithms = []
    for name in options.models or suite.names():
        model = suite.build(name, options.size)
        exported, arrays = suite.export(model), model.arrays()
        settings = shlo.Options(threads=1, cache_dir=None)
        c, native = (
            least_time(shlo.compile(exported, target=target, options=settings), arrays, options.seconds)
            for target in ("c", "cpu")
        )
        logarithms.append(math.log(c / native))
        print(f"{name:28} {c * 1e3:10.3f} {native * 1e3:10.3f} {c / native:6.2f}", flush=True)
    print(f"geometric mean {math.exp(sum(logarithms) / len(logarithms)):.2f}")


if __name__ == "__main__":
    main()
