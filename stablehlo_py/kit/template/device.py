"""The device: a memory of its own, and a queue that does what it is asked for one after the other.

Here the memory is arrays at addresses that no process has, and the queue a thread. Put the calls of your driver in
their place: nothing else of this package knows what a device is.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np

from stablehlo_py.errors import ResourceError
from stablehlo_py.runtime.buffer import Allocation, MemorySpace

FIRST_ADDRESS, SPACING = 1 << 60, 1 << 40  # an allocation is found by an address inside it


class Event:
    """Work that the queue has been asked for."""

    def __init__(self, work: Sequence[Future[None]]) -> None:
        self._work = work

    def is_ready(self) -> bool:
        """Whether it is done."""
        return all(each.done() for each in self._work)

    def wait(self) -> None:
        """Return when it is done; raise what ended it."""
        for each in self._work:
            each.result()


class Block:
    """Bytes of the device's memory. They are freed behind the work that uses them, when this object goes."""

    def __init__(self, device: Device, address: int) -> None:
        self.address = address
        weakref.finalize(self, device.free, address).atexit = False


class Device(MemorySpace):
    """One device. `device` and `name` are what messages and `Buffer` call it and its memory."""

    device, name = "newname:0", "device"

    def __init__(self) -> None:
        self._content: dict[int, np.ndarray] = {}
        self._addresses = itertools.count(FIRST_ADDRESS, SPACING)
        self._queue = ThreadPoolExecutor(1, thread_name_prefix="newname")

    # --- the queue ----------------------------------------------------------------------------------------------------

    def launch(self, work: Callable[[], None]) -> Future[None]:
        """Do it behind everything that was asked for before."""
        return self._queue.submit(work)

    # --- the memory ---------------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> Block:
        """So many bytes. Raises ResourceError."""
        try:
            memory = np.empty(size, np.uint8)
        except (MemoryError, ValueError) as error:
            raise ResourceError(
                f"{self.device} has no {size} bytes of memory", remedy="free buffers, or run a smaller batch"
            ) from error
        address = next(self._addresses)
        self._content[address] = memory
        return Block(self, address)

    def free(self, address: int) -> None:
        """Give an allocation back, behind all work."""
        self.launch(partial(self._drop, address))

    def _drop(self, address: int) -> None:
        del self._content[address]

    def array(self, address: int, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """What lies at an address, for kernels: dense and row-major."""
        base = FIRST_ADDRESS + (address - FIRST_ADDRESS) // SPACING * SPACING
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self._content[base][address - base :][:size].view(dtype).reshape(shape)

    def write(self, source: np.ndarray, target: Allocation) -> Event:
        """Copy an array of the host there; the array may change when this returns."""
        data, address = np.array(source, order="C"), target.address
        return Event([self.launch(lambda: np.copyto(self.array(address, data.shape, data.dtype), data))])

    def read(self, source: Allocation, target: np.ndarray) -> None:
        """Copy to an array of the host, when everything before is done."""
        self.read_at(source.address, target)

    def read_at(self, address: int, target: np.ndarray) -> None:
        """The same, from an address inside an allocation."""
        self.launch(lambda: np.copyto(target, self.array(address, target.shape, target.dtype))).result()


DEVICE = Device()
