"""Memory of a device: coarse-grained shared virtual memory, which only commands of its queue touch."""

from __future__ import annotations

import numpy as np

from stablehlo_py.backends.gpu.driver.memory import KEPT_SHARE, STAGED_BYTES, GpuMemory
from stablehlo_py.backends.gpu.opencl.description import DeviceDescription
from stablehlo_py.backends.gpu.opencl.queue import OpenClEvent, OpenClQueue
from stablehlo_py.runtime.memory import address_of

_COPY, _READ_WRITE = "clEnqueueSVMMemcpy", 1  # CL_MEM_READ_WRITE
KEPT_BYTES = 1 << 30  # what is kept for the next arrays


class OpenClMemory(GpuMemory):
    """The memory of a device. Thread-safe."""

    _queue: OpenClQueue

    def __init__(self, queue: OpenClQueue, description: DeviceDescription) -> None:
        limit = min(KEPT_BYTES, description.global_bytes // KEPT_SHARE)
        # A device that is the processor would copy twice, which takes thrice the time even where nothing else is to be
        # done.
        stageable = 0 if description.kind == "cpu" else STAGED_BYTES
        super().__init__(queue, description.largest_allocation, limit, stageable)

    def _copied(self, target: int, source: int, size: int, *, waits: bool) -> OpenClEvent | None:
        if not waits:
            return self._queue.command(_COPY, False, target, source, size)
        self._queue.call(_COPY, True, target, source, size, 0, None, None)
        return None

    def _end(self) -> None:
        self._queue.library.release("clFinish", self._queue.handle)

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
