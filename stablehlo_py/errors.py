"""The error tree. An error says what failed, the op, the user's own file and line, why, and what to do.

Every class has a stable `code` (also in docs/errors.md) and the exit status that the command-line tools end with.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

EXIT_OK, EXIT_MISMATCH, EXIT_USAGE, EXIT_BAD_INPUT, EXIT_UNSUPPORTED, EXIT_INTERNAL = range(6)

# What a message shows: so many characters of a location, of a reason (MLIR's may hold the types of a thousand operands)
# and of a name; so many findings, and names of a list.
LOCATION_LENGTH = 120
REASON_LENGTH = 1000
SHOWN_PROBLEMS = 8
SHOWN_NAMES = 8
SHOWN_LINES = 8
NAME_LENGTH = 100
_LONG_WORD = re.compile(rf"\S{{{NAME_LENGTH + 1},}}")


def elided(names: Iterable[object], most: int = SHOWN_NAMES, separator: str = ", ") -> str:
    """The first names of a list, and how many more there are: "a, b, c and 72 more"."""
    listed = [clipped(str(name), NAME_LENGTH) for name in names]
    more = len(listed) - most
    return separator.join(listed[:most]) + f" and {more} more" if more > 0 else separator.join(listed)


def shape_text(sizes: Sequence[object]) -> str:
    """A shape, as Python writes it, with ? for None, a size that is not known yet: "(?, 4)"."""
    return str(tuple("?" if size is None else size for size in sizes)).replace("'?'", "?")


def clipped(text: str, length: int) -> str:
    """A text without its middle where it is too long for a message."""
    half = length // 2
    return text if len(text) <= length else f"{text[:half]}...{text[-half:]}"


def readable(reason: str) -> str:
    """A reason for a message: long names, as the path of a file or MLIR's type of a thousand operands, lose their
    middle; what is still too long does too."""
    lines = [_LONG_WORD.sub(lambda word: clipped(word[0], NAME_LENGTH), line) for line in reason.splitlines()]
    more = [f"... and {len(lines) - SHOWN_LINES} more lines"] if len(lines) > SHOWN_LINES else []
    return clipped("\n".join(lines[:SHOWN_LINES] + more), REASON_LENGTH)


def shown(value: object) -> str:
    """A value of the user's for a message: short, and whatever its `__repr__` does."""
    return clipped(_SHOWN.repr(value), NAME_LENGTH)


_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 100


@dataclass(frozen=True)
class Problem:
    """One finding: where in the user's program, what, and what to do about it."""

    reason: str
    location: str | None = None
    op: str | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        head = f"{self.location}: " if self.location else ""
        op = f"'{self.op}': " if self.op else ""
        tail = f"\n  help: {self.remedy}" if self.remedy else ""
        return f"{head}{op}{self.reason}{tail}"

    def shortened(self) -> Problem:
        """The same without what is too long for a message, as the types of an op with a thousand operands."""
        location = self.location and clipped(self.location, LOCATION_LENGTH)
        return replace(self, reason=readable(self.reason), location=location)


class ShloError(Exception):
    """Base of all errors of this package. `problems` holds every finding in full; the message shows the first ones, and
    shortens what is too long to be read."""

    code = "internal"
    exit_status = EXIT_INTERNAL

    def __init__(
        self,
        reason: str,
        *,
        location: str | None = None,
        op: str | None = None,
        remedy: str | None = None,
        problems: Sequence[Problem] = (),
    ) -> None:
        self.reason = reason
        self.problems = tuple(problems) or (Problem(reason, location, op, remedy),)
        self.location = self.problems[0].location
        self.op = self.problems[0].op
        self.remedy = self.problems[0].remedy
        title = f"error[{self.code}]: "
        lines = [title + readable(reason)] if problems else []
        short = [problem.shortened() for problem in self.problems[:SHOWN_PROBLEMS]]
        lines += [("  " if problems else title) + str(problem) for problem in short]
        if len(self.problems) > SHOWN_PROBLEMS:
            lines.append(f"  and {len(self.problems) - SHOWN_PROBLEMS} more: the error's `problems` holds all")
        super().__init__("\n".join(lines))

    def __str__(self) -> str:
        return str(self.args[0])  # not as some built-in classes, which subclasses are too, would print it

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), str(self)), self.__dict__


def _restored(kind: type[ShloError], message: str) -> ShloError:
    """An unpickled error, whose attributes are not set yet."""
    error = kind.__new__(kind)
    error.args = (message,)
    return error


class LoadError(ShloError):
    """The source could not be read as a StableHLO module."""

    code, exit_status = "load", EXIT_BAD_INPUT


class VersionError(LoadError):
    """The artifact was written by a newer StableHLO than this one reads."""

    code = "version"


class UnsupportedError(ShloError):
    """The module is valid, but uses something that this compiler (or this backend) does not implement yet."""

    code, exit_status = "unsupported", EXIT_UNSUPPORTED


class ArgumentError(ShloError, TypeError):
    """Arguments of a call do not fit the executable: number, shape, dtype or byte order."""

    code, exit_status = "argument", EXIT_BAD_INPUT


class OptionError(ShloError, ValueError):
    """An option, a pass name, a pipeline or an entry name is wrong."""

    code, exit_status = "option", EXIT_USAGE


class ResourceError(ShloError, OSError):
    """Memory, a directory or a file is not available."""

    code, exit_status = "resource", EXIT_BAD_INPUT


class CommunicationError(ShloError):
    """Processes of a grid cannot go on: they wait for each other or are at different ops, or the host closed a
    queue."""

    code, exit_status = "communication", EXIT_BAD_INPUT


class CallError(ShloError, RuntimeError):
    """The function behind a custom call failed while a program ran; `__cause__` is what a Python function raised."""

    code, exit_status = "call", EXIT_BAD_INPUT


class InternalError(ShloError):
    """A defect of this compiler. The message says how to reproduce it."""

    code, exit_status = "internal", EXIT_INTERNAL


class AutotuneWarning(UserWarning):
    """A kernel that the autotuner tried is left out: it does not run on the device, or computes something else. The
    message says why; another kernel takes its place."""


class CacheWarning(UserWarning):
    """The cache on disk, or an entry of it, is not used or not written; the message says why. Nothing else fails."""
