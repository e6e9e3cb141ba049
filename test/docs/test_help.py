"""The examples in the help of the tools: those of shlo-opt run and find something, the others are understood."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
from pathlib import Path

import pytest

from stablehlo_py.cli import bisect, conformance, fuzz, new_backend, opt, reduce

FILES = Path(__file__).parent / "files"
PASS = """from dataclasses import dataclass
from stablehlo_py.passmanager.base import Pass

@dataclass(frozen=True)
class MyPass(Pass):
    "Does nothing."

    name = "my-pass"

    def run(self, module):
        pass
"""


def examples(tool: object) -> list[list[str]]:
    """The commands of a help's examples, each up to two spaces."""
    lines = re.findall(r"^  (shlo-.*?)(?:  .*)?$", tool.build_parser().epilog, re.MULTILINE)
    assert lines
    return [shlex.split(line)[1:] for line in lines]


@pytest.mark.parametrize("command", examples(opt), ids=" ".join)
def test_examples_of_shlo_opt_run_and_find_something(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    for name in ("model.mlir", "model.mlirbc"):
        shutil.copy(FILES / "model.mlir", tmp_path / name)
    (tmp_path / "my_pass.py").write_text(PASS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.import_module("stablehlo_py.passmanager.registry"), "_loaded", {})
    assert opt.main(command) == 0
    printed, said = capfd.readouterr()
    assert "func" in printed
    assert "printed nothing" not in said
    watched = [word.partition("=")[2] for word in command if word.startswith("--print-ir-after=")]
    assert all(f"IR after {name}" in said for name in watched)
    if "--timing" in command:
        assert re.search(r"^total +[0-9.]+ +100.0%$", said, re.MULTILINE)


@pytest.mark.parametrize("tool", [bisect, conformance, fuzz, new_backend, reduce], ids=lambda tool: tool.__name__)
def test_examples_of_the_other_tools_are_understood(tool: object) -> None:
    for command in examples(tool):
        tool.build_parser().parse_args(command)
