"""Memory of a device with streams: of a pool of our own in the order of the stream, where the driver has pools."""

from __future__ import annotations

import ctypes

from stablehlo_py.backends.gpu.driver.memory import KEPT_SHARE, GpuMemory
from stablehlo_py.backends.gpu.driver.stream import Stream, StreamEvent
from stablehlo_py.backends.gpu.driver.stream_library import OUT_OF_MEMORY
from stablehlo_py.dialect.alignment import ACCESS_ALIGNMENT
from stablehlo_py.runtime.buffer import Allocation, MemorySpace, SharedSpace

# Of CUDA, and the same of HIP: CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE,
# CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD.
_PINNED, _ON_DEVICE, _DEVICE_ORDINAL, _RELEASE_THRESHOLD = 1, 1, 9, 4


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps of cuda.h, hipMemPoolProps of HIP."""

    _fields_ = (
        ("allocation_type", ctypes.c_int32),
        ("handle_types", ctypes.c_int32),
        ("location_type", ctypes.c_int32),
        ("location", ctypes.c_int32),
        ("security_attributes", ctypes.c_void_p),
        ("largest", ctypes.c_size_t),
        ("reserved", ctypes.c_uint8 * 56),
    )


class StreamMemory(GpuMemory, SharedSpace):
    """The memory of a device. Thread-safe.

    Args:
        number: of the device. size: its bytes. has_pools: whether memory may be allocated in the order of a stream.
    """

    alignment = ACCESS_ALIGNMENT  # of what drivers allocate, 256 bytes are sure
    _queue: Stream
    _pool = 0

    def __init__(self, stream: Stream, number: int, size: int, has_pools: bool) -> None:
        kept = size // KEPT_SHARE
        super().__init__(stream, size, kept)
        library = stream.library
        self.dlpack_device = (library.dlpack_type, number)
        self.default_stream, self.refused_streams = library.default_stream, library.refused_streams
        self.stream = stream.handle
        self._number = number
        if has_pools:
            properties = PoolProperties(_PINNED, 0, _ON_DEVICE, number)
            self._pool = stream.made("MemPoolCreate", ctypes.byref(properties))
            threshold = ctypes.byref(ctypes.c_uint64(kept))
            stream.call("MemPoolSetAttribute", self._pool, _RELEASE_THRESHOLD, threshold)

    def trim(self) -> None:
        """Free what is kept for the next arrays, now. Raises ResourceError."""
        super().trim()
        if self._pool:
            self._queue.call("MemPoolTrimTo", self._pool, 0)

    def precede(self, stream: int) -> None:
        """Let what is asked of a stream from now on begin behind all that was asked for here. Raises ResourceError."""
        self._queue.precede(stream)

    def follow(self, stream: int | None) -> None:
        """The reverse; None: behind all that was asked of any stream, for which it waits. Raises ResourceError."""
        if stream is None:
            self._queue.call("Synchronize")
        else:
            self._queue.follow(stream)

    def finish(self) -> None:
        """Return when everything that was asked for is done. Raises ResourceError."""
        self._queue.finish()

    def holds(self, address: int) -> bool:
        """Whether an address is this device's."""
        ordinal = ctypes.c_int32(-1)
        status = self._queue.status("PointerGetAttribute", ctypes.byref(ordinal), _DEVICE_ORDINAL, address)
        return not status and ordinal.value == self._number

    def reaches(self, space: MemorySpace) -> bool:
        """Whether it is a memory of the same driver."""
        return isinstance(space, StreamMemory) and space._queue.library is self._queue.library

    def copy(self, source: Allocation, target: Allocation, size: int, space: SharedSpace) -> StreamEvent | None:
        """Copy to here, also from another device. Raises ResourceError."""
        if space is self:
            return self._copied(target.address, source.address, size, waits=False)
        assert isinstance(space, StreamMemory)
        mine, other = self._queue, space._queue
        asked, event = other.last_event(), StreamEvent(mine)
        mine.call("StreamWaitEvent", mine.handle, asked.handle, 0)
        mine.call("MemcpyPeerAsync", target.address, mine.place, source.address, other.place, size, mine.handle)
        mine.recorded(event)
        status = other.status("StreamWaitEvent", other.handle, event.handle, 0)
        if status:  # else the source might be freed before
            mine.finish()
        other.check(status, other.library.own("StreamWaitEvent"))
        return event

    def _allocated(self, size: int) -> int:
        place, stream = ctypes.c_uint64(), self._queue
        name, more = ("MemAllocFromPoolAsync", [self._pool, stream.handle]) if self._pool else ("MemAlloc", [])
        status = stream.status(name, ctypes.byref(place), size, *more)
        if status != OUT_OF_MEMORY:
            stream.check(status, stream.library.own(name))
        return place.value

    def _disposed(self, addresses: list[int]) -> None:
        stream = self._queue
        if not self._pool:
            stream.status("StreamSynchronize", stream.handle)
        for address in addresses:
            if self._pool:
                stream.release("MemFreeAsync", address, stream.handle)
            else:
                stream.release("MemFree", address)

    def _copied(self, target: int, source: int, size: int, *, waits: bool) -> StreamEvent | None:
        stream = self._queue
        event = None if waits else StreamEvent(stream)
        stream.copy(target, source, size)
        if event is not None:
            return stream.recorded(event)
        stream.finish()
        return None

    def _end(self) -> None:
        stream = self._queue
        stream.release("StreamSynchronize", stream.handle)
        stream.release("MemPoolDestroy", self._pool)  # with its last block
