"""Arrays in the memory of a GPU: what the platform asks of a backend's device (places.py).

A device does what it is asked for in order, so nothing is waited for before it is used there. Whoever waits asks for
the event of a `Work`: a thread for each device waits for the driver, and lets events of the API be over.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from stablehlo_py.backends.base import Code
from stablehlo_py.backends.gpu.backend import GpuBackend
from stablehlo_py.backends.gpu.driver.memory import STAGED_BYTES
from stablehlo_py.errors import ArgumentError, ShloError
from stablehlo_py.pjrt.blocks import Blocks, Storage
from stablehlo_py.pjrt.places import Place
from stablehlo_py.runtime.buffer import Event, SharedSpace
from stablehlo_py.runtime.memory import address_of

if TYPE_CHECKING:
    from stablehlo_py.backends.gpu.driver.device import Device
    from stablehlo_py.backends.gpu.driver.memory import GpuAllocation, GpuMemory
    from stablehlo_py.pjrt.executable import Executable
    from stablehlo_py.runtime.program import CompiledProgram

_MOST_PENDING = 32  # then who asks for more waits, as its results take memory


class Work:
    """What a device was asked for.

    Args:
        event: of the driver; None: it is done. after: what it depends on. kept: what lives until it is done.
    """

    def __init__(self, blocks: Blocks, event: Event | None, after: Sequence[Work], kept: object = None) -> None:
        self._blocks = blocks
        self.handle = blocks.event()
        self.event, self.after, self.kept = event, after, kept

    def __del__(self) -> None:
        self._blocks.call["event_drop"](self.handle)

    @property
    def is_over(self) -> bool:
        """Whether it is done, or has failed."""
        return bool(self._blocks.field("event", self.handle, "over"))

    @property
    def is_done(self) -> bool:
        """Whether it is over, and has not failed."""
        return self.is_over and not self._blocks.field("event", self.handle, "error")

    def refer(self) -> int:
        """Its event, with a reference for the caller."""
        self._blocks.call["event_refer"](self.handle)
        return self.handle

    def end(self, error_of: Callable[[BaseException], int]) -> None:
        """Return when it is done, and tell who waits. What depends on something that failed has failed."""
        error = 0
        for each in self.after:
            error = error or self._blocks.call["event_await"](each.handle) or 0
        try:
            if self.event is not None:
                self.event.wait()
        except BaseException as failure:  # whatever it is, somebody waits to hear of it
            error = error or error_of(failure)
        self.event, self.after, self.kept = None, (), None
        self._blocks.call["event_complete"](self.handle, error or None)


class _Watcher:
    """The thread that ends what a device was asked for."""

    def __init__(self, name: str, error_of: Callable[[BaseException], int]) -> None:
        self._name, self._error_of = name, error_of
        self._works: SimpleQueue[Work] = SimpleQueue()
        self._pending: deque[Work] = deque()
        self._lock = threading.Lock()
        self._is_started = False

    def add(self, work: Work) -> None:
        """Let it end; waits where too much is under way."""
        with self._lock:
            if not self._is_started:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._is_started = True
            oldest = self._pending[0].event if len(self._pending) >= _MOST_PENDING else None
            self._pending.append(work)
            self._works.put(work)
        if oldest is not None:
            with suppress(ShloError):  # its own work says so
                oldest.wait()

    def _run(self) -> None:
        while True:
            self._works.get().end(self._error_of)
            self._pending.popleft()


@dataclass
class _Block:
    """Memory of an array; `work` is what writes it."""

    space: GpuMemory
    allocation: GpuAllocation
    work: Work | None = None


class DevicePlace(Place):
    """A device of a driver."""

    def __init__(
        self, blocks: Blocks, backend: GpuBackend, number: int, error_of: Callable[[BaseException], int]
    ) -> None:
        super().__init__(blocks, number)
        self._backend = backend
        description = backend.opened().description(number)
        self.kind = description.name
        self.attributes = description.attributes
        self._bytes = description.global_bytes
        self._device: Device[Any, Any] | None = None
        self._watcher = _Watcher(f"shlo-{backend.name}:{number}", error_of)

    @property
    def _memory(self) -> GpuMemory:
        """That of the device: another one after it was lost. Raises ResourceError: it is not to be had."""
        device = self._device
        if device is None or device.queue.is_lost:
            self._backend.memory(self.number)
            self._device = device = self._backend.opened().get(self.number)
        return device.memory

    def load(self, program: CompiledProgram) -> Code:
        """As `Place.load`."""
        return self._backend.load(program, self.number)

    def run(self, executable: Executable, inputs: Sequence[Storage], results: Sequence[Storage]) -> int:
        """As `Place.run`; a program whose device was lost is loaded anew."""
        if executable.code.is_lost:
            executable.code = self.load(executable.program)
        code = executable.code
        read = [self._block(each, code.memory) for each in inputs]
        written = [self._block(each, code.memory) for each in results]
        event = code.run([each.address for each in inputs], [each.address for each in results])
        return self._watched(event, [*read, *written], written)

    def storage(self, size: int) -> Storage:
        """As `Place.storage`. What nobody uses any more is freed first."""
        self.blocks.sweep()
        memory = self._memory
        allocation = memory.allocate(size)
        return self.blocks.storage_of(_Block(memory, allocation), allocation.address)

    def _held(self, buffer: int) -> Storage | None:
        storage = self.blocks.held(buffer)
        if storage is not None:
            work = self._owner(storage).work
            if work is not None and work.is_over:
                self.blocks.wait(work.handle)  # it may have failed
        return storage

    def ready(self, storage: Storage) -> int:
        """As `Place.ready`."""
        work = self._owner(storage).work
        return 0 if work is None or work.is_done else work.refer()

    def write(self, array: np.ndarray, storage: Storage, *, stays: bool) -> int:
        """As `Place.write`."""
        block = self._block(storage)
        if not array.nbytes:
            return 0
        # JAX says that arrays of NumPy stay, which programs may write all the same: small ones are copied.
        is_copied = array.nbytes <= STAGED_BYTES or not array.flags.c_contiguous
        dense = array.copy() if is_copied else array
        if not (is_copied or stays):
            event = block.space.write(dense, block.allocation)
        else:
            event = block.space.begin_copy(block.allocation.address, address_of(dense), dense.nbytes)
        handle = self._watched(event, [block], [block], kept=dense)
        if stays and not is_copied:
            return handle
        self.blocks.call["event_drop"](handle or None)
        return 0

    def read(self, storage: Storage, offset: int, size: int, target: int) -> int:
        """As `Place.read`."""
        block = self._block(storage)
        event = block.space.begin_copy(target, block.allocation.address + offset, size) if size else None
        return self._watched(event, [block], [])

    def array(self, storage: Storage, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """As `Place.array`: a copy."""
        array = np.empty(tuple(shape), dtype)
        event = self.read(storage, 0, array.nbytes, address_of(array))
        if event:
            try:
                self.blocks.wait(event)
            finally:
                self.blocks.call["event_drop"](event)
        return array

    def copied(self, storage: Storage, size: int, target: Place) -> Storage:
        """As `Place.copied`; through the host where the driver does not copy between the devices."""
        assert isinstance(target, DevicePlace)
        source, made = self._block(storage), target.storage(size)
        block = target._block(made)
        if not size:
            return made
        if block.space is source.space:
            event: Event | None = block.space.begin_copy(made.address, storage.address, size)
        elif isinstance(block.space, SharedSpace) and block.space.reaches(source.space):
            assert isinstance(source.space, SharedSpace)
            event = block.space.copy(source.allocation, block.allocation, size, source.space)
        else:
            event = block.space.write(self.array(storage, (size,), np.dtype(np.uint8)), block.allocation)
        self.blocks.call["event_drop"](target._watched(event, [source], [block]) or None)
        return made

    def memory_stats(self) -> Mapping[str, int]:
        """As `Place.memory_stats`: of what this process has allocated on the device."""
        self.blocks.sweep()
        memory = self._memory
        return {"bytes_in_use": memory.in_use, "peak_bytes_in_use": memory.peak, "bytes_limit": self._bytes}

    def _owner(self, storage: Storage) -> _Block:
        """What is kept for memory."""
        block = self.blocks.owner(storage.block)
        assert isinstance(block, _Block)
        return block

    def _block(self, storage: Storage, memory: object = None) -> _Block:
        """The same. Raises ArgumentError: it is gone with the device, or is not in `memory`."""
        block = self._owner(storage)
        if block.space is not (self._memory if memory is None else memory):
            raise ArgumentError(
                f"the array was on {block.space.device}, and is gone: the device was lost", remedy="make it again"
            )
        return block

    def _watched(
        self, event: Event | None, depends: Sequence[_Block], written: Sequence[_Block], kept: object = None
    ) -> int:
        """The event of the API of what the device was asked for, which reads or writes blocks."""
        works = {id(block.work): block.work for block in depends if block.work is not None and not block.work.is_done}
        if event is None and not works:
            return 0
        work = Work(self.blocks, event, list(works.values()), kept)
        for block in written:
            block.work = work
        handle = work.refer()
        self._watcher.add(work)
        return handle
