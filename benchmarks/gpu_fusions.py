"""The time that each kernel of a program takes by itself on the GPU at hand, next to what the roofline allows.

python benchmarks/gpu_fusions.py FOLDER [case ...] [--candidates] [--workers 8] [--json FILE]

FOLDER is what `benchmarks/gpu.py prepare` wrote; `*.export` in it are compiled here. A kernel runs as the autotuner
runs it (backends/gpu/trial.py): several times in one call, on random whole numbers. `--candidates` also times what its
template could do otherwise. Cases are compiled side by side, each in a process of its own, and timed one after another.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from stablehlo_py.markdown import table

RUNS, RUN_S, MOST_REPEATS = 5, 2e-3, 32


@dataclass(frozen=True)
class Timed:
    """A kernel of a case: how often one pass over the program starts it, by which plan, and its times in microseconds;
    0: it failed, as `note` says."""

    case: str
    kernel: str
    kind: str
    calls: int
    plan: str
    own: bool
    microseconds: float
    roofline: float
    note: str = ""


def timed(path: Path, target: str, with_candidates: bool, lock: Path) -> Iterator[Timed]:
    """All kernels of an exported program."""
    import stablehlo_py as shlo
    from stablehlo_py.backends.base import get_backend
    from stablehlo_py.backends.common.fusion import Fusion, fusions
    from stablehlo_py.backends.common.roofline import work_of
    from stablehlo_py.backends.gpu.backend import GpuBackend
    from stablehlo_py.backends.gpu.kernels import candidates
    from stablehlo_py.backends.gpu.trial import Bench, Machine
    from stablehlo_py.compiler import run_stages
    from stablehlo_py.dialect.types import operations
    from stablehlo_py.frontend.load import load
    from stablehlo_py.mlir import ir

    options = shlo.Options(cache_dir=None)
    backend = get_backend(target)
    assert isinstance(backend, GpuBackend)
    machine = Machine(target, backend.target(options), backend.host(options), options, "", "")
    module = load(path.read_bytes(), isolate=False)
    with module.context, ir.Location.unknown():
        run_stages(module, "", "scheduled", options, target=target)
        called = Counter(op.attributes["callee"].value for op in operations(module.operation) if op.name == "func.call")
        for function in fusions(module):
            fusion = Fusion.read(function)
            plans = [each.plan for each in islice(candidates(function, machine.target), 24 if with_candidates else 1)]
            bench = Bench(function, machine)
            rates = machine.target.rates
            roofline = 1e6 * work_of(fusion).seconds(rates) if rates.bandwidth else 0.0
            for number, plan in enumerate(plans):
                microseconds, note = _time_of(bench, plan, lock)
                yield Timed(
                    path.stem,
                    fusion.name,
                    fusion.kind,
                    called[fusion.name],
                    plan,
                    not number,
                    microseconds,
                    roofline,
                    note,
                )


def _time_of(bench: Any, plan: str, lock: Path) -> tuple[float, str]:
    from stablehlo_py.backends.gpu.trial import Trial
    from stablehlo_py.errors import ShloError

    try:
        once = Trial(bench, plan, 1)
        with _alone(lock):
            seconds = min(once.seconds(time.perf_counter) for _ in range(3))
        repeats = max(1, min(MOST_REPEATS, int(RUN_S / seconds)))
        trial = Trial(bench, plan, repeats)
        with _alone(lock):
            trial.seconds(time.perf_counter)
            return 1e6 * min(trial.seconds(time.perf_counter) for _ in range(RUNS)), ""
    except ShloError as error:
        bench.forget()
        return 0.0, error.reason


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """No other process uses the GPU meanwhile."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(arguments: argparse.Namespace) -> None:
    """A process for each case."""
    paths = sorted(arguments.folder.glob("*.export"))
    names = [path.stem for path in paths if not arguments.cases or path.stem in arguments.cases]
    found: list[Timed] = []

    def one(name: str) -> None:
        command = [sys.executable, __file__, str(arguments.folder), name, "--child", "--target", arguments.target]
        command += ["--candidates"] * arguments.candidates
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                found.append(Timed(**json.loads(line)))
        print(f"{name}: {child.returncode}", flush=True)
        if arguments.json:
            arguments.json.write_text("".join(json.dumps(asdict(each)) + "\n" for each in list(found)))

    with ThreadPoolExecutor(arguments.workers) as pool:
        list(pool.map(one, names))
    print(table(("case", "kernel", "kind", "calls", "plan", "us", "roofline, us", "all calls, us"), rows(found)))


def rows(found: Sequence[Timed]) -> list[list[str]]:
    """Case by case; of each, what takes longest comes first."""
    ordered = sorted(found, key=lambda each: (each.case, -each.calls * each.microseconds))
    return [
        [
            each.case,
            each.kernel,
            each.kind,
            str(each.calls),
            ("" if each.own else "or: ") + each.plan,
            f"{each.microseconds:.1f}" if each.microseconds else f"failed: {each.note}",
            f"{each.roofline:.1f}",
            f"{each.calls * each.microseconds:.0f}",
        ]
        for each in ordered
    ]


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", help="default: all")
    parser.add_argument("--target", choices=("cuda", "rocm", "opencl"), default="cuda")
    parser.add_argument("--candidates", action="store_true", help="time all that a template could do")
    parser.add_argument("--workers", type=int, default=8, help="processes that compile")
    parser.add_argument("--json", type=Path, help="write a line for each")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.child:
        run(arguments)
        return
    for each in timed(
        arguments.folder / f"{arguments.cases[0]}.export",
        arguments.target,
        arguments.candidates,
        arguments.folder / "device.lock",
    ):
        print(json.dumps(asdict(each)), flush=True)


if __name__ == "__main__":
    main()
