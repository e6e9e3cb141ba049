"""A process that runs the tests of one file of JAX's on one platform: each is a job, and its outcome a result."""

from __future__ import annotations

import importlib
import os
import re
import sys
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path

LIST = ""  # the job whose result is the names of all tests
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Failure)\b")
_WORDS = 300
_DEVICES = re.compile(r"request_cpu_devices\((\d+)\)")


def task(folder: str, file: str, platform: str) -> Callable[[str], object]:
    """What a worker process does with jobs: names of tests, `Class.test`. A result is (outcome, last words)."""
    sys.stdout.flush()
    os.dup2(2, 1)  # what tests print
    os.environ["JAX_PLATFORMS"] = "cpu" if platform == "cpu" else f"{platform},cpu"  # a test may ask for JAX's CPU
    if platform != "cpu":
        asked = _DEVICES.search(Path(folder, f"{file}.py").read_text())
        os.environ["SHLO_NUM_DEVICES"] = asked[1] if asked else "1"
        from stablehlo_py.pjrt import initialize

        initialize()
    from absl import flags
    from jax._src import test_util

    test_util.device_under_test = lambda: "cpu"  # tolerances, types and skipped tests are those of a CPU
    sys.path.insert(0, folder)
    module = importlib.import_module(file)
    flags.FLAGS(["jax-tests"])  # tests ask for a temporary folder
    loader = unittest.TestLoader()

    def work(job: str) -> object:
        if job == LIST:
            return [_name(test) for test in _tests(loader.loadTestsFromModule(module))]
        return outcome(loader.loadTestsFromName(job, module))

    return work


def _tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _tests(each)
        else:
            yield each


def _name(test: unittest.TestCase) -> str:
    return f"{type(test).__name__}.{test._testMethodName}"  # its id() may hold its parameters, too


def outcome(suite: unittest.TestSuite) -> tuple[str, str]:
    """Run one test: passed, skipped or failed, and why."""
    result = unittest.TestResult()
    suite.run(result)
    for _, trace in (*result.failures, *result.errors):
        return "failed", _told(trace)
    if result.unexpectedSuccesses:
        return "failed", "passes, where a failure is expected"
    if result.skipped:
        return "skipped", result.skipped[0][1][:_WORDS]
    return "passed", ""


def _told(trace: str) -> str:
    """The exception at the end of a traceback: its last paragraph may hold notes of JAX's."""
    lines = [line for line in trace.splitlines() if line.strip()]
    start = max((number for number, line in enumerate(lines) if _EXCEPTION.match(line)), default=-1)
    return " ".join(" ".join(lines[start:]).split())[:_WORDS]
