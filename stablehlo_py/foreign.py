"""Memory that Python does not own, as Python sees it.

Not by arrays of ctypes: every length is a class of its own there, and a class is freed by the garbage collector alone.
"""

from __future__ import annotations

import ctypes

_from_memory = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", ctypes.pythonapi)
)
_WRITABLE = 0x200  # PyBUF_WRITE


def memory_at(address: int, size: int) -> memoryview:
    """The `size` bytes at an address, which may be written; their owner has to outlive the view."""
    return _from_memory(address, size, _WRITABLE)
