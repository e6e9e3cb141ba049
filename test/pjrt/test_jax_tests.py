"""tools/jax-tests on tests made for it: outcomes, limits, the journal, exceptions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # worker processes import the modules from there, too
import jax_tests
from jax_tests import Exceptions, Result

from stablehlo_py.conformance.journal import Journal
from stablehlo_py.errors import EXIT_BAD_INPUT

FILE = """
import os
import time
import unittest

import jax
from jax._src import test_util as jtu

jtu.request_cpu_devices(3)
HERE = jax.default_backend() == "shlo"

class OneTest(unittest.TestCase):
    def test_a_passes(self):
        self.assertEqual(jtu.device_under_test(), "cpu")
        self.assertEqual(len(jax.devices()), 3)

    def test_b_is_skipped(self):
        self.skipTest("not today")

    def test_c_fails_everywhere(self):
        self.fail("always")

    def test_d_fails_here(self):
        if HERE:
            raise ValueError("not here: {'a': 1}")

    def test_e_ends_the_process(self):
        if HERE:
            os.abort()

    def test_f_hangs(self):
        while HERE:
            time.sleep(1)

    def test_g_takes_memory(self):
        self.kept = [b"x" * (1 << 30) for _ in range(3 * HERE)]
        time.sleep(15 * HERE)

    def test_h_passes_after_all_that(self):
        pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "one_test.py").write_text(FILE)
    return tmp_path


def test_outcomes_and_what_is_left_of_a_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = folder / "journal.jsonl"
    arguments = [str(folder), "--files", "one_*", "--journal", str(journal), "--timeout", "20", "--memory", "2"]
    assert jax_tests.main(arguments) == 1
    said = capsys.readouterr().out
    assert "failed: one_test/OneTest.test_d_fails_here: ValueError: not here: {'a': 1}" in said
    assert "crash: one_test/OneTest.test_e_ends_the_process: exit code -6" in said
    assert "timeout: one_test/OneTest.test_f_hangs: no answer in 20 s" in said
    assert "memory: one_test/OneTest.test_g_takes_memory: more than 2 GiB of memory" in said
    assert "| one_test | 8 | 6 | 2 | 33.3 % | 0 |" in said
    assert said.endswith("2 passed, 4 failed, 2 skipped\n")

    # The journal has every test: nothing runs, or those that fail here would pass now.
    (folder / "tests" / "one_test.py").write_text(FILE.replace("HERE = ", "HERE = False and "))
    assert jax_tests.main(arguments) == 1
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(said.splitlines())
    assert len(journal.read_text().splitlines()) == 8
    assert jax_tests.main([*arguments, "--report"]) == 1
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(said.splitlines())
    # Now they pass: only what did not pass here runs again, on this platform.
    assert jax_tests.main([*arguments, "--again"]) == 0
    assert "| one_test | 8 | 6 | 6 | 100.0 % | 0 |" in capsys.readouterr().out


def test_files_have_the_devices_that_they_or_their_conftest_ask_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    within = folder / "tests" / "several"
    within.mkdir()
    flag = "--xla_force_host_platform_device_count=3"
    (within / "conftest.py").write_text(f"import os\nos.environ['XLA_FLAGS'] = '{flag}'\n")
    (within / "two_test.py").write_text("import jax\ndef test_devices(): assert len(jax.devices()) == 3\n")
    assert jax_tests.main([str(folder), "--files", "several/*"]) == 0
    assert capsys.readouterr().out.endswith("1 passed, 0 failed, 0 skipped\n")


def test_a_part_is_always_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert jax_tests.main([str(folder), "--files", "one_test", "--sample", "8/8"]) == 0
    assert capsys.readouterr().out.endswith("1 passed, 0 failed, 0 skipped\n")
    with pytest.raises(SystemExit):
        jax_tests.main([str(folder), "--sample", "3/2"])
    assert "'3/2' is no part as 1/10" in capsys.readouterr().err


def test_what_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert jax_tests.main([str(folder), "--files", "two_test"]) == 2
    assert "no test file of JAX's" in capsys.readouterr().err
    (folder / "journal").write_text('{"target": "shlo", "file": "a", "test": "b"}\n')
    assert jax_tests.main([str(folder), "--files", "one_test", "--journal", str(folder / "journal")]) == EXIT_BAD_INPUT
    assert "not a line of a journal" in capsys.readouterr().err


def test_exceptions_have_reasons_and_never_excuse_the_end_of_the_process(tmp_path: Path) -> None:
    path = tmp_path / "exceptions.txt"
    path.write_text("# why\none_test/OneTest.test_x*: a reason\n")
    exceptions = Exceptions(path)
    assert exceptions.reason(Result("one_test", "OneTest.test_x1", "passed", "failed", 1.0)) == "a reason"
    assert exceptions.reason(Result("one_test", "OneTest.test_y", "passed", "failed", 1.0)) is None
    assert exceptions.reason(Result("one_test", "OneTest.test_x1", "passed", "crash", 1.0)) is None
    with pytest.raises(ValueError, match="is no outcome"):
        Result("one_test", "OneTest.test_x1", "passed", "well", 1.0)
    path.write_text("one_test/OneTest.test_x1\n")
    with pytest.raises(ValueError, match="a line must read"):
        Exceptions(path)


@pytest.mark.parametrize("journal", sorted(Path(__file__).parent.glob("*.jsonl")), ids=lambda path: path.stem)
def test_the_page_has_the_tables_of_the_journals(journal: Path) -> None:
    platform = json.loads(journal.read_text().partition("\n")[0])["target"]
    known = Journal(journal, platform, Result).known.values()
    results = [result for result in known if not result.is_waiting]
    page = Path(__file__).resolve().parents[2] / "docs" / "jax-platform.md"
    assert jax_tests.by_file(results, Exceptions()) in page.read_text()
