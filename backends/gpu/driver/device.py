"""Devices of this process, by number.

A driver is: its library with the names of its statuses (a `Library`), what native code calls (`Calls`), a queue
(`Queue`), a memory (`GpuMemory`), what a device is like (a `Description`), and a `Device` that has all of these.
"""

from __future__ import annotations

import array
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from stablehlo_py import forks
from stablehlo_py.backends.gpu.driver.library import Library
from stablehlo_py.backends.gpu.driver.memory import GpuMemory
from stablehlo_py.backends.gpu.driver.queue import Queue
from stablehlo_py.backends.gpu.driver.recording import Graph
from stablehlo_py.backends.gpu.driver.structure import Block
from stablehlo_py.errors import ArgumentError, ResourceError, ShloError, UnsupportedError, elided

if TYPE_CHECKING:
    from stablehlo_py.backends.gpu.driver.asking import Asking


class Built(Protocol):
    """Kernels, as a device runs them."""

    def kernel(self, name: str) -> int:
        """The handle of a kernel. Raises LoadError: there is none of this name."""


class Description(Protocol):
    """What a device is like, as its driver says."""

    @property
    def name(self) -> str:
        """As the driver calls it."""

    def require(self) -> None:
        """Refuse a device on which programs cannot run. Raises UnsupportedError: it names all that the device lacks."""


L = TypeVar("L", bound=Library)
T = TypeVar("T", bound=Description)


class Device(ABC, Generic[L, T]):
    """A device of a library (None: of this process), ready for work. What was made of it may outlive it.

    Attributes:
        kind: what its names begin with, e.g. "cuda"; name: e.g. "cuda:0".
        description: what it is like.
        queue: what it is asked for; memory: where arrays are.

    Raises:
        ArgumentError: there is no device of this number.
        ResourceError: there is none at all, or it cannot be had.
        UnsupportedError: programs cannot run on it.
    """

    kind: ClassVar[str]
    queue: Queue
    memory: GpuMemory

    def __init__(self, number: int = 0, library: L | None = None) -> None:
        library = library or self.library()
        self.name = f"{self.kind}:{number}"
        self.description = self.describe(number, library)
        self.description.require()
        self._open(library)

    @classmethod
    def describe(cls, number: int, library: L) -> T:
        """What the device of a number is like. Raises as the class."""
        found: Sequence[T] = cls.descriptions(library)
        if 0 <= number < len(found):
            return found[number]
        listed = [f"{cls.kind}:{place} {each.name}" for place, each in enumerate(found)]
        reason = f"there is no device {cls.kind}:{number}: {library.path} finds {elided(listed) or 'none'}"
        if not listed:
            raise cls.absent(library)
        raise ArgumentError(reason, remedy="choose one of them by its number")

    @classmethod
    def absent(cls, library: L) -> ResourceError:
        """The error of a library without devices."""
        reason = f"there is no device {cls.kind}:0: {library.path} finds none"
        return ResourceError(reason, remedy="install the driver of a device")

    @staticmethod
    @abstractmethod
    def library() -> Any:
        """That of this process, an `L`. Raises ResourceError: there is none."""

    @staticmethod
    @abstractmethod
    def descriptions(library: Any) -> Sequence[Any]:
        """All devices of a library, as a `T` each: their places are their numbers. Raises ResourceError."""

    @abstractmethod
    def _open(self, library: L) -> None:
        """Make `queue` and `memory`, by the name and the description."""

    @abstractmethod
    def asking(self) -> Asking:
        """How native code that is no program's asks for work."""

    @abstractmethod
    def require(self, features: Sequence[str]) -> list[str]:
        """Those of a program's features that are not this device's, but the processor's. Raises LoadError: the device
        lacks one of its own."""

    @abstractmethod
    def build(self, binary: bytes) -> Built:
        """The kernels of a program. Raises LoadError: the device does not take it; ResourceError."""

    def graph(self, steps: array.array[int], kernels: Sequence[int], block: Block) -> Graph | None:
        """The steps of a program (recording.py), whose kernels have these handles, as a graph: they are those of
        `block`. None: the driver has none. Raises as `Queue.check`, and LoadError: it does not take a part of it."""
        return None


D = TypeVar("D", bound=Device[Any, Any])


class Opened(Generic[D]):
    """The devices of one kind that this process uses: one for all who ask for a number."""

    def __init__(self, device: type[D]) -> None:
        self._device = device
        self._devices: dict[int, D] = {}
        self._lock = forks.Lock()

    def get(self, number: int = 0) -> D:
        """The device of a number, a new one after it was lost.

        Raises:
            ResourceError: this process was forked from one that uses the driver; else as `Device`.
        """
        library = self._device.library()
        library.require()
        with self._lock:
            made = self._devices.get(number)
            if made is None or made.queue.is_lost:
                if made is not None:
                    made.queue.abandon()
                made = self._devices[number] = self._device(number, library)
            return made

    def usable(self) -> list[int]:
        """The numbers of the devices that programs run on.

        Raises:
            ResourceError: there is no device at all.
            UnsupportedError: programs run on none; it is what the first device says.
        """
        library = self._device.library()
        library.require()
        numbers, refused = [], list[ShloError]()
        for number, description in enumerate(self._device.descriptions(library)):
            try:
                description.require()
                numbers.append(number)
            except UnsupportedError as error:
                refused.append(error)
        if not numbers:
            raise refused[0] if refused else self._device.absent(library)
        return numbers

    def description(self, number: int) -> Any:
        """What the device of a number is like. Raises as `Device`."""
        return self._device.describe(number, self._device.library())

    def clear(self) -> None:
        """Forget them all."""
        self._devices.clear()
