"""Arrays in the memory of a GPU: what the platform asks of a backend's device (places.py), where native code does not
(device_calls.py).

A device does what it is asked for in order, so nothing is waited for before it is used there. Whoever waits asks for
the event of the API: the thread of the device's queue waits for the driver, and lets it be over.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from stablehlo_py.backends.base import Code
from stablehlo_py.backends.gpu.backend import GpuBackend
from stablehlo_py.backends.gpu.driver.memory import GRANULE, STAGED_BYTES
from stablehlo_py.errors import ArgumentError
from stablehlo_py.pjrt.blocks import Blocks, Storage
from stablehlo_py.pjrt.places import Place
from stablehlo_py.runtime.buffer import Event, SharedSpace
from stablehlo_py.runtime.memory import address_of

if TYPE_CHECKING:
    from stablehlo_py.backends.gpu.code import GpuCode
    from stablehlo_py.backends.gpu.driver.device import Device
    from stablehlo_py.backends.gpu.driver.memory import GpuAllocation, GpuMemory
    from stablehlo_py.backends.gpu.driver.queue import QueueEvent
    from stablehlo_py.pjrt.executable import Executable
    from stablehlo_py.runtime.program import CompiledProgram

_FAILED = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class _Driver:
    """A device that is open, as native code knows it.

    Attributes:
        address: of the DRIVER (fields.py).
    """

    def __init__(self, blocks: Blocks, device: Device[Any, Any], error_of: Callable[[BaseException], int]) -> None:
        self._blocks, self.queue, self.memory = blocks, device.queue, device.memory
        queue, asking = device.queue, device.asking()

        def failed(executable: int | None, status: int) -> int:
            """The error of a status: of a call of an executable, or of a command."""
            try:
                if executable:
                    called = cast("Executable", blocks.owner(executable))
                    cast("GpuCode", called.code).fail(status)
                queue.check(status, "a command")
            except BaseException as failure:  # whatever it is, it must not pass through native code
                return error_of(failure)
            raise AssertionError

        self._failed = _FAILED(failed)
        self.address = blocks.driver(
            self.memory.limit,
            lock=queue.lock.address,
            given=asking.given,
            ask=asking.ask,
            copy=asking.copy,
            wait=asking.wait,
            failed=ctypes.cast(self._failed, ctypes.c_void_p).value or 0,
            granule=GRANULE,
            staged=0 if asking.stages else STAGED_BYTES,
        )
        self.memory.keepers.append(weakref.WeakMethod(self.trim))

    def __del__(self) -> None:
        self._blocks.give_up(self.address, for_ever=True)

    def trim(self) -> None:
        """Give back what is kept for the next arrays."""
        self._blocks.give_up(self.address, for_ever=False)

    @property
    def kept(self) -> int:
        """Bytes that are."""
        return self._blocks.kept(self.address)


@dataclass
class _Block:
    """Memory of an array."""

    space: GpuMemory
    allocation: GpuAllocation


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
        self._error_of, self._lock = error_of, threading.Lock()
        self._open: _Driver | None = None
        self._lost: list[object] = []  # what threads of native code may still use of devices that were lost
        blocks.open(self.queue, 0)

    @property
    def _opened(self) -> _Driver:
        """The device: another one after it was lost. Raises ResourceError: it is not to be had."""
        with self._lock:
            opened = self._open
            if opened is None or opened.queue.is_lost:
                self._lost += [] if opened is None else [opened]
                self._backend.memory(self.number)
                self._open = opened = _Driver(self.blocks, self._backend.opened().get(self.number), self._error_of)
                self.blocks.open(self.queue, opened.address)
            return opened

    @property
    def _memory(self) -> GpuMemory:
        return self._opened.memory

    def driver(self, code: Code) -> int:
        """As `Place.driver`."""
        opened = self._opened
        return opened.address if code.memory is opened.memory else 0

    def load(self, program: CompiledProgram) -> Code:
        """As `Place.load`."""
        return self._backend.load(program, self.number)

    def run(self, executable: Executable, inputs: Sequence[Storage], results: Sequence[Storage]) -> int:
        """As `Place.run`; a program whose device was lost is loaded anew."""
        if executable.code.is_lost:
            self._lost.append(executable.code)
            executable.code = self.load(executable.program)
        code = executable.code
        for each in (*inputs, *results):
            self._block(each, code.memory)
        event = code.run([each.address for each in inputs], [each.address for each in results])
        return self._watched(event, [*inputs, *results], results)

    def storage(self, size: int) -> Storage:
        """As `Place.storage`. What nobody uses any more is freed first."""
        self.blocks.sweep()
        opened = self._opened
        kept = self.blocks.call["storage_on"](opened.address, size)
        if kept:
            return Storage(self.blocks, kept)
        allocation = opened.memory.allocate(size)
        block = _Block(opened.memory, allocation)
        return self.blocks.storage_of(block, allocation.address, allocation.size, opened.address)

    def _held(self, buffer: int) -> Storage | None:
        storage = self.blocks.held(buffer)
        event = self.blocks.field("buffer", buffer, "event")
        if storage is not None and event:
            if self.blocks.field("event", event, "over"):
                self.blocks.wait(event)  # it may have failed
            else:
                storage.follow(event)
        return storage

    def ready(self, storage: Storage) -> int:
        """As `Place.ready`."""
        if storage.event:
            self.blocks.call["event_refer"](storage.event)
        return storage.event

    def write(self, array: np.ndarray, storage: Storage, *, stays: bool) -> int:
        """As `Place.write`."""
        block = self._block(storage)
        if not array.nbytes:
            return 0
        # JAX says that arrays of NumPy stay, which programs may write all the same: small ones are copied.
        is_copied = array.nbytes <= STAGED_BYTES or not array.flags.c_contiguous
        kept = list[Storage]()
        if not (is_copied or stays):
            event = block.space.write(array, block.allocation)
        elif is_copied:
            kept = [self.blocks.storage(array.nbytes)]
            np.copyto(kept[0].array(array.shape, array.dtype), array)
            event = block.space.begin_copy(storage.address, kept[0].address, array.nbytes)
        else:
            event = block.space.begin_copy(storage.address, address_of(array), array.nbytes)
        handle = self._watched(event, [storage], [storage], kept)
        if stays and not is_copied:
            return handle
        self.blocks.call["event_drop"](handle or None)
        return 0

    def read(self, storage: Storage, offset: int, size: int, target: int) -> int:
        """As `Place.read`."""
        block = self._block(storage)
        event = block.space.begin_copy(target, block.allocation.address + offset, size) if size else None
        return self._watched(event, [storage], [])

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
            target.write(self.array(storage, (size,), np.dtype(np.uint8)), made, stays=False)
            return made
        self.blocks.call["event_drop"](target._watched(event, [storage], [made]) or None)
        return made

    def memory_stats(self) -> Mapping[str, int]:
        """As `Place.memory_stats`: of what this process has allocated on the device."""
        self.blocks.sweep()
        opened = self._opened
        memory, used = opened.memory, opened.memory.in_use - opened.kept
        return {"bytes_in_use": used, "peak_bytes_in_use": memory.peak, "bytes_limit": self._bytes}

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
        self, event: Event | None, depends: Sequence[Storage], written: Sequence[Storage], kept: Sequence[Storage] = ()
    ) -> int:
        """The event of the API of what the device was asked for, which reads or writes arrays. `kept` stays till
        then."""
        after = {each.event for each in depends if each.event and not self._is_done(each.event)}
        if event is None and not after:
            return 0
        handle = 0 if event is None else cast("QueueEvent", event).release()
        made = self.blocks.watch(self.queue, self._opened.address, handle, list(after), kept)
        for each in written:
            each.follow(made)
        return made

    def _is_done(self, event: int) -> bool:
        """Whether an event is over, and what it stands for has not failed."""
        field = self.blocks.field
        return bool(field("event", event, "over")) and not field("event", event, "error")
