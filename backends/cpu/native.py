"""Machine code in this process: object files are linked where they are to run (linker.py), without LLVM and without
tools of the system. Memory that is executed is not written any more, and memory that is written is not executed."""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TypeVar

import numpy as np

from stablehlo_py.backends.cpu.linker import PAGE, Linker
from stablehlo_py.errors import InternalError, LoadError, ResourceError

T = TypeVar("T")


def once(make: Callable[[], T]) -> Callable[[], T]:
    """Make something at the first call, and give that ever after. Unlike with `functools.cache`, threads that call at
    the same moment get the same: of machine code that others know by its address, a second one would be freed."""
    lock = threading.RLock()
    made: list[T] = []

    def get() -> T:
        with lock:
            if not made:
                made.append(make())
            return made[0]

    return get


@once
def _libraries() -> list[ctypes.CDLL]:
    """Where functions are that code calls by name: Python's, the system's, those of mathematics, those for what a
    processor lacks."""
    libraries = [ctypes.CDLL(None, use_errno=True), ctypes.CDLL("libm.so.6")]
    with suppress(OSError):  # few programs need it, and not every system has it
        libraries.append(ctypes.CDLL("libgcc_s.so.1"))
    return libraries


@cache
def _function(name: str) -> int:
    """The address of a function that is not the program's. Raises LoadError: this process has none of that name."""
    for library in _libraries():
        with suppress(AttributeError):
            return ctypes.cast(library[name], ctypes.c_void_p).value or 0
    raise LoadError(
        f"the program's machine code calls '{name}', which this process does not have",
        remedy="compile the model again, with the version of this package that loads it",
    )


class NativeCode:
    """Object files loaded into this process; `address(symbol)` until the object dies.

    Args:
        symbols: addresses of what they call, before that is looked for in the process.

    Raises:
        LoadError: the files are damaged, or call what this process does not have. ResourceError: there is no memory.
    """

    def __init__(self, objects: Sequence[bytes], symbols: Mapping[str, int] | None = None) -> None:
        known = symbols or {}
        linker = Linker(objects, platform.machine())
        try:
            owner = mmap.mmap(-1, linker.size + PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise ResourceError(
                f"{linker.size} bytes of memory for machine code are not to be had: {error.strerror}",
                remedy="close what else is running",
            ) from error
        self._memory = np.frombuffer(owner, np.uint8)
        begin = -self._memory.ctypes.data % PAGE
        address = self._memory.ctypes.data + begin
        image = linker.link(address, lambda name: known[name] if name in known else _function(name))
        self._memory[begin : begin + linker.size] = image.content
        _protect(address, image.code_bytes, mmap.PROT_READ | mmap.PROT_EXEC)
        _protect(address + image.code_bytes, linker.size - image.code_bytes, mmap.PROT_READ)
        self.symbols = image.symbols

    def __del__(
        self,
        at_exit: Callable[[], bool] = sys.is_finalizing,
        keep: Callable[[object], object] = ctypes.pythonapi.Py_IncRef,
        as_object: Callable[[object], object] = ctypes.py_object,
    ) -> None:
        if "_memory" in self.__dict__ and at_exit():  # a thread may still run it: it goes with the process
            keep(as_object(self._memory))

    def address(self, symbol: str) -> int:
        """Address of a function."""
        if symbol not in self.symbols:
            raise InternalError(f"the object files define no {symbol}")
        return self.symbols[symbol]


def _protect(address: int, size: int, protection: int) -> None:
    library = _libraries()[0]
    if size and library.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), protection):
        raise ResourceError(
            f"the system lets no memory become machine code (errno {ctypes.get_errno()})",
            remedy="allow it (on SELinux: execmem)",
        )
