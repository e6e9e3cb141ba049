"""The on-disk cache: content-addressed files, safe for concurrent processes.

A key is the SHA-256 of everything that decides the content, so an entry never changes: writers race to rename equal
files into place, and readers see a whole file or none.
"""

from __future__ import annotations

import errno
import hashlib
import os
from functools import cache
from pathlib import Path

from stablehlo_py.errors import ResourceError
from stablehlo_py.files import write_whole


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


class Cache:
    """A directory of entries named by key.

    Raises:
        ResourceError: the directory cannot be made or written.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._failure("made", error) from error

    def _failure(self, verb: str, error: OSError) -> ResourceError:
        return ResourceError(
            f"the cache directory {self.directory} cannot be {verb}: {error.strerror}",
            remedy="pass another Options(cache_dir=...), or None to compile without a cache",
        )

    def path(self, key: str) -> Path:
        """Where the entry of a key is or would be."""
        return self.directory / f"{key}.shlo"

    def get(self, key: str) -> Path | None:
        """The entry's file, or None."""
        path = self.path(key)
        return path if path.is_file() else None

    def require_writable(self) -> None:
        """Find out before the work is done that its result could not be stored. Raises ResourceError."""
        if not os.access(self.directory, os.W_OK | os.X_OK):
            raise self._failure("written", PermissionError(errno.EACCES, os.strerror(errno.EACCES)))

    def put(self, key: str, content: bytes) -> Path:
        """Store an entry; a reader never sees part of it."""
        path = self.path(key)
        write_whole(path, content)
        return path
