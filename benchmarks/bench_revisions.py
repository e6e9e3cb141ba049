"""The model suite under this checkout next to another revision of it: what a change did to calls and to compilation.

python benchmarks/bench_revisions.py REVISION [model ...] [--size full] [--threads 1] [--rounds 15]

Three processes hold every model: the revision, the same revision again, and this checkout. Their calls take turns, on
the same cores. "new / old" is the median over the rounds; "old / old" is that of the revision against itself, and its
spread what the machine adds. Models whose native code is the same in both revisions are marked: there, calls can
differ by the Python around the program only. "results" says whether they are the same to the last bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 0.05  # of calls in a round


def serve() -> None:
    """One revision: loads a model, and calls it as often as it is told, a line of JSON each way."""
    import stablehlo_py as shlo

    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    executable, buffers = None, []
    for line in sys.stdin:
        request = json.loads(line)
        start = time.perf_counter()
        if "load" in request:
            options = shlo.Options(threads=request["threads"], cache_dir=None)
            executable = shlo.compile(request["load"], options=options)
            seconds = time.perf_counter() - start
            with np.load(request["arrays"]) as arrays:
                buffers = [executable.put(arrays[f"arr_{n}"], n) for n in range(len(arrays.files))]
            code = hashlib.sha256(executable.stages["kernels"].encode()).hexdigest()
            results = hashlib.sha256(b"".join(np.asarray(each).tobytes() for each in executable.call(buffers)))
            print(json.dumps({"seconds": seconds, "code": code, "results": results.hexdigest()}), file=lines)
        else:
            assert executable is not None
            for _ in range(request["calls"]):
                executable.call(buffers)
            print(json.dumps({"seconds": (time.perf_counter() - start) / request["calls"]}), file=lines)


@dataclass(frozen=True)
class Comparison:
    """One model under both revisions. Times in seconds, the rest are ratios; `itself`: the old one against itself."""

    old: float
    new: float
    ratio: float
    itself: float
    compile_ratio: float
    compile_itself: float
    same_code: bool
    same_results: bool

    def cells(self) -> list[str]:
        """The columns of the table, after the model's name."""
        times = [f"{seconds * 1e3:.3g}" for seconds in (self.old, self.new)]
        ratios = (self.ratio, self.itself, self.compile_ratio, self.compile_itself)
        same = ["same" if each else "other" for each in (self.same_code, self.same_results)]
        return [*same, *times, *(f"{ratio:.3f}" for ratio in ratios)]


class Server:
    """A process that runs one revision."""

    def __init__(self, tree: Path, cpus: Sequence[int]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment, cwd="/")
        os.sched_setaffinity(self.process.pid, cpus)

    def ask(self, **request: object) -> dict[str, Any]:
        """The answer to a request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"a revision's process ended with status {self.process.wait()}")
        return json.loads(answer)

    def seconds(self, calls: int) -> float:
        """Seconds that a call takes, the mean of so many."""
        return self.ask(calls=calls)["seconds"]

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """The files of a revision, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
        yield Path(folder)


def files_of(name: str, size: Literal["small", "full"], folder: Path) -> tuple[Path, Path]:
    """A model's artifact and its arrays."""
    from stablehlo_py import suite

    model = suite.build(name, size)
    artifact, arrays = folder / f"{name}.mlirbc", folder / f"{name}.npz"
    artifact.write_bytes(suite.export(model).mlir_module_serialized)
    np.savez(arrays, *model.arrays())
    return artifact, arrays


def measure(servers: Sequence[Server], artifact: Path, arrays: Path, threads: int, rounds: int) -> Comparison:
    """What the revision, itself again, and this checkout take for a model."""
    loaded = [each.ask(load=str(artifact), arrays=str(arrays), threads=threads) for each in servers]
    calls = max(1, min(20_000, int(SECONDS / max(1e-7, servers[0].seconds(2)))))
    samples = []
    for number in range(rounds):
        # Who goes first changes: it may find caches, or a clock frequency, that the last one left behind.
        times = {place: servers[place].seconds(calls) for place in ((number + turn) % 3 for turn in range(3))}
        samples.append((times[0], times[1], times[2]))
    old, again, new = zip(*samples, strict=True)
    compiled = [each["seconds"] for each in loaded]
    return Comparison(
        # Both processes together are the old revision's time: either may have been given luckier memory.
        old=statistics.median(old + again),
        new=statistics.median(new),
        ratio=statistics.median(2 * n / (a + b) for a, b, n in samples),
        itself=statistics.median(b / a for a, b, _ in samples),
        compile_ratio=2 * compiled[2] / (compiled[0] + compiled[1]),
        compile_itself=compiled[1] / compiled[0],
        same_code=loaded[0]["code"] == loaded[2]["code"],
        same_results=loaded[0]["results"] == loaded[2]["results"],
    )


def main() -> None:
    """Measure what the command line asks for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="what this checkout is compared with: a commit, a branch, a tag")
    parser.add_argument("models", nargs="*", help="default: all of the suite")
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"
    from stablehlo_py import suite

    cpus = sorted(os.sched_getaffinity(0))[-arguments.threads :]
    table = Table(
        "model", "code", "results", "old, ms", "new, ms", "new / old", "old / old", "compile, new / old", "old / old"
    )
    ratios, compiled = [], []
    with ExitStack() as stack:
        tree = stack.enter_context(checkout(arguments.revision))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = [Server(each, cpus) for each in (tree, tree, ROOT)]
        for server in servers:
            stack.callback(server.close)
        warm = files_of("mlp", "small", folder)  # the first compilation of a process imports what all need
        for server in servers:
            server.ask(load=str(warm[0]), arrays=str(warm[1]), threads=arguments.threads)
        for name in track(arguments.models or suite.names("models"), console=Console(stderr=True)):
            found = measure(servers, *files_of(name, arguments.size, folder), arguments.threads, arguments.rounds)
            ratios.append(found.ratio)
            compiled.append(found.compile_ratio)
            table.add_row(name, *found.cells())
    Console(width=120).print(table)
    means = [statistics.geometric_mean(each) for each in (ratios, compiled)]
    print(f"geometric mean of new / old: {means[0]:.4f}, of compilation {means[1]:.4f}")


if __name__ == "__main__":
    serve() if "--serve" in sys.argv else main()
