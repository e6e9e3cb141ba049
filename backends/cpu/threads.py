"""The thread pools of this process: one per thread count, shared by all executables; their code is compiled once."""

from __future__ import annotations

import ctypes
import os
import signal

import llvmlite.binding as llvm

from stablehlo_py import forks
from stablehlo_py.backends.cpu import channels
from stablehlo_py.backends.cpu import grid as native_grid
from stablehlo_py.backends.cpu import pool as native_pool
from stablehlo_py.backends.cpu.objects import NativeCode, Unit, compile_units, once
from stablehlo_py.backends.cpu.target import host_target
from stablehlo_py.errors import ResourceError
from stablehlo_py.runtime.memory import Block

_lock = forks.Lock()
_pools: dict[int, ThreadPool] = {}


@once
def _code() -> NativeCode:
    return NativeCode([compile_units([Unit.of(*native_pool.functions(host_target()))])])


@once
def parallel_for() -> int:
    """The address of `shlo_parallel_for` (include/shlo_call.h) of pools; its context is a pool's address."""
    return _code().address("shlo_pool_run")


@once
def register_grid_symbols() -> NativeCode:
    """Make what processes of a grid meet by known to programs that are loaded later."""
    functions = [*native_grid.functions(host_target()), *channels.functions(host_target())]
    code = NativeCode([compile_units([Unit.of(*functions)])])
    for function in functions:
        llvm.add_symbol(function.name, code.address(function.name))
    return code


class ThreadPool:
    """Worker threads, which start with the first job; one call at a time has them.

    Pools live as long as the process: their threads sleep in code and on memory that must outlast them.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._block = Block(native_pool.POOL_BYTES)
        self._lock = forks.Lock()
        self.address = self._block.address
        self.reset()

    def reset(self) -> None:
        """Forget the threads. For a forked child, which has none of its parent's."""
        ctypes.memset(self.address, 0, native_pool.POOL_BYTES)
        self._started = False

    def acquire(self) -> bool:
        """Take the pool for one call, if no other call has it; then `release` it.

        Raises:
            ResourceError: the system refuses to start the threads.
        """
        if not self._lock.acquire(blocking=False):
            return False
        if not self._started:
            try:
                self._start()
            except BaseException:
                self.release()
                raise
        return True

    def release(self) -> None:
        """Give the pool back."""
        self._lock.release()

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
            _pools[threads] = ThreadPool(threads)
            # Never freed, not even at exit, when modules are torn down around sleeping threads.
            for immortal in (_pools[threads], _code()):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(immortal))
        return _pools[threads]


def _after_fork() -> None:
    for pool in _pools.values():
        pool.reset()


os.register_at_fork(after_in_child=_after_fork)
