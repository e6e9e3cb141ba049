"""Where arrays of a platform are: in the memory of a device, or in the host's, as the CPU's are.

`Place` is what the platform asks of a device. Native code does most of it for the host (memory.py, transfers.py,
execution.py), and Python what is left; a GPU's is Python's (device_place.py).
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from stablehlo_py.backends.base import Code, get_backend
from stablehlo_py.errors import ArgumentError, UnsupportedError
from stablehlo_py.pjrt.blocks import Blocks, Storage
from stablehlo_py.pjrt.fields import NATIVE_FIRST
from stablehlo_py.pjrt.signature import MEMORY_KINDS

if TYPE_CHECKING:
    from stablehlo_py.pjrt.executable import Executable
    from stablehlo_py.runtime.program import CompiledProgram


class Place(ABC):
    """A device, and its memory. Thread-safe. Events are those of the API: 0 stands for one that is over; of others the
    caller gets a reference.

    Attributes:
        number: of the device, as its backend counts.
        is_native: whether native code may use the memory.
        native_functions: those of the API that are native code's first.
        queue: of the device, for native code.
        memory_kinds: of memory of the device, as JAX calls them; the first is the default.
        kind: what the device is called; attributes: what else is known of it.
    """

    is_native = False
    native_functions: Sequence[str] = NATIVE_FIRST[:4]
    memory_kinds: Sequence[str] = MEMORY_KINDS[:1]
    kind: str
    attributes: Mapping[str, str | int]

    def __init__(self, blocks: Blocks, number: int) -> None:
        self.blocks = blocks
        self.number = number
        self.queue = blocks.queue()

    def drain(self, device: int) -> None:
        """Return when what native code has put into the queue of a device (its block) is done; only the host's does."""
        return

    @abstractmethod
    def load(self, program: CompiledProgram) -> Code:
        """The program, on this device. Raises LoadError, ResourceError."""

    def driver(self, code: Code) -> int:
        """The DRIVER (fields.py) of a program's device; 0: it runs on the host."""
        return 0

    @abstractmethod
    def run(self, executable: Executable, inputs: Sequence[Storage], results: Sequence[Storage]) -> int:
        """A call of a program, and its event. Raises as `Code.run`."""

    @abstractmethod
    def storage(self, size: int) -> Storage:
        """Memory for an array of so many bytes. Raises ResourceError."""

    def hold(self, buffer: int) -> Storage:
        """The memory of a buffer (its block), for what the device is asked for next.

        Raises:
            ArgumentError: it is deleted.
            PlatformError: what was to compute it has failed.
        """
        storage = self._held(buffer)
        if storage is None:
            raise ArgumentError("the array has been deleted or donated", remedy="use the result of the later call")
        return storage

    @abstractmethod
    def _held(self, buffer: int) -> Storage | None:
        """As `hold`; None: it is deleted."""

    @abstractmethod
    def ready(self, storage: Storage) -> int:
        """The event after which what was asked for is there."""

    @abstractmethod
    def write(self, array: np.ndarray, storage: Storage, *, stays: bool) -> int:
        """Copy an array of the host, of any strides. The event after which it may change; unless it `stays` till
        then, that is at once."""

    @abstractmethod
    def read(self, storage: Storage, offset: int, size: int, target: int) -> int:
        """Copy bytes to an address of the host; the event after which they are there."""

    @abstractmethod
    def array(self, storage: Storage, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """The elements, as an array of the host that is to be read only. Raises PlatformError."""

    @abstractmethod
    def copied(self, storage: Storage, size: int, target: Place) -> Storage:
        """A copy on this device, or on another one of the platform. Raises ResourceError."""

    def memory_stats(self) -> Mapping[str, int]:
        """Bytes that are used (`bytes_in_use`, `peak_bytes_in_use`), and that there are (`bytes_limit`). Raises
        UnsupportedError: nobody knows."""
        raise UnsupportedError("how much memory is used is not counted", remedy="ask the system")


class HostPlace(Place):
    """The processor, with the memory of the host."""

    is_native = True
    native_functions = NATIVE_FIRST
    memory_kinds = MEMORY_KINDS
    kind = "cpu"
    attributes: Mapping[str, str | int] = {}

    def drain(self, device: int) -> None:
        """As `Place.drain`."""
        self.blocks.drain(device)

    def load(self, program: CompiledProgram) -> Code:
        """As `Place.load`."""
        return get_backend(program.backend).load(program)

    def run(self, executable: Executable, inputs: Sequence[Storage], results: Sequence[Storage]) -> int:
        """As `Place.run`; it returns when the call is done."""
        executable.code.run([each.address for each in inputs], [each.address for each in results])
        return 0

    def storage(self, size: int) -> Storage:
        """As `Place.storage`."""
        return self.blocks.storage(size)

    def _held(self, buffer: int) -> Storage | None:
        return self.blocks.hold(buffer)

    def ready(self, storage: Storage) -> int:
        """As `Place.ready`."""
        return 0

    def write(self, array: np.ndarray, storage: Storage, *, stays: bool) -> int:
        """As `Place.write`."""
        if array.size:
            np.copyto(storage.array(array.shape, array.dtype), array)
        return 0

    def read(self, storage: Storage, offset: int, size: int, target: int) -> int:
        """As `Place.read`."""
        ctypes.memmove(target, storage.address + offset, size)
        return 0

    def array(self, storage: Storage, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """As `Place.array`: it is the memory itself."""
        return storage.array(shape, dtype)

    def copied(self, storage: Storage, size: int, target: Place) -> Storage:
        """As `Place.copied`."""
        made = target.storage(size)
        ctypes.memmove(made.address, storage.address, size)
        return made
