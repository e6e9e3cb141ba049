"""The registry: names without imports, errors with near misses, passes from files."""

import subprocess
import sys
from pathlib import Path

import pytest

from stablehlo_py.errors import OptionError
from stablehlo_py.passmanager import registry
from stablehlo_py.passmanager.base import Pass

PASSES = Path(registry.__file__).parents[1] / "passes"


def test_every_listed_pass_is_a_pass_of_that_name():
    for name in registry.list_passes():
        cls = registry.get_pass(name)
        assert issubclass(cls, Pass) and cls.name == name
        assert cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}("), f"{name} has no docstring"
        cls()  # every option has a default


def test_every_pass_file_is_listed():
    for file in PASSES.glob("[!_]*.py"):
        if "(Pass)" in file.read_text():
            assert file.stem.replace("_", "-") in registry.list_passes(), f"{file.name} does not hold its name"


def test_legalization_is_found_outside_the_folder():
    assert registry.get_pass("legalize-to-hlo").__name__ == "LegalizeToHlo"


def test_listing_imports_no_pass():
    code = (
        "import sys; from stablehlo_py.passmanager import registry; registry.list_passes(); registry.is_pass('cse')\n"
        "unwanted = ('stablehlo_py.passes.', 'jax', 'llvmlite')\n"
        "print([name for name in sys.modules if name.startswith(unwanted)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_pass_names_near_misses():
    with pytest.raises(OptionError, match=r"no pass 'symbol-dec'.*\n.*did you mean 'symbol-dce'"):
        registry.get_pass("symbol-dec")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("x = 1", "defines no pass"),
        ("from stablehlo_py.passes.dce import Dce", "defines no pass"),
        ("1 / 0", "ZeroDivisionError"),
        ("def (", "SyntaxError"),
    ],
)
def test_bad_pass_files_are_refused(tmp_path, content, reason):
    file = tmp_path / "bad.py"
    file.write_text(content)
    with pytest.raises(OptionError, match=reason):
        registry.load_pass_file(file)


def test_missing_pass_file_is_refused(tmp_path):
    with pytest.raises(OptionError, match="no pass file"):
        registry.load_pass_file(tmp_path / "none.py")


def test_a_loaded_pass_takes_the_place_of_one_that_ships(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_loaded", {})
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from stablehlo_py.passmanager.base import Pass\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Pass):\n"
        "    'Mine.'\n"
        "    name = 'dce'\n"
        "    def run(self, module): pass\n"
    )
    (loaded,) = registry.load_pass_file(file)
    assert registry.get_pass("dce") is loaded
