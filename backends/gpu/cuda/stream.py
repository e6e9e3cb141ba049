"""The stream of a device of CUDA."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from stablehlo_py.backends.gpu.cuda.library import NOT_READY, CudaLibrary
from stablehlo_py.backends.gpu.driver.queue import COMMON, Queue

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: not ordered with the default stream
_DISABLE_TIMING = 2  # CU_EVENT_DISABLE_TIMING


class CudaStream(Queue):
    """The primary context of one device, which all libraries of a process share, and a stream of our own in it. Freed
    with the last object that uses it. As a context manager it makes that context the thread's, and puts back what was.

    A fault takes the context with it, and all that was made in it. From then on every call ends with the status of that
    fault, without the driver. The context is made anew once all libraries have given it back.

    Attributes:
        context, handle: of the context and of the stream.

    Raises:
        ResourceError: the device cannot be had.
    """

    fields = (*COMMON, "stream", "context", "launch", "copy", "synchronize", "change_launch", "change_copy")
    library: CudaLibrary
    context = handle = 0
    _ended = 0  # the status of the fault

    def __init__(self, cuda: CudaLibrary, device_handle: int, device: str) -> None:
        super().__init__(cuda, device)
        self._device_handle = device_handle
        self.context = cuda.number("cuDevicePrimaryCtxRetain", device_handle, of=ctypes.c_void_p)
        self.handle = self.made("cuStreamCreate", _NON_BLOCKING)

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.library.is_inherited or at_exit():
            return
        self.release("cuStreamDestroy_v2", self.handle)
        self.abandon()

    def __enter__(self) -> None:
        self.check(self._pushed(), "cuCtxPushCurrent")

    def __exit__(self, *_: object) -> None:
        self.library.status("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def _pushed(self) -> int:
        """The status of making the context the thread's."""
        return self._ended or self.library.status("cuCtxPushCurrent_v2", self.context)

    @property
    def current(self) -> CudaStream:
        """Itself."""
        return self

    def status(self, name: str, *arguments: Any) -> int:
        """What a function returns that is called in the context."""
        status = self._pushed()
        if status:
            return status
        try:
            return self.library.status(name, *arguments)
        finally:
            self.__exit__()

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function in the context. Raises as `check`."""
        self.check(self.status(name, *arguments), name)

    def made(self, name: str, *arguments: Any, of: Any = ctypes.c_void_p) -> int:
        """What a function stores at its first argument. Raises as `check`."""
        place = of()
        self.call(name, ctypes.byref(place), *arguments)
        return place.value or 0

    def release(self, name: str, *arguments: Any) -> None:
        """Free something, in `__del__`, if it is there; a forked child leaves it to its parent."""
        if arguments[0] and not (self._ended or self.library.is_inherited):
            self.status(name, *arguments)

    def check(self, status: int, what: str) -> None:
        """As `Queue.check`."""
        if status in self.library.lost and not self._ended:
            self._ended = status
        super().check(status, what)

    def abandon(self) -> None:
        """Give the context back."""
        if self.context:
            self.context = 0
            self.library.status("cuDevicePrimaryCtxRelease_v2", self._device_handle)

    def finish(self) -> None:
        """Return when everything that was asked for is done. Raises as `check`."""
        self.call("cuStreamSynchronize", self.handle)

    def last_event(self) -> CudaEvent:
        """An event behind everything that was asked for. Raises as `check`."""
        return self.recorded(CudaEvent(self))

    def recorded(self, event: CudaEvent) -> CudaEvent:
        """The event, behind everything that was asked for. Raises as `check`."""
        status = self.status("cuEventRecord", event.handle, self.handle)
        if status:  # nobody will know when the commands are done that use what is freed now
            self.status("cuStreamSynchronize", self.handle)
        self.check(status, "cuEventRecord")
        return event

    def precede(self, stream: int) -> None:
        """Let what is asked of another stream of the context from now on begin behind what was asked of this one."""
        event = self.last_event()
        self.call("cuStreamWaitEvent", stream, event.handle, 0)

    def follow(self, stream: int) -> None:
        """Let what is asked of this stream from now on begin behind what was asked of another one of the context."""
        event = CudaEvent(self)
        self.call("cuEventRecord", event.handle, stream)
        self.call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def native(self) -> dict[str, int]:
        """The stream, functions."""
        address = self.library.address
        return {
            "stream": self.handle,
            "context": self.context,
            "launch": address("cuLaunchKernel"),
            "copy": address("cuMemcpyAsync"),
            "synchronize": address("cuStreamSynchronize"),
            "change_launch": address("cuGraphExecKernelNodeSetParams_v2"),
            "change_copy": address("cuGraphExecMemcpyNodeSetParams"),
        }


class CudaEvent:
    """A place in the order of a stream (`runtime.buffer.Event`). It owns the handle."""

    __slots__ = ("_stream", "handle")

    def __init__(self, stream: CudaStream) -> None:
        self._stream = stream
        self.handle = 0
        self.handle = stream.made("cuEventCreate", _DISABLE_TIMING)

    def __del__(self) -> None:
        self._stream.release("cuEventDestroy_v2", self.handle)

    def is_ready(self) -> bool:
        """Whether what was before it has ended, be it with an error."""
        return self._stream.status("cuEventQuery", self.handle) != NOT_READY

    def wait(self) -> None:
        """Return when what was before it has ended. Raises what ended it, as `Queue.check`."""
        self._stream.check(self._stream.status("cuEventSynchronize", self.handle), "a command")
