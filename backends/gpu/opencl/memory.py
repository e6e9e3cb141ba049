"""Memory of a device: coarse-grained shared virtual memory, which only commands of its queue touch."""

from __future__ import annotations

from collections import deque

import numpy as np

from stablehlo_py.backends.gpu.driver.memory import GpuMemory
from stablehlo_py.backends.gpu.opencl.description import DeviceDescription
from stablehlo_py.backends.gpu.opencl.queue import OpenClEvent, OpenClQueue
from stablehlo_py.runtime.buffer import Allocation
from stablehlo_py.runtime.memory import address_of

_COPY, _READ_WRITE = "clEnqueueSVMMemcpy", 1  # CL_MEM_READ_WRITE
KEPT_BYTES = 1 << 30  # what is kept for the next arrays
KEPT_SHARE = 8  # ... but no more than this part of the device's memory
# Arrays are copied, and sent while the caller goes on, as long as no more than this is under way. Not to a device that
# is the processor: it would copy twice, which takes thrice the time even where nothing else is to be done.
STAGED_BYTES = 8 << 20


class OpenClMemory(GpuMemory):
    """The memory of a device. Thread-safe."""

    _queue: OpenClQueue

    def __init__(self, queue: OpenClQueue, description: DeviceDescription) -> None:
        limit = min(KEPT_BYTES, description.global_bytes // KEPT_SHARE)
        super().__init__(queue, description.largest_allocation, limit)
        self._stageable = 0 if description.kind == "cpu" else STAGED_BYTES
        self._staged: deque[tuple[OpenClEvent, np.ndarray]] = deque()  # copies that the device may not have read yet
        self._staged_bytes = 0

    def write(self, source: np.ndarray, target: Allocation) -> OpenClEvent | None:
        """Copy a dense array there; the array may change when this returns. Raises ResourceError."""
        self._queue.library.require()
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
        self._queue.library.require()
        if target.nbytes:
            self._queue.call(_COPY, True, address_of(target), source.address, target.nbytes, 0, None, None)
        with self._lock:
            self._settle()

    def _end(self) -> None:
        self._queue.library.release("clFinish", self._queue.handle)  # the copies outlive the commands that read them

    def _settle(self) -> None:
        """Forget the copies that have been sent. Raises what ended one: what was computed of it is worth nothing."""
        while self._staged and self._staged[0][0].is_ready():
            event, staged = self._staged.popleft()
            self._staged_bytes -= staged.nbytes
            event.wait()

    def _allocated(self, size: int) -> int:
        return self._queue.library.status("clSVMAlloc", self._queue.context, _READ_WRITE, size, 0) or 0

    def _disposed(self, addresses: list[int]) -> None:
        """When the commands before are done; at once where the queue takes no command any more."""
        queue, status = self._queue, self._queue.library.status
        listed = np.array(addresses, np.uintp)
        if status("clEnqueueSVMFree", queue.handle, len(listed), address_of(listed), None, None, 0, None, None):
            status("clFinish", queue.handle)
            for address in addresses:
                status("clSVMFree", queue.context, address)
