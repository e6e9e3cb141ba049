"""Imports go down only, in the order of the layers in docs/architecture.md; and attributes are named in one module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "stablehlo_py"
# Where the code of the package lies: `passes` and `backends` are installed as subpackages.
FOLDERS = (PACKAGE, "passes", "backends")
ATTRIBUTES = f"{PACKAGE}/dialect/attributes.py"


@dataclass(frozen=True)
class Import:
    """A line of one file that imports another."""

    importer: str
    line: int
    imported: str

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def files(root: Path = ROOT) -> dict[str, str]:
    """The product's files by the names of their modules, as paths from the root."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            place = path.relative_to(root)
            if place.parts[:2] in ((PACKAGE, "passes"), (PACKAGE, "backends")):  # symbolic links
                continue
            parts = [*place.parts[:-1], *([] if place.stem == "__init__" else [place.stem])]
            found[".".join(parts if folder == PACKAGE else [PACKAGE, *parts])] = place.as_posix()
    return found


def imports(modules: dict[str, str], root: Path = ROOT) -> Iterator[Import]:
    """Every import of one of these modules by another, wherever it stands in the file."""
    for module, file in modules.items():
        package = (module if file.endswith("__init__.py") else module.rpartition(".")[0]).split(".")
        for node in ast.walk(ast.parse((root / file).read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                names = [f"{base}.{alias.name}" for alias in node.names]
            else:
                continue
            for name in names:
                imported = modules.get(name) or modules.get(name.rpartition(".")[0])
                if imported not in (None, file):
                    yield Import(file, node.lineno, imported)


def layers() -> list[tuple[str, tuple[str, ...]]]:
    """Name and paths of each layer, lowest first."""
    section = (ROOT / "docs/architecture.md").read_text().partition("## Layers\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ") and "`" in line]
    return [(name, tuple(re.findall(r"`([^`]+)`", paths))) for name, paths in rows]


def layer_of(file: str, order: list[tuple[str, tuple[str, ...]]]) -> int | None:
    """The number of a file's layer: that of the longest path that has it."""
    matches = [
        (len(path), number)
        for number, (_, paths) in enumerate(order)
        for path in paths
        if file == path or (path.endswith("/") and file.startswith(path))
    ]
    return max(matches)[1] if matches else None


def problems_of(found: list[Import], modules: dict[str, str], order: list[tuple[str, tuple[str, ...]]]) -> list[str]:
    """What is wrong: files in no layer, imports upwards, circles."""
    number = {file: layer_of(file, order) for file in modules.values()}
    problems = [f"{file} is in no layer of docs/architecture.md" for file, layer in number.items() if layer is None]
    for each in found:
        low, high = number[each.importer], number[each.imported]
        if low is not None and high is not None and low < high:
            problems.append(f"{each}: from '{order[low][0]}' up to '{order[high][0]}'")
    for circle in circles(found):
        problems.append("a circle of imports:\n    " + "\n    ".join(map(str, circle)))
    return problems


def circles(found: list[Import]) -> Iterator[list[Import]]:
    """The imports that form circles: a shortest one for each import that no other circle has."""
    outgoing: dict[str, dict[str, Import]] = {}
    for each in found:
        outgoing.setdefault(each.importer, {}).setdefault(each.imported, each)
    seen: set[Import] = set()
    for start in found:
        if start in seen:
            continue
        trails: dict[str, list[Import]] = {start.imported: [start]}
        waiting = [start.imported]
        while waiting and start.importer not in trails:
            file = waiting.pop(0)
            for imported, each in outgoing.get(file, {}).items():
                if imported not in trails:
                    trails[imported] = [*trails[file], each]
                    waiting.append(imported)
        if start.importer in trails:
            seen.update(trails[start.importer])
            yield trails[start.importer]


def test_imports_go_down_only() -> None:
    modules = files()
    problems = problems_of(list(imports(modules)), modules, layers())
    assert not problems, "\n".join(problems)


def test_layers_name_what_is_there() -> None:
    for name, paths in layers():
        for path in paths:
            assert (ROOT / path).exists(), f"layer '{name}': there is no {path}"


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    """Imports in functions and for type checkers count, relative ones too."""
    texts = {
        "stablehlo_py/low.py": "if TYPE_CHECKING:\n    from stablehlo_py.high import thing\n",
        "stablehlo_py/high.py": "def f():\n    from .passes import one\n",
        "stablehlo_py/lost.py": "import os\n",
        "passes/one.py": "import stablehlo_py.low\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    modules = files(tmp_path)
    order = [("ground", ("stablehlo_py/low.py",)), ("roof", ("passes/", "stablehlo_py/high.py"))]
    assert problems_of(list(imports(modules, tmp_path)), modules, order) == [
        "stablehlo_py/lost.py is in no layer of docs/architecture.md",
        "stablehlo_py/low.py:2 imports stablehlo_py/high.py: from 'ground' up to 'roof'",
        "a circle of imports:\n"
        "    stablehlo_py/high.py:2 imports passes/one.py\n"
        "    passes/one.py:1 imports stablehlo_py/low.py\n"
        "    stablehlo_py/low.py:2 imports stablehlo_py/high.py",
    ]


def test_names_of_attributes_stand_in_one_module() -> None:
    names = {
        node.value
        for node in ast.walk(ast.parse((ROOT / ATTRIBUTES).read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"\w+\.\w+", node.value)
    }
    assert "hlo.fusion" in names
    # What else is called hlo.something is an op.
    ops = set(re.findall(r"\bhlo\.[a-z]\w*", (ROOT / "docs/hlo-dialect.md").read_text())) - names
    problems = []
    for file in set(files().values()) - {ATTRIBUTES}:
        for node in ast.walk(ast.parse((ROOT / file).read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and (text in names or (re.fullmatch(r"hlo\.[a-z]\w*", text) and text not in ops)):
                problems.append(f'{file}:{node.lineno} has "{text}": use, or add, a constant of {ATTRIBUTES}')
    assert not problems, "\n".join(sorted(problems))
