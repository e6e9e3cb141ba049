"""Files that the tools and the API write: whole or not at all, whatever the disk does."""

from __future__ import annotations

import ast
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.errors import EXIT_BAD_INPUT, EXIT_OK
from stablehlo_py.files import whole_file, write_whole

MODEL = """func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %y = stablehlo.sine %x : tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}"""
OLD = b"what was there before"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("this process may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def tool(name: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"stablehlo_py.cli.{name}", *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120, **options)  # type: ignore[call-overload]


# --- one function writes files ---------------------------------------------------------------------------------------

# Writes that need no care: appended lines, and files in folders that are removed.
ALLOWED = {
    ("backends/common/llvm_process.py", "open"): "a pipe",
    ("backends/gpu/triton/worker.py", "write_text"): "in a temporary folder",
    ("aot/link.py", "write_bytes"): "in a temporary folder",
    ("backends/c/compiler.py", "write_text"): "in a temporary folder",
    ("kit/new_backend.py", "write_text"): "in a temporary folder",
    ("conformance/journal.py", "open"): "a line is appended",
    ("debug/journal.py", "open"): "a line is appended",
    ("suite/journal.py", "open"): "a line is appended",
    ("debug/reduce.py", "write_text"): "in a temporary folder",
}


def writes_of(tree: ast.Module) -> Iterator[str]:
    """Names of the calls that write a file by name."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func).rpartition(".")[2]
        given = [ast.unparse(each) for each in [*call.args, *(word.value for word in call.keywords)]]
        opens = (
            name == "open"
            and "memfd_create" not in given[0]
            and any(re.fullmatch(r"'[bt]*[wxa][bt+]*'", each) for each in given)
        )
        saves = ast.unparse(call.func).startswith("np.save") and given[0] != "file"
        if opens or saves or name in ("write_text", "write_bytes", "tofile"):
            yield name


def test_every_file_is_written_by_files_py() -> None:
    root = Path(shlo.__file__).parent
    found = set()
    for folder in (root, (root / "passes").resolve(), (root / "backends").resolve()):
        for file in folder.rglob("*.py"):
            name = f"{'' if folder == root else folder.name + '/'}{file.relative_to(folder)}"
            found |= {(name, call) for call in writes_of(ast.parse(file.read_text()))}
    found = {(name, call) for name, call in found if name != "files.py"}
    assert found == set(ALLOWED), "write files with stablehlo_py.files, or say here why not"


# --- whole or not at all ---------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_what_was_there(small_disk: Path) -> None:
    path = small_disk / "file"
    path.write_bytes(OLD)
    for _ in range(3):
        with pytest.raises(shlo.ResourceError, match="No space left") as caught:
            write_whole(path, bytes(20_000))
        assert caught.value.remedy
    assert path.read_bytes() == OLD
    assert os.listdir(small_disk) == ["file"]
    with pytest.raises(shlo.ResourceError), whole_file(path) as file:
        np.save(file, np.zeros(20_000))
    with pytest.raises(shlo.ResourceError), whole_file(path) as file:
        np.savez(file, a=np.zeros(20_000))
    assert os.listdir(small_disk) == ["file"]


def test_a_limit_of_file_sizes_is_an_error(tmp_path: Path) -> None:
    code = """if True:
        import resource, sys
        import stablehlo_py as shlo
        from stablehlo_py.files import write_whole
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # from here on SIGXFSZ, or EFBIG
        try:
            write_whole(sys.argv[1], bytes(10_000))
        except shlo.ResourceError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "x"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "File too large" in done.stdout
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    before = os.umask(0o027)
    try:
        write_whole(path, "a")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write_whole(path, "b")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert path.read_text() == "b"


def test_links_and_devices_stay(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(OLD)
    (tmp_path / "link").symlink_to("file")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"
    write_whole("/dev/null", "gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    write_whole(tmp_path / "pipe", "through")
    assert reader.communicate(timeout=60)[0] == b"through"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError])
def test_a_block_that_fails_leaves_nothing(tmp_path: Path, failure: type[BaseException]) -> None:
    with pytest.raises(failure), whole_file(tmp_path / "x") as file:
        file.write(b"half")
        raise failure
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b", "", ".", "missing/file", "file/file", "x" * 300])
def test_paths_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_bytes(OLD)
    with pytest.raises(shlo.ResourceError):
        write_whole(path, "x")
    executable = shlo.compile(MODEL)
    with pytest.raises(shlo.ResourceError):
        executable.save(path)
    with pytest.raises(shlo.ResourceError):
        shlo.load_executable(path)
    with pytest.raises((shlo.ResourceError, shlo.LoadError)):
        shlo.compile(path)
    assert os.listdir() == ["file"]


@pytest.mark.parametrize("option", ["cache_dir", "dump_dir"])
@pytest.mark.parametrize("path", ["a\0b", "a\ud800b", 7])
def test_directories_that_no_system_can_have(option: str, path: object) -> None:
    with pytest.raises(shlo.OptionError, match=option) as caught:
        shlo.Options(**{option: path})  # type: ignore[arg-type]
    assert caught.value.remedy


# --- tools -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.mlir"
    path.write_text(MODEL)
    return path


@pytest.mark.parametrize(
    "name, arguments, output",
    [
        ("opt", ["--compile-to=kernels", "-o"], "out.mlir"),
        ("compile", ["-o"], "out.shloexe"),
        ("run", ["--output"], "out.npy"),
        ("run", ["--output"], "out.npz"),
    ],
)
def test_tools_on_a_full_disk(model: Path, small_disk: Path, name: str, arguments: list[str], output: str) -> None:
    path = small_disk / output
    path.write_bytes(OLD)
    done = tool(name, model, *arguments, path, stdout=subprocess.PIPE)
    assert done.returncode == EXIT_BAD_INPUT, done.stderr
    assert "error[resource]" in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_bytes() == OLD
    assert os.listdir(small_disk) == [output]


def test_a_full_disk_under_a_dump(model: Path, small_disk: Path) -> None:
    done = tool("opt", model, "--compile-to=llvm", "--dump-stages", small_disk / "dump", stdout=subprocess.DEVNULL)
    assert done.returncode == EXIT_BAD_INPUT, done.stderr
    assert "error[resource]" in done.stderr
    for file in (small_disk / "dump").iterdir():
        assert not file.name.startswith(".partial-")
        assert file.suffix != ".mlir" or file.read_text().rstrip().endswith("}")


def test_a_full_disk_for_temporary_files_does_not_end_the_process(model: Path, small_disk: Path) -> None:
    (small_disk / "file").write_bytes(bytes(4096))
    environment = {**os.environ, "TMPDIR": str(small_disk)}
    done = tool("run", model, stdout=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (EXIT_OK, "")
    assert os.listdir(small_disk) == ["file"]


FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")


@FULL
@pytest.mark.parametrize("name, arguments", [("opt", []), ("run", ["--print"]), ("compile", ["-o", "/dev/null"])])
def test_a_full_standard_output(model: Path, name: str, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = tool(name, model, *arguments, stdout=full)
    assert done.returncode == EXIT_BAD_INPUT, done.stderr
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr, "Python tried again at its end"


@pytest.mark.parametrize("closed, expected", [("<&-", EXIT_OK), (">&-", EXIT_BAD_INPUT), ("2>&-", EXIT_OK)])
def test_closed_standard_streams(model: Path, tmp_path: Path, closed: str, expected: int) -> None:
    command = f"exec {sys.executable} -m stablehlo_py.cli.opt {model} {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == expected, done.stderr
    assert "Traceback" not in done.stderr
    if expected:
        assert "Bad file descriptor" in done.stderr


def test_names_that_are_no_utf_8(model: Path, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.shloexe"
    command = [sys.executable, "-m", "stablehlo_py.cli.compile", model, "-o", name]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == EXIT_OK, done.stderr
    assert os.path.exists(name)
