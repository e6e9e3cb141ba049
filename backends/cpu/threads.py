"""The thread pools of this process: one per thread count, shared by all executables."""

from __future__ import annotations

import ctypes
import os
import signal

from stablehlo_py import forks
from stablehlo_py.backends.cpu import helpers
from stablehlo_py.backends.cpu.layout import POOL_BYTES
from stablehlo_py.backends.cpu.native import NativeCode, once
from stablehlo_py.errors import ResourceError
from stablehlo_py.runtime.memory import Block

_lock = forks.Lock()
_pools: dict[int, ThreadPool] = {}


def _code() -> NativeCode:
    return helpers.code(helpers.POOL)


@once
def parallel_for() -> int:
    """The address of `shlo_parallel_for` (include/shlo_call.h) of pools; its context is a pool's address."""
    return _code().address("shlo_pool_try")


class ThreadPool:
    """Worker threads, which start with the first call; `parallel_for` gives them one job at a time.

    Pools live as long as the process: their threads sleep in code and on memory that must outlast them.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._block = Block(POOL_BYTES)
        self._lock = forks.Lock()
        self.address = self._block.address
        self.reset()

    def reset(self) -> None:
        """Forget the threads. For a forked child, which has none of its parent's."""
        ctypes.memset(self.address, 0, POOL_BYTES)
        self._started = False

    def start(self) -> None:
        """Start the threads, if they are not there.

        Raises:
            ResourceError: the system refuses to start all of them; once, then calls go on with those that started.
        """
        if not self._started:
            with self._lock:
                if not self._started:
                    self._start()

    def _start(self) -> None:
        start = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(_code().address("shlo_pool_start"))
        # Threads inherit the mask: signals are Python's main thread's to handle.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            started = start(self.address, self._threads)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._started = True
        if started != self._threads - 1:
            raise ResourceError(
                f"only {started} of {self._threads - 1} threads could be started", remedy="use Options(threads=1)"
            )


def pool_for(threads: int) -> ThreadPool:
    """The pool of this many threads, the calling one included."""
    with _lock:
        if threads not in _pools:
            made, code = ThreadPool(threads), _code()
            # Never freed, not even at exit, when modules are torn down around sleeping threads.
            for immortal in (made, code):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(immortal))
            _pools[threads] = made
        return _pools[threads]


def _after_fork() -> None:
    for pool in _pools.values():
        pool.reset()


os.register_at_fork(after_in_child=_after_fork)
