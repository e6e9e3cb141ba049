"""Ctrl-C while compiling: noted at once, answered between two passes or kernels.

Python raises KeyboardInterrupt wherever it happens to be. Inside an extension's initialization or a callback from C++
that ends the process (`std::terminate`) or becomes another exception. So the work of the compiler runs inside
`deferred`, where the signal leaves a note, and calls `checkpoint` where it can stop.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Note:
    """The signal's handler while work is deferred; remembers that it came."""

    def __init__(self) -> None:
        self.came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True


@contextmanager
def deferred() -> Iterator[None]:
    """Inside, SIGINT takes effect at the next `checkpoint`, else at the end: as the handler that was there before
    answers it, which is by KeyboardInterrupt as a rule. Also a decorator.

    Signals reach Python's main thread only: in others, inside another `deferred`, and where the process leaves or
    ignores SIGINT, this does nothing.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or isinstance(before, _Note) or not callable(before):
        yield
        return
    note = _Note()
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if note.came:  # whatever else went wrong: a child process may have got the signal too, and died of it
            before(signal.SIGINT, None)


def checkpoint() -> None:
    """Stop here if Ctrl-C came since `deferred` began. Raises KeyboardInterrupt."""
    note = signal.getsignal(signal.SIGINT)
    if isinstance(note, _Note) and note.came and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt
