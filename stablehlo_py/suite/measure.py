"""Measure models in this process: what shlo-bench starts as `python -m stablehlo_py.suite.measure`, a request on stdin.

The process is pinned to as many CPUs as threads are asked for before JAX is imported, so both compilers have the same
machine. Steady-state calls of both are interleaved, so both meet the same noise. One JSON line a model on stdout.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from stablehlo_py.errors import OptionError
from stablehlo_py.processes import die_with_parent

if TYPE_CHECKING:
    from stablehlo_py.backends.cpu.peaks import Peaks
    from stablehlo_py.runtime.executable import Executable
    from stablehlo_py.runtime.program import CompiledProgram

# A round calls each side often enough to take about this long: far above the clock's and the scheduler's grain.
_ROUND_SECONDS = 0.02


@dataclass
class Measurement:
    """One model at one number of threads. Times in seconds; None where the run did not come that far. `bound` is the
    least time that the peaks of the machine allow for the operations, and for the bytes of arguments and results that
    are touched; None where loops decide how much is computed."""

    model: str
    size: str
    weights: str
    threads: int
    tolerance: float
    difference: float | None = None
    seconds: float | None = None
    xla_seconds: float | None = None
    speedup: float | None = None
    compile_cold: float | None = None
    compile_cached: float | None = None
    xla_compile_cold: float | None = None
    xla_compile_cached: float | None = None
    bound: float | None = None
    operations: int | None = None
    touched: int | None = None
    error: str | None = None

    @property
    def correct(self) -> bool:
        """True when every output is within the model's tolerance."""
        return self.difference is not None and self.difference <= self.tolerance


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result of one call."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def interleaved(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> tuple[float, float, float]:
    """Median seconds a call of each, and the median over the rounds of theirs / ours."""
    counts = []
    for function in (ours, theirs):
        function()
        once = min(timed(function)[0] for _ in range(3))
        counts.append(max(1, min(10_000, int(_ROUND_SECONDS / max(once, 1e-7)))))
    samples: list[tuple[float, float]] = []
    for number in range(rounds):
        times = [0.0, 0.0]
        # Which side goes first alternates: it may find caches, or a clock frequency, that the other left behind.
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            function, count = (ours, theirs)[side], counts[side]
            start = time.perf_counter()
            for _ in range(count):
                function()
            times[side] = (time.perf_counter() - start) / count
        samples.append((times[0], times[1]))
    mine, other = (statistics.median(column) for column in zip(*samples, strict=True))
    return mine, other, statistics.median(b / a for a, b in samples)


def _xla_cached(lower: Callable[[], Any], folder: str) -> float:
    """Seconds of an XLA compilation that JAX's persistent cache answers."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()
    jax.config.update("jax_compilation_cache_dir", folder)
    try:
        for _ in range(2):  # the first writes the entry
            jax.clear_caches()
            seconds, _compiled = timed(lower().compile)
        return seconds
    finally:
        jax.config.update("jax_compilation_cache_dir", None)
        compilation_cache.reset_cache()
        jax.clear_caches()


def measure(name: str, request: Mapping[str, Any], peaks: Peaks | None = None) -> Measurement:
    """Correctness, steady-state time (rounds > 0) and compile times of one model, next to XLA's; `request` is what
    shlo-bench asks for, `peaks` those of the machine that it runs on."""
    import jax

    import stablehlo_py as shlo
    from stablehlo_py import suite
    from stablehlo_py.api import compile_program
    from stablehlo_py.backends.common.roofline import program_work
    from stablehlo_py.runtime.buffer import wait_for
    from stablehlo_py.runtime.loading import executable as executable_of

    size, weights, rounds = request["size"], request["weights"], request["rounds"]
    model = suite.build(name, size, weights)
    result = Measurement(name, size, weights, request["threads"], model.tolerance)

    def ours(cache_dir: str | None) -> tuple[CompiledProgram, Executable]:
        options = shlo.Options(
            threads=request["threads"], cache_dir=cache_dir, cpu=request["cpu"], device=request["device"]
        )
        program = compile_program(exported, target=request["target"], options=options)
        return program, executable_of(program, options.device)

    exported = suite.export(model).mlir_module_serialized
    arrays = model.arrays()
    result.compile_cold, (program, executable) = timed(lambda: ours(None))
    expected = suite.reference(model)
    actual = executable(*arrays)
    pairs = zip(actual, expected, strict=True)
    result.difference = max(suite.largest_difference(a, b) for a, b in pairs)
    if rounds == 0:
        return result
    work = program_work(program)
    if peaks is not None and work is not None and not work.loops:
        result.touched = sum(array.nbytes for array in [*arrays, *expected])
        result.operations = work.flops
        result.bound = replace(work, bytes=result.touched).seconds(peaks.at(result.touched))
    with tempfile.TemporaryDirectory() as folder:
        ours(folder)
        result.compile_cached, _ = timed(lambda: ours(folder))

    def lower() -> Any:
        return jax.jit(model.callable(), keep_unused=True).lower(*model.arguments())

    lowered = lower()
    result.xla_compile_cold, compiled = timed(lowered.compile)
    on_device = jax.block_until_ready(jax.device_put(model.arguments()))
    buffers = [executable.put(array, position) for position, array in enumerate(arrays)]
    result.seconds, result.xla_seconds, result.speedup = interleaved(
        lambda: wait_for(executable.call(buffers)), lambda: jax.block_until_ready(compiled(*on_device)), rounds
    )
    with tempfile.TemporaryDirectory() as folder:
        result.xla_compile_cached = _xla_cached(lower, folder)
    return result


def _warm_up(threads: int) -> None:
    """A first trivial compilation on both sides: what is measured later is a warm process."""
    import jax
    import jax.numpy as jnp

    import stablehlo_py as shlo

    function = jax.jit(lambda x: x + 1)
    jax.block_until_ready(function(jnp.ones(4)))
    exported = jax.export.export(function, platforms=["cpu"])(jnp.ones(4)).serialize()
    shlo.compile(exported, options=shlo.Options(threads=threads, cache_dir=None))


def _peaks(request: Mapping[str, Any]) -> Peaks | None:
    """Those of this machine, where models run on its CPU and are timed."""
    if request["target"] != "cpu" or not request["rounds"]:
        return None
    from stablehlo_py.backends.cpu.features import missing_features
    from stablehlo_py.backends.cpu.peaks import measure_peaks
    from stablehlo_py.backends.cpu.target import host_target, named_target, required_features, runs_here

    try:
        target = named_target(request["cpu"], host_target())
    except OptionError:
        return None  # compilation says so
    if not runs_here(target) or missing_features(required_features(target)):  # so here
        return None
    return measure_peaks(request["threads"], request["cpu"])


def main() -> int:
    """Read the request, pin the process, measure, write a line for each model."""
    die_with_parent()
    request = json.load(sys.stdin)
    threads = request["threads"]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}".strip()
    os.environ["JAX_PLATFORMS"] = "cpu"
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not end up between the results
    _warm_up(threads)
    peaks = _peaks(request)
    print(json.dumps({"ready": True, "peaks": peaks and asdict(peaks)}), file=lines)
    for name in request["models"]:
        try:
            result = measure(name, request, peaks)
        except Exception as error:  # the next model is measured all the same; the error is the result
            text = f"{type(error).__name__}: {error}"
            result = Measurement(name, request["size"], request["weights"], threads, 0.0, error=text)
        print(json.dumps(asdict(result)), file=lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
