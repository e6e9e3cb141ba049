"""Measure models in this process: what shlo-bench starts as `python -m stablehlo_py.suite.measure`, a request on stdin.

The process is pinned to as many CPUs as threads are asked for before JAX is imported, so both compilers, and the peers
that are asked for, have the same machine. Steady-state calls of all are interleaved, so all meet the same noise. One
JSON line a model on stdout.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stablehlo_py.errors import OptionError
from stablehlo_py.processes import die_with_parent
from stablehlo_py.suite.peers import PEERS, Call, PeerTime

if TYPE_CHECKING:
    import numpy as np

    from stablehlo_py.backends.common.roofline import Work
    from stablehlo_py.backends.cpu.peaks import Peaks
    from stablehlo_py.runtime.executable import Executable
    from stablehlo_py.runtime.program import CompiledProgram
    from stablehlo_py.suite.registry import Model

# A round calls each side often enough to take about this long: far above the clock's and the scheduler's grain.
_ROUND_SECONDS = 0.02
# Measurements of a disturbed machine before one counts all the same, and seconds for what disturbs to end.
_TRIES, _PAUSE = 25, 0.05
_AGAIN = 3  # more compilations, of what compiled in _QUICK seconds
_QUICK = 1.0

Limit = Literal["arithmetic", "memory"]
Announce: TypeAlias = "Callable[[dict[str, Any]], None]"


@dataclass
class Measurement:
    """One model at one number of threads. Times in seconds; None where the run did not come that far. `bound` is the
    least time that the peaks of the machine allow for the operations, and for the bytes of arguments and results that
    are touched, `limit` which of them; None where loops decide how much is computed. `processor`: whether
    seconds of calls are the processor's. `arguments`: their types and shapes. `memory`: bytes that a call needs for
    intermediate values, and XLA's. `one_thread`: our time with one thread / `seconds`, from the same rounds; None
    where `threads` is 1. `peers`: what else was asked for. `compile_cold` is the first compilation of the process, with
    what it imports and makes for all that follow, `compile_warm` later ones that find nothing of this program; None
    where the first took long, and in older journals."""

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
    processor: bool = False
    arguments: str = ""
    limit: Limit | None = None
    memory: int | None = None
    xla_memory: int | None = None
    one_thread: float | None = None
    peers: dict[str, PeerTime] = field(default_factory=dict)
    compile_warm: float | None = None
    xla_compile_warm: float | None = None

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Measurement:
        """From what `asdict` gave and JSON made of it."""
        peers = {name: PeerTime(**each) for name, each in described["peers"].items()}
        return cls(**{**described, "peers": peers})

    @property
    def compile_seconds(self) -> float | None:
        """Of a compilation in a warm process that knows nothing of the program, as far as it was measured."""
        return self.compile_cold if self.compile_warm is None else self.compile_warm

    @property
    def xla_compile_seconds(self) -> float | None:
        """The same of XLA."""
        return self.xla_compile_cold if self.xla_compile_warm is None else self.xla_compile_warm

    @property
    def best_peer(self) -> tuple[str, PeerTime] | None:
        """The fastest that gives the same results."""
        timed = [(name, each) for name, each in self.peers.items() if each.ratio is not None]
        return min(timed, key=lambda peer: peer[1].ratio or 0.0, default=None)

    @property
    def correct(self) -> bool:
        """True when every output is within the model's tolerance."""
        return self.difference is not None and self.difference <= self.tolerance


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result of one call."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def interleaved(
    calls: Sequence[Callable[[], Any]],
    rounds: int,
    budget: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
    undisturbed: Callable[[], bool] = lambda: True,
) -> tuple[list[float], list[float]]:
    """Median seconds a call of each, and for each the median over the rounds of its seconds / those of the first, by
    a clock. With a budget, rounds stop after that many seconds for each, though not before the third. What is measured
    while the machine was not `undisturbed`, right before and after it, is measured again, some times."""

    def mean(function: Callable[[], Any], count: int) -> float:
        start = clock()
        for _ in range(count):
            function()
        return (clock() - start) / count

    def measured(function: Callable[[], Any], count: int) -> float:
        for _ in range(_TRIES):
            if undisturbed():
                seconds = mean(function, count)
                if undisturbed():
                    return seconds
            time.sleep(_PAUSE)
        return mean(function, count)

    counts, slow = [], 0.0
    for function in calls:
        once, _ = timed(function)
        if once < _ROUND_SECONDS:  # what is slow needs no second look, nor does the first call of what is not
            once = min(timed(function)[0] for _ in range(3))
        counts.append(max(1, min(10_000, int(_ROUND_SECONDS / max(once, 1e-7)))))
        slow += counts[-1] * once
    if budget:
        rounds = max(min(rounds, 3), min(rounds, int(budget * len(calls) / slow)))
    samples: list[list[float]] = []
    for number in range(rounds):
        times = [0.0] * len(calls)
        # Which goes first alternates: it may find caches, or a clock frequency, that the one before it left behind.
        for side in (*range(number % len(calls), len(calls)), *range(number % len(calls))):
            times[side] = measured(calls[side], counts[side])
        samples.append(times)
    seconds = [statistics.median(column) for column in zip(*samples, strict=True)]
    return seconds, [statistics.median(times[side] / times[0] for times in samples) for side in range(len(calls))]


def compiled_again(first: float, prepare: Callable[[], Callable[[], Any]]) -> float | None:
    """Median seconds of further compilations, each of which `prepare` gives when the process has forgotten the program.
    None where the first took long: little of that is the first time of anything."""
    if first > _QUICK:
        return None
    return statistics.median(timed(prepare())[0] for _ in range(_AGAIN))


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


def measure(
    name: str,
    request: Mapping[str, Any],
    peaks: Peaks | None,
    announce: Announce,
    undisturbed: Callable[[], bool] = lambda: True,
) -> Measurement:
    """Correctness, steady-state time (rounds > 0) and compile times of one model, next to XLA's and the peers';
    `request` is what shlo-bench asks for, `peaks` those of the machine that it runs on. `announce` says where it is;
    what is timed while the machine is not `undisturbed` is timed again."""
    from stablehlo_py import suite

    model = suite.build(name, request["size"], request["weights"])
    with model.types():
        return _measure(model, request, peaks, announce, undisturbed)


def _measure(
    model: Model,
    request: Mapping[str, Any],
    peaks: Peaks | None,
    announce: Announce,
    undisturbed: Callable[[], bool],
) -> Measurement:
    import jax
    import numpy as np

    import stablehlo_py as shlo
    from stablehlo_py import suite
    from stablehlo_py.api import compile_program
    from stablehlo_py.backends.common.roofline import program_work
    from stablehlo_py.backends.cpu.light_objects import forget_objects
    from stablehlo_py.backends.cpu.objects import forget_functions
    from stablehlo_py.runtime.buffer import HOST, wait_for
    from stablehlo_py.runtime.loading import executable as executable_of

    rounds = request["rounds"]
    result = Measurement(model.name, model.size, model.weights, request["threads"], model.tolerance)

    def ours(cache_dir: str | None, threads: int = request["threads"]) -> tuple[CompiledProgram, Executable]:
        options = shlo.Options(threads=threads, cache_dir=cache_dir, cpu=request["cpu"], device=request["device"])
        program = compile_program(exported, target=request["target"], options=options)
        return program, executable_of(program, options.device)

    exported = suite.export(model).mlir_module_serialized
    arrays = model.arrays()
    result.processor, result.arguments = request["processor"], _types(arrays)
    result.compile_cold, (program, executable) = timed(lambda: ours(None))
    expected = suite.reference(model)
    actual = executable(*arrays)
    pairs = zip(actual, expected, strict=True)
    result.difference = max(suite.largest_difference(a, b) for a, b in pairs)
    peers = _peers(result, model, exported, request, actual, announce)
    announce({})
    if rounds == 0:
        return result
    work = program_work(program)
    if peaks is not None and work is not None and not work.loops:
        whole = sum(array.nbytes for array in [*arrays, *expected])
        _set_bound(result, work, min(whole, work.bytes), peaks)  # gathers read parts

    def forgotten() -> Callable[[], Any]:
        forget_objects()
        forget_functions()
        return lambda: ours(None)

    result.compile_warm = compiled_again(result.compile_cold, forgotten)
    with tempfile.TemporaryDirectory() as folder:
        ours(folder)
        result.compile_cached, _ = timed(lambda: ours(folder))

    def lower() -> Any:
        return jax.jit(model.callable(), keep_unused=True).lower(*model.arguments())

    lowered = lower()
    result.xla_compile_cold, compiled = timed(lowered.compile)

    def lowered_again() -> Callable[[], Any]:
        jax.clear_caches()
        return lower().compile

    result.xla_compile_warm = compiled_again(result.xla_compile_cold, lowered_again)
    result.memory, analysis = program.arena_bytes, compiled.memory_analysis()
    result.xla_memory = None if analysis is None else analysis.temp_size_in_bytes
    on_device = jax.block_until_ready(jax.device_put(model.arguments()))

    def call_of(executable: Executable) -> Call:
        buffers = [executable.put(array, position) for position, array in enumerate(arrays)]
        if {buffer.device for buffer in buffers} == {HOST}:
            given = [np.asarray(buffer) for buffer in buffers]
            return lambda: executable(*given)
        return lambda: wait_for(executable.call(buffers))

    calls = [call_of(executable), lambda: jax.block_until_ready(compiled(*on_device)), *peers.values()]
    if result.threads > 1:
        of_one, with_one = ours(None, threads=1)
        calls.append(calls[0] if is_same_code(program, of_one) else call_of(with_one))
    seconds, ratios = interleaved(
        calls, rounds, request["budget"], time.process_time if request["processor"] else time.perf_counter, undisturbed
    )
    result.seconds, result.xla_seconds, result.speedup = *seconds[:2], ratios[1]
    if result.threads > 1:
        result.one_thread = ratios[-1]
    for number, name in enumerate(peers, start=2):
        result.peers[name] = PeerTime(seconds[number], ratios[number])
    with tempfile.TemporaryDirectory() as folder:
        result.xla_compile_cached = _xla_cached(lower, folder)
    return result


def is_same_code(program: CompiledProgram, other: CompiledProgram) -> bool:
    """Whether two programs ask for no threads and are the same code. What their calls differ by is where their memory
    lies, which makes up to a tenth in loops, and no thread's doing."""
    from stablehlo_py.runtime.stages import stage_texts

    if program.uses_pool or other.uses_pool:
        return False
    code = stage_texts(program).get("llvm")
    return code is not None and code == stage_texts(other).get("llvm")


def _peers(
    result: Measurement,
    model: Model,
    exported: bytes,
    request: Mapping[str, Any],
    ours: Sequence[np.ndarray],
    announce: Announce,
) -> dict[str, Call]:
    """The calls of those peers whose results agree with ours; the others are results."""
    calls = {}
    for name in request["peers"]:
        result.peers[name] = peer = PeerTime(error=request["given_up"].get(model.name, {}).get(name))
        if peer.error is not None:
            continue
        announce({"peer": name, "model": model.name})  # what does not come back is known by this
        try:
            copies = [array.copy() for array in model.arrays()]
            prepared = PEERS[name].prepare(model, copies, exported, request["threads"])
            if prepared is None:
                continue
            peer.error = prepared.disagreement(model.arrays(), ours, model.tolerance)
            if peer.error is None:
                calls[name] = prepared.call
        except Exception as error:  # what a peer cannot do is a result
            peer.error = f"{type(error).__name__}: {error}"[:400]
    return calls


def _types(arrays: Sequence[np.ndarray]) -> str:
    """Types and shapes of arguments; equal ones that follow each other once, with their number."""
    texts = [f"{array.dtype.name}[{','.join(map(str, array.shape))}]" for array in arrays]
    groups = [(text, len(list(group))) for text, group in itertools.groupby(texts)]
    return " ".join(text if count == 1 else f"{count}x{text}" for text, count in groups)


def _set_bound(result: Measurement, work: Work, touched: int, peaks: Peaks) -> None:
    rates = peaks.at(touched)
    result.touched, result.operations = touched, work.flops
    result.bound = replace(work, bytes=touched).seconds(rates)
    result.limit = (
        "memory" if result.bound == replace(work, bytes=touched, operations={}).seconds(rates) else "arithmetic"
    )


def _warm_up(threads: int) -> None:
    """A first compilation on both sides, of what many programs have: what is measured later is a warm process."""
    import jax
    import jax.numpy as jnp

    import stablehlo_py as shlo

    def program(x: jax.Array) -> jax.Array:
        y, means = jax.lax.scan(lambda y, _: (jnp.tanh(y @ x), y.mean(0)), x, length=3)
        return jnp.sort(jax.nn.softmax(y[means.argmax(0)]))

    function, x = jax.jit(program), jnp.ones((64, 64))
    jax.block_until_ready(function(x))
    exported = jax.export.export(function, platforms=["cpu"])(x).serialize()
    shlo.compile(exported, options=shlo.Options(threads=threads, cache_dir=None))


def _peaks(request: Mapping[str, Any]) -> Peaks | None:
    """Those of this machine, where models run on its CPU and are timed."""
    if request["target"] != "cpu" or not request["rounds"]:
        return None
    from stablehlo_py.backends.cpu.features import missing_features
    from stablehlo_py.backends.cpu.peaks import Peaks, measure_peaks
    from stablehlo_py.backends.cpu.target import host_target, named_target, required_features, runs_here

    try:
        target = named_target(request["cpu"], host_target())
    except OptionError:
        return None  # compilation says so
    if not runs_here(target) or missing_features(required_features(target)):  # so here
        return None
    known = request["peaks"] and Peaks.of(request["peaks"])
    return measure_peaks(request["threads"], request["cpu"]).best(known)


def _cores(threads: int, peaks: Peaks | None) -> Callable[[], bool]:
    """Whether the machine gives so many threads a core each, where they run on it; one has one always."""
    from stablehlo_py.backends.cpu.peaks import Cores

    return Cores(threads).are_given if peaks is not None and threads > 1 else lambda: True


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

    def announce(entry: dict[str, Any]) -> None:
        print(json.dumps(entry), file=lines)

    announce({"peaks": peaks and asdict(peaks)})
    undisturbed = _cores(threads, peaks)
    for name in request["models"]:
        try:
            result = measure(name, request, peaks, announce, undisturbed)
        except Exception as error:  # the next model is measured all the same; the error is the result
            text = f"{type(error).__name__}: {error}"
            result = Measurement(name, request["size"], request["weights"], threads, 0.0, error=text)
        announce({"measurement": asdict(result)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
