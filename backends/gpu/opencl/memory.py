"""Memory of a device: coarse-grained shared virtual memory, which only commands of its queue touch.

Blocks of arrays that died are kept for the next ones, which takes less than half of the time of new ones. All commands
are in one order, so the next array may have a block while a program still works on it: what is done with that array
happens behind the program.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable

import numpy as np

from stablehlo_py.backends.gpu.opencl.description import DeviceDescription
from stablehlo_py.backends.gpu.opencl.library import SMALLER
from stablehlo_py.backends.gpu.opencl.queue import Event, Queue
from stablehlo_py.errors import ResourceError
from stablehlo_py.runtime.buffer import Allocation
from stablehlo_py.runtime.memory import address_of

_COPY, _READ_WRITE = "clEnqueueSVMMemcpy", 1  # CL_MEM_READ_WRITE
GRANULE = 4096  # sizes of blocks are multiples
KEPT_BYTES = 1 << 30  # what is kept for the next arrays
KEPT_SHARE = 8  # ... but no more than this part of the device's memory
# Arrays are copied, and sent while the caller goes on, as long as no more than this is under way. Not to a device that
# is the processor: it would copy twice, which takes thrice the time even where nothing else is to be done.
STAGED_BYTES = 8 << 20


class OpenClAllocation:
    """A block of a device's memory (`runtime.buffer.Allocation`)."""

    __slots__ = ("_memory", "_size", "address")

    def __init__(self, memory: OpenClMemory, address: int, size: int) -> None:
        self._memory = memory
        self._size = size
        self.address = address

    def __del__(self) -> None:
        self._memory.give_back(self.address, self._size)


class OpenClMemory:
    """The memory of a device (`runtime.buffer.MemorySpace`). Thread-safe."""

    name = "device"

    def __init__(self, queue: Queue, description: DeviceDescription) -> None:
        self.device = queue.device
        self._queue = queue
        self._largest = description.largest_allocation
        self._limit = min(KEPT_BYTES, description.global_bytes // KEPT_SHARE)
        self._stageable = 0 if description.kind == "cpu" else STAGED_BYTES
        self._lock = threading.Lock()
        self._free: OrderedDict[int, list[int]] = OrderedDict()  # addresses by size, the sizes last used at the end
        self._kept = 0
        self._staged: deque[tuple[Event, np.ndarray]] = deque()  # copies that the device may not have read yet
        self._staged_bytes = 0

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        if at_exit():  # globals are gone, and the blocks go with the process
            return
        self._queue.opencl.release("clFinish", self._queue.handle)  # the copies outlive the commands that read them
        self._dispose([address for addresses in self._free.values() for address in addresses])

    def allocate(self, size: int) -> OpenClAllocation:
        """A block of at least so many bytes; what lies in it is undefined.

        Raises:
            ResourceError: the memory is not to be had, or the device is not.
        """
        self._queue.opencl.require()
        if size > self._largest:
            raise ResourceError(
                f"{size} bytes of memory are more than {self.device} gives at once ({self._largest})", remedy=SMALLER
            )
        rounded = max(1, -(-size // GRANULE)) * GRANULE
        address = self._take(rounded) or self._allocated(rounded)
        if not address:
            self.trim()
            address = self._allocated(rounded)
        if not address:
            raise ResourceError(f"{size} bytes of memory are not to be had on {self.device}", remedy=SMALLER)
        return OpenClAllocation(self, address, rounded)

    def write(self, source: np.ndarray, target: Allocation) -> Event | None:
        """Copy a dense array there; the array may change when this returns. Raises ResourceError."""
        self._queue.opencl.require()
        if not source.nbytes:
            return None
        with self._lock:
            self._settle()
            if self._staged_bytes + source.nbytes <= self._stageable:
                staged = source.copy()
                event = self._queue.command(_COPY, False, target.address, address_of(staged), staged.nbytes)
                self._staged.append((event, staged))
                self._staged_bytes += staged.nbytes
                return event
        self._queue.call(_COPY, True, target.address, address_of(source), source.nbytes, 0, None, None)
        return None

    def read(self, source: Allocation, target: np.ndarray) -> None:
        """Copy to a dense array of the host, when everything before is done. Raises ResourceError."""
        self._queue.opencl.require()
        if target.nbytes:
            self._queue.call(_COPY, True, address_of(target), source.address, target.nbytes, 0, None, None)
        with self._lock:
            self._settle()

    def trim(self) -> None:
        """Free what is kept for the next arrays, now. Raises ResourceError."""
        with self._lock:
            addresses = [address for addresses in self._free.values() for address in addresses]
            self._free.clear()
            self._kept = 0
        self._dispose(addresses)
        self._queue.finish()

    def give_back(self, address: int, size: int) -> None:
        """Keep the block of an array that died for the next one of its size."""
        leaving = [address]
        # The garbage collector may end an array while this very thread holds the lock: then its block is freed.
        if self._lock.acquire(blocking=False):
            try:
                leaving = self._keep(address, size)
            finally:
                self._lock.release()
        self._dispose(leaving)

    def _settle(self) -> None:
        """Forget the copies that have been sent. Raises what ended one: what was computed of it is worth nothing."""
        while self._staged and self._staged[0][0].is_ready():
            event, staged = self._staged.popleft()
            self._staged_bytes -= staged.nbytes
            event.wait()

    def _keep(self, address: int, size: int) -> list[int]:
        """The blocks that make room for one that is kept: those of the size that was used longest ago."""
        self._free.setdefault(size, []).append(address)
        self._free.move_to_end(size)
        self._kept += size
        leaving = []
        while self._kept > self._limit:
            oldest, addresses = next(iter(self._free.items()))
            leaving.append(addresses.pop())
            self._kept -= oldest
            if not addresses:
                del self._free[oldest]
        return leaving

    def _take(self, size: int) -> int:
        """A block that was kept, 0: there is none."""
        with self._lock:
            addresses = self._free.get(size)
            if not addresses:
                return 0
            self._kept -= size
            address = addresses.pop()
            if not addresses:
                del self._free[size]
            return address

    def _allocated(self, size: int) -> int:
        """A new block, 0: it is not to be had."""
        return self._queue.opencl.status("clSVMAlloc", self._queue.context, _READ_WRITE, size, 0) or 0

    def _dispose(self, addresses: list[int], at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        """Free blocks when the commands before are done; at once where the queue takes no command any more."""
        opencl, queue = self._queue.opencl, self._queue
        if not addresses or opencl.is_inherited or at_exit():  # modules may be gone; the process frees everything
            return
        listed = np.array(addresses, np.uintp)
        if opencl.status("clEnqueueSVMFree", queue.handle, len(listed), address_of(listed), None, None, 0, None, None):
            opencl.status("clFinish", queue.handle)
            for address in addresses:
                opencl.status("clSVMFree", queue.context, address)
