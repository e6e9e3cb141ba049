"""Forks of a process whose other threads compile.

A forked child has one thread, and every lock as it was: one that another thread held stays locked for ever, be it a
lock of ours, of Python's imports, of LLVM or of MLIR. So `os.fork` waits until each thread that compiles is where
nothing is locked: at a `checkpoint`, or done (stablehlo_py/interrupts.py). A child can then do whatever its parent can.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from importlib import import_module

from stablehlo_py.errors import ResourceError

# A fork waits so long at most: the forking thread may hold what a thread that compiles waits for.
LIMIT_S = 10.0


class _Gate:
    """Which threads work, and how many forks wait for them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._working: dict[int, int] = {}  # by thread: how deeply nested its work is; not while it stands still
        self._forking: set[int] = set()  # threads
        self._in_time = True
        self._orphan = False  # is this a child of a process whose threads did not stand still?

    def enter(self) -> None:
        me = threading.get_ident()
        if me in self._working:
            self._working[me] += 1  # without the lock: no other thread changes this one's depth, or looks at it
            return
        with self._changed:
            if self._orphan:
                raise ResourceError(
                    "this process was forked while another thread compiled, and has inherited its locks",
                    remedy="start processes by 'spawn' or 'forkserver', or before other threads compile",
                )
            self._changed.wait_for(lambda: not self._forking)
            self._working[me] = 1

    def leave(self) -> None:
        me = threading.get_ident()
        if self._working[me] > 1:
            self._working[me] -= 1
            return
        with self._changed:
            del self._working[me]
            self._changed.notify_all()

    def stand_still(self) -> None:
        me = threading.get_ident()
        if not self._forking or me not in self._working:
            return
        with self._changed:
            depth = self._working.pop(me)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._forking)
            self._working[me] = depth

    def before(self) -> None:
        limit = time.monotonic() + LIMIT_S
        with self._changed:
            self._in_time = False
            self._forking.add(threading.get_ident())
            self._changed.notify_all()
            while self._working.keys() - self._forking and time.monotonic() < limit:
                self._changed.wait(limit - time.monotonic())
            self._in_time = not self._working.keys() - self._forking

    def after_in_parent(self) -> None:
        with self._changed:
            self._forking.discard(threading.get_ident())
            self._changed.notify_all()

    def after_in_child(self) -> None:
        self._changed = threading.Condition()
        self._orphan = self._orphan or not self._in_time
        self._forking.clear()
        self._working = {me: depth for me, depth in self._working.items() if me == threading.get_ident()}


_gate = _Gate()


def enter() -> None:
    """Begin work during which this process cannot be forked, but at `stand_still`. Nests; `leave` ends it.

    Raises:
        ResourceError: this process is a child that inherited locks.
    """
    _gate.enter()


def leave() -> None:
    """End what `enter` began."""
    _gate.leave()


def stand_still() -> None:
    """Let other threads fork. Not while this one holds a lock, other than a `Lock`."""
    _gate.stand_still()


class Lock:
    """A lock that a forked child finds free, unless the thread that forked holds it. For what is whole whenever a
    thread may be interrupted by another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        _locks.add(self)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As threading.Lock."""
        taken = self._lock.acquire(blocking, timeout)
        if taken:
            self._owner = threading.get_ident()
        return taken

    def release(self) -> None:
        """As threading.Lock."""
        self._owner = None
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def after_in_child(self) -> None:
        """Free it, if its owner is not there."""
        if self._owner != threading.get_ident():
            self._lock, self._owner = threading.Lock(), None


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _after_in_child() -> None:
    _gate.after_in_child()
    for lock in _locks:
        lock.after_in_child()


# Hooks before a fork run in reverse order of registration. Those of Python's library take locks that a thread which
# compiles may need to get on: they are imported first.
import_module("concurrent.futures.thread")  # and logging
os.register_at_fork(before=_gate.before, after_in_parent=_gate.after_in_parent, after_in_child=_after_in_child)
