"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from stablehlo_py.errors import ResourceError, shown

PARTIAL = ".partial-"  # what names of unfinished files begin with


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file as `whole_file` does; text is encoded in UTF-8.

    Raises:
        ResourceError: the file cannot be written; what was there before still is.
    """
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that appears under its name when the block ends, with everything that was written to it, or, where
    the block fails, not at all. A file that is there already is replaced, and keeps its permissions; a symbolic link
    stays, and its target is replaced. Devices and pipes are written as they are.

    Raises:
        ResourceError: the file cannot be written; what was there before still is.
    """
    reason = why_no_file_name(path)
    if reason is not None:
        raise ResourceError(f"{shown(path)} is not a file name: {reason}", remedy="pass another path")
    try:
        target = Path(os.path.realpath(path))
        before = _status(target)
        if before is not None and not stat.S_ISREG(before.st_mode):
            with open(target, "wb") as file:  # a directory is refused here
                yield file
            return
        if before is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        with replacement(target.name, target.parent) as file:
            if before is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            yield file
    except ResourceError:
        raise
    except OSError as error:
        raise ResourceError(
            f"{shown(str(path))} cannot be written: {error.strerror or error}",  # NumPy's errors have no number
            remedy="check that its directory exists, is writable, and has room",
        ) from error


def why_no_file_name(path: str | os.PathLike[str]) -> str | None:
    """Why the system can have no file of this name; None where it can."""
    try:
        if isinstance(os.fspath(path), bytes):
            return "it is no text, but bytes"
        return "it holds a zero byte" if b"\0" in os.fsencode(path) else None
    except UnicodeEncodeError:
        return "it holds a character that cannot be encoded"
    except Exception as error:  # it is no path, or its own __fspath__ fails
        return str(error)


def writable_directory(path: str | os.PathLike[str], what: str) -> Path:
    """A directory that files can be written into, made where it does not exist; `what` names it in errors ("dump").

    Raises:
        ResourceError: it cannot be made or written.
    """
    remedy = f"pass another {what} directory"
    reason = why_no_file_name(path)
    if reason is not None:
        raise ResourceError(f"the {what} directory {shown(path)} cannot be made: {reason}", remedy=remedy)
    directory = Path(path)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResourceError(
            f"the {what} directory {shown(str(directory))} cannot be made: {error.strerror}", remedy=remedy
        ) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise ResourceError(f"the {what} directory {shown(str(directory))} cannot be written", remedy=remedy)
    return directory


@contextmanager
def replacement(name: str, folder: Path | int, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A new file that takes its name in the folder (a path, or a descriptor of it) when the block ends; where the block
    fails, Ctrl-C included, it is removed. The umask applies to `mode`. Raises OSError."""
    directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if isinstance(folder, Path) else folder
    temporary = f"{PARTIAL}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        try:
            with open(os.open(temporary, flags, mode, dir_fd=directory), "wb") as file:
                yield file
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
    finally:
        if isinstance(folder, Path):
            os.close(directory)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
