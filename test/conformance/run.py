"""Run StableHLO's golden cases: `python test/conformance/run.py DATA [options]`.

DATA is the folder of the cases or testdata.tar.xz. Inputs are made real arguments and the checks are done here (see
stablehlo_py/suite/golden.py). Cases run in worker processes: a crash or a timeout is a result, and the worker is
replaced. Exit status 0 when every case passes or is named, with its reason, in
golden_exceptions.txt.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stablehlo_py.conformance import workers as processes
from stablehlo_py.conformance.golden_cases import (
    Job,
    Result,
    find_jobs,
    load_exceptions,
    operation_of,
    run_case,
    unpacked,
)

sys.path.insert(0, str(Path(__file__).parent))
import engines

WHERE = """The golden cases are the files of stablehlo/testdata in the repository openxla/stablehlo (Apache-2.0).
Give the folder, or a testdata.tar.xz of it, as the argument or in the environment variable STABLEHLO_TESTDATA."""


def is_excepted(result: Result, exceptions: dict[str, str]) -> bool:
    """Whether a failure is named, with its reason; a pattern never excuses a wrong answer or a crash."""
    if result.case in exceptions:
        return True
    patterns = [name for name in exceptions if "*" in name] if result.status == "unsupported" else []
    return any(fnmatch.fnmatchcase(result.case, pattern) for pattern in patterns)


# --- running ----------------------------------------------------------------------------------------------------------


def task(engine_name: str) -> Callable[[Job], tuple[str, str]]:
    """What a worker process does: status and detail of a case."""
    engine = engines.make(engine_name)
    return lambda job: run_case(engine, job)


def run(jobs: list[Job], engine: str, workers: int, timeout: float) -> Iterator[Result]:
    """Run the cases on worker processes; results come in order of completion."""
    work = processes.Task("run", "task", (engine,), str(Path(__file__).parent))
    for outcome in processes.run(jobs, work, workers, timeout):
        status, detail = outcome.value if outcome.status == "done" else (outcome.status, outcome.value)
        name = outcome.job.name
        yield Result(name, operation_of(name), status, detail, round(outcome.seconds, 4))


# --- the parent -------------------------------------------------------------------------------------------------------


def summarize(results: list[Result], console: Console, every_operation: bool) -> None:
    """Print marks by operation (those below 100 %, or all), by status, and the mean over operations."""
    by_operation: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        by_operation[result.operation][result.status] += 1
    table = Table("operation", "passed", "of", "other")
    marks = []
    for operation, counts in sorted(by_operation.items()):
        total = counts.total()
        marks.append(counts["passed"] / total)
        if every_operation or counts["passed"] < total:
            other = ", ".join(f"{n} {status}" for status, n in counts.items() if status != "passed")
            table.add_row(operation, str(counts["passed"]), str(total), other)
    if table.row_count:
        console.print(table)
    passed = sum(result.status == "passed" for result in results)
    console.print(
        f"{100 * passed / len(results):.1f} % of {len(results)} cases, "
        f"{100 * sum(marks) / len(marks):.1f} % weighted by operation ({len(marks)} operations)"
    )


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = os.environ.get("STABLEHLO_TESTDATA")
    parser.add_argument("data", nargs="?", default=known, help="folder or testdata.tar.xz")
    choices = f"{', '.join(engines.ENGINES)} (xla is the baseline), or FILE.py:FUNCTION"
    parser.add_argument("--engine", default="shlo", help=choices)
    parser.add_argument("--workers", type=int, default=2, help="worker processes")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one case")
    parser.add_argument("--filter", default="*", help="run the cases whose name fits this pattern")
    parser.add_argument("--every", type=int, default=1, help="run every N-th case only")
    parser.add_argument("--output", type=Path, help="write one JSON line for each case, as soon as it has run")
    parser.add_argument("--resume", action="store_true", help="run what --output does not have yet")
    parser.add_argument("--all", action="store_true", help="also list the operations that pass in full")
    parser.add_argument("--dynamic", action="store_true", help="the cases of dynamic.py, which calls this")
    parser.add_argument("--details", type=int, default=20, help="failures to show in full")
    options = parser.parse_args(argv)
    if options.resume and not options.output:
        parser.error("--resume needs --output, the file to go on with")
    if not options.data or not Path(options.data).exists():
        print(f"error: no golden cases at {options.data or '(no argument)'}\n{WHERE}", file=sys.stderr)
        return 2
    with unpacked(Path(options.data)) as data:
        jobs = list(find_jobs(data, options.filter, options.every, options.dynamic))
        if not jobs:
            print(f"error: no case below {options.data} fits {options.filter!r}\n{WHERE}", file=sys.stderr)
            return 2
        return _run_and_report(jobs, options)


def read_results(path: Path, engine: str) -> list[Result]:
    """What an earlier run has written, but for a line that it was ended in. Raises ValueError: by another engine."""
    results = []
    for line in path.read_text().splitlines(keepends=True) if path.exists() else []:
        if line.endswith("\n"):
            record = json.loads(line)
            if record.pop("engine") != engine:
                raise ValueError(f"{path} is of another engine than {engine}")
            results.append(Result(**record))
    return results


def write_results(path: Path, engine: str, results: list[Result], mode: str = "w") -> None:
    """A line of JSON for each."""
    with path.open(mode) as lines:
        lines.writelines(json.dumps({"engine": engine, **asdict(result)}) + "\n" for result in results)


def _run_and_report(jobs: list[Job], options: argparse.Namespace) -> int:
    console = Console()
    exceptions = load_exceptions() if options.engine in engines.OURS or options.dynamic else {}
    results = read_results(options.output, options.engine) if options.resume else []
    if options.output:
        write_results(options.output, options.engine, results)
    known = {result.case for result in results}
    missing = [job for job in jobs if job.name not in known]
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("golden cases", total=len(jobs), completed=len(jobs) - len(missing))
        for result in run(missing, options.engine, options.workers, options.timeout):
            results.append(result)
            progress.advance(task)
            if options.output:
                write_results(options.output, options.engine, [result], "a")
    results.sort(key=lambda result: result.case)
    if options.output:
        write_results(options.output, options.engine, results)
    failed = [r for r in results if r.status != "passed" and not is_excepted(r, exceptions)]
    for result in failed[: options.details]:
        print(f"{result.status}: {result.case}: {' '.join(result.detail.split())[:400]}")
    summarize(results, console, options.all)
    for result in results:
        if result.case in exceptions and result.status == "passed":
            console.print(f"passes, so take it out of golden_exceptions.txt: {result.case}")
    passed = sum(result.status == "passed" for result in results)
    print(f"{passed} passed, {len(failed)} failed, {len(results) - passed - len(failed)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
