"""Calls of programs whose arguments and results end, or begin, at a page that no access may touch."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence

import numpy as np

import stablehlo_py as shlo
from stablehlo_py.runtime import entry
from stablehlo_py.runtime.memory import Block

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guarded:
    """An array at the end (or the begin) of memory between two pages that are not to be touched. What is left of its
    own pages holds bytes that make NaNs of floats."""

    def __init__(self, like: np.ndarray, *, at_end: bool) -> None:
        room = -(-like.nbytes // PAGE) * PAGE or PAGE
        self._memory = mmap.mmap(-1, room + 2 * PAGE)
        whole = np.frombuffer(self._memory, np.uint8)
        whole[:] = 0xFF
        start = PAGE + (room - like.nbytes if at_end else 0)
        self.address = whole.ctypes.data + start
        self.array = whole[start : start + like.nbytes].view(like.dtype).reshape(like.shape)
        self.array[...] = like
        self._pages = (whole.ctypes.data, whole.ctypes.data + PAGE + room)
        self._protect(0)

    def _protect(self, protection: int) -> None:
        for page in self._pages:
            if _libc.mprotect(page, PAGE, protection):
                raise OSError("mprotect failed")

    def __del__(self) -> None:
        self._protect(mmap.PROT_READ | mmap.PROT_WRITE)


def call_guarded(
    executable: shlo.Executable, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray], *, at_end: bool
) -> list[np.ndarray]:
    """Results like `results`, of a program with one thread. Whoever reads or writes elsewhere ends the process."""
    described = executable.entry
    assert described.workspace_bytes is not None
    inputs = [Guarded(array, at_end=at_end) for array in arrays]
    outputs = [Guarded(result, at_end=at_end) for result in results]
    workspace = Block(max(64, described.workspace_bytes))
    tables = [(ctypes.c_void_p * max(1, len(each)))(*(one.address for one in each)) for each in (inputs, outputs)]
    addresses = [ctypes.addressof(table) for table in tables]
    call = entry.Call(ctypes.sizeof(entry.Call), *addresses, workspace.address, described.constants)
    never = (ctypes.c_int64 * 2)()  # nobody asks for the end of a loop
    call.interrupt = ctypes.addressof(never)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(described.address)
    assert function(ctypes.addressof(call)) == entry.OK
    return [output.array.copy() for output in outputs]
