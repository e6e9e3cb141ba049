"""Small programs of all kinds next to XLA on one core, to find those that are many times slower: every operation over
types, axes and ranks, and programs with many of something. The suites have what models do; this has what they might.

    python benchmarks/bench_cliffs.py                        # all: what takes longer than under XLA
    python benchmarks/bench_cliffs.py 'flip*i8' --below inf  # some of them, whatever they take
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

CORE = max(os.sched_getaffinity(0))
os.sched_setaffinity(0, {CORE})  # before jax counts its threads

import cliff_forms  # noqa: E402
import cliff_programs  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402
from cliff_programs import Case  # noqa: E402

import stablehlo_py as shlo  # noqa: E402
from stablehlo_py.suite.measure import interleaved  # noqa: E402


def cases() -> Iterator[Case]:
    """All programs, by names that end with a type or a number."""
    for name in cliff_programs.TYPES:
        for family in (*cliff_programs.families(name), *cliff_forms.families(name)):
            yield from ((f"{each}-{name}", function, arrays) for each, function, arrays in family(name))
    for count in (16, 128):
        yield from ((f"{each}-{count}", function, arrays) for each, function, arrays in cliff_programs.of_many(count))


def measured(function: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> tuple[float, float, float, float, float]:
    """Processor seconds of a call, of XLA's, XLA's / ours; those of the first compilation, and of XLA's."""
    lowered, exported = jax.jit(function).lower(*arrays), jax.export.export(jax.jit(function))(*arrays)
    started = time.process_time()
    executable = shlo.compile(exported, options=shlo.Options(threads=1, cache_dir=None))
    compiled = time.process_time()
    of_xla = lowered.compile()
    ended = time.process_time()
    on_device = jax.device_put(arrays)
    calls = [lambda: executable(*arrays), lambda: jax.block_until_ready(of_xla(*on_device))]
    (ours, xlas), (_, ratio) = interleaved(calls, 3, clock=time.process_time)
    return ours, xlas, ratio, compiled - started, ended - compiled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of programs")
    parser.add_argument("--below", type=float, default=1.0, help="print those whose XLA / ours is below this")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(f"{'program':32} {'ours, us':>10} {'XLA, us':>10} {'XLA / ours':>10} {'compile, s':>10} {'XLA, s':>8}")
    for name, function, arrays in cases():
        if any(fnmatch.fnmatch(name, pattern) for pattern in options.patterns):
            ours, xlas, ratio, compilation, of_xla = measured(function, arrays)
            if ratio < options.below:
                times = f"{1e6 * ours:10.1f} {1e6 * xlas:10.1f} {ratio:10.2f} {compilation:10.2f} {of_xla:8.2f}"
                print(f"{name:32} {times}", flush=True)


if __name__ == "__main__":
    main()
