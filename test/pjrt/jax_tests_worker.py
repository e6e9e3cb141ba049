"""A process that runs the tests of one file on one platform with pytest: each is a job, and its outcome a result."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.config import _prepareconfig

LIST = ""  # the job whose result is the names of all tests
_ARGUMENTS = ("-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:faulthandler", "--assert=plain", "--capture=no")
_WORDS = 300
_DEVICES = re.compile(r"(?:request_cpu_devices\(|host_platform_device_count=)(\d+)")  # what files ask for, for a CPU
_COLORS = re.compile(r"\x1b\[[\d;]*m")


def task(folder: str, file: str, platform: str) -> Callable[[str], object]:
    """What a worker process does with jobs: names of tests, `Class.test`. A result is (outcome, last words)."""
    path = Path(folder, f"{file}.py")
    os.dup2(2, 1)  # what tests print
    os.environ["JAX_PLATFORMS"] = "cpu" if platform == "cpu" else f"{platform},cpu"  # a test may ask for JAX's CPU
    if platform != "cpu":
        sources = [each.read_text() for each in (path, path.with_name("conftest.py")) if each.is_file()]
        asked = _DEVICES.search("\n".join(sources))
        os.environ["SHLO_NUM_DEVICES"] = asked[1] if asked else "1"
        from stablehlo_py.pjrt import initialize

        initialize(platform)
    from jax._src import test_util

    test_util.device_under_test = lambda: "cpu"  # tolerances, types and skipped tests are those of a CPU
    reports = Reports()
    config = _prepareconfig([*_ARGUMENTS, f"--rootdir={folder}", str(path)], [reports])
    config._do_configure()
    session = pytest.Session.from_config(config)
    config.hook.pytest_sessionstart(session=session)
    config.hook.pytest_collection(session=session)
    tests = {_name(item): item for item in session.items}

    def work(job: str) -> object:
        if job == LIST:
            return sorted(tests)
        reports.outcome = ("passed", "")
        config.hook.pytest_runtest_protocol(item=tests[job], nextitem=None)
        return reports.outcome

    return work


def _name(item: pytest.Item) -> str:
    return ".".join(item.nodeid.split("::", 1)[1].split("::", 1))


class Reports:
    """What pytest says of the test that runs: the worst of its setup, its call, its subtests and its teardown."""

    outcome = ("passed", "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A hook of pytest."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            words = crash.message if crash else str(report.longrepr)
        elif report.skipped and self.outcome[0] == "passed":
            words = getattr(report, "wasxfail", None) or report.longrepr[2].removeprefix("Skipped: ")
        else:
            return
        if self.outcome[0] != "failed":
            self.outcome = report.outcome, " ".join(_COLORS.sub("", words).split())[:_WORDS]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A hook of pytest: a file that cannot be read."""
        if report.failed:
            raise RuntimeError(str(report.longrepr)[-_WORDS:])
