"""The on-disk cache: content-addressed files, safe for concurrent processes.

A key is the SHA-256 of everything that decides the content, so an entry never changes: writers race to rename equal
files into place, and readers see a whole file or none.

Entries are native code that this process will run. So a directory or an entry that another user owns, or may write, is
refused (docs/security.md), and entries are opened relative to the directory that was checked. Whatever is wrong with
the disk costs time and a `CacheWarning`, never a compilation.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from stablehlo_py.errors import CacheWarning, ResourceError
from stablehlo_py.files import PARTIAL, replacement


@cache
def compiler_fingerprint() -> str:
    """Changes whenever a file of this package or its code generator changes."""
    from importlib.metadata import version

    digest = hashlib.sha256()
    for package in ("torch-mlir", "llvmlite"):
        digest.update(f"{package} {version(package)}\n".encode())
    root = Path(__file__).resolve().parent.parent
    for folder in (root, root / "passes", root / "backends"):
        for file in sorted(folder.resolve().rglob("*.py")):
            status = file.stat()
            digest.update(f"{file.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def key_of(*parts: bytes | str) -> str:
    """SHA-256 over the parts and the compiler's fingerprint."""
    digest = hashlib.sha256(compiler_fingerprint().encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


# What is wrong with the path of a directory, and not with the disk.
_WRONG_PATH = (errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG)
_ABANDONED_S = 3600.0  # a file that has been unfinished for so long is of a process that was killed
_swept: set[tuple[int, int]] = set()  # directories, by device and inode


class CacheEntry:
    """The place of one program in a cache.

    Raises:
        ResourceError: the path of the directory is that of something else.
    """

    def __init__(self, directory: Path, key: str) -> None:
        self.key = key
        self._directory = directory
        self._name = f"{key}.shlo"
        self._usable = False
        with self._warning(f"the cache {directory} is not used"), self._folder() as folder:
            _sweep(folder)
            self._usable = True

    @property
    def path(self) -> Path:
        """Where it is or would be."""
        return self._directory / self._name

    def read(self) -> bytes | None:
        """Its content; None where there is none that may be used."""
        content = None
        if self._usable:
            with self._warning(f"{self.path} is not used"), self._folder() as folder, suppress(FileNotFoundError):
                content = _content(folder, self._name)
        return content

    def refuse(self, reason: str) -> None:
        """Say that the content is not what it has to be; compiling writes it anew."""
        _warn(f"an entry of the cache is not used: {reason}")

    def write(self, content: bytes) -> None:
        """Store its content; a reader never sees part of it."""
        if self._usable:
            with (
                self._warning(f"nothing is stored in the cache {self._directory}"),
                self._folder() as folder,
                replacement(self._name, folder, mode=0o600) as file,
            ):
                file.write(content)

    @contextmanager
    def _folder(self) -> Iterator[int]:
        """A descriptor of the directory, which is made where there is none. Raises ResourceError where the path is that
        of something else, OSError where the directory is not to be used."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in _WRONG_PATH:
                raise
            raise ResourceError(
                f"the cache directory {self._directory} cannot be made: {error.strerror}",
                remedy="pass another Options(cache_dir=...), or None to compile without a cache",
            ) from error
        try:
            _require_ours(os.fstat(folder), "chmod 700 the directory")
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def _warning(self, what: str) -> Iterator[None]:
        """What keeps the block from being done is a warning."""
        try:
            yield
        except ResourceError:
            raise
        except OSError as error:
            _warn(f"{what}: {error.strerror}")


def _warn(message: str) -> None:
    # Said once of each: all come from this line.
    warnings.warn(message, CacheWarning, stacklevel=1)


def _require_ours(status: os.stat_result, remedy: str) -> None:
    """Raises PermissionError where another user (but root) can have written what this process is going to run."""
    if status.st_uid not in (os.geteuid(), 0):
        raise PermissionError(errno.EPERM, f"it belongs to another user (number {status.st_uid})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, f"other users may write it ({remedy})")


def _content(folder: int, name: str) -> bytes:
    """The content of an entry. Raises OSError."""
    try:
        # A symbolic link is refused; a pipe does not wait for a writer.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link") from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        _require_ours(status, "delete it")
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.read()  # not mapped: what is checked afterwards is what runs
    finally:
        os.close(descriptor)


def _sweep(folder: int) -> None:
    """Remove what killed processes have left half-written; once for each directory."""
    status = os.fstat(folder)
    place = (status.st_dev, status.st_ino)
    if place in _swept:
        return
    _swept.add(place)
    oldest = time.time() - _ABANDONED_S
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(PARTIAL):
                with suppress(OSError):  # another process sweeps too
                    if entry.stat(follow_symlinks=False).st_mtime < oldest:
                        os.unlink(entry.name, dir_fd=folder)
