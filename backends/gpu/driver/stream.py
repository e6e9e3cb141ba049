"""The stream of a device: its work in order, for drivers that have streams."""

from __future__ import annotations

import ctypes
import sys
import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from stablehlo_py.backends.gpu.driver.queue import COMMON, Queue
from stablehlo_py.backends.gpu.driver.stream_library import NOT_FOUND, NOT_READY, StreamLibrary

_NON_BLOCKING = 1  # *_STREAM_NON_BLOCKING: not ordered with the default stream
DISABLE_TIMING = 2  # *_EVENT_DISABLE_TIMING
SPARE = tuple(f"spare{number}" for number in range(32))  # events that nobody has, for calls of native code
_SPARE_EVENTS = 64  # that are kept for the next calls


class Stream(Queue):
    """A stream of our own on one device. Freed with the last object that uses it. As a context manager it makes the
    device the thread's, and puts back what was; one thread enters it at a time, as it holds the queue's lock. Functions
    are named as in `SIGNATURES`, or as the driver's own.

    After a fault every call ends with its status, without the driver.

    Attributes:
        handle: of the stream; place: by which copies between devices name its device.

    Raises:
        ResourceError: the device cannot be had.
    """

    fields: ClassVar[tuple[str, ...]] = (
        *COMMON,
        *("stream", "launch", "copy", "synchronize", "change_launch", "change_copy"),
    )
    library: StreamLibrary
    handle = place = 0
    _ended = 0  # the status of the fault
    _thread = _depth = 0  # the one that has entered it, and how often

    def _create(self) -> None:
        self.spare_events: list[int] = []  # handles that no event has
        self.handle = self.made("StreamCreate", _NON_BLOCKING)

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.library.is_inherited or at_exit():
            return
        if self.handle:
            for event in [*self.spare_events, *(self.given[name] for name in SPARE if self.given is not None)]:
                self.release("EventDestroy", event)
        self.release("StreamDestroy", self.handle)
        self.abandon()

    def __enter__(self) -> None:
        self.check(self._ended or self._entered(), "the choice of the device")
        self._thread, self._depth = threading.get_ident(), self._depth + 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._thread = 0
        self._left()

    @abstractmethod
    def _entered(self) -> int:
        """The status of making the device the thread's."""

    @abstractmethod
    def _left(self) -> None:
        """Put back what was before."""

    @property
    def current(self) -> Stream:
        """Itself."""
        return self

    def status(self, name: str, *arguments: Any) -> int:
        """What a function returns that is called on the device."""
        if self._thread == threading.get_ident() and not self._ended:  # it is the thread's already
            return self.library.status(name, *arguments)
        status = self._ended or self._entered()
        if status:
            return status
        try:
            return self.library.status(name, *arguments)
        finally:
            self._left()

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function on the device. Raises as `check`."""
        status = self.status(name, *arguments)
        if status:
            self.check(status, self.library.own(name))

    def made(self, name: str, *arguments: Any, of: Any = ctypes.c_void_p) -> int:
        """What a function stores at its first argument. Raises as `check`."""
        place = of()
        self.call(name, ctypes.byref(place), *arguments)
        return place.value or 0

    def release(self, name: str, *arguments: Any) -> None:
        """Free something, in `__del__`, if it is there; a forked child leaves it to its parent."""
        if arguments[0] and not self.library.is_inherited:
            self.status(name, *arguments)

    def check(self, status: int, what: str) -> None:
        """As `Queue.check`."""
        if status in self.library.lost and not self._ended:
            self._ended = status
        super().check(status, what)

    def finish(self) -> None:
        """Return when everything that was asked for is done. Raises as `check`."""
        self.call("StreamSynchronize", self.handle)

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy between addresses, of the host or of the device. Raises as `check`."""
        self.call("MemcpyAsync", target, source, size, *self.library.copy_kinds, self.handle)

    def last_event(self) -> StreamEvent:
        """An event behind everything that was asked for. Raises as `check`."""
        return self.recorded(StreamEvent(self))

    def recorded(self, event: StreamEvent) -> StreamEvent:
        """The event, behind everything that was asked for. Raises as `check`."""
        status = self.status("EventRecord", event.handle, self.handle)
        if status:  # nobody will know when the commands are done that use what is freed now
            self.status("StreamSynchronize", self.handle)
            self.check(status, self.library.own("EventRecord"))
        return event

    def precede(self, stream: int) -> None:
        """Let what is asked of another stream of the device from now on begin behind what was asked of this one."""
        event = self.last_event()
        self.call("StreamWaitEvent", stream, event.handle, 0)

    def follow(self, stream: int) -> None:
        """Let what is asked of this stream from now on begin behind what was asked of another one of the device."""
        event = StreamEvent(self)
        self.call("EventRecord", event.handle, stream)
        self.call("StreamWaitEvent", self.handle, event.handle, 0)

    def native(self) -> dict[str, int]:
        """The stream, functions."""
        library = self.library
        functions = {
            "launch": "LaunchKernel",
            "copy": "MemcpyAsync",
            "synchronize": "StreamSynchronize",
            "change_launch": "GraphExecKernelNodeSetParams",
            "change_copy": library.change_copy,
        }
        addresses = {field: library.address(name) for field, name in functions.items()}
        return {"stream": self.handle, **addresses}


class StreamEvent:
    """A place in the order of a stream (`runtime.buffer.Event`). It owns the handle, which the next event may have."""

    __slots__ = ("_stream", "handle")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.handle = 0
        try:
            self.handle = stream.spare_events.pop()
        except IndexError:
            self.handle = stream.made("EventCreate", DISABLE_TIMING)

    def __del__(self) -> None:
        if self.handle and len(self._stream.spare_events) < _SPARE_EVENTS:
            self._stream.spare_events.append(self.handle)
        else:
            self._stream.release("EventDestroy", self.handle)

    def release(self) -> int:
        """The handle, which the caller owns now."""
        handle, self.handle = self.handle, 0
        return handle

    def is_ready(self) -> bool:
        """Whether what was before it has ended, be it with an error."""
        return self._stream.status("EventQuery", self.handle) != NOT_READY

    def wait(self) -> None:
        """Return when what was before it has ended. Raises what ended it, as `Queue.check`."""
        self._stream.check(self._stream.status("EventSynchronize", self.handle), "a command")


class Module:
    """Code that a device has loaded. It owns its handle, and what the driver still reads of the `image`."""

    def __init__(self, stream: Stream, module: int, image: object = None) -> None:
        self._stream = stream
        self._module = module
        self._image = image

    def __del__(self) -> None:
        self._stream.release("ModuleUnload", self._module)

    def kernel(self, name: str) -> int:
        """The handle of a kernel.

        Raises:
            LoadError: the module has no such kernel.
            ResourceError: the device is lost.
        """
        stream, place = self._stream, ctypes.c_void_p()
        status = stream.status("ModuleGetFunction", ctypes.byref(place), self._module, name.encode())
        stream.refuse(status, {NOT_FOUND: f"the program has no kernel '{name}'"})
        stream.check(status, stream.library.own("ModuleGetFunction"))
        return place.value or 0
