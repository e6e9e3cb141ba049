"""Every snippet and command of README.md, CONTRIBUTING.md and docs/*.md runs, and prints what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stablehlo_py import handlers, targets
from stablehlo_py.debug.engines import load_passes
from stablehlo_py.passmanager import registry

sys.path.insert(0, str(Path(__file__).parent))
from snippets import LANGUAGES, PAGES, ROOT, Page, indented_blocks, snippets

FILES = Path(__file__).parent / "files"
MOST_NOT_RUN = 15  # of all pages together
_APART = "TEST_OF_SNIPPETS_APART"  # set in processes that `run_apart` starts
# A page whose snippets need an environment says so: `<!-- test: environment NAME=VALUE -->`.
_ENVIRONMENT = re.compile(r"<!-- test: environment (\w+)=(.+?) -->")

named = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.fixture(autouse=True)
def _forget_loaded_passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A page may load passes, and wrong ones: they are not those of the next test."""
    monkeypatch.setattr(registry, "_loaded", {})
    yield
    load_passes.cache_clear()
    targets._made.cache_clear()  # so are backends
    registry._files.append(Path("forgotten"))  # the next revision: names mean the passes that ship again


@named
def test_every_snippet_runs(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture,
    request: pytest.FixtureRequest,
) -> None:
    environment = dict(_ENVIRONMENT.findall(page.read_text()))
    if any(os.environ.get(name) != value for name, value in environment.items()):
        run_apart(environment, request.node.nodeid)
        return
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    np.save(tmp_path / "x.npy", np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16))
    np.save(tmp_path / "w.npy", np.linspace(1, -1, 64, dtype=np.float32).reshape(16, 4))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(handlers, "_bound", dict(handlers._bound))  # pages register their own
    monkeypatch.setattr(targets, "_registered", dict(targets._registered))
    monkeypatch.setattr(sys, "path", list(sys.path))
    runner = Page(capfd.readouterr)
    for snippet in snippets(page):
        runner.run(snippet)


def run_apart(environment: dict[str, str], test: str) -> None:
    """Run a test in a process with an environment."""
    assert _APART not in os.environ, f"something changes {', '.join(environment)} in the process that was given them"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / test)]
    given = {**os.environ, **environment, _APART: "1"}
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_process_apart_starts_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_APART, "1")
    with pytest.raises(AssertionError, match="something changes XLA_FLAGS"):
        run_apart({"XLA_FLAGS": "--other"}, "no test")


@named
def test_every_snippet_can_be_found_and_says_its_language(page: Path) -> None:
    found = snippets(page)
    wrong = [f"{each.place}: language {each.language!r}" for each in found if each.language not in LANGUAGES]
    wrong += [f"{page.name}:{line}: fence the snippet" for line in indented_blocks(page)]
    marks = len(re.findall(r"<!-- test: (?!environment)", page.read_text()))
    assert wrong == []
    assert marks == sum(bool(each.verb) for each in found), "a comment has no snippet, or an unknown verb"


def test_few_snippets_are_not_run_and_each_says_why() -> None:
    left = [snippet for page in PAGES for snippet in snippets(page) if snippet.verb in ("not run", "instead")]
    assert [snippet.place for snippet in left if not snippet.reason] == []
    not_run = [f"{snippet.place}: {snippet.reason}" for snippet in left if snippet.verb == "not run"]
    assert len(not_run) <= MOST_NOT_RUN, "\n".join(not_run)
