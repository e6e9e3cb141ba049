"""Work that a thread of its own does while a compilation goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from stablehlo_py.interrupts import checkpoint

Result = TypeVar("Result")


class Meanwhile(Generic[Result]):
    """Starts the work, of which most has to be outside of Python."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._future: Future[Result] = Future()
        self._is_over = threading.Event()
        # No daemon: LLVM must not be at work when the process ends.
        threading.Thread(target=self._run, name="shlo-compile").start()

    def result(self) -> Result:
        """What it made, or raises what it raised. Signals are answered, and other threads fork, while this waits."""
        while not self._is_over.wait(0.1):
            checkpoint()
        return self._future.result()

    def _run(self) -> None:
        try:
            self._future.set_result(self._work())
        except BaseException as error:
            self._future.set_exception(error)
        finally:
            self._is_over.set()
