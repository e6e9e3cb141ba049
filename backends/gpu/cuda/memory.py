"""Memory of a device of CUDA: of a pool of our own in the order of the stream, where the driver has pools."""

from __future__ import annotations

import ctypes

from stablehlo_py.backends.gpu.cuda.description import DeviceDescription
from stablehlo_py.backends.gpu.cuda.library import OUT_OF_MEMORY
from stablehlo_py.backends.gpu.cuda.stream import CudaEvent, CudaStream
from stablehlo_py.backends.gpu.driver.memory import KEPT_SHARE, GpuMemory
from stablehlo_py.dialect.alignment import ACCESS_ALIGNMENT
from stablehlo_py.runtime.buffer import Allocation, MemorySpace, SharedSpace

_PINNED, _ON_DEVICE = 1, 1  # CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE
_CUDA = 2  # kDLCUDA of DLPack
_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_RELEASE_THRESHOLD = 4  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps of cuda.h."""

    _fields_ = (
        ("allocation_type", ctypes.c_int32),
        ("handle_types", ctypes.c_int32),
        ("location_type", ctypes.c_int32),
        ("location", ctypes.c_int32),
        ("security_attributes", ctypes.c_void_p),
        ("largest", ctypes.c_size_t),
        ("usage", ctypes.c_uint16),
        ("reserved", ctypes.c_uint8 * 54),
    )


class CudaMemory(GpuMemory, SharedSpace):
    """The memory of a device. Thread-safe."""

    alignment = ACCESS_ALIGNMENT  # of what the driver allocates, 256 bytes are sure
    _queue: CudaStream
    _pool = 0

    def __init__(self, stream: CudaStream, description: DeviceDescription) -> None:
        kept = description.global_bytes // KEPT_SHARE
        # What the driver's pool keeps need not be kept here, too.
        super().__init__(stream, description.global_bytes, 0 if description.has_pools else kept)
        self.dlpack_device = (_CUDA, description.handle)
        self.stream = stream.handle
        self._number = description.handle
        if description.has_pools:
            properties = PoolProperties(_PINNED, 0, _ON_DEVICE, description.handle)
            self._pool = stream.made("cuMemPoolCreate", ctypes.byref(properties))
            threshold = ctypes.byref(ctypes.c_uint64(kept))
            stream.call("cuMemPoolSetAttribute", self._pool, _RELEASE_THRESHOLD, threshold)

    def trim(self) -> None:
        """Free what is kept for the next arrays, now. Raises ResourceError."""
        super().trim()
        if self._pool:
            self._queue.call("cuMemPoolTrimTo", self._pool, 0)

    def precede(self, stream: int) -> None:
        """Let what is asked of a stream from now on begin behind all that was asked for here. Raises ResourceError."""
        self._queue.precede(stream)

    def follow(self, stream: int | None) -> None:
        """The reverse; None: behind all that was asked of any stream, for which it waits. Raises ResourceError."""
        if stream is None:
            self._queue.call("cuCtxSynchronize")
        else:
            self._queue.follow(stream)

    def finish(self) -> None:
        """Return when everything that was asked for is done. Raises ResourceError."""
        self._queue.finish()

    def holds(self, address: int) -> bool:
        """Whether an address is this device's."""
        ordinal = ctypes.c_int32(-1)
        status = self._queue.status("cuPointerGetAttribute", ctypes.byref(ordinal), _DEVICE_ORDINAL, address)
        return not status and ordinal.value == self._number

    def reaches(self, space: MemorySpace) -> bool:
        """Whether it is a memory of CUDA."""
        return isinstance(space, CudaMemory) and space._queue.library is self._queue.library

    def copy(self, source: Allocation, target: Allocation, size: int, space: SharedSpace) -> CudaEvent | None:
        """Copy to here, also from another device. Raises ResourceError."""
        if space is self:
            return self._copied(target.address, source.address, size, waits=False)
        assert isinstance(space, CudaMemory)
        mine, other = self._queue, space._queue
        asked, event = other.last_event(), CudaEvent(mine)
        mine.call("cuStreamWaitEvent", mine.handle, asked.handle, 0)
        addresses = (target.address, mine.context, source.address, other.context)
        mine.call("cuMemcpyPeerAsync", *addresses, size, mine.handle)
        mine.recorded(event)
        status = other.status("cuStreamWaitEvent", other.handle, event.handle, 0)
        if status:  # else the source might be freed before
            mine.finish()
        other.check(status, "cuStreamWaitEvent")
        return event

    def _allocated(self, size: int) -> int:
        place, stream = ctypes.c_uint64(), self._queue
        name, more = ("cuMemAllocFromPoolAsync", [self._pool, stream.handle]) if self._pool else ("cuMemAlloc_v2", [])
        status = stream.status(name, ctypes.byref(place), size, *more)
        if status != OUT_OF_MEMORY:
            stream.check(status, name)
        return place.value

    def _disposed(self, addresses: list[int]) -> None:
        stream = self._queue
        if not self._pool:
            stream.status("cuStreamSynchronize", stream.handle)
        for address in addresses:
            if self._pool:
                stream.status("cuMemFreeAsync", address, stream.handle)
            else:
                stream.status("cuMemFree_v2", address)

    def _copied(self, target: int, source: int, size: int, *, waits: bool) -> CudaEvent | None:
        stream = self._queue
        event = None if waits else CudaEvent(stream)
        stream.call("cuMemcpyAsync", target, source, size, stream.handle)
        if event is not None:
            return stream.recorded(event)
        stream.finish()
        return None

    def _end(self) -> None:
        stream = self._queue
        stream.release("cuStreamSynchronize", stream.handle)
        stream.release("cuMemPoolDestroy", self._pool)  # with its last block
