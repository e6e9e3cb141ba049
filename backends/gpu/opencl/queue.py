"""What one device is asked for, in order."""

from __future__ import annotations

import array
import ctypes
import threading
from collections.abc import Mapping
from typing import Any

from stablehlo_py.backends.gpu.opencl.library import DEVICE_NOT_AVAILABLE, Library, failure
from stablehlo_py.errors import LoadError

_EXECUTION_STATUS = 0x11D3  # CL_EVENT_COMMAND_EXECUTION_STATUS: CL_COMPLETE is 0, errors are negative


class Queue:
    """The context of one device, and its queue in order: a command begins when the one before has ended. Thread-safe;
    freed with the last object that uses it.

    Attributes:
        device: the device's name, e.g. "opencl:0".
        context, handle: of the context and of the queue, for generated code.
        is_lost: whether the device has said that it is not there any more.
        last: the event of the last command of a program, 0: of none. Commands of programs wait for it, so that what
            comes after one that failed fails, until somebody has been told (`check`). Read and written under `lock`,
            by generated code too.

    Raises:
        ResourceError: the device cannot be had.
    """

    context = handle = 0

    def __init__(self, opencl: Library, device_handle: int, device: str) -> None:
        self.opencl = opencl
        self.device = device
        self.is_lost = False
        self.last = array.array("q", [0])
        self.lock = threading.RLock()  # its holder may find out here that something failed
        self.context = opencl.make("clCreateContext", None, 1, ctypes.byref(ctypes.c_void_p(device_handle)), None, None)
        self.handle = opencl.make("clCreateCommandQueueWithProperties", self.context, device_handle, None)

    def __del__(self) -> None:
        self._forget()
        self.opencl.release("clReleaseCommandQueue", self.handle)
        self.opencl.release("clReleaseContext", self.context)

    def check(self, status: int, what: str) -> None:
        """Raise what a status says, also one that generated code returns.

        Raises:
            ResourceError: the device lacks memory, or is lost.
            InternalError: any other status.
        """
        if status:
            self.is_lost = self.is_lost or status == DEVICE_NOT_AVAILABLE
            with self.lock:
                self._forget()
            raise failure(status, f"{what} on {self.device}")

    def make(self, name: str, *arguments: Any, refusals: Mapping[int, str]) -> int:
        """Call a function that makes something of a program. `refusals` are reasons, by the statuses that refuse it.

        Raises:
            LoadError: the device refuses the program; else as `check`.
        """
        status = ctypes.c_int32()
        handle = self.opencl.status(name, *arguments, ctypes.byref(status))
        if status.value in refusals:
            raise LoadError(refusals[status.value], remedy="compile the model again, for this device")
        self.check(status.value, name)
        return handle

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that takes the queue first. Raises as `check`."""
        self.check(self.opencl.status(name, self.handle, *arguments), name)

    def command(self, name: str, *arguments: Any) -> Event:
        """Ask for something, and say when it is done. Raises as `check`."""
        handle = ctypes.c_void_p()
        self.call(name, *arguments, 0, None, ctypes.byref(handle))
        event = Event(self, handle.value or 0)
        # Else it may never become ready for somebody who only looks. What is wrong now the event will say, too.
        self.opencl.status("clFlush", self.handle)
        return event

    def marker(self) -> Event:
        """An event behind everything that was asked for. Raises as `check`."""
        return self.command("clEnqueueMarkerWithWaitList")

    def last_event(self) -> Event | None:
        """The event of the last command of a program. Raises as `check`."""
        (handle,) = self.last
        if not handle:
            return None
        self.check(self.opencl.status("clRetainEvent", handle), "clRetainEvent")
        event = Event(self, handle)
        self.opencl.status("clFlush", self.handle)  # as in `command`
        return event

    def _forget(self) -> None:
        """What is asked for from now on does not depend on what was asked for before."""
        handle, self.last[0] = self.last[0], 0
        self.opencl.release("clReleaseEvent", handle)

    def finish(self) -> None:
        """Return when everything that was asked for is done. Raises as `check`."""
        self.call("clFinish")


class Event:
    """A command of a queue (`runtime.buffer.Event`). It owns the handle."""

    __slots__ = ("_handle", "_queue")

    def __init__(self, queue: Queue, handle: int) -> None:
        self._queue = queue
        self._handle = handle

    def __del__(self) -> None:
        self._queue.opencl.release("clReleaseEvent", self._handle)

    def is_ready(self) -> bool:
        """Whether it has ended, be it with an error."""
        return self._status() <= 0

    def wait(self) -> None:
        """Return when it has ended. Raises what ended it, as `Queue.check`."""
        status = self._queue.opencl.status("clWaitForEvents", 1, ctypes.byref(ctypes.c_void_p(self._handle)))
        if status:  # of a command that failed it says only that one did
            self._queue.check(min(self._status(), 0) or status, "a command")

    def _status(self) -> int:
        status = ctypes.c_int32()
        self._queue.opencl.call(
            "clGetEventInfo", self._handle, _EXECUTION_STATUS, ctypes.sizeof(status), ctypes.byref(status), None
        )
        return status.value
