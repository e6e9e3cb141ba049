"""The stream of a device of HIP."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from stablehlo_py.backends.gpu.driver.stream import Stream
from stablehlo_py.backends.gpu.hip.library import HipLibrary


class _Before(threading.local):
    """The devices that a thread had, the last one at the end."""

    def __init__(self) -> None:
        self.devices: list[int] = []


class HipStream(Stream):
    """A stream on one device. A fault leaves what was made on the device, but nothing more can be done with it."""

    library: HipLibrary

    def __init__(self, hip: HipLibrary, device_handle: int, device: str) -> None:
        super().__init__(hip, device)
        self.place = device_handle
        self._before = _Before()
        self._create()

    def _entered(self) -> int:
        before, library = ctypes.c_int32(), self.library
        status = library.status("hipGetDevice", ctypes.byref(before))
        if not status and before.value != self.place:
            status = library.status("hipSetDevice", self.place)
        if not status:
            self._before.devices.append(before.value)
        return status

    def _left(self) -> None:
        before = self._before.devices.pop()
        if before != self.place:
            self.library.status("hipSetDevice", before)

    def release(self, name: str, *arguments: Any) -> None:
        """As `Stream.release`, also after a fault."""
        if arguments[0] and not self.library.is_inherited and not self._entered():
            try:
                self.library.status(name, *arguments)
            finally:
                self._left()

    def abandon(self) -> None:
        """Nothing: a device is opened as often as one likes."""
