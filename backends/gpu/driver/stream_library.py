"""Drivers whose work is in streams, CUDA's and HIP: they have functions in common, under names of their own."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, ClassVar

from stablehlo_py.backends.gpu.driver.library import Library

STATUS = INT = ctypes.c_int32
UINT, SIZE, POINTER = ctypes.c_uint32, ctypes.c_size_t, ctypes.c_uint64  # POINTER: to memory of a device
HANDLE = ADDRESS = ctypes.c_void_p
TEXT = ctypes.c_char_p

#: The functions in common: what each returns, and its parameters. `MemcpyAsync` has `StreamLibrary.copy_kinds` besides.
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "Init": (STATUS, UINT),
    "DeviceGet": (STATUS, ADDRESS, INT),
    "DeviceGetCount": (STATUS, ADDRESS),
    "DeviceGetName": (STATUS, ADDRESS, INT, INT),
    "DeviceGetPCIBusId": (STATUS, ADDRESS, INT, INT),
    "DeviceTotalMem": (STATUS, ADDRESS, INT),
    "DeviceGetAttribute": (STATUS, ADDRESS, INT, INT),
    "Synchronize": (STATUS,),
    "StreamCreate": (STATUS, ADDRESS, UINT),
    "StreamDestroy": (STATUS, HANDLE),
    "StreamSynchronize": (STATUS, HANDLE),
    "StreamWaitEvent": (STATUS, HANDLE, HANDLE, UINT),
    "EventCreate": (STATUS, ADDRESS, UINT),
    "EventRecord": (STATUS, HANDLE, HANDLE),
    "EventQuery": (STATUS, HANDLE),
    "EventSynchronize": (STATUS, HANDLE),
    "EventDestroy": (STATUS, HANDLE),
    "MemAlloc": (STATUS, ADDRESS, SIZE),
    "MemFree": (STATUS, POINTER),
    "MemPoolCreate": (STATUS, ADDRESS, ADDRESS),
    "MemPoolDestroy": (STATUS, HANDLE),
    "MemPoolSetAttribute": (STATUS, HANDLE, INT, ADDRESS),
    "MemPoolTrimTo": (STATUS, HANDLE, SIZE),
    "MemAllocFromPoolAsync": (STATUS, ADDRESS, SIZE, HANDLE, HANDLE),
    "MemFreeAsync": (STATUS, POINTER, HANDLE),
    "MemcpyAsync": (STATUS, POINTER, POINTER, SIZE, HANDLE),
    "MemcpyPeerAsync": (STATUS, POINTER, HANDLE, POINTER, HANDLE, SIZE, HANDLE),
    "PointerGetAttribute": (STATUS, ADDRESS, INT, POINTER),
    "ModuleUnload": (STATUS, HANDLE),
    "ModuleGetFunction": (STATUS, ADDRESS, HANDLE, TEXT),
    "LaunchKernel": (STATUS, HANDLE, *[UINT] * 7, HANDLE, ADDRESS, ADDRESS),
    "GraphCreate": (STATUS, ADDRESS, UINT),
    "GraphAddKernelNode": (STATUS, ADDRESS, HANDLE, ADDRESS, SIZE, ADDRESS),
    "GraphInstantiate": (STATUS, ADDRESS, HANDLE, ctypes.c_uint64),
    "GraphExecKernelNodeSetParams": (STATUS, HANDLE, HANDLE, ADDRESS),
    "GraphLaunch": (STATUS, HANDLE, HANDLE),
    "GraphExecDestroy": (STATUS, HANDLE),
    "GraphDestroy": (STATUS, HANDLE),
}
OUT_OF_MEMORY, NOT_FOUND, NOT_READY = 2, 500, 600  # statuses that have the same numbers, too
LAUNCH_BUFFER, LAUNCH_SIZE = 1, 2  # CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, and those of HIP
_TEXT_BYTES = 256


def named(prefix: str, **others: str) -> dict[str, str]:
    """The names that a driver has for the functions in common: they begin alike, but for those that are given."""
    return {name: others.get(name, prefix + name) for name in SIGNATURES}


class StreamLibrary(Library):
    """The functions of a driver with streams.

    Attributes:
        names: what it calls the functions in common.
        copy_kinds: what its `MemcpyAsync` is told besides, before the stream.
        launch_end: the number behind the parameters of a launch.
        change_copy: what gives a copy of a graph other operands.
        dlpack_type: of its devices in DLPack; default_stream, refused_streams: as `SharedSpace` has them (Python array
            API, `__dlpack__`).
    """

    names: ClassVar[Mapping[str, str]]
    copy_kinds: ClassVar[tuple[int, ...]] = ()
    launch_end: ClassVar[int]
    change_copy: ClassVar[str]
    dlpack_type: ClassVar[int]
    default_stream: ClassVar[int]
    refused_streams: ClassVar[tuple[int, ...]]

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._functions |= {name: self._functions[own] for name, own in self.names.items()}

    def own(self, name: str) -> str:
        """What it calls a function, for messages."""
        return self.names.get(name, name)

    def number(self, name: str, *arguments: Any, of: Any = INT) -> int:
        """What a function stores at its first argument. Raises as `failure`."""
        place = of()
        self.call(self.own(name), ctypes.byref(place), *arguments)
        return place.value or 0

    def text(self, name: str, device: int) -> str:
        """What a function writes of a device at its first argument. Raises as `failure`."""
        place = ctypes.create_string_buffer(_TEXT_BYTES)
        self.call(self.own(name), place, _TEXT_BYTES, device)
        return place.value.decode(errors="replace")


def dotted(version: int, major: int = 1000, minor: int = 10) -> str:
    """A version as people write it: CUDA's 12040 is 12.4. `major`, `minor`: what it has of each."""
    return f"{version // major}.{version % major // minor}"
