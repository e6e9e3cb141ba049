"""The rules that hold the tree together: one importer of MLIR, one copy of passes and backends, a complete wheel."""

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for folder in ("stablehlo_py", "passes", "backends", "test", "tools")
    for path in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in path.parts
)


@cache
def _statements(path):
    """Imports and asserts of a file, which has to be valid Python 3.10. All tests share them: parsing takes seconds."""
    tree = ast.parse(path.read_text(), feature_version=(3, 10))
    return [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom, ast.Assert))]


def _imported(path):
    for node in _statements(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_only_one_module_imports_mlir():
    importers = {
        path.resolve().relative_to(ROOT).as_posix()
        for path in SOURCES
        for name in _imported(path)
        if name.partition(".")[0] == "torch_mlir"
    }
    assert importers == {"stablehlo_py/mlir.py"}


def test_passes_and_backends_are_never_imported_by_their_bare_names():
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        for name in _imported(path)
        if name.partition(".")[0] in ("passes", "backends")
    ]
    assert wrong == []


def test_a_compilation_imports_one_copy_of_passes_and_backends():
    program = (
        "import sys, stablehlo_py as shlo\n"
        "text = 'func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {'\n"
        "text += '%0 = stablehlo.add %a, %a : tensor<4xf32> return %0 : tensor<4xf32> }'\n"
        "shlo.compile(text, options=shlo.Options(cache_dir=None))\n"
        "assert 'stablehlo_py.backends' in sys.modules\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('passes', 'backends')])\n"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


def test_no_file_is_longer_than_600_lines():
    long = {path.relative_to(ROOT).as_posix(): n for path in SOURCES if (n := path.read_text().count("\n")) > 600}
    assert long == {}


def test_every_folder_of_the_package_is_a_package():
    for link in ("passes", "backends"):
        assert (ROOT / "stablehlo_py" / link).resolve() == ROOT / link
    for path in SOURCES:
        relative = path.relative_to(ROOT)
        if relative.parts[0] in ("stablehlo_py", "passes", "backends"):
            assert (path.parent / "__init__.py").exists(), f"{relative.parent} has no __init__.py, so no wheel holds it"


def test_the_tree_is_valid_python_3_10():
    for path in SOURCES:
        _statements(path)


def test_modules_of_the_package_use_no_standard_library_beyond_python_3_10():
    newer = {"tomllib", "wsgiref.types", "asyncio.taskgroups"}
    names = {"typing.Self", "typing.assert_never", "typing.Never", "enum.StrEnum", "datetime.UTC", "typing.override"}
    for path in SOURCES:
        for node in _statements(path):
            if isinstance(node, ast.ImportFrom) and node.module:
                found = {f"{node.module}.{alias.name}" for alias in node.names} & names
                assert not found, f"{path.relative_to(ROOT)} imports {found}, which Python 3.10 lacks"
                assert node.module not in newer, f"{path.relative_to(ROOT)} imports {node.module}"


def _tree(folder):
    """A copy of what packaging reads, links kept."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("stablehlo_py", "passes", "backends"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)


# Folders of which every file is installed.
DATA = (ROOT / "stablehlo_py" / "conformance" / "ops", ROOT / "stablehlo_py" / "kit" / "template")


def _modules_of_tree():
    base = ROOT / "stablehlo_py"
    return {
        path.relative_to(ROOT).as_posix()
        for folder, _, files in os.walk(base, followlinks=True)
        for path in (Path(folder) / file for file in files)
        if path.suffix in (".py", ".h") or path.name == "py.typed" or path.parent in DATA
    }


def _build(folder, kind):
    program = f"import setuptools.build_meta as b; print(b.build_{kind}('out'))"
    result = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]
    return folder / "out" / result.stdout.strip().splitlines()[-1]


def _setuptools_version():
    try:
        import setuptools
    except ImportError:
        return 0
    return int(setuptools.__version__.partition(".")[0])


@pytest.mark.skipif(_setuptools_version() < 77, reason="building needs setuptools 77, as pyproject.toml says")
def test_wheels_from_the_tree_and_from_the_sdist_are_complete(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    _tree(tree)
    (tree / "out").mkdir()
    wheel = _build(tree, "wheel")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = set(archive.namelist())
    modules = {name for name in files if ".dist-info/" not in name}
    assert modules == _modules_of_tree()
    assert any(name.endswith("licenses/LICENSE") for name in files)

    sdist = _build(tree, "sdist")
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    shutil.unpack_archive(sdist, unpacked)
    (source,) = unpacked.iterdir()
    (source / "out").mkdir()
    with zipfile.ZipFile(_build(source, "wheel")) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == modules


def test_the_installed_package_declares_its_tools_and_backends():
    found = entry_points(group="stablehlo_py.backends")
    if not found:
        pytest.skip("stablehlo-py is on the path, but not installed")
    assert {point.name: point.load().__name__ for point in found}["cpu"] == "CpuBackend"
    scripts = Path(sysconfig.get_path("scripts"))
    for tool in ("shlo-opt", "shlo-compile", "shlo-run", "shlo-bench"):
        assert (scripts / tool).exists()


def test_asserts_have_no_effects() -> None:
    """`python -O` leaves them out, with the calls inside them."""
    pure = {"isinstance", "len", "all", "any", "map", "callable"}
    root = Path(__file__).parents[2]
    for folder in ("stablehlo_py", "passes", "backends"):
        for path in (root / folder).rglob("*.py"):
            if path.name == "testing.py":
                continue
            for node in _statements(path):
                if isinstance(node, ast.Assert):
                    calls = [each for each in ast.walk(node.test) if isinstance(each, ast.Call)]
                    names = {getattr(each.func, "id", None) for each in calls}
                    assert names <= pure, f"{path}:{node.lineno}"
