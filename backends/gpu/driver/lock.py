"""A lock that native code takes, too."""

from __future__ import annotations

import ctypes

from stablehlo_py.errors import InternalError

_RECURSIVE, _ROOM = 1, 64  # PTHREAD_MUTEX_RECURSIVE; more bytes than a pthread_mutex_t, or its attributes, has
_libc = ctypes.CDLL(None)
_libc.calloc.restype, _libc.calloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]


def zeroed(size: int) -> int:
    """The address of so many bytes of 0, which stay: threads of native code may read them when the interpreter ends."""
    made = _libc.calloc(1, size)
    if not made:
        raise MemoryError
    return int(made)


class NativeLock:
    """A mutex of the system that the thread which has it may take again. Who waits for it lets other threads of Python
    run. Its memory stays when the interpreter ends: a thread of native code may wait then.

    Attributes:
        address: of the pthread_mutex_t.
    """

    def __init__(self) -> None:
        attributes = ctypes.create_string_buffer(_ROOM)
        self.address = made = zeroed(_ROOM)
        status = _libc.pthread_mutexattr_init(attributes)
        status = status or _libc.pthread_mutexattr_settype(attributes, _RECURSIVE)
        status = status or _libc.pthread_mutex_init(ctypes.c_void_p(made), attributes)
        if status:
            raise InternalError(f"the system makes no mutex: pthread_mutex_init ended with {status}")
        self._mutex = ctypes.c_void_p(made)

    def __enter__(self) -> None:
        _libc.pthread_mutex_lock(self._mutex)

    def __exit__(self, *_: object) -> None:
        _libc.pthread_mutex_unlock(self._mutex)
