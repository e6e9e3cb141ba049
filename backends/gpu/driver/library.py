"""A driver's library: how it is loaded, its functions, and what becomes of it in a forked child."""

from __future__ import annotations

import ctypes
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from stablehlo_py.errors import InternalError, ResourceError, ShloError

SMALLER = "free memory, or run a smaller batch"
L = TypeVar("L", bound="Library")


def _about(path: str, error: Exception) -> str:
    """What the linker says, which does not always name the library: another one may be missing."""
    return str(error) if path in str(error) else f"{path}: {error}"


class Library(ABC):
    """The functions of one library.

    Attributes:
        driver: what it is of, e.g. "OpenCL"; oldest: the first version that has all functions; install: how to get one.
        functions: what each one returns, and its parameters; optional: those that newer versions have.
        lacking: statuses that say what the machine lacks, with what the user may do about it. Any other one says that a
            function was called wrongly.
        lost: statuses after which nothing can be done with what was made on the device.
        is_inherited: whether this process is a child that was forked off: the driver's threads are not there.

    Raises:
        ResourceError: the file is no library of this driver, or it is too old.
    """

    driver: ClassVar[str]
    oldest: ClassVar[str]
    install: ClassVar[str]
    functions: ClassVar[Mapping[str, tuple[Any, ...]]]
    optional: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    lacking: ClassVar[Mapping[int, str]]
    lost: ClassVar[frozenset[int]]

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_inherited = False
        try:
            library = ctypes.CDLL(path)
            self._functions = {name: getattr(library, name) for name in self.functions}
        except OSError as error:
            raise ResourceError(_about(path, error), remedy=self.install) from error
        except AttributeError as error:
            what = f"{_about(path, error)}: no library of {self.driver} {self.oldest} or newer"
            raise ResourceError(what, remedy=self.install) from error
        self._functions |= {name: getattr(library, name) for name in self.optional if hasattr(library, name)}
        for name, (result, *parameters) in {**self.functions, **self.optional}.items():
            if name in self._functions:
                self._functions[name].restype, self._functions[name].argtypes = result, parameters
        os.register_at_fork(after_in_child=self._inherit)

    @classmethod
    def first(cls: type[L], paths: Iterable[str]) -> L:
        """The first of these libraries that can be used. Raises ResourceError: there is none."""
        reasons = []
        for path in paths:
            try:
                found = cls(path)
                found.begin()
                return found
            except ShloError as error:
                reasons.append(error.reason)
        raise ResourceError(f"there is no {cls.driver} here: {'; '.join(reasons)}", remedy=cls.install)

    @abstractmethod
    def begin(self) -> None:
        """Make it ready. Raises ResourceError: it has nothing to work with."""

    @abstractmethod
    def status_text(self, status: int) -> str:
        """What the driver calls a status."""

    def _inherit(self) -> None:
        self.is_inherited = True

    def require(self) -> None:
        """Raises ResourceError: this process has inherited the library."""
        if self.is_inherited:
            raise ResourceError(
                f"this process was forked from one that uses {self.driver}, and drivers do not survive that",
                remedy=f"start processes by 'spawn' or 'forkserver', or before the first use of {self.driver}",
            )

    def has(self, name: str) -> bool:
        """Whether it has an optional function."""
        return name in self._functions

    def address(self, name: str) -> int:
        """Where a function is, for generated code."""
        return ctypes.cast(self._functions[name], ctypes.c_void_p).value or 0

    def status(self, name: str, *arguments: Any) -> Any:
        """What a function returns, a status as a rule. Raises ResourceError as `require`."""
        self.require()
        return self._functions[name](*arguments)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns a status. Raises as `failure`."""
        status = self.status(name, *arguments)
        if status:
            raise self.failure(status, name)

    def release(self, name: str, handle: int) -> None:
        """Free something, in `__del__`; a forked child leaves it to its parent."""
        if handle and not self.is_inherited:
            self._functions[name](handle)

    def failure(self, status: int, what: str) -> ShloError:
        """The error of a status other than 0. `what` says what ended with it."""
        reason = f"{what} ended with {self.status_text(status)}"
        if status in self.lacking:
            return ResourceError(reason, remedy=self.lacking[status])
        return InternalError(reason, remedy="report it, with the model and the name of the driver")
