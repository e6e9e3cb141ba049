"""Memory of a device. Blocks of arrays that died are kept for the next ones, which takes less than half of the time of
new ones. All commands are in one order, so the next array may have a block while a program still works on it: what is
done with that array happens behind the program.
"""

from __future__ import annotations

import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable

import numpy as np

from stablehlo_py.backends.gpu.driver.library import SMALLER
from stablehlo_py.backends.gpu.driver.queue import Queue
from stablehlo_py.errors import ResourceError
from stablehlo_py.runtime.buffer import Allocation, Event
from stablehlo_py.runtime.memory import address_of

GRANULE = 4096  # sizes of blocks are multiples
KEPT_SHARE = 8  # what is kept for the next arrays is no more than this part of the device's memory
# Arrays are copied, and sent while the caller goes on, as long as no more than this is under way.
STAGED_BYTES = 8 << 20


class GpuAllocation:
    """A block of a device's memory (`runtime.buffer.Allocation`)."""

    __slots__ = ("_memory", "address", "size")

    def __init__(self, memory: GpuMemory, address: int, size: int) -> None:
        self._memory = memory
        self.size = size
        self.address = address

    def __del__(self) -> None:
        self._memory.give_back(self.address, self.size)


class GpuMemory(ABC):
    """The memory of a device (`runtime.buffer.MemorySpace`). Thread-safe.

    Args:
        largest: bytes of one block, at most. limit: bytes that are kept for the next arrays.
        stageable: bytes of copies under way, at most.

    Attributes:
        in_use: bytes that are allocated now; peak: at most, so far.
        limit: as given.
        keepers: methods of those who keep blocks for the next arrays themselves, which give them back.
    """

    name = "device"

    def __init__(self, queue: Queue, largest: int, limit: int, stageable: int = STAGED_BYTES) -> None:
        self.device = queue.device
        self._queue = queue
        self._largest = largest
        self.limit = limit
        self.keepers: list[weakref.WeakMethod[Callable[[], None]]] = []
        self._lock = threading.Lock()
        self._free: OrderedDict[int, list[int]] = OrderedDict()  # addresses by size, the sizes last used at the end
        self._kept = 0
        self.in_use = self.peak = 0
        self._counting = threading.RLock()  # an array may end in the middle, in the same thread
        self._stageable = stageable
        self._staged: deque[tuple[Event, np.ndarray]] = deque()  # copies that the device may not have read yet
        self._staged_bytes = 0

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        if at_exit():  # globals are gone, and the blocks go with the process
            return
        self._end()
        self._dispose([address for addresses in self._free.values() for address in addresses])

    def allocate(self, size: int) -> GpuAllocation:
        """A block of at least so many bytes; what lies in it is undefined.

        Raises:
            ResourceError: the memory is not to be had, or the device is not.
        """
        self._queue.library.require()
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
        self._count(rounded)
        return GpuAllocation(self, address, rounded)

    def write(self, source: np.ndarray, target: Allocation) -> Event | None:
        """Copy a dense array there; the array may change when this returns. Raises ResourceError."""
        self._queue.library.require()
        if not source.nbytes:
            return None
        with self._lock:
            self._settle()
            if self._staged_bytes + source.nbytes <= self._stageable:
                staged = source.copy()
                event = self._copied(target.address, address_of(staged), staged.nbytes, waits=False)
                assert event is not None
                self._staged.append((event, staged))
                self._staged_bytes += staged.nbytes
                return event
        return self._copied(target.address, address_of(source), source.nbytes, waits=True)

    def read(self, source: Allocation, target: np.ndarray) -> None:
        """Copy to a dense array of the host, when everything before is done. Raises ResourceError."""
        self._queue.library.require()
        if target.nbytes:
            self._copied(address_of(target), source.address, target.nbytes, waits=True)
        with self._lock:
            self._settle()

    def begin_copy(self, target: int, source: int, size: int) -> Event | None:
        """Copy between addresses, of the device or of the host, where they stay as they are until the event. None: it
        is done. Raises ResourceError."""
        self._queue.library.require()
        return self._copied(target, source, size, waits=False)

    def trim(self) -> None:
        """Free what is kept for the next arrays, now. Raises ResourceError."""
        for keeper in self.keepers:
            if (give_back := keeper()) is not None:
                give_back()
        with self._lock:
            addresses = [address for addresses in self._free.values() for address in addresses]
            self._free.clear()
            self._kept = 0
        self._dispose(addresses)
        self._queue.finish()

    def give_back(self, address: int, size: int) -> None:
        """Keep the block of an array that died for the next one of its size."""
        self._count(-size)
        leaving = [address]
        # The garbage collector may end an array while this very thread holds the lock: then its block is freed.
        if self._lock.acquire(blocking=False):
            try:
                leaving = self._keep(address, size)
            finally:
                self._lock.release()
        self._dispose(leaving)

    def _count(self, size: int) -> None:
        """So many bytes more are in use."""
        with self._counting:
            self.in_use += size
            self.peak = max(self.peak, self.in_use)

    @abstractmethod
    def _copied(self, target: int, source: int, size: int, *, waits: bool) -> Event | None:
        """Copy between addresses. An event behind that, None: it is done."""

    @abstractmethod
    def _allocated(self, size: int) -> int:
        """A new block, 0: it is not to be had."""

    @abstractmethod
    def _disposed(self, addresses: list[int]) -> None:
        """Free blocks when the commands before are done."""

    @abstractmethod
    def _end(self) -> None:
        """Nobody uses the memory any more: wait for the copies, which end with it. What is kept is freed next."""

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
        while self._kept > self.limit:
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

    def _dispose(self, addresses: list[int], at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        """Free blocks, unless that is not for this process to do."""
        if addresses and not (self._queue.library.is_inherited or at_exit()):  # modules may be gone; all goes anyway
            self._disposed(addresses)
