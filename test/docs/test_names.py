"""What the pages name exists: links, files, options of the tools, attributes, options of a compilation."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import stablehlo_py as shlo

sys.path.insert(0, str(Path(__file__).parent))
from snippets import PAGES, ROOT

TOOLS = ("accuracy", "bench", "bisect", "compile", "conformance", "fuzz", "new-backend", "opt", "reduce", "run")
OTHERS = {"--help", "--gpu"}  # of every tool; of tools/test and pytest
# Files that docs/adding-a-pass.md tells its reader to make, and those that shlo-new-backend makes.
TO_BE_MADE = {
    *("passes/divide_to_multiply.py", "test/passes/divide_to_multiply.mlir"),
    *(f"shlo_abacus/{name}.py" for name in ("device", "host", "kernels")),
    *(f"test/test_{name}.py" for name in ("models", "ops")),
}
named = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def plain(page: Path) -> str:
    """The page without its comments."""
    return re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL)


def inline(page: Path) -> list[str]:
    """The code between backquotes."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", plain(page), flags=re.DOTALL))


@cache
def files() -> list[str]:
    """The files of the repository, with a slash before."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    return [f"/{name}" for name in listed.stdout.splitlines()]


@cache
def options() -> dict[str, frozenset[str]]:
    """The options of every tool, and under "" those of the repository's other programs, as their code defines them."""
    found = {}
    for name in TOOLS:
        source = f"from stablehlo_py.cli.{name.replace('-', '_')} import main; main(['--help'])"
        done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
        found[f"shlo-{name}"] = frozenset(re.findall(r"(?<![\w-])--[a-z][\w-]*", done.stdout))
    programs = [
        ROOT / name[1:] for name in files() if re.match(r"/(test/(conformance|pjrt)|benchmarks)/\w+\.py$", name)
    ]
    programs.append(ROOT / "stablehlo_py" / "dialect" / "docs.py")
    defined = (re.findall(r"add(?:_argument)?\(\s*\"(--[\w-]+)", program.read_text()) for program in programs)
    return {**found, "": frozenset(option for each in defined for option in each)}


@named
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", plain(page)):
        if re.match(r"https?:", target):
            continue
        file = (page.parent / target).resolve() if target else page
        headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE) if file.suffix == ".md" else []
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        if not file.exists() or (anchor and anchor not in anchors):
            wrong.append(f"{target}#{anchor}")
    assert wrong == []


def test_the_readme_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\((docs/[\w.-]+\.md)\)", (ROOT / "README.md").read_text()))
    assert linked == {f"docs/{page.name}" for page in PAGES if page.parent.name == "docs"}


@named
def test_files_that_are_named_exist(page: Path) -> None:
    suffixes = r"(?:py|md|mlir|txt|toml|jsonl|h)"
    wrong = []
    for text in inline(page):
        for name in re.findall(rf"(?<![\w./<*-])(?:[\w.-]+/)+(?:[\w.-]+\.{suffixes})?(?![\w*<{{])", text):
            folder = name.endswith("/")
            if name not in TO_BE_MADE and not any(
                f"/{name}" in file if folder else file.endswith(f"/{name}") for file in files()
            ):
                wrong.append(name)
    assert wrong == []


@named
def test_options_that_are_named_exist(page: Path) -> None:
    known = OTHERS.union(*options().values())
    wrong = []
    for text in [*inline(page), *plain(page).splitlines()]:
        tool = re.search(r"\bshlo-[\w-]+", text) if text.count("shlo-") == 1 else None
        allowed = OTHERS | options()[tool[0]] if tool and tool[0] in options() and text.startswith(tool[0]) else known
        if not re.search(r"\b(pip|pytest|ruff|mypy|lit)\b", text):
            wrong += [
                f"{option} in: {text}"
                for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", text)
                if option not in allowed
            ]
    assert wrong == []


@named
def test_attributes_and_options_of_the_api_exist(page: Path) -> None:
    kinds = (shlo.Executable, shlo.GridExecutable, shlo.SymbolicExecutable)
    methods = {name for kind in kinds for name in dir(kind)} | {"inputs", "outputs", "infeed", "outfeed"}
    fields = set(inspect.signature(shlo.Options).parameters)
    wrong = []
    for text in inline(page):
        wrong += [text for name in re.findall(r"\b(?:exe|executable)\.(\w+)", text) if name not in methods]
        for arguments in re.findall(r"\bOptions\(([^)]*)", text):
            wrong += [text for name in re.findall(r"(\w+)=", arguments) if name not in fields]
        for module, name in re.findall(r"\b(stablehlo_py(?:\.\w+)*?|shlo)\.(\w+)\b(?!\.(?:py|md)\b|/)", text):
            if not resolves(module.replace("shlo", "stablehlo_py") if module == "shlo" else module, name):
                wrong.append(text)
    assert wrong == []


def resolves(module: str, name: str) -> bool:
    """Whether a module has an attribute or a submodule of that name; `shlo.lapack.` begins the names of symbols."""
    if f"{module}.{name}" == "stablehlo_py.lapack":
        return True
    try:
        if hasattr(importlib.import_module(module), name):
            return True
        importlib.import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True
