"""The queue of a device of OpenCL."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Mapping
from typing import Any

from stablehlo_py.backends.gpu.driver.queue import COMMON, Queue
from stablehlo_py.backends.gpu.opencl.library import OpenClLibrary

EXECUTION_STATUS = 0x11D3  # CL_EVENT_COMMANDEXECUTION_STATUS: CL_COMPLETE is 0, errors are negative


class OpenClQueue(Queue):
    """The context of one device, and its queue in order. Freed with the last object that uses it.

    Attributes:
        context, handle: of the context and of the queue, for generated code.
        last: the event of the last command of a program, 0: of none. Commands of programs wait for it, so that what
            comes after one that failed fails, until somebody has been told (`check`). Read and written under `lock`,
            by generated code too.

    Raises:
        ResourceError: the device cannot be had.
    """

    fields = (*COMMON, "queue", "last", "set_argument", "set_reached", "enqueue", "copy", "release")
    library: OpenClLibrary
    context = handle = 0

    def __init__(self, opencl: OpenClLibrary, device_handle: int, device: str) -> None:
        super().__init__(opencl, device)
        self.last = array.array("q", [0])
        self.context = opencl.make("clCreateContext", None, 1, ctypes.byref(ctypes.c_void_p(device_handle)), None, None)
        self.handle = opencl.make("clCreateCommandQueueWithProperties", self.context, device_handle, None)

    def __del__(self) -> None:
        self._forget()
        self.library.release("clReleaseCommandQueue", self.handle)
        self.library.release("clReleaseContext", self.context)

    def check(self, status: int, what: str) -> None:
        """As `Queue.check`; who is told of a failure may go on."""
        if status:
            with self.lock:
                self._forget()
        super().check(status, what)

    def make(self, name: str, *arguments: Any, refusals: Mapping[int, str]) -> int:
        """Call a function that makes something of a program. `refusals` are reasons, by the statuses that refuse it.

        Raises:
            LoadError: the device refuses the program; else as `check`.
        """
        status = ctypes.c_int32()
        handle = self.library.status(name, *arguments, ctypes.byref(status))
        self.refuse(status.value, refusals)
        self.check(status.value, name)
        return handle

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that takes the queue first. Raises as `check`."""
        self.check(self.library.status(name, self.handle, *arguments), name)

    def command(self, name: str, *arguments: Any) -> OpenClEvent:
        """Ask for something, and say when it is done. Raises as `check`."""
        handle = ctypes.c_void_p()
        self.call(name, *arguments, 0, None, ctypes.byref(handle))
        event = OpenClEvent(self, handle.value or 0)
        # Else it may never become ready for somebody who only looks. What is wrong now the event will say, too.
        self.library.status("clFlush", self.handle)
        return event

    def marker(self) -> OpenClEvent:
        """An event behind everything that was asked for. Raises as `check`."""
        return self.command("clEnqueueMarkerWithWaitList")

    def last_event(self) -> OpenClEvent | None:
        """The event of the last command of a program. Raises as `check`."""
        (handle,) = self.last
        if not handle:
            return None
        self.check(self.library.status("clRetainEvent", handle), "clRetainEvent")
        event = OpenClEvent(self, handle)
        self.library.status("clFlush", self.handle)  # as in `command`
        return event

    def _forget(self) -> None:
        """What is asked for from now on does not depend on what was asked for before."""
        handle, self.last[0] = self.last[0], 0
        self.library.release("clReleaseEvent", handle)

    def abandon(self) -> None:
        """Nothing: contexts of OpenCL know nothing of each other."""

    def native(self) -> dict[str, int]:
        """The queue, the place of the last event, functions."""
        address = self.library.address
        return {
            "queue": self.handle,
            "last": self.last.buffer_info()[0],
            "set_argument": address("clSetKernelArgSVMPointer"),
            "set_reached": address("clSetKernelExecInfo"),
            "enqueue": address("clEnqueueNDRangeKernel"),
            "copy": address("clEnqueueSVMMemcpy"),
            "release": address("clReleaseEvent"),
        }

    def finish(self) -> None:
        """Return when everything that was asked for is done. Raises as `check`."""
        self.call("clFinish")


class OpenClEvent:
    """A command of a queue (`runtime.buffer.Event`). It owns the handle."""

    __slots__ = ("_handle", "_queue")

    def __init__(self, queue: OpenClQueue, handle: int) -> None:
        self._queue = queue
        self._handle = handle

    def __del__(self) -> None:
        self._queue.library.release("clReleaseEvent", self._handle)

    def release(self) -> int:
        """The handle, which the caller owns now."""
        handle, self._handle = self._handle, 0
        return handle

    def is_ready(self) -> bool:
        """Whether it has ended, be it with an error."""
        return self._status() <= 0

    def wait(self) -> None:
        """Return when it has ended. Raises what ended it, as `Queue.check`."""
        status = self._queue.library.status("clWaitForEvents", 1, ctypes.byref(ctypes.c_void_p(self._handle)))
        if status:  # of a command that failed it says only that one did
            self._queue.check(min(self._status(), 0) or status, "a command")

    def _status(self) -> int:
        status = ctypes.c_int32()
        self._queue.library.call(
            "clGetEventInfo", self._handle, EXECUTION_STATUS, ctypes.sizeof(status), ctypes.byref(status), None
        )
        return status.value
