"""docs/adding-a-pass.md is true beyond its snippets, which test/docs runs: the pass's option, its place in the list."""

import re
import sys
from pathlib import Path

import pytest

from stablehlo_py.cli import opt

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adding-a-pass.md"


def blocks(language):
    """The code blocks of the page in one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("divide_to_multiply.py").write_text(blocks("python")[0])
    Path("divide.mlir").write_text(blocks("mlir")[0])
    return tmp_path


def test_the_option_decides_about_other_divisors(folder, capfdbinary):
    Path("divide.mlir").write_text(blocks("mlir")[0].replace("4.0", "3.0"))
    for options, expected in (("", b"hlo.divide"), ("{approximate=true}", b"hlo.multiply")):
        pipeline = f"divide-to-multiply{options}"
        assert opt.main(["--load-pass", "divide_to_multiply.py", f"--pass-pipeline={pipeline}", "divide.mlir"]) == 0
        assert expected in capfdbinary.readouterr().out


def test_the_pass_is_in_the_list_with_its_option(folder, capfdbinary):
    assert opt.main(["--load-pass", "divide_to_multiply.py", "--list-passes"]) == 0
    listed = capfdbinary.readouterr().out.decode()
    assert "divide-to-multiply: Multiply by the reciprocal" in listed
    assert "approximate=False  (bool)  also where the last bit may change" in listed


def test_the_pass_is_about_thirty_lines():
    code = [line for line in blocks("python")[0].split("\n") if line.strip()]
    assert len(code) < 45


@pytest.fixture(autouse=True)
def _forget_loaded_passes(monkeypatch):
    from stablehlo_py.passmanager import registry

    monkeypatch.setattr(registry, "_loaded", {})
    yield
    for name in [name for name in sys.modules if name.startswith("_shlo_pass_file_")]:
        del sys.modules[name]
