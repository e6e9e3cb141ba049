"""Kernels of programs next to what their phases estimate (backends/cpu/policy_costs.py), on one core: one that takes
many times as long is a cliff, also where XLA takes longer still. Estimates are those of a core with AVX-512 whose data
lie in the cache.

    python benchmarks/bench_kernels.py                          # of models and loops
    python benchmarks/bench_kernels.py cloth 'movement/*' --above 2
    python benchmarks/bench_kernels.py --cliffs 'flip*'         # of programs of bench_cliffs.py
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "test" / "helpers"))
CORE = max(os.sched_getaffinity(0))
os.sched_setaffinity(0, {CORE})  # before jax counts its threads

import jax  # noqa: E402
import numpy as np  # noqa: E402
from one_kernel import Compiled, aligned, compile_kernel  # noqa: E402

import stablehlo_py as shlo  # noqa: E402
from stablehlo_py import suite  # noqa: E402
from stablehlo_py.backends.cpu.target import host_target  # noqa: E402
from stablehlo_py.dialect.attributes import FUSION  # noqa: E402
from stablehlo_py.dialect.context import make_context  # noqa: E402
from stablehlo_py.dialect.types import text  # noqa: E402
from stablehlo_py.errors import InternalError  # noqa: E402
from stablehlo_py.mlir import ir  # noqa: E402

RNG = np.random.default_rng(0)
SECONDS = 0.02  # of a kernel
CALL = 2e-6  # a phase's call from here; what takes no longer is not shown
LARGEST = 256 << 20  # bytes of arguments


def programs(patterns: list[str], cliffs: bool) -> Iterator[tuple[str, bytes]]:
    """Names and modules."""
    if cliffs:
        import bench_cliffs

        for name, function, arrays in bench_cliffs.cases():
            if any(fnmatch.fnmatch(name, pattern) for pattern in patterns or ["*"]):
                yield name, jax.export.export(jax.jit(function))(*arrays).mlir_module_serialized
        return
    kinds = suite.SUITES if patterns else ("models", "loops")
    for name in dict.fromkeys(name for kind in kinds for name in suite.names(kind)):
        if any(fnmatch.fnmatch(name, pattern) for pattern in patterns or ["*"]):
            yield name, suite.export(suite.build(name, "full")).mlir_module_serialized


def kernels(source: bytes) -> Iterator[tuple[str, str]]:
    """Names and modules of the different fusions of a program."""
    scheduled = shlo.compile(source, options=shlo.Options(threads=1, cache_dir=None)).stages["scheduled"]
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(scheduled)
        for op in (view.operation for view in module.body.operations):
            if FUSION in op.attributes:
                name = f"{op.attributes['sym_name'].value} ({text(op, FUSION)})"
                yield name, f"module {{\n{op}\n}}"


def random(sizes: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Numbers that most kernels take their usual way with."""
    numbers = RNG.standard_normal(sizes) if dtype.kind in "fcV" else RNG.integers(0, 2, sizes)
    result = aligned(numbers.size * dtype.itemsize).view(dtype).reshape(sizes)
    result[...] = numbers.astype(dtype)
    return result


def seconds(kernel: Compiled) -> float:
    """The least time of a call."""
    inputs = [random(*each) for each in kernel.inputs]
    outputs = [
        inputs[kernel.inplace[number]] if number in kernel.inplace else random(*each)
        for number, each in enumerate(kernel.outputs)
    ]
    pointers = [array.ctypes.data for array in (*inputs, *outputs)]
    call, times, until = kernel.bound(pointers), [], time.perf_counter() + SECONDS
    while len(times) < 3 or time.perf_counter() < until:
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times) - CALL * len(kernel.kernel.phases)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", help="names of programs (default: all models and loops)")
    parser.add_argument("--cliffs", action="store_true", help="programs of bench_cliffs.py instead of the suites'")
    parser.add_argument("--above", type=float, default=3.0, help="show kernels that take longer by this (default: 3)")
    options = parser.parse_args()
    seen: set[str] = set()
    shown = skipped = 0
    for program, module in programs(options.patterns, options.cliffs):
        for name, source in kernels(module):
            key = source.partition("(")[2]
            if key in seen:
                continue
            seen.add(key)
            try:
                kernel = compile_kernel(source, host_target())
            except InternalError:  # it calls a library
                skipped += 1
                continue
            large = sum(int(np.prod(sizes)) * dtype.itemsize for sizes, dtype in (*kernel.inputs, *kernel.outputs))
            if kernel.kernel.externals.keys() - kernel.kernel.common.keys() or kernel.kernel.loops or large > LARGEST:
                skipped += 1
                continue
            estimate = sum(phase.nanoseconds for phase in kernel.kernel.phases) * 1e-9
            taken = seconds(kernel)
            if taken > max(options.above * estimate, CALL):
                shown += 1
                ratio = taken / max(estimate, 1e-9)
                print(f"{program:28} {name:32} {taken * 1e6:9.1f} us {ratio:6.1f} times the estimate", flush=True)
    print(f"{len(seen)} kernels, {shown} of them above {options.above:g} times their estimate; {skipped} not run")


if __name__ == "__main__":
    main()
