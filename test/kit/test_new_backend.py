"""shlo-new-backend: what it writes passes its own tests, can be installed, and is whole or not there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stablehlo_py.cli import new_backend
from stablehlo_py.errors import EXIT_BAD_INPUT, EXIT_OK, EXIT_USAGE
from stablehlo_py.kit import new_backend as kit

ROOT = Path(__file__).resolve().parents[2]
MODEL = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is current."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(folder: Path, *command: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command of Python's in a folder, with this checkout and `path` on its path."""
    places = os.pathsep.join(map(str, (ROOT, path) if path else (ROOT,)))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = places
    return subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)


def test_what_it_writes_passes_its_own_tests_and_says_what_it_has(folder: Path) -> None:
    assert new_backend.main(["toy"]) == EXIT_OK
    finished = run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "toy")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    lists = dict(re.findall(r"^(implemented|in part|refused), \d+ ops: (.*)$", finished.stdout, re.MULTILINE))
    assert {"stablehlo.add", "stablehlo.transpose", "stablehlo.exponential"} <= set(lists["implemented"].split())
    assert {"stablehlo.dot_general", "stablehlo.reduce"} <= set(lists["in part"].split())
    assert {"stablehlo.sort", "stablehlo.tan", "stablehlo.fft"} <= set(lists["refused"].split())


def test_a_test_of_it_fails_where_a_kernel_is_wrong(folder: Path) -> None:
    new_backend.main(["toy"])
    kernels = folder / "toy" / "shlo_toy" / "kernels.py"
    kernels.write_text(kernels.read_text().replace("lambda op: np.subtract", "lambda op: np.add"))
    finished = run(folder, "-m", "pytest", "-q", "toy", "-k", "stablehlo.subtract or branches")
    assert "1 failed, 2 passed" in finished.stdout


def test_it_is_installed_with_its_entry_point(folder: Path) -> None:
    """As `pip install ./my_chip` does it, without a network and beside the environment of the tests."""
    assert new_backend.main(["my_chip", "deep"]) == EXIT_OK
    target = ("--no-deps", "--no-build-isolation", "--no-index", "--target", "site")
    installed = run(folder, "-m", "pip", "install", "--quiet", *target, "./deep")
    assert installed.returncode == 0, installed.stderr
    (folder / "model.mlir").write_text(MODEL)
    command = ("-m", "stablehlo_py.cli.run", "model.mlir", "--target", "my_chip", "--compare", "hlo")
    finished = run(folder, *command, path=folder / "site")
    assert finished.returncode == 0, finished.stderr
    assert (folder / "deep/shlo_my_chip/backend.py").read_text().count("class MyChipBackend(Backend)") == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Toy", "no name for a backend"),
        ("2d", "no name for a backend"),
        ("a-b", "no name for a backend"),
        ("../up", "no name for a backend"),
        ("import", "no name for a backend"),
        ("x" * 41, "no name for a backend"),
        ("cpu", "a backend 'cpu' already"),
        ("rocm", "a backend 'rocm' already"),
    ],
)
def test_names_that_cannot_be(name: str, says: str, folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert new_backend.main([name]) == EXIT_USAGE
    assert says in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_a_package_of_that_name_is_not_hidden(folder: Path, monkeypatch, capsys: pytest.CaptureFixture) -> None:
    (folder / "shlo_toy.py").write_text("")
    monkeypatch.syspath_prepend(folder)
    assert new_backend.main(["toy"]) == EXIT_USAGE
    assert "a package 'shlo_toy' already" in capsys.readouterr().err


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("nowhere")])
def test_what_is_there_already_stays_as_it_is(make, folder: Path, capsys: pytest.CaptureFixture) -> None:
    make(folder / "toy")
    assert new_backend.main(["toy"]) == EXIT_BAD_INPUT
    assert "is there already" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["toy"]


def test_nothing_is_half_written(folder: Path, monkeypatch, capsys: pytest.CaptureFixture) -> None:
    assert new_backend.main(["toy", "missing/toy"]) == EXIT_BAD_INPUT
    assert "cannot be written: No such file" in capsys.readouterr().err
    write = kit._write

    def full(made: Path, name: str, source: str, target: str) -> Path:
        if source == "kernels.py":
            raise OSError(28, "No space left on device")
        return write(made, name, source, target)

    monkeypatch.setattr(kit, "_write", full)
    assert new_backend.main(["toy"]) == EXIT_BAD_INPUT
    assert "No space left on device" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_every_file_of_the_template_is_written() -> None:
    assert set(kit.FILES) == {path.name for path in kit.TEMPLATE.iterdir() if path.name != "__pycache__"}
    for source in kit.FILES:
        text = kit.filled((kit.TEMPLATE / source).read_text(), "toy")
        assert not re.search("newname|kit.template", text, re.IGNORECASE), source
