"""The cache on disk: what is in it decides how long a compilation takes, never whether or what is compiled."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py import compiler
from stablehlo_py.errors import CacheWarning
from stablehlo_py.runtime import cache

TEXT = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %z = stablehlo.add %x, %y : tensor<4xf32>
  return %z : tensor<4xf32>
}"""
X, Y = np.arange(4, dtype=np.float32), np.full(4, 10, np.float32)


def build(directory: object, text: str = TEXT) -> shlo.Executable:
    executable = shlo.compile(text, options=shlo.Options(threads=1, cache_dir=directory))  # type: ignore[arg-type]
    expected = X - Y if "subtract" in text else X + Y
    assert (executable(X, Y)[0] == expected).all()
    assert isinstance(executable, shlo.Executable)
    return executable


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each compilation."""
    found: list[int] = []
    original = compiler.compile_module
    monkeypatch.setattr(compiler, "compile_module", lambda *arguments: found.append(1) or original(*arguments))
    return found


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A cache with one entry."""
    build(tmp_path / "store")
    return tmp_path / "store"


def entry_in(store: Path) -> Path:
    (entry,) = store.glob("*.shlo")
    return entry


def quiet(directory: object) -> None:
    """Compile without any warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(directory)


# --- who may read and write it ---------------------------------------------------------------------------------------


def test_only_the_user_can_read_and_write_a_new_cache(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        build(tmp_path / "a" / "cache")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a" / "cache").stat().st_mode) == 0o700
    assert stat.S_IMODE(entry_in(tmp_path / "a" / "cache").stat().st_mode) == 0o600


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To another user: really, or by being another one."""
    if os.geteuid() == 0:
        os.chown(path, 12345, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(cache.os, "geteuid", lambda: 12345)


@pytest.mark.parametrize("what", ["directory", "entry"])
def test_what_another_user_owns_is_refused(
    store: Path, what: str, monkeypatch: pytest.MonkeyPatch, counted: list[int]
) -> None:
    give_away(store if what == "directory" else entry_in(store), monkeypatch)
    with pytest.warns(CacheWarning, match="another user"):
        build(store)
    assert len(counted) == 1


@pytest.mark.parametrize("mode", [0o20, 0o02])
@pytest.mark.parametrize("what", ["directory", "entry"])
def test_what_others_may_write_is_refused(store: Path, what: str, mode: int, counted: list[int]) -> None:
    path = store if what == "directory" else entry_in(store)
    path.chmod(stat.S_IMODE(path.stat().st_mode) | mode)
    with pytest.warns(CacheWarning, match="other users may write"):
        build(store)
    assert len(counted) == 1
    if what == "entry":  # it was written anew
        quiet(store)
        assert len(counted) == 1


def test_a_symbolic_link_for_an_entry_is_refused(store: Path, tmp_path: Path, counted: list[int]) -> None:
    entry = entry_in(store)
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    with pytest.warns(CacheWarning, match="symbolic link"):
        build(store)
    assert len(counted) == 1
    assert not entry.is_symlink()


# --- what an entry holds ---------------------------------------------------------------------------------------------


def test_entries_that_were_swapped_are_not_each_others_programs(store: Path, counted: list[int]) -> None:
    first = entry_in(store)
    other = TEXT.replace("stablehlo.add", "stablehlo.subtract")
    build(store, other)
    (second,) = set(store.iterdir()) - {first}
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    for text in (TEXT, other):
        with pytest.warns(CacheWarning, match="another key"):
            build(store, text)
    assert len(counted) == 3
    quiet(store)


@pytest.mark.parametrize("damage", ["empty", "truncated", "flipped", "longer", "another"])
def test_a_damaged_entry_is_written_anew(store: Path, damage: str, counted: list[int]) -> None:
    entry = entry_in(store)
    content = bytearray(entry.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 0xFF
    damaged = {
        "empty": b"",
        "truncated": content[:-100],
        "flipped": content,
        "longer": content + b"x",
        "another": b"not an artifact",
    }[damage]
    entry.write_bytes(damaged)
    with pytest.warns(CacheWarning, match="artifact"):
        build(store)
    quiet(store)
    assert len(counted) == 1, "the entry was not written anew"


@pytest.mark.parametrize("what", ["directory", "pipe", "device"])
def test_an_entry_that_is_no_file(store: Path, what: str, counted: list[int]) -> None:
    entry = entry_in(store)
    entry.unlink()
    if what == "directory":
        entry.mkdir()
    elif what == "pipe":
        os.mkfifo(entry, 0o600)
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can make devices")
        os.mknod(entry, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero: it has no end
    with pytest.warns(CacheWarning, match="it is not a file"):
        build(store)
    assert len(counted) == 1


def test_an_entry_that_cannot_be_read(store: Path, monkeypatch: pytest.MonkeyPatch, counted: list[int]) -> None:
    real = os.open

    def denied(path: object, flags: int, *arguments: object, **named: object) -> int:
        if str(path).endswith(".shlo"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, flags, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(cache.os, "open", denied)
    with pytest.warns(CacheWarning, match="Permission denied"):
        build(store)
    assert len(counted) == 1


# --- the disk --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        done = False
    if not done:
        pytest.skip("this process may not mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_costs_no_compilation(tmp_path: Path, counted: list[int]) -> None:
    with mounted(tmp_path, "size=4k,mode=700"):
        with pytest.warns(CacheWarning, match="No space left") as caught:
            build(tmp_path)
        assert len(caught) == 1
        assert os.listdir(tmp_path) == []
        with warnings.catch_warnings(record=True) as again:
            warnings.simplefilter("default")
            for _ in range(3):
                build(tmp_path)
        assert len(again) == 1, "once said is enough"


def test_a_read_only_cache_gives_what_it_has(tmp_path: Path, counted: list[int]) -> None:
    with mounted(tmp_path, "size=1m,mode=700"):
        build(tmp_path)
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path)], check=True)
        quiet(tmp_path)
        assert len(counted) == 1
        with pytest.warns(CacheWarning, match="Read-only file system"):
            build(tmp_path, TEXT.replace("stablehlo.add", "stablehlo.subtract"))
        with pytest.warns(CacheWarning, match="Read-only file system"):
            build(tmp_path / "new")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.EFBIG])
@pytest.mark.parametrize("call", ["mkdir", "open", "replace"])
def test_no_failure_of_the_disk_costs_a_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str
) -> None:
    real = getattr(os, call)

    def fail(path: object, *arguments: object, **named: object) -> object:
        if call == "replace" or "store" in str(path) or named.get("dir_fd") is not None:
            raise OSError(number, os.strerror(number), str(path))
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, call, fail)
    with pytest.warns(CacheWarning, match=os.strerror(number)):
        build(tmp_path / "store")
    monkeypatch.undo()
    assert not (tmp_path / "store").exists() or os.listdir(tmp_path / "store") == []


@pytest.mark.parametrize("place", ["a file", "under a file", "a link to itself", "a long name"])
def test_a_cache_whose_path_is_wrong_is_an_error_before_the_work(
    tmp_path: Path, place: str, counted: list[int]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    path = {"a file": "file", "under a file": "file/x", "a link to itself": "loop", "a long name": "x" * 300}[place]
    with pytest.raises(shlo.ResourceError, match="cache directory") as caught:
        build(tmp_path / path)
    assert caught.value.remedy
    assert not counted


def test_what_killed_processes_left_is_removed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, other = store / ".partial-old", store / ".partial-new", store / "old"
    for file in (old, new, other):
        file.write_bytes(b"half")
    for file in (old, other):
        os.utime(file, (time.time() - 7200,) * 2)
    monkeypatch.setattr(cache, "_swept", set())
    quiet(store)
    assert not old.exists()
    assert new.exists(), "another process is writing it"
    assert other.exists()


def test_processes_that_are_killed_while_they_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they leave, others read a whole entry or none, and nothing is in the way."""
    code = """
        import os, sys
        import stablehlo_py as shlo
        print("ready", flush=True)
        while True:
            shlo.compile(sys.argv[1], options=shlo.Options(threads=1, cache_dir=sys.argv[2]))
            for name in os.listdir(sys.argv[2]):
                if name.endswith(".shlo"):
                    os.unlink(os.path.join(sys.argv[2], name))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), TEXT, str(tmp_path / "store")]
    for delay in (0.05, 0.07, 0.11):
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(delay)
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            build(tmp_path / "store")
    for file in (tmp_path / "store").glob(".partial-*"):
        os.utime(file, (0, 0))
    monkeypatch.setattr(cache, "_swept", set())
    quiet(tmp_path / "store")
    assert [file.suffix for file in (tmp_path / "store").iterdir()] == [".shlo"]


def test_tools_say_it_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "model.mlir").write_text(TEXT)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    command = [
        sys.executable,
        "-m",
        "stablehlo_py.cli.compile",
        tmp_path / "model.mlir",
        "--cache-dir",
        tmp_path / "cache",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert done.stderr == (
        f"warning: the cache {tmp_path}/cache is not used: other users may write it (chmod 700 the directory)\n"
    )


# --- which directory -------------------------------------------------------------------------------------------------


def test_the_default_directory_is_the_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build("default")
    assert len(list((tmp_path / "stablehlo-py").glob("*.shlo"))) == 1
    monkeypatch.setenv("STABLEHLO_PY_CACHE_DIR", "default")
    assert shlo.Options().cache_directory == tmp_path / "stablehlo-py"
    monkeypatch.setenv("STABLEHLO_PY_CACHE_DIR", "")
    assert shlo.Options().cache_directory is None
    assert shlo.Options(cache_dir="./default").cache_directory == Path("default")
