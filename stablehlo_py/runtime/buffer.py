"""Arrays where programs run: in the memory of the host, or in a memory of a device."""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from ctypes import addressof
from typing import Any, Protocol, TypeGuard

import numpy as np

from stablehlo_py.boundary import public
from stablehlo_py.errors import ArgumentError, ShloError
from stablehlo_py.runtime.dlpack import HOST as DLPACK_HOST
from stablehlo_py.runtime.dlpack import Device, device_of, exported, exported_from, imported, placed
from stablehlo_py.runtime.memory import TINY, ArrayMemory, Layouts, address_of, tiny_blocks
from stablehlo_py.runtime.program import Spec, fits

_CUDA = 2  # kDLCUDA (dlpack.h)
_ANY = -1  # no stream, in DLPack
DONATED, HOST = "donated to an earlier call", "host"


class Event(Protocol):
    """Work that a device has been asked for."""

    def is_ready(self) -> bool:
        """Whether it is done."""

    def wait(self) -> None:
        """Return when it is done; raise what ended it."""


class Allocation(Protocol):
    """Bytes of a memory space, freed when the last reference to this object goes (after the work that uses them)."""

    @property
    def address(self) -> int:
        """Where they are, in that space. Nothing else may be done with it than to hand it to a program."""


class MemorySpace(Protocol):
    """A memory of a device. What one is asked for is done in the order in which it was asked for, programs included:
    so an array may be used before it is there.

    Attributes:
        device: the device's name, e.g. "cuda:0".
        name: the memory's, e.g. "device".
    """

    device: str
    name: str

    def allocate(self, size: int) -> Allocation:
        """So many bytes. Raises ResourceError."""

    def write(self, source: np.ndarray, target: Allocation) -> Event | None:
        """Copy a dense array there; the array may change when this returns. None: it is done."""

    def read(self, source: Allocation, target: np.ndarray) -> None:
        """Copy to a dense array of the host, when everything before is done."""


class SharedSpace(MemorySpace):
    """A memory whose addresses other libraries of this process use, too, each in streams of its own.

    Attributes:
        dlpack_device: its device in DLPack, by type and number.
        stream: the order of its work, as other libraries name it.
        default_stream: the stream where none is named; refused_streams: numbers that DLPack does not take for one.
        alignment: bytes of which the address of an array must be a multiple.
    """

    dlpack_device: Device
    stream: int
    default_stream: int
    refused_streams: tuple[int, ...]
    alignment: int

    @abstractmethod
    def precede(self, stream: int) -> None:
        """Let what is asked of a stream from now on begin behind all that was asked for here."""

    @abstractmethod
    def follow(self, stream: int | None) -> None:
        """Let what is asked for here from now on begin behind all that was asked of a stream; None: of any."""

    @abstractmethod
    def finish(self) -> None:
        """Return when everything that was asked for here is done."""

    @abstractmethod
    def holds(self, address: int) -> bool:
        """Whether an address is its device's."""

    @abstractmethod
    def reaches(self, space: MemorySpace) -> bool:
        """Whether it copies from a memory without the host: its own, or that of another device."""

    @abstractmethod
    def copy(self, source: Allocation, target: Allocation, size: int, space: SharedSpace) -> Event | None:
        """Copy to here from a memory that it `reaches`, behind what both were asked for."""


class _Lent:
    """Memory that another library works on, in its `stream` (None: any): what is done with the memory next is done
    behind that."""

    def __init__(self, owner: Allocation, space: SharedSpace, stream: int | None) -> None:
        self._owner = owner
        self._space = space
        self._stream = stream
        self.address = owner.address

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        if not at_exit():
            with suppress(ShloError):  # the device is lost, or this process was forked: nobody works on it
                self._space.follow(self._stream)


class _Borrowed:
    """Memory of another library (`Allocation`), which is told that it is free when nothing here uses it."""

    def __init__(self, array: np.ndarray, space: SharedSpace) -> None:
        self._array = array
        self._space = space
        self.address = address_of(array)

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        if not at_exit():
            with suppress(ShloError):
                self._space.finish()


class Buffer:
    """An array in a memory space: what `put` makes of an argument, and `call` takes and returns. It is dense and
    row-major. `np.asarray(buffer)` and DLPack give its elements, from the host's memory without a copy; they are to be
    read only.

    A call that donates a buffer gives its memory to a result (a copy of it, where arrays look at it); then the buffer
    is spent. So it is after `release`.

    Attributes:
        spec: name and dtype; shape: its sizes.
        address: where it is, in its memory space.
    """

    # Those of an array in the host's memory; most buffers are.
    _space: MemorySpace | None = None
    _event: Event | None = None
    _gone: str | None = None  # what became of it
    _is_seen = False  # whether somebody else may look at the memory

    def __init__(self, owner: object, address: int, spec: Spec, shape: tuple[int, ...]) -> None:
        self._owner: Any = owner  # an object with the buffer protocol, or an allocation of the space
        self.address = address
        self.spec = spec
        self.shape = shape

    @property
    @public
    def device(self) -> str:
        """The device that its memory belongs to: "host", or as its backend calls it."""
        return HOST if self._space is None else self._space.device

    @property
    @public
    def memory_space(self) -> str:
        """Which of the device's memories it is in."""
        return HOST if self._space is None else self._space.name

    @property
    @public
    def dtype(self) -> np.dtype:
        """Type of the elements, NumPy's or ml_dtypes'."""
        return self.spec.dtype

    @property
    @public
    def layout(self) -> tuple[int, ...]:
        """Dimensions, from the one that varies slowest to the one that varies fastest."""
        return tuple(range(len(self.shape)))

    @property
    @public
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    @property
    @public
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    @public
    def nbytes(self) -> int:
        """How many bytes they take."""
        return self.size * self.dtype.itemsize

    @public
    def is_ready(self) -> bool:
        """Whether the program that computes it has ended."""
        return self._event is None or self._event.is_ready()

    @public
    def wait(self) -> Buffer:
        """Return the buffer when it is ready. Raises what ended the program that computes it."""
        if self._event is not None:
            self._event.wait()
            self._event = None
        return self

    @property
    @public
    def is_donated(self) -> bool:
        """Whether a call has taken its memory."""
        return self._gone == DONATED

    @public
    def release(self) -> None:
        """Free the memory now, not when the last reference to the buffer goes."""
        self._spend("released")

    def _spend(self, reason: str) -> None:
        """Give the memory up; `reason` says to whom, in messages."""
        if self._gone is None:
            self._gone, self._owner = reason, None

    def _require(self) -> None:
        """Raises ArgumentError: it has no memory any more."""
        if self._gone is not None:
            raise ArgumentError(f"the buffer of {self.spec.name} was {self._gone}", remedy="put() a new array")

    @property
    def _array(self) -> np.ndarray:
        """The elements in the host's memory."""
        owner = self._owner
        return owner if isinstance(owner, np.ndarray) else np.ndarray(self.shape, self.dtype, owner)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        self._require()
        self.wait()
        if self._space is not None:
            if copy is False:
                raise ValueError(f"a buffer in {self.memory_space} memory is no array without a copy")
            array = np.empty(self.shape, self.dtype)
            self._space.read(self._owner, array)
        else:
            array = self._array.view()
            array.flags.writeable = False
            self._is_seen = True
        if dtype is not None and dtype != array.dtype:
            if copy is False:
                raise ValueError(f"a buffer of {array.dtype} is no array of {dtype} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        space = self._space
        if isinstance(space, SharedSpace) and options.get("dl_device") in (None, space.dlpack_device):
            return self._lent(space, **options)
        array = self.__array__()
        # Of the array itself: consumers of older versions of DLPack take nothing that is read-only.
        return exported(array if space is not None else self._array, **options)

    def _lent(self, space: SharedSpace, stream: int | None = None, copy: bool | None = None, **options: Any) -> Any:
        """A capsule with the memory of a device. What is asked of the consumer's stream works behind what computes the
        buffer; -1: the consumer sees to that."""
        if copy:
            raise BufferError(f"a buffer in {self._place()} is not copied for others")
        if stream in space.refused_streams:
            raise BufferError(f"stream {stream} may be one of several: the default stream is {space.default_stream}")
        self._require()
        self._is_seen = True
        stream = space.default_stream if stream is None else stream
        if stream != _ANY:
            space.precede(stream)
        owner = _Lent(self._owner, space, None if stream == _ANY else stream)
        asked = {name: value for name, value in options.items() if name == "max_version"}
        return exported_from(space.dlpack_device, placed(owner, self.address, self.shape, self.dtype), **asked)

    def __dlpack_device__(self) -> Device:
        return self._space.dlpack_device if isinstance(self._space, SharedSpace) else DLPACK_HOST

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        space = self._space
        if not isinstance(space, SharedSpace) or space.dlpack_device[0] != _CUDA:
            raise AttributeError(f"a buffer in {self._place()} is not in memory of CUDA")
        if self.dtype.isbuiltin != 1:
            raise AttributeError(f"{self.dtype} has no type string: use DLPack")
        self._require()
        self._is_seen = True
        if not isinstance(self._owner, _Lent):
            self._owner = _Lent(self._owner, space, None)
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address if self.size else 0, False),
            "strides": None,
            "version": 3,
            "stream": space.stream,
        }

    def __reduce__(self) -> str:
        # A copy would share memory that a call may give away, or hold the address of memory that is freed.
        raise ArgumentError("a buffer cannot be copied or pickled", remedy="use np.asarray(buffer)")

    def __repr__(self) -> str:
        state = self._gone or ("ready" if self.is_ready() else "not ready")
        described = Spec(self.spec.name, self.shape, self.dtype, self.spec.quantization)
        return f"<Buffer {described} in {self._place()}, {state}>"

    def _place(self) -> str:
        return "host memory" if self._space is None else f"{self.memory_space} memory of {self.device}"


def wait_for(buffers: Iterable[Buffer]) -> None:
    """Return when all of them are ready. Raises as `Buffer.wait`."""
    for buffer in buffers:
        if buffer._event is not None:
            buffer.wait()


class _Described:
    """What has `__cuda_array_interface__`, as if it were in the host's memory."""

    def __init__(self, value: object, described: dict[str, Any]) -> None:
        self._value = value
        keys = ("shape", "typestr", "data", "strides")
        self.__array_interface__ = {**{key: described.get(key) for key in keys}, "version": 3}


class Placement:
    """Where the buffers of an executable are: in its program's memory space (None: the host's), results of the host in
    `memory`."""

    def __init__(self, space: MemorySpace | None, memory: ArrayMemory) -> None:
        self.space = space
        self.memory = memory

    def empty(self, specs: Sequence[Spec], layouts: Layouts) -> list[Buffer]:
        """Uninitialized buffers. Raises ResourceError."""
        buffers, space = [], self.space
        owner: Any
        for spec, layout in zip(specs, layouts, strict=True):
            shape, _, size = layout
            if space is not None:
                owner = space.allocate(size)
                buffer = Buffer(owner, owner.address, spec, shape)
                buffer._space = space
            elif size < TINY:
                owner = tiny_blocks[size | 63]()
                buffer = Buffer(owner, addressof(owner), spec, shape)
            else:
                ((owner, address),) = self.memory.arrays((layout,))
                buffer = Buffer(owner, address, spec, shape)
            buffers.append(buffer)
        return buffers

    def put(self, array: np.ndarray, spec: Spec, *, copy: bool = True) -> Buffer:
        """A dense array as a buffer; without `copy` its own memory. Raises ResourceError, and ArgumentError where the
        program cannot use that."""
        if not copy:
            if self.space is not None:
                raise ArgumentError(
                    f"argument {spec.name} cannot be used without a copy: the program runs in {self.space.name} memory "
                    f"of {self.space.device}",
                    remedy="put it with copy=True",
                )
            made = Buffer(array, address_of(array), spec, array.shape)
            made._is_seen = True
            return made
        (made,) = self.empty((spec,), ((array.shape, array.dtype, array.nbytes),))
        if self.space is None:
            np.copyto(made._array, array)
        else:
            made._event = self.space.write(array, made._owner)
        return made

    def fetch(self, buffer: Buffer) -> np.ndarray:
        """The elements of a result, as an array for the caller alone."""
        if self.space is None:
            return buffer._array
        array = self.memory.array(buffer.shape, buffer.dtype, buffer.nbytes)
        self.space.read(buffer.wait()._owner, array)
        return array

    def taken(self, buffer: Buffer) -> Buffer:
        """The memory of a buffer that is donated, for a result: its own, or a copy where somebody looks at it."""
        if not buffer._is_seen:
            return buffer
        if not isinstance(self.space, SharedSpace):
            return self.put(buffer._array, buffer.spec)
        (made,) = self.empty((buffer.spec,), ((buffer.shape, buffer.dtype, buffer.nbytes),))
        if buffer.nbytes:
            assert isinstance(buffer._space, SharedSpace)
            made._event = self.space.copy(buffer._owner, made._owner, buffer.nbytes, buffer._space)
        return made

    def there(self, value: Any) -> np.ndarray | None:
        """An array of another library on the device where the program runs, by DLPack or `__cuda_array_interface__`, or
        a buffer of a device that it copies from; its elements must not be touched. None: it is neither. Raises as its
        `__dlpack__`."""
        space = self.space
        if not isinstance(space, SharedSpace):
            return None
        if self._comes_from_afar(value):
            value._require()
            return placed(value._owner, value.address, value.shape, value.dtype)
        device = device_of(value)
        if device is not None:
            return imported(value, device, stream=space.stream) if device == space.dlpack_device else None
        described = getattr(value, "__cuda_array_interface__", None)
        if described is None or described.get("mask") is not None or not space.holds(described["data"][0]):
            return None
        if described.get("stream") is not None:
            space.follow(described["stream"])
        return np.asarray(_Described(value, described))

    def _comes_from_afar(self, value: object) -> TypeGuard[Buffer]:
        """Whether it is a buffer of another device, and the driver copies it."""
        if not (isinstance(value, Buffer) and isinstance(self.space, SharedSpace)) or value._space is self.space:
            return False
        return value._space is not None and self.space.reaches(value._space)

    def adopt(self, value: object, array: np.ndarray, spec: Spec, *, copy: bool) -> Buffer:
        """A value whose dense array is `there` as a buffer; without `copy` its own memory. Raises ArgumentError: the
        program cannot use that."""
        assert isinstance(self.space, SharedSpace)
        if self._comes_from_afar(value):
            if not copy:
                raise ArgumentError(
                    f"argument {spec.name} cannot be used without a copy: it is in {value._place()}",
                    remedy="put it with copy=True",
                )
            made = Buffer(value._owner, value.address, spec, array.shape)
            made._space, made._is_seen = value._space, True
            return self.taken(made)
        owner = _Borrowed(array, self.space)
        if not copy and owner.address % self.space.alignment:
            raise ArgumentError(
                f"argument {spec.name} cannot be used without a copy: its address is no multiple of "
                f"{self.space.alignment} bytes",
                remedy="put it with copy=True",
            )
        made = Buffer(owner, owner.address, spec, array.shape)
        made._space, made._is_seen = self.space, True
        return self.taken(made) if copy else made

    def check(self, buffer: Buffer, spec: Spec) -> None:
        """Refuse what is no buffer for this input. Raises ArgumentError."""
        buffer._require()
        if buffer._space is not self.space:
            if self.space is not None and buffer._place() == f"{self.space.name} memory of {self.space.device}":
                raise ArgumentError(
                    f"the buffer of {buffer.spec.name} was in {buffer._place()}, and is gone: the device was lost",
                    remedy="put() the array again",
                )
            raise ArgumentError(
                f"the buffer of {buffer.spec.name} is in {buffer._place()}, where the program does not run",
                remedy="put() it with this executable, which copies it",
            )
        if buffer.dtype != spec.dtype or not fits(buffer.shape, spec):
            described = Spec(buffer.spec.name, buffer.shape, buffer.dtype)
            raise ArgumentError(f"the buffer of {described} is not the input {spec}")


def result_of(owner: Buffer, spec: Spec) -> Buffer:
    """The buffer of a result in the memory of another one."""
    made = Buffer(owner._owner, owner.address, spec, owner.shape)
    made._space = owner._space
    return made
