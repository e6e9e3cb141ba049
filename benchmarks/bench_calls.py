"""What a call from Python costs, in microseconds: of an executable, of `shlo.jit`, of `jax.jit`, and of NumPy, in turns
on one core. The programs compute next to nothing.

python benchmarks/bench_calls.py
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before jax counts its threads

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import stablehlo_py as shlo  # noqa: E402

ROUNDS = 9
SECONDS = 0.02
FUNCTIONS: dict[str, tuple[Callable[..., object], Callable[..., object], tuple[np.ndarray, ...]]] = {
    "one number": (lambda x: x + 1, lambda x: x + 1, (np.float32(1)[...],)),
    "2 x 1,000": (lambda x, y: x + y, np.add, (np.ones(1000, np.float32),) * 2),
    "2 x 20,000": (lambda x, y: x + y, np.add, (np.ones(20_000, np.float32),) * 2),
    "200 x 10": (
        lambda *x: jnp.stack([each[0] for each in x]),
        lambda *x: np.array([each[0] for each in x]),
        (np.ones(10, np.float32),) * 200,
    ),
}


def _microseconds(call: Callable[[], object]) -> float:
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < SECONDS:
        for _ in range(20):
            call()
        count += 20
    return 1e6 * (time.perf_counter() - begun) / count


def main() -> None:
    print(f"{'arguments':12} {'executable':>11} {'shlo.jit':>9} {'jax.jit':>9} {'NumPy':>9}")
    for name, (function, of_numpy, arrays) in FUNCTIONS.items():
        jitted, of_jax = shlo.jit(function), jax.jit(function)
        executable, on_device = jitted.lower(*arrays), [jnp.asarray(array) for array in arrays]
        calls: list[Callable[[], object]] = [
            lambda call=executable, arrays=arrays: call(*arrays),
            lambda call=jitted, arrays=arrays: call(*arrays),
            lambda call=of_jax, arrays=on_device: jax.block_until_ready(call(*arrays)),
            lambda call=of_numpy, arrays=arrays: call(*arrays),
        ]
        for call in calls:
            call()
        rounds = [[_microseconds(call) for call in calls] for _ in range(ROUNDS)]
        cells = [statistics.median(times) for times in zip(*rounds, strict=True)]
        print(f"{name:12} " + " ".join(f"{cell:{width}.2f}" for cell, width in zip(cells, (11, 9, 9, 9), strict=True)))


if __name__ == "__main__":
    main()
