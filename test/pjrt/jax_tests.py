"""JAX's own tests on the platform `shlo`, or another one of ours, next to XLA's CPU: `tools/jax-tests FOLDER [options]`
(docs/jax-platform.md).

FOLDER holds the tests of the installed version, as the folder `tests` or jax-vX.Y.Z-tests.tar.xz. Each test runs in a
worker process with a limit of time and memory; a crash or a hang is its outcome, and the worker is replaced.
What passes on XLA's CPU has to pass on the platform, or stand in jax_tests_exceptions.txt with its reason.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from jax_tests_worker import LIST

from stablehlo_py.conformance.golden_cases import load_exceptions, unpacked
from stablehlo_py.conformance.journal import Journal
from stablehlo_py.conformance.workers import Pool, Task
from stablehlo_py.errors import ShloError
from stablehlo_py.markdown import table
from stablehlo_py.pjrt.platforms import HOST, PLATFORMS

HERE = Path(__file__).parent
EXCEPTIONS = HERE / "jax_tests_exceptions.txt"
JOBS = 150  # tests of a process, until another takes its place: what JAX caches of them is given back then
FILES = """lax_test lax_numpy_operators_test lax_numpy_reducers_test lax_numpy_indexing_test lax_numpy_test
    lax_vmap_test lax_vmap_op_test lax_autodiff_test lax_control_flow_test nn_test fft_test random_lax_test random_test
    linalg_test lax_scipy_test scipy_*_test api_test dtypes_test array_test pmap_test shard_map_test"""
OUTCOMES = ("passed", "skipped", "failed", "memory", "timeout", "crash", "not run")


@dataclass(frozen=True)
class Result:
    """What became of a test on XLA's CPU and on our platform (`shlo`, whichever it is), where it runs if it was not
    skipped on the former."""

    file: str
    test: str
    cpu: str
    shlo: str
    seconds: float
    error: str = ""

    def __post_init__(self) -> None:
        if not {self.cpu, self.shlo} <= set(OUTCOMES):
            raise ValueError(f"{self.cpu} or {self.shlo} is no outcome")

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from others."""
        return self.file, self.test

    @property
    def is_waiting(self) -> bool:
        """Whether it has not run on the platform yet."""
        return self.shlo == "not run" and self.cpu != "skipped"

    @property
    def is_held_against_us(self) -> bool:
        """Whether it passes on XLA's CPU and not on the platform, or ends the process here only."""
        worst = self.shlo in ("crash", "timeout", "memory") and self.shlo != self.cpu
        return worst or (self.cpu == "passed" and self.shlo != "passed")


class Runner:
    """Tests of files in worker processes."""

    def __init__(self, folder: Path, options: argparse.Namespace, journal: Journal[Result]) -> None:
        self._folder, self._options, self._journal = folder, options, journal

    def run(self, file: str) -> Iterator[Result]:
        """Results of the tests of a file: those that are in the journal, and those of all others."""
        options = self._options
        with Pool(options.workers, options.timeout, int(options.memory * 2**30), JOBS) as pool:
            fresh, here = list[Result](), list[Result]()
            for test in self._tests(pool, file):
                result = self._journal.known.get((file, test)) or Result(file, test, "not run", "not run", 0.0)
                if result.cpu == "not run":
                    fresh.append(result)
                elif result.is_waiting or (options.again and result.is_held_against_us):
                    here.append(result)
                else:
                    yield result
            for result in self._on(pool, file, "cpu", fresh):
                if result.is_waiting:
                    here.append(result)
                else:
                    yield result
            yield from self._on(pool, file, options.platform, here)

    def _task(self, file: str, platform: str) -> Task:
        return Task("jax_tests_worker", "task", (str(self._folder), file, platform), str(HERE))

    def _tests(self, pool: Pool, file: str) -> list[str]:
        """The part of a file's tests that is asked for: always the same for the same numbers."""
        (listed,) = pool.run([LIST], self._task(file, "cpu"))
        if listed.status != "done":
            raise RuntimeError(f"{file} lists no tests: {listed.value}")
        part, parts = self._options.sample
        found = listed.value[part - 1 :: parts]
        return [test for test in found if any(fnmatch.fnmatchcase(test, each) for each in self._options.filter)]

    def _on(self, pool: Pool, file: str, platform: str, results: Sequence[Result]) -> Iterator[Result]:
        """The same tests after they have run on a platform."""
        by_test = {result.test: result for result in results}
        for outcome in pool.run(list(by_test), self._task(file, platform)):
            status, error = outcome.value if outcome.status == "done" else (outcome.status, outcome.value)
            result = replace(by_test[outcome.job], error=error)
            if platform == "cpu":
                result = replace(result, cpu=status)
            else:
                result = replace(result, shlo=status, seconds=round(outcome.seconds, 2))
            self._journal.add([result])
            yield result


# --- what is said of it -----------------------------------------------------------------------------------------------


class Exceptions:
    """Tests that pass on XLA's CPU and not here, by `file/test`, which may hold `*`, with their reasons."""

    def __init__(self, path: Path = EXCEPTIONS) -> None:
        self._reasons = load_exceptions(path)

    def reason(self, result: Result) -> str | None:
        """Why a result is none of ours. What ends the process is never excused."""
        if result.shlo != "failed" and result.shlo != "skipped":
            return None
        name = f"{result.file}/{result.test}"
        return next((reason for each, reason in self._reasons.items() if fnmatch.fnmatchcase(name, each)), None)

    def leave(self, result: Result) -> bool:
        """Whether a result is held against the platform, and not named."""
        return result.is_held_against_us and self.reason(result) is None


def by_file(results: Sequence[Result], exceptions: Exceptions) -> str:
    """The table: of each file, or of each folder that holds some, what passes on XLA's CPU, what of it here, and what
    is named as an exception."""
    rows, sums = [], Counter[str]()
    names = {result.key: result.file.rpartition("/")[0] or result.file for result in results}
    for file in dict.fromkeys(names.values()):
        counts = Counter[str]()
        for result in (result for result in results if names[result.key] == file):
            counts["tests"] += 1
            counts["cpu"] += result.cpu == "passed"
            counts["both"] += result.cpu == result.shlo == "passed"
            counts["named"] += result.is_held_against_us and exceptions.reason(result) is not None
        rows.append((file, *_cells(counts)))
        sums += counts
    return table(
        ("file", "tests", "pass on XLA's CPU", "of these here", "share", "named exceptions"),
        (*rows, ("all", *_cells(sums))),
    )


def _cells(counts: Counter[str]) -> tuple[object, ...]:
    share = f"{100 * counts['both'] / counts['cpu']:.1f} %" if counts["cpu"] else "-"
    return counts["tests"], counts["cpu"], counts["both"], share, counts["named"]


def _sample(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part as 1/10")
    return int(part), int(parts)


def _source(folder: Path) -> Path:
    """The archive for the installed version, where the folder holds one, or the folder."""
    archive = folder / f"jax-v{version('jax')}-tests.tar.xz"
    return archive if archive.is_file() else folder


def _files(folder: Path, patterns: Sequence[str]) -> list[str]:
    paths = (path for pattern in patterns for path in sorted(folder.glob(f"{pattern}.py")))
    return list(dict.fromkeys(path.relative_to(folder).with_suffix("").as_posix() for path in paths))


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="jax-tests", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("folder", type=Path, help="JAX's tests, or where their archive is")
    add(
        "--files", nargs="+", default=FILES.split(), metavar="FILE", help="patterns, as lax_test (default: %(default)s)"
    )
    add("--platform", choices=PLATFORMS, default=HOST, help="ours (default: %(default)s)")
    add("--filter", nargs="+", default=["*"], metavar="PATTERN", help="only tests whose name, Class.test, fits one")
    add("--sample", type=_sample, default=(1, 1), metavar="N/M", help="the N-th of M parts of every file's tests")
    add("--cases", type=int, default=1, help="JAX_NUM_GENERATED_CASES (default: %(default)s)")
    add("--journal", type=Path, metavar="FILE", help="keep results, and go on where a run was ended")
    add("--report", action="store_true", help="run nothing: the table of the journal")
    add("--again", action="store_true", help="run what did not pass here again; XLA's outcome is the journal's")
    add("--workers", type=int, default=1, metavar="N", help="processes at once (default: %(default)s)")
    add("--timeout", type=float, default=120.0, metavar="S", help="seconds for a test (default: %(default)g)")
    add("--memory", type=float, default=6.0, metavar="GIB", help="memory of a process (default: %(default)g GiB)")
    options = parser.parse_args(argv)
    os.environ.update(JAX_NUM_GENERATED_CASES=str(options.cases), JAX_SKIP_SLOW_TESTS="1")
    try:
        journal = Journal(options.journal, options.platform, Result)
        if options.report:
            return _report(list(journal.known.values()), print_failures=True)
        with unpacked(_source(options.folder)) as found:
            folder = found / "tests" if (found / "tests").is_dir() else found
            files = _files(folder, options.files)
            if not files:
                print(f"error: no test file of JAX's in {options.folder}", file=sys.stderr)
                return 2
            return _run(Runner(folder, options, journal), files)
    except ShloError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except (OSError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(runner: Runner, files: Sequence[str]) -> int:
    exceptions, results = Exceptions(), list[Result]()
    for file in files:
        for result in runner.run(file):
            results.append(result)
            if exceptions.leave(result):
                _say(result)
    return _report(results)


def _say(result: Result) -> None:
    print(f"{result.shlo}: {result.file}/{result.test}: {result.error}", flush=True)


def _report(results: Sequence[Result], print_failures: bool = False) -> int:
    """The table of results that are whole, and the exit status."""
    exceptions = Exceptions()
    results = [result for result in results if not result.is_waiting]
    failed = [result for result in results if exceptions.leave(result)]
    for result in failed if print_failures else ():
        _say(result)
    print(by_file(results, exceptions), end="")
    both = sum(result.cpu == result.shlo == "passed" for result in results)
    print(f"{both} passed, {len(failed)} failed, {len(results) - both - len(failed)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
