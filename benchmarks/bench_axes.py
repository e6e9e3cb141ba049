"""Operations along each axis of arrays that no cache of a core holds, next to themselves along the other axes: one that
takes several times as long along one axis reads its rows in an order that is bad for caches. And next to XLA, which
has most of these cliffs, too, but not all.

    python benchmarks/bench_axes.py                          # all: what takes 2.5 times as long as along the best axis
    python benchmarks/bench_axes.py 'cum*' --types f32 bf16 --above 0
    python benchmarks/bench_axes.py --xla 1.05               # also what takes longer than 1.05 times XLA's time
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import time
from collections.abc import Callable
from typing import Any

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before jax counts its threads

import jax  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import stablehlo_py as shlo  # noqa: E402
from stablehlo_py.suite.axes import Along, operations  # noqa: E402
from stablehlo_py.suite.measure import interleaved  # noqa: E402

TYPES: dict[str, Any] = {
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f64": np.float64,
    "i8": np.int8,
    "c64": np.complex64,
}
SHAPES = ((2048, 4096), (1000, 1000), (60, 400, 128), (4000, 96, 10))


def seconds(function: Along, x: np.ndarray, *, beside_xla: bool) -> tuple[list[float], list[float]]:
    """Of a call with one thread, along each axis, in turns; and those / XLA's, which are measured if asked for."""
    calls: list[Callable[[], Any]] = []
    on_device, ratios = jax.device_put(x), []
    for axis in range(x.ndim):
        jitted = jax.jit(lambda x, axis=axis: function(x, axis))
        options = shlo.Options(threads=1, cache_dir=None)
        executable = shlo.compile(jax.export.export(jitted)(x), options=options)
        calls.append(lambda executable=executable: executable(x))
        if beside_xla:
            of_xla = jitted.lower(on_device).compile()
            pair = [calls[-1], lambda of_xla=of_xla: jax.block_until_ready(of_xla(on_device))]
            ratios.append(1 / interleaved(pair, 3, 0.2, time.process_time)[1][1])
    return interleaved(calls, 3, 0.3, time.process_time)[0], ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of operations")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    parser.add_argument(
        "--above", type=float, default=2.5, help="print what takes more than so many times the best axis"
    )
    parser.add_argument(
        "--xla", type=float, metavar="RATIO", help="print what takes more than so many times XLA's time"
    )
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    beside = " [/ XLA's]" if options.xla is not None else ""
    print(f"{'operation':22} {'type':5} {'shape':16} nanoseconds an element{beside}, by axis")
    for name in options.types:
        for shape in SHAPES:
            x = (np.random.default_rng(0).standard_normal(shape) * 9).astype(TYPES[name])
            for each, function in operations(x.dtype).items():
                if any(fnmatch.fnmatch(each, pattern) for pattern in options.patterns):
                    times, ratios = seconds(function, x, beside_xla=options.xla is not None)
                    if max(times) > options.above * min(times) or max(ratios, default=0) > (options.xla or 0):
                        peers = [f" [{ratio:5.2f}]" for ratio in ratios] or [""] * x.ndim
                        row = " ".join(f"{1e9 * own / x.size:8.2f}{xla}" for own, xla in zip(times, peers, strict=True))
                        print(f"{each:22} {name:5} {'x'.join(map(str, shape)):16} {row}", flush=True)


if __name__ == "__main__":
    main()
