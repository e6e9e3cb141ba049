"""shlo-conformance: its table, its marks, its journal, and what crashes or takes all memory under it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stablehlo_py.cli import conformance
from stablehlo_py.conformance.campaign import Result
from stablehlo_py.conformance.report import Report
from stablehlo_py.conformance.workers import Pool, Task
from stablehlo_py.errors import EXIT_BAD_INPUT, EXIT_MISMATCH, EXIT_OK, EXIT_USAGE
from stablehlo_py.kit.new_backend import write_backend

ROOT = Path(__file__).resolve().parents[2]
ENTRY = "[stablehlo_py.backends]\ntoy = shlo_toy.backend:ToyBackend\n"
GOLDEN = """
func.func @main() -> tensor<2xf32> {
  %0 = call @inputs() : () -> tensor<2xf32>
  %1 = call @expected() : () -> tensor<2xf32>
  %2 = stablehlo.add %0, %0 : tensor<2xf32>
  stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
  return %2 : tensor<2xf32>
}
func.func private @inputs() -> tensor<2xf32> {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @expected() -> tensor<2xf32> {
  %0 = stablehlo.constant dense<[2.0, 4.0]> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
TASK = """
import os

def make():
    kept = []

    def work(job):
        if job == "abort":
            os.abort()
        if job == "hoard":
            kept.append(b"x" * (1 << 30))
            while True:
                pass
        return os.getpid()

    return work
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the path with a backend in it, of which a kernel is wrong and one ends the process."""
    folder = tmp_path_factory.mktemp("path") / "site"
    write_backend("toy", folder)
    kernels = folder / "shlo_toy" / "kernels.py"
    text = kernels.read_text().replace("lambda op: np.maximum", "lambda op: np.minimum")
    kernels.write_text(text.replace("lambda op: np.subtract", "lambda op: __import__('os').abort()"))
    metadata = folder / "shlo_toy-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shlo-toy\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(ENTRY)
    return folder


def run(site: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The tool, for the backend of that folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(site)))}
    command = [sys.executable, "-m", "stablehlo_py.cli.conformance", "--target", "toy", "--workers", "1", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_any_backend_gets_its_table_and_a_crash_is_a_result(site: Path, tmp_path: Path) -> None:
    (tmp_path / "golden").mkdir()
    for name in ("add_float32_2", "tan_float32_2"):
        text = GOLDEN if name.startswith("add") else GOLDEN.replace("stablehlo.add %0, %0", "stablehlo.tan %0")
        (tmp_path / "golden" / f"{name}.mlir").write_text(text)
    options = ("--op", "stablehlo.[amst][duaa][dbxn]*", "--types", "f32 i4", "--golden", "golden")
    files = ("--journal", "toy.jsonl", "--markdown", "toy.md", "--json", "toy.json")
    finished = run(site, tmp_path, *options, *files)
    assert finished.returncode == EXIT_MISMATCH, finished.stderr
    table = json.loads((tmp_path / "toy.json").read_text())["table"]
    assert table["stablehlo.add"] == {"f32": {"ok": 4}, "i4": {"refused": 4}}
    assert table["stablehlo.tan"] == {"f32": {"refused": 4}}
    assert set(table["stablehlo.subtract"]["f32"]) == {"crash"}
    assert table["stablehlo.maximum"]["f32"]["wrong"] >= 1
    assert (table["add"], table["tan"]) == ({"golden": {"ok": 1}}, {"golden": {"refused": 1}})
    page = (tmp_path / "toy.md").read_text()
    assert "| `stablehlo.add` | refused | pass |" in page and "**4 crash**" in page
    assert "| `tan` | refused |" in page
    assert "SIGABRT" in page or "exit code -6" in page
    # Nothing is run again: what the journal says stands.
    journal = tmp_path / "toy.jsonl"
    lines = journal.read_text().replace('"crash"', '"ok"').replace('"wrong"', '"ok"').splitlines(keepends=True)
    journal.write_text("".join(lines) + '{"target": "toy", "op": "sto')
    again = run(site, tmp_path, *options, *files)
    assert again.returncode == EXIT_OK, again.stdout
    assert len(journal.read_text().splitlines()) == len(lines)
    marks = [run(site, tmp_path, *options, *files, "--at-least", str(share)).returncode for share in (20, 99)]
    assert marks == [EXIT_OK, EXIT_MISMATCH]


def test_the_cpu_backend_passes(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    arguments = ["--op", "stablehlo.[ad][di][dv]*", "--types", "f32 i32", "--workers", "1", "--at-least", "100"]
    assert conformance.main(arguments) == EXIT_OK
    assert capsys.readouterr().out.startswith("cpu: 100.0 % of")


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--target", "abacus"], EXIT_USAGE, "no backend for target 'abacus'"),
        (["--types", "f31"], EXIT_USAGE, "named 'f31'"),
        (["--op", "add"], EXIT_USAGE, "no op of these types fits 'add'"),
        (["--at-least", "101"], EXIT_USAGE, "no percentage"),
        (["--at-least", "nan"], EXIT_USAGE, "no percentage"),
        (["--memory", "0"], EXIT_USAGE, "--memory 0"),
        (["--timeout", "nan"], EXIT_USAGE, "--timeout nan"),
        (["--golden", "missing"], EXIT_BAD_INPUT, "no golden cases below missing"),
        (["--golden", "file"], EXIT_BAD_INPUT, "file cannot be read"),
        (["--journal", "file"], EXIT_BAD_INPUT, "not a line of a journal"),
        (["--journal", "other"], EXIT_BAD_INPUT, "of the target 'opencl', not of 'cpu'"),
        (["--journal", "."], EXIT_BAD_INPUT, "cannot be used"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_an_error(
    arguments: list[str], status: int, says: str, tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("no journal\n")
    line = {"target": "opencl", "op": "add", "type": "f32", "case": "x#1/y", "status": "ok", "detail": ""}
    (tmp_path / "other").write_text(json.dumps(line) + "\n")
    assert conformance.main(["--op", "stablehlo.add", *arguments]) == status
    assert says in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "no journal\n"  # what is no journal of ours is not written over


def test_workers_are_kept_and_those_that_end_or_take_all_memory_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "conformance_task.py").write_text(TASK)
    task = Task("conformance_task", "make", (), str(tmp_path))
    with Pool(1, timeout=600, memory=700 << 20) as pool:
        first = {outcome.value for outcome in pool.run(["a", "b"], task)}
        assert first == {outcome.value for outcome in pool.run(["c"], task)}
        outcomes = list(pool.run(["abort", "d", "hoard", "e"], task))
    assert [outcome.status for outcome in outcomes] == ["crash", "done", "memory", "done"]
    assert len({*first, outcomes[1].value, outcomes[3].value}) == 3


def test_another_worker_takes_over_after_so_many_jobs(tmp_path: Path) -> None:
    (tmp_path / "conformance_task.py").write_text(TASK)
    with Pool(1, timeout=600, jobs=2) as pool:
        processes = [
            outcome.value for outcome in pool.run("abcde", Task("conformance_task", "make", (), str(tmp_path)))
        ]
    assert [processes.index(process) for process in processes] == [0, 0, 2, 2, 4]


def test_marks_leave_out_what_nothing_is_held_against() -> None:
    statuses = ("ok", "ok", "ok", "refused", "differs", "unchecked")
    results = [Result("stablehlo.add", "f32", f"x#0/{n}", status) for n, status in enumerate(statuses)]
    report = Report("toy", results)
    assert report.percent == 75 and report.failures == []
    assert "3 pass, 1 refused, 1 differs, 1 unchecked" in report.page()
    crashed = Report("toy", [*results, Result("stablehlo.add", "f32", "x#0/last", "crash", "SIGSEGV | there")])
    assert crashed.percent == 60
    assert "**3 pass, 1 refused, 1 differs, 1 unchecked, 1 crash**" in crashed.page()
    assert "- crash: stablehlo.add f32 x#0/last: SIGSEGV | there" in crashed.page()
