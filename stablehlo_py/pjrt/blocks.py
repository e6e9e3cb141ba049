"""Objects of the PJRT C API in memory: blocks that native code reads, and what Python keeps beside those that it makes;
buffers, which are native code's own, as Python sees them."""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import threading
from collections.abc import Mapping, Sequence

import numpy as np

from stablehlo_py.errors import ResourceError
from stablehlo_py.pjrt.api import structure
from stablehlo_py.pjrt.fields import (
    BLOCK_BYTES,
    CLOSED,
    COPY,
    DESCENDING,
    DONE,
    DRIVER,
    DRIVER_BYTES,
    DRIVER_POOL,
    FAILED_BEFORE,
    FAILED_BETWEEN,
    FIELDS,
    FORKED,
    FORKED_ERROR,
    FREE,
    HANDLES,
    HOST_POOL,
    ITEM_SIZES,
    JOB,
    LAYOUT_BYTES,
    LAYOUTS,
    MISSING,
    MOST_DIMENSIONS,
    NEXT,
    OPEN,
    PLAN,
    POOL,
    QUEUE_BYTES,
    REFERENCES,
    STATE_BYTES,
    is_short,
    job_places,
)
from stablehlo_py.pjrt.layouts import layout_text
from stablehlo_py.pjrt.native import native_functions
from stablehlo_py.pjrt.signature import Order, row_major
from stablehlo_py.runtime.memory import KEPT_BYTES, require

_ADDRESS, _NUMBER = ctypes.c_void_p, ctypes.c_int64
# What native code does for Python: the result, the arguments, and whether other threads run meanwhile.
_CALLS: dict[str, tuple[type | None, tuple[type, ...], bool]] = {
    "take": (_NUMBER, (_ADDRESS,), False),
    "storage_new": (_ADDRESS, (_NUMBER,), False),
    "storage_view": (_ADDRESS, (_NUMBER, _ADDRESS, _ADDRESS), False),
    "storage_drop": (None, (_ADDRESS,), False),
    "buffer_new": (
        _ADDRESS,
        (ctypes.c_int32, _NUMBER, _ADDRESS, _NUMBER, _ADDRESS, _ADDRESS, _ADDRESS),
        False,
    ),
    "buffer_drop": (None, (_ADDRESS,), False),
    "buffer_hold": (_ADDRESS, (_ADDRESS,), False),
    "buffer_spend": (_ADDRESS, (_ADDRESS,), False),
    "error_drop": (None, (_ADDRESS,), False),
    "event_new": (_ADDRESS, (_NUMBER,), False),
    "event_refer": (None, (_ADDRESS,), False),
    "event_drop": (None, (_ADDRESS,), False),
    "event_await": (_ADDRESS, (_ADDRESS,), True),
    "event_complete": (None, (_ADDRESS, _ADDRESS), True),  # it calls who waits
    "queue_drain": (None, (_ADDRESS,), True),
    "queue_push": (None, (_ADDRESS, _ADDRESS), True),  # it waits while too much is under way
    "storage_on": (_ADDRESS, (_ADDRESS, _NUMBER), False),
    "pool_empty": (None, (_ADDRESS,), False),
    "watch": (_ADDRESS, (_ADDRESS, _ADDRESS, _NUMBER), False),
    "leave": (None, (), True),
}
_STRING, _INT64, _INT64_LIST, _FLOAT = range(4)  # PJRT_NamedValue_Type
_FOREVER = 1 << 60  # references that nobody gives back

FORKED_TEXT = (
    "this process is a forked child, in which the platform 'shlo' does not work, as JAX does not; "
    "start processes with the method 'spawn' or 'forkserver'"
)

_libc = ctypes.CDLL(None)
_libc.calloc.restype, _libc.calloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.restype, _libc.free.argtypes = None, [ctypes.c_void_p]


def calloc(size: int) -> int:
    """Zeroed memory that nobody frees with the interpreter: native code may read it at exit."""
    address = _libc.calloc(1, max(size, 1))
    if not address:
        raise MemoryError
    return address


class PlatformError(RuntimeError):
    """An error of the API that a computation ended with: its code, and what it says."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Memory:
    """Texts and numbers that native code reads, as long as this object is there."""

    def __init__(self) -> None:
        self._kept: list[object] = []

    def text(self, content: str | bytes) -> tuple[int, int]:
        """The address and the length of a text."""
        encoded = content.encode(errors="replace") if isinstance(content, str) else content
        buffer = ctypes.create_string_buffer(encoded, len(encoded) + 1)
        self._kept.append(buffer)
        return ctypes.addressof(buffer), len(encoded)

    def named(self, values: Mapping[str, str | int | float | Sequence[int]]) -> tuple[int, int]:
        """The address of PJRT_NamedValues, and how many: texts, numbers and lists of numbers."""
        kind = structure("NamedValue")
        array = (kind * len(values))()
        self._kept.append(array)
        for place, (name, value) in zip(array, values.items(), strict=True):
            place.struct_size = ctypes.sizeof(kind)
            place.name, place.name_size = self.text(name)
            if isinstance(value, str):
                place.type, (place.value, place.value_size) = _STRING, self.text(value)
            elif isinstance(value, int):
                place.type, place.value, place.value_size = _INT64, value, 1
            elif isinstance(value, float):
                place.type, place.value_size = _FLOAT, 1
                ctypes.c_float.from_address(ctypes.addressof(place) + kind.value.offset).value = value
            else:
                place.type, place.value, place.value_size = _INT64_LIST, self.numbers(value), len(value)
        return ctypes.addressof(array), len(values)

    def numbers(self, values: Sequence[int], width: int = 8) -> int:
        """The address of numbers of 4 or 8 bytes."""
        array = ((ctypes.c_int64 if width == 8 else ctypes.c_int32) * max(1, len(values)))(*values)
        self._kept.append(array)
        return ctypes.addressof(array)


class Storage:
    """A reference to memory of arrays; `address` is where it lies. Given back with this object, unless `released`.

    Attributes:
        event: after which its elements are there, with a reference; 0: they are. Memory of the host has none.
    """

    event = 0

    def __init__(self, blocks: Blocks, block: int) -> None:
        self._blocks, self.block = blocks, block
        self._drop, self._drop_event = blocks.call["storage_drop"], blocks.call["event_drop"]
        self.address = blocks.field("storage", block, "address")

    def release(self) -> int:
        """The block, with the reference: the caller has it now."""
        block, self.block = self.block, 0
        return block

    def follow(self, event: int) -> None:
        """Its elements are there after an event; 0: they are."""
        if event:
            self._blocks.call["event_refer"](event)
        self._drop_event(self.event or None)
        self.event = event

    def __del__(self) -> None:
        self._drop_event(self.event or None)
        if self.block:
            self._drop(self.block)

    def array(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """The memory as an array, which keeps this reference."""
        return view(self.address, tuple(shape), dtype, None, self)


def view(
    address: int, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...] | None, owner: object = None
) -> np.ndarray:
    """Memory that is not NumPy's as an array, which keeps `owner`."""
    described = {"shape": shape, "typestr": f"|V{dtype.itemsize}", "data": (address, False), "version": 3}
    if strides is not None:
        described["strides"] = strides
    holder = type("Memory", (), {"__array_interface__": described, "owner": owner})()
    return np.asarray(holder).view(dtype)


class Blocks:
    """All blocks of the platform that are in use, and what Python keeps for each of its own, by address.

    Attributes:
        state: the address of what native code shares with this (fields.py).
        code, functions: that code, and the names of its functions.
        call: those that Python calls, by name.
        release: the address of what frees a block that the API has a deleter for.
    """

    def __init__(self, item_sizes: Sequence[int]) -> None:
        self.state = calloc(STATE_BYTES)
        self.code, self.functions = native_functions(self.state)
        self.release = self.code.address("release")
        self.call = {
            name: (ctypes.CFUNCTYPE if waits else ctypes.PYFUNCTYPE)(result, *arguments)(self.code.address(name))
            for name, (result, arguments, waits) in _CALLS.items()
        }
        self._objects: dict[int, object] = {}
        self._lock = threading.RLock()
        self._texts = Memory()
        event = self.new("event", None, references=_FOREVER, waiters=CLOSED, over=1)
        self._set(DONE, event)
        self._set(MISSING, self._immortal_error("stablehlo-py does not implement this function of PJRT", 12))
        self._set(FORKED_ERROR, self._immortal_error(FORKED_TEXT, 9))
        self._set(FAILED_BEFORE, self._texts.text("the custom call '")[0])
        self._set(FAILED_BETWEEN, self._texts.text("' failed: ")[0])
        self._set(ITEM_SIZES, self._texts.numbers(item_sizes))
        descending = self._texts.numbers(range(MOST_DIMENSIONS - 1, -1, -1))
        self._set(DESCENDING, descending)
        self._layouts, self._orders = dict[Order, int](), dict[Order, int]()
        for rank in range(MOST_DIMENSIONS + 1):
            order = row_major(rank)
            self._layouts[order] = self.state + LAYOUTS + LAYOUT_BYTES * rank
            self._orders[order] = descending + 8 * (MOST_DIMENSIONS - rank)
            self._name_layout(order)
        self._set(HOST_POOL + POOL["limit"], KEPT_BYTES)
        self._watched = dict[int, tuple[dict[str, int], int]]()  # plans of `watch`, by how many they have of each
        copy = {"entry": self.code.address("copy_entry"), "num_inputs": 1, "num_outputs": 1, **job_places(1, 1, 0)}
        for name, value in copy.items():
            self._set(COPY + PLAN[name], value)
        os.register_at_fork(after_in_child=self._after_fork)
        atexit.register(self.call["leave"])

    def _set(self, offset: int, value: int) -> None:
        _cell(self.state + offset).value = value

    def _immortal_error(self, text: str, code: int) -> int:
        message, size = self._texts.text(text)
        return self.new("error", None, references=_FOREVER, message=message, size=size, code=code)

    def _after_fork(self) -> None:
        ctypes.c_int32.from_address(self.state + FORKED).value = 1

    @property
    def is_forked(self) -> bool:
        """Whether this process is a forked child."""
        return bool(ctypes.c_int32.from_address(self.state + FORKED).value)

    @property
    def done(self) -> int:
        """The event that is over."""
        return int(_cell(self.state + DONE).value)

    @property
    def handles(self) -> int:
        """How many buffers, storages and events there are, and objects that Python keeps."""
        self.sweep()
        return int(_cell(self.state + HANDLES).value) + len(self._objects)

    def _name_layout(self, order: Order) -> None:
        text, size = self._texts.text(layout_text(order))
        self.set_field("layout", self._layouts[order], "text", text)
        self.set_field("layout", self._layouts[order], "text_size", size)

    def layout(self, order: Order) -> tuple[int, int]:
        """The layout of arrays whose dimensions lie in an order, and the address of that order, which stay for ever."""
        with self._lock:
            if order not in self._layouts:
                self._layouts[order] = calloc(LAYOUT_BYTES + 8 * len(order))
                self._orders[order] = self._layouts[order] + LAYOUT_BYTES
                ctypes.memmove(self._orders[order], (ctypes.c_int64 * len(order))(*order), 8 * len(order))
                self._name_layout(order)
            return self._layouts[order], self._orders[order]

    def new(self, kind: str, owner: object, /, *, references: int = 1, **fields: int) -> int:
        """A block of a kind, with these fields; `owner` is kept until it is freed."""
        address = calloc(BLOCK_BYTES)
        _cell(address + REFERENCES).value = references
        for name, value in fields.items():
            self.set_field(kind, address, name, value)
        with self._lock:
            self._objects[address] = owner
        return address

    def owner(self, address: int) -> object:
        """What is kept for a block."""
        return self._objects[address]

    def field(self, kind: str, address: int, name: str) -> int:
        """A field of a block."""
        type_ = ctypes.c_int32 if is_short(name) else ctypes.c_int64
        return type_.from_address(address + FIELDS[kind][name]).value

    def set_field(self, kind: str, address: int, name: str, value: int) -> None:
        """Store a field of a block."""
        type_ = ctypes.c_int32 if is_short(name) else ctypes.c_int64
        type_.from_address(address + FIELDS[kind][name]).value = value

    # --- buffers ------------------------------------------------------------------------------------------------------

    def queue(self) -> int:
        """A new queue, for a device."""
        return calloc(QUEUE_BYTES)

    def drain(self, device: int) -> None:
        """Wait until everything that a device was asked for is done."""
        self.call["queue_drain"](self.field("device", device, "queue"))

    def storage(self, size: int) -> Storage:
        """Memory for an array. Raises ResourceError."""
        require(size, "an array")
        block = self.call["storage_new"](size)
        if not block:
            raise ResourceError(
                f"{size} bytes of memory are not to be had", remedy="free memory, or use smaller arrays"
            )
        return Storage(self, block)

    def storage_view(self, address: int, release: int | None, argument: int | None) -> Storage:
        """Memory that is somebody else's: release(address, argument) is called when nobody reads it any more."""
        return Storage(self, self.call["storage_view"](address, release, argument))

    def storage_of(self, owner: object, address: int, size: int, driver: int) -> Storage:
        """Memory of a GPU; `owner` is kept as long as somebody uses it, or it is kept for the next array."""
        return Storage(self, self.new("storage", owner, address=address, size=size, start=driver))

    def driver(self, limit: int, **values: int) -> int:
        """A DRIVER, of whose memory so many bytes are kept for the next arrays."""
        address = calloc(DRIVER_BYTES)
        for name, value in values.items():
            _cell(address + DRIVER[name]).value = value
        _cell(address + DRIVER_POOL + POOL["limit"]).value = limit
        _cell(address + DRIVER_POOL + POOL["on_device"]).value = 1
        return address

    def open(self, queue: int, driver: int) -> None:
        """A device, whose queue this is, has that DRIVER; 0: one that is lost."""
        if not driver:
            driver = self.driver(0, given=self._texts.numbers([1]))
        _cell(queue + OPEN).value = driver

    def kept(self, driver: int) -> int:
        """Bytes that a DRIVER keeps."""
        return int(_cell(driver + DRIVER_POOL + POOL["bytes"]).value)

    def give_up(self, driver: int, *, for_ever: bool) -> None:
        """Free what it keeps; from now on nothing is kept, where that is asked for."""
        if for_ever:
            _cell(driver + DRIVER_POOL + POOL["limit"]).value = -1
        self.call["pool_empty"](driver + DRIVER_POOL)
        self.sweep()

    def watch(
        self, queue: int, driver: int, handle: int, after: Sequence[int] = (), kept: Sequence[Storage] = ()
    ) -> int:
        """An event, with a reference, that is over when what a driver was asked for is done, whose event has a handle
        (0: it is), and other events are over. It takes over memory that is to stay till then. Waits where too much is
        under way."""
        count = max(len(after), len(kept))
        if count not in self._watched:
            places = {"num_inputs": count, **job_places(count, 0, 0)}
            self._watched[count] = places, self._texts.numbers([places.get(name, 0) for name in PLAN])
        places, plan = self._watched[count]
        job = self.call["watch"](driver, plan, handle)
        for number, event in enumerate(after):
            self.call["event_refer"](event)
            _cell(job + places["events"] + 8 * number).value = event
        for number, storage in enumerate(kept):
            _cell(job + places["holds"] + 8 * number).value = storage.release()
        event = int(_cell(job + JOB["event"]).value)
        self.call["queue_push"](queue, job)
        return event

    def event(self) -> int:
        """An event that is not over, with one reference."""
        return int(self.call["event_new"](1))

    def wait(self, event: int) -> None:
        """Return when an event is over. Raises PlatformError: what it stands for has failed."""
        self._raise(self.call["event_await"](event))

    def buffer(
        self, storage: Storage, type_: int, shape: Sequence[int], item_size: int, device: int, event: int = 0
    ) -> int:
        """A buffer on a device (its address), which takes over the memory and the event."""
        dims = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        size = math.prod(shape) * item_size
        arguments = (type_, len(shape), ctypes.addressof(dims), size, device, storage.release(), event or None)
        return int(self.call["buffer_new"](*arguments))

    def held(self, buffer: int) -> Storage | None:
        """The memory of a buffer; None: it is deleted."""
        held = self.call["buffer_hold"](buffer)
        return Storage(self, held) if held else None

    def hold(self, buffer: int) -> Storage | None:
        """As `held`, when its elements are there. Raises PlatformError: what was to compute them has failed."""
        storage, event = self.held(buffer), self.field("buffer", buffer, "event")
        if storage is not None and event:
            self.wait(event)
        return storage

    def is_shared(self, buffer: int, storage: Storage) -> bool:
        """Whether somebody uses the memory of a buffer without the API, so that it must not be written."""
        external = self.field("buffer", buffer, "external")
        return bool(external or self.field("storage", storage.block, "read_only"))

    def spend(self, buffer: int) -> bool:
        """Delete a buffer, and whether it was not deleted before."""
        storage = self.call["buffer_spend"](buffer)
        self.call["storage_drop"](storage)
        return storage is not None

    def _raise(self, error: int | None) -> None:
        """Raise an error of the API, if it is one; takes over the reference to it."""
        if not error:
            return
        code = self.field("error", error, "code")
        message = ctypes.string_at(self.field("error", error, "message"), self.field("error", error, "size"))
        self.call["error_drop"](error)
        raise PlatformError(code, message.decode(errors="replace"))

    def sweep(self) -> None:
        """Free what nobody refers to any more, of what Python made."""
        with self._lock:
            address = self.call["take"](self.state + FREE) if _cell(self.state + FREE).value else 0
            while address:
                following = int(_cell(address + NEXT).value)
                self._objects.pop(address, None)
                _libc.free(address)
                address = following


def _cell(address: int) -> ctypes.c_int64:
    return ctypes.c_int64.from_address(address)
