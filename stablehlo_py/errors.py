"""The error tree. An error says what failed, the op, the user's own file and line, why, and what to do.

Every class has a stable `code` (also in docs/errors.md) and the exit status that the command-line tools end with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

EXIT_OK, EXIT_MISMATCH, EXIT_USAGE, EXIT_BAD_INPUT, EXIT_UNSUPPORTED, EXIT_INTERNAL = range(6)


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


class ShloError(Exception):
    """Base of all errors of this package. `problems` holds every finding; the message lists them all."""

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
        lines = [f"error[{self.code}]: {reason}"] if problems else []
        lines += [("  " if problems else f"error[{self.code}]: ") + str(problem) for problem in self.problems]
        super().__init__("\n".join(lines))


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


class CacheWarning(UserWarning):
    """The cache on disk, or an entry of it, is not used or not written; the message says why. Nothing else fails."""
