"""What one device is asked for, in order."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from stablehlo_py.backends.gpu.driver.library import Library
from stablehlo_py.backends.gpu.driver.lock import NativeLock, zeroed
from stablehlo_py.errors import LoadError
from stablehlo_py.runtime.buffer import Event

#: What every driver's structure for native code begins with: the first error, 0 as long as there is none; the number of
#: the last kernel that was started, or could not be, plus 1; the handles of the kernels; the plans of products that a
#: library computes (libraries/plan.py), which count as kernels behind those; where the next step is written down
#: (recording.py), 0: it is asked for, and where there is no more room; the graph that the steps are, 0: none yet; the
#: host's memory for calls that run there (kernels/host_call.py), 0: one of them is running.
COMMON = ("status", "started", "kernels", "plans", "next", "end", "graph", "host")
STATUS, STARTED, KERNELS, PLANS, NEXT, END, GRAPH, HOST = COMMON


LOST = "lost"  # the first field of what native code is given that is no program's


class Given:
    """A structure for native code that is no program's (asking.py), of fields of 64 bits. It stays: a thread may read
    it when the interpreter ends.

    Args:
        values: of some fields; the others are 0.

    Attributes:
        address: where it is.
    """

    def __init__(self, fields: Sequence[str], values: Mapping[str, int]) -> None:
        self._fields = fields
        self.address = zeroed(8 * len(fields))
        for field, value in values.items():
            self[field] = value

    def __getitem__(self, field: str) -> int:
        return self._cell(field).value

    def __setitem__(self, field: str, value: int) -> None:
        self._cell(field).value = value

    def _cell(self, field: str) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self.address + 8 * self._fields.index(field))


class QueueEvent(Event, Protocol):
    """A place in the order of a queue."""

    def release(self) -> int:
        """The driver's handle, which is the caller's now."""


@dataclass(frozen=True)
class Asked:
    """What native code asks for a call of a program: its entry, and what that finds in `shlo_call`; `replay` is where
    the REPLAY of its graph is, 0: it has none (recording.py)."""

    entry: int
    constants: int
    workspace: int
    stream: int
    replay: int = 0


class Queue(ABC):
    """A device's work in order: what is asked for begins when what was asked for before has ended. Thread-safe.

    Attributes:
        fields: of the structure by which native code asks for work (`shlo_call.stream`), 64 bits each: `COMMON`, then
            what `native` gives.
        library: of the driver. device: the device's name, e.g. "opencl:0".
        is_lost: whether the device has said that it is not there any more, or what was made on it is not.
        lock: held while a program asks for its work, by native code, too.
        given: by which other native code asks for work; None: none does.
    """

    fields: ClassVar[tuple[str, ...]]
    given: Given | None = None

    def __init__(self, library: Library, device: str) -> None:
        self.library = library
        self.device = device
        self.is_lost = False
        self.lock = NativeLock()  # its holder may find out here that something failed

    @property
    def current(self) -> AbstractContextManager[Any]:
        """Entered around native code that calls the driver."""
        return nullcontext()

    def check(self, status: int, what: str) -> None:
        """Raise what a status says, also one that generated code returns.

        Raises:
            ResourceError: the device lacks memory, or is lost.
            InternalError: any other status.
        """
        if status:
            self.is_lost = self.is_lost or status in self.library.lost
            if self.is_lost and self.given is not None:
                self.given[LOST] = status
            raise self.library.failure(status, f"{what} on {self.device}")

    def refuse(self, status: int, refusals: Mapping[int, str]) -> None:
        """Raises LoadError: the status is one of those that refuse a program; `refusals` are reasons, by status."""
        if status in refusals:
            raise LoadError(refusals[status], remedy="compile the model again, for this device")

    @abstractmethod
    def finish(self) -> None:
        """Return when everything that was asked for is done. Raises as `check`."""

    @abstractmethod
    def abandon(self) -> None:
        """Of a lost device: give back what nobody can open it again without."""

    @abstractmethod
    def last_event(self) -> Event | None:
        """An event behind all that programs have asked for. Raises as `check`."""

    @abstractmethod
    def native(self) -> Mapping[str, int]:
        """Addresses and handles for native code, by the names of its fields."""
