"""A library of the machine's vendor: where it is found, and what is made with it on one device."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from stablehlo_py.backends.gpu.driver.library import Library
from stablehlo_py.backends.gpu.driver.queue import Queue
from stablehlo_py.errors import ResourceError, ShloError
from stablehlo_py.runtime.library_calls import LibraryCall


class VendorLibrary(Library):
    """The functions of one.

    Attributes:
        variable: of the environment, which names another library.
        package: of PyPI that brings it; elsewhere: where else it comes from.
        file: its name; releases: what comes behind that, by CUDA's releases, the newest first.
        least: the first version that will do.
    """

    variable: ClassVar[str]
    package: ClassVar[str]
    elsewhere: ClassVar[str] = "install the CUDA toolkit"
    file: ClassVar[str]
    releases: ClassVar[Mapping[int, int]]
    least: ClassVar[tuple[int, ...]]
    lost = frozenset[int]()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "package"):
            cls.install = f"pip install {cls.package}, or {cls.elsewhere}; {cls.variable} names another library"
            cls.oldest = ".".join(map(str, cls.least))

    def begin(self) -> None:
        """Raises ResourceError: it is too old."""
        if self.version < self.least:
            raise ResourceError(f"{self.path} is {self.name}, and {self.oldest} is needed", remedy=self.install)

    @property
    @abstractmethod
    def version(self) -> tuple[int, ...]:
        """E.g. (12, 9, 1)."""

    @property
    def name(self) -> str:
        """With its version."""
        return f"{self.driver} {'.'.join(map(str, self.version))}"

    @classmethod
    def candidates(cls, driver_version: int) -> Iterator[str]:
        """Libraries to try with a driver for this version of CUDA (e.g. 12040): the one that the environment names;
        else the system's, then those of NVIDIA's packages for this Python. A library of a later release needs a later
        driver."""
        if named := os.environ.get(cls.variable):
            yield named
            return
        packages = find_spec("nvidia")
        folders = [Path(place) for place in (packages.submodule_search_locations or ())] if packages else []
        for release, suffix in cls.releases.items():
            if release <= driver_version // 1000:
                name = f"{cls.file}.{suffix}"
                yield name
                yield from sorted(str(path) for folder in folders for path in folder.glob(f"*/lib/{name}"))


L = TypeVar("L", bound=VendorLibrary)
C = TypeVar("C", bound=LibraryCall)


@cache
def found(kind: type[L], driver_version: int) -> L:
    """The library of this process. Raises ResourceError: there is none."""
    return kind.first(kind.candidates(driver_version))


class Handle(ABC, Generic[L, C]):
    """A library in the context of a queue, and the plans that were made with it. It owns all of them.

    Attributes:
        kind: its functions. plans_in_context: whether what plans are made of is gone with the context.
        refusal: why the library does not work with this driver or device; empty: it does.

    Raises:
        ResourceError: there is no memory.
        InternalError: the library has failed.
    """

    kind: ClassVar[type[VendorLibrary]]
    plans_in_context = True
    refusal = ""

    def __init__(self, library: L, queue: Queue) -> None:
        self.library = library
        self.queue = queue
        self.kept: list[np.ndarray] = []  # what plans point to
        self._made: list[tuple[str, int]] = []  # what frees it, and the handle
        with queue.current:
            self.begin()

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.library.is_inherited or at_exit():
            return
        lost = self.queue.is_lost  # what was made in the context is gone with it
        with suppress(ShloError), self.queue.current if self.plans_in_context and not lost else nullcontext():
            while self._made and not (lost and self.plans_in_context):
                self._free(*self._made.pop())
        if not lost:
            with suppress(ShloError), self.queue.current:  # which may be lost by now
                self.end()

    def begin(self) -> None:
        """Make what all plans need."""

    def end(self) -> None:
        """Free it."""

    def _free(self, function: str, handle: int) -> None:
        self.library.status(function, handle)  # which may be 0

    def own(self, free: str, handle: int) -> int:
        """A handle that `free` frees."""
        self._made.append((free, handle))
        return handle

    def plan(self, call: C) -> np.ndarray | None:
        """The plan of a call, which lives as long as this object; None: the library refuses it. Raises ResourceError,
        InternalError."""
        with self.queue.current:
            made = len(self._made)
            plan = self.make(call)
            if plan is None:
                while len(self._made) > made:
                    self._free(*self._made.pop())
            else:
                self.kept.append(plan)
            return plan

    @abstractmethod
    def make(self, call: C) -> np.ndarray | None:
        """As `plan`."""

    def address(self, name: str) -> int:
        """Where a function of the library is."""
        return self.library.address(name)

    def refuse(self, status: Any) -> None:
        """The library does not work here, by what it says."""
        library = self.library
        self.refusal = f"{library.name} ({library.path}) refuses {self.queue.device}: {library.status_text(status)}"
