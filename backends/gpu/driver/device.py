"""Devices of this process, by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from stablehlo_py import forks
from stablehlo_py.backends.gpu.driver.library import Library
from stablehlo_py.backends.gpu.driver.memory import GpuMemory
from stablehlo_py.backends.gpu.driver.queue import Queue
from stablehlo_py.errors import ResourceError, elided


class Built(Protocol):
    """Kernels, as a device runs them."""

    def kernel(self, name: str) -> int:
        """The handle of a kernel. Raises LoadError: there is none of this name."""


class Device(Protocol):
    """A device, ready for work."""

    @property
    def queue(self) -> Queue:
        """What it is asked for."""

    @property
    def memory(self) -> GpuMemory:
        """Where arrays are."""

    def require(self, features: Sequence[str]) -> list[str]:
        """Those of a program's features that are not this device's, but the processor's. Raises LoadError: the device
        lacks one of its own."""

    def build(self, binary: bytes) -> Built:
        """The kernels of a program. Raises LoadError: the device does not take it; ResourceError."""


D = TypeVar("D", bound=Device)


class Opened(Generic[D]):
    """The devices that this process uses."""

    def __init__(self) -> None:
        self._devices: dict[int, D] = {}
        self._lock = forks.Lock()

    def get(self, number: int, open_: Callable[[], D]) -> D:
        """The device of a number: the same for all, a new one after it was lost."""
        with self._lock:
            made = self._devices.get(number)
            if made is None or made.queue.is_lost:
                if made is not None:
                    made.queue.abandon()
                made = self._devices[number] = open_()
            return made

    def clear(self) -> None:
        """Forget them all."""
        self._devices.clear()


def no_device(number: int, kind: str, names: Sequence[str], library: Library) -> ResourceError:
    """The error of a number that no device has; `names` are those of the devices that there are."""
    listed = [f"{kind}:{place} {name}" for place, name in enumerate(names)]
    return ResourceError(
        f"there is no device {kind}:{number}: {library.path} finds {elided(listed) or 'none'}",
        remedy="choose one of them" if listed else "install the driver of a device",
    )
