"""The edge of the package: what leaves a public function is a ShloError.

Code inside raises what is right, and nothing here is needed for that. What comes out otherwise is a defect: the caller
learns so, with how to report it, and tests that see an InternalError fail.
"""

from __future__ import annotations

import functools
import numbers
import operator
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from stablehlo_py.errors import (
    ArgumentError,
    InternalError,
    LoadError,
    ResourceError,
    ShloError,
    UnsupportedError,
    shown,
)
from stablehlo_py.interrupts import from_handler

P = ParamSpec("P")
R = TypeVar("R")

GUARDED = "__shlo_guarded__"  # the mark of a public function, which functools.wraps carries on


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A public function or method, out of which no exception comes that is not a ShloError. Python's own TypeError for
    a wrong number or name of arguments stays, and so do Ctrl-C, what the user's handlers of signals raise, and warnings
    that are made errors."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if is_expected(error):
                raise
            called = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            if isinstance(error, TypeError) and not called:
                raise
            raise as_shlo_error(error, f"{function.__qualname__} failed") from error

    return guards_itself(guarded)


def guards_itself(function: Callable[P, R]) -> Callable[P, R]:
    """A public function whose body does what `public` does: for calls of a few microseconds, which a wrapper slows."""
    setattr(function, GUARDED, True)
    return function


def is_expected(error: Exception) -> bool:
    """Whether an exception may leave a public function as it is."""
    return isinstance(error, (ShloError, Warning)) or from_handler(error)


def as_shlo_error(error: Exception, what: str) -> ShloError:
    """The error for an exception that no code of ours expected; chain it to that one."""
    if isinstance(error, MemoryError):
        return ResourceError(
            f"{what}: memory ran out", remedy="close what else is running, or use a smaller model or batch"
        )
    if isinstance(error, RecursionError):
        return UnsupportedError(
            f"{what}: the program is nested too deeply for Python's stack",
            remedy="nest regions, types and calls less deeply, or raise sys.setrecursionlimit",
        )
    if is_unreadable(error):
        return LoadError(f"{what}: {UNREADABLE}", remedy="was the file damaged, or written by a faulty tool?")
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        package = error.name.partition(".")[0]
        if package != "stablehlo_py":  # the absence of a module of ours is a defect
            return ResourceError(f"{what}: the Python package '{package}' is missing", remedy=f"pip install {package}")
    return InternalError(
        f"{what}: {type(error).__name__}: {error}",
        remedy="this is a defect of stablehlo-py: report it with the traceback and, if you can, the module",
    )


UNREADABLE = "a name or an attribute is not valid UTF-8"


def is_unreadable(error: Exception) -> bool:
    """Whether Python could not read a name of a module. MLIR takes any bytes, its bindings raise when Python reads
    them; nanobind has no class of its own for that."""
    return isinstance(error, UnicodeError) or (isinstance(error, RuntimeError) and "conversion error" in str(error))


def expect(value: object, kinds: type | tuple[type, ...], what: str, wanted: str) -> None:
    """Check the type of an argument that is not an array.

    Raises:
        ArgumentError: `what` ("position") is not `wanted` ("a number").
    """
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is int):
        raise ArgumentError(f"{what} is {shown(value)}, a {type(value).__name__}", remedy=f"pass {wanted}")


def number(value: object, what: str, wanted: str = "a number") -> int:
    """An argument that is a whole number, NumPy's too.

    Raises:
        ArgumentError: it is none.
    """
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except Exception as error:  # of an object's own __index__ too
        if is_expected(error):
            raise
        raise ArgumentError(f"{what} is {shown(value)}", remedy=f"pass {wanted}") from error


def seconds(value: object, what: str) -> float | None:
    """An argument that is a time limit, or None.

    Raises:
        ArgumentError: it is neither.
    """
    if value is None:
        return None
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and float(value) >= 0:
        return min(float(value), threading.TIMEOUT_MAX)
    raise ArgumentError(f"{what} is {shown(value)}", remedy="pass seconds, or None to wait for ever")
