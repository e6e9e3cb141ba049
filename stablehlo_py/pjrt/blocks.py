"""Objects of the PJRT C API in memory: blocks that native code reads (native.py), and what Python keeps beside each."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

from stablehlo_py.pjrt.native import (
    BLOCK_BYTES,
    DONE,
    DROPPED,
    DROPPED_NEXT,
    FIELDS,
    FREE,
    MISSING,
    NEXT,
    REFERENCES,
    STATE_BYTES,
    native_functions,
)

_TAKE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_DESTROY = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

_libc = ctypes.CDLL(None)
_libc.calloc.restype, _libc.calloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.restype, _libc.free.argtypes = None, [ctypes.c_void_p]


def calloc(size: int) -> int:
    """Zeroed memory that nobody frees with the interpreter: native code may read it at exit."""
    address = _libc.calloc(1, max(size, 1))
    if not address:
        raise MemoryError
    return address


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

    def numbers(self, values: Sequence[int], width: int = 8) -> int:
        """The address of numbers of 4 or 8 bytes."""
        array = ((ctypes.c_int64 if width == 8 else ctypes.c_int32) * max(1, len(values)))(*values)
        self._kept.append(array)
        return ctypes.addressof(array)


class Blocks:
    """All blocks of the platform that are in use, and what Python keeps for each, by address.

    Attributes:
        state: the address of what native code shares with this (native.py).
        code, functions: that code, and the names of its functions.
        release: the address of what frees a block that the API has a deleter for.
    """

    def __init__(self) -> None:
        self.state = calloc(STATE_BYTES)
        self.code, self.functions = native_functions(self.state)
        self.release = self.code.address("release")
        self._take = _TAKE(self.code.address("take"))
        self._destroy = _DESTROY(self.code.address("Buffer_Destroy"))
        self._objects: dict[int, object] = {}
        self._lock = threading.RLock()
        self._texts = Memory()
        _cell(self.state + DONE).value = self.new("event", None)
        message, size = self._texts.text("stablehlo-py does not implement this function of PJRT")
        # References that nobody gives back: it is never freed.
        missing = self.new("error", None, references=1 << 60, message=message, size=size, code=12)
        _cell(self.state + MISSING).value = missing

    @property
    def done(self) -> int:
        """The event that is over: everything is, when it is asked for."""
        return int(_cell(self.state + DONE).value)

    def new(self, kind: str, owner: object, /, *, references: int = 1, **fields: int) -> int:
        """A block of a kind, with these fields; `owner` is kept until it is freed."""
        address = calloc(BLOCK_BYTES)
        _cell(address + REFERENCES).value = references
        for name, value in fields.items():
            if name in ("id", "code", "type", "deleted"):
                ctypes.c_int32.from_address(address + FIELDS[kind][name]).value = value
            else:
                _cell(address + FIELDS[kind][name]).value = value
        with self._lock:
            self._objects[address] = owner
        return address

    def owner(self, address: int) -> object:
        """What is kept for a block."""
        return self._objects[address]

    def flag(self, kind: str, address: int, name: str) -> bool:
        """Whether a field is not 0."""
        return bool(ctypes.c_int32.from_address(address + FIELDS[kind][name]).value)

    def mark(self, kind: str, address: int, name: str) -> None:
        """Set a field to 1."""
        ctypes.c_int32.from_address(address + FIELDS[kind][name]).value = 1

    def sweep(self) -> None:
        """Free what nobody refers to any more, and the memory of deleted buffers."""
        for address in self._taken(DROPPED, DROPPED_NEXT):
            self._objects[address] = None
            # By native code, which other threads run at the same moment.
            arguments = (ctypes.c_int64 * 3)(24, 0, address)
            self._destroy(ctypes.addressof(arguments))
        for address in self._taken(FREE, NEXT):
            self._free(address)

    def _free(self, address: int) -> None:
        with self._lock:
            self._objects.pop(address, None)
        _libc.free(address)

    def _taken(self, head: int, link: int) -> list[int]:
        """The blocks of a list, which is empty then."""
        with self._lock:
            found, cell = [], _cell(self.state + head)
            address = self._take(self.state + head) if cell.value else 0
            while address:
                found.append(address)
                address = int(_cell(address + link).value)
        return found


def _cell(address: int) -> ctypes.c_int64:
    return ctypes.c_int64.from_address(address)
