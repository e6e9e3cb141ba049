"""Memory and pointers that Python does not own, as Python sees them.

Not by arrays of ctypes: every length is a class of its own there, and a class is freed by the garbage collector alone.
Nor by attributes of `ctypes.pythonapi`, which all packages of a process share: JAX, too, declares the arguments of
`PyCapsule_New` there, as others than these.
"""

from __future__ import annotations

import ctypes

_from_memory = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", ctypes.pythonapi)
)
_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_WRITABLE = 0x200  # PyBUF_WRITE


def memory_at(address: int, size: int) -> memoryview:
    """The `size` bytes at an address, which may be written; their owner has to outlive the view."""
    return _from_memory(address, size, _WRITABLE)


def name_of_capsule(capsule: object) -> bytes | None:
    """The name of a PyCapsule."""
    return _capsule_name(capsule)


def pointer_of_capsule(capsule: object) -> int:
    """The pointer in a PyCapsule, whatever its name is."""
    return _capsule_pointer(capsule, _capsule_name(capsule))


def new_capsule(address: int, name: bytes) -> object:
    """A PyCapsule of a pointer. It borrows the name, which has to live as long."""
    return _new_capsule(address, name, None)
