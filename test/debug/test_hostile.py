"""Damaged modules, as text and as bytecode: compiled or refused, never a dead or a hanging process, never another
exception.

A failure names the kind and the number: `shlo-fuzz --damage KIND --corpus test --seed N --count 1 --findings DIR`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from stablehlo_py.cli import fuzz as cli
from stablehlo_py.debug import engines, hostile
from stablehlo_py.debug.hostile import HostileFuzzer
from stablehlo_py.debug.mutations import VERSION, Corpus
from stablehlo_py.debug.workers import Answer, Worker

TEST = Path(__file__).parents[1]
NUMBER = 250 if os.environ.get("CI") else 40


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """The modules of this repository's tests."""
    return Corpus.of(TEST)


@pytest.mark.parametrize("kind", ["text", "bytecode"])
def test_damaged_modules_are_compiled_or_refused(corpus: Corpus, kind: str, tmp_path: Path) -> None:
    with Worker("compiler", hostile.HANG_S) as worker:
        outcomes = list(HostileFuzzer(corpus, kind, worker, tmp_path).run(range(NUMBER)))
    assert [each for each in outcomes if each.is_finding] == []
    assert Counter(each.status for each in outcomes)["refused"] > NUMBER // 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["text", "bytecode"])
def test_a_number_is_one_input(corpus: Corpus, kind: str) -> None:
    first = [corpus.damaged(kind, number) for number in range(20)]
    assert first == [corpus.damaged(kind, number) for number in range(20)]
    assert len(set(first)) > 15
    assert corpus.damaged("none", 3).decode() == corpus.modules[3]


class FakeWorker:
    """Gives prepared answers."""

    def __init__(self, *answers: Answer, used_s: float = 0.0) -> None:
        self.answers, self.timeout_s, self.used_s = list(answers), 1.0, used_s

    def ask(self, *_: object) -> None:
        """Nothing is done."""

    def answer(self) -> Answer:
        """The next one."""
        return self.answers.pop(0)

    def run_patiently(self, *_: object) -> Answer:
        """The next one."""
        return self.answer()

    def processor_s(self) -> float:
        """What the last one took."""
        return self.used_s


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([Answer("ok")], "compiled"),
        ([Answer("error", detail="error[load]: no")], "refused"),
        ([Answer("unsupported", detail="error[unsupported]: no")], "refused"),
        ([Answer("error", detail="error[internal]: no")], "error"),
        ([Answer("error", detail="KeyError: no")], "error"),
        ([Answer("crash", detail="SIGSEGV")], "crash"),
        ([Answer("timeout"), Answer("ok")], "compiled"),  # the machine was busy
        ([Answer("timeout"), Answer("timeout")], "crash"),
    ],
)
def test_what_counts_as_a_finding(corpus: Corpus, answers: list[Answer], status: str, tmp_path: Path) -> None:
    fuzzer = HostileFuzzer(corpus, "text", FakeWorker(*answers), tmp_path)  # type: ignore[arg-type]
    (outcome,) = fuzzer.run([7])
    assert outcome.status == status
    written = [tmp_path / "text-7.mlir"] if outcome.is_finding else []
    assert list(tmp_path.iterdir()) == written


def test_what_computes_for_long_hangs_even_if_it_ends(corpus: Corpus) -> None:
    worker = FakeWorker(Answer("timeout"), Answer("ok"), used_s=hostile.HANG_S + 1)
    (outcome,) = HostileFuzzer(corpus, "text", worker).run([7])  # type: ignore[arg-type]
    assert (outcome.status, outcome.detail) == ("crash", "6 s of processor time")


def test_a_campaign_goes_on_where_its_journal_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stablehlo_py.debug.workers.Worker", lambda *_: Inline())
    modules = [f"func.func @main(%x: tensor<{size}xi8>) {{ return }}" for size in range(6)]
    (tmp_path / "corpus.mlir").write_text("\n// -----\n".join(modules))
    journal = tmp_path / "damage.jsonl"
    arguments = ["--damage", "none", "--corpus", str(tmp_path), "--journal", str(journal)]
    for _ in range(2):
        assert cli.main([*arguments, "--count", "3"]) == 0
    assert "3 programs from seed 3" in capsys.readouterr().out
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [(line["version"], line["from"], line["to"]) for line in lines] == [(VERSION, 0, 3), (VERSION, 3, 6)]
    assert cli.main(["--damage", "text"]) == 2  # of what?


class Inline(FakeWorker):
    """Compiles in this process."""

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def ask(self, module: str | bytes, *_: object) -> None:
        """Compile at once."""
        engines.ENGINES["compiler"](module, (), engines.Settings())
        self.answers.append(Answer("ok"))
