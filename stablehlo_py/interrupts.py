"""Signals and forks while compiling: noted at once, answered between two passes or kernels.

Python runs the handlers of signals wherever it happens to be, and Ctrl-C's raises KeyboardInterrupt there. Inside an
extension's initialization or a callback from C++ that ends the process (`std::terminate`) or becomes another exception.
So the work of the compiler runs inside `deferred`, where a signal leaves a note, and calls `checkpoint` where it can
stop. Other threads fork while it is at one (stablehlo_py/forks.py).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal's own functions take 20 times as long: they make enumerators
import functools
import signal
import threading
import traceback
from contextlib import ContextDecorator
from types import CodeType, FrameType
from typing import Any

from stablehlo_py import forks

_SIGNALS = tuple(signal.valid_signals())


class _Notes:
    """The handler of all signals while work is deferred; remembers which came, and what handled them before."""

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}
        for number in _SIGNALS:
            handler: Any = _signal.getsignal(number)
            if callable(handler):
                self.before[number] = handler
        self._came: list[int] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if number not in self._came:
            self._came.append(number)

    def begin(self) -> None:
        for number in self.before:
            _signal.signal(number, self)

    def end(self) -> None:
        """Let the handlers be what they were. One that raises now does not keep others from being restored."""
        try:
            for number, handler in self.before.items():
                if _signal.getsignal(number) is self:
                    _signal.signal(number, handler)
        finally:
            if any(_signal.getsignal(number) is self for number in self.before):
                self.end()

    def answer(self) -> None:
        """Call the handlers of the signals that came; one that raises leaves the others for the next time."""
        while self._came:
            number = self._came.pop(0)
            self.before[number](number, None)


_notes: _Notes | None = None  # of the main thread


class deferred(ContextDecorator):
    """Inside, signals that have a handler in Python take effect at the next `checkpoint`, else at the end: as that
    handler answers them, SIGINT's by KeyboardInterrupt as a rule. A context manager, also a decorator.

    Signals reach Python's main thread only: in others, and inside another `deferred`, they need no notes.

    Raises:
        ResourceError: this process was forked while another thread compiled, and has inherited locks.
    """

    __slots__ = ("_own",)

    def __init__(self) -> None:
        self._own: _Notes | None = None  # of the outermost one

    def _recreate_cm(self) -> deferred:
        return deferred()  # for each call of a decorated function

    def __enter__(self) -> None:
        global _notes
        if _notes is not None or threading.current_thread() is not threading.main_thread():
            forks.enter()
            return
        self._own = _Notes()
        try:
            self._own.begin()
            _notes = self._own
            forks.enter()
        except BaseException:
            self._end()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            forks.leave()
        finally:
            self._end()

    def _end(self) -> None:
        global _notes
        if self._own is not None:
            _notes = None
            self._own.end()
            self._own.answer()  # whatever else went wrong: a child process may have got the signal too, and died of it


def checkpoint() -> None:
    """Let handlers of signals run that came since `deferred` began, and other threads fork. Raises KeyboardInterrupt,
    or what else a handler raises."""
    forks.stand_still()
    if _notes is not None and threading.current_thread() is threading.main_thread():
        _notes.answer()


def from_handler(error: BaseException) -> bool:
    """Whether the user's handler of a signal raised this exception: its function is in the traceback."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = [signal.getsignal(number) for number in _SIGNALS]
    handlers += _notes.before.values() if _notes is not None else ()
    codes = {_code_of(handler) for handler in handlers if callable(handler)} - {None}
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code in codes for frame, _ in frames)


def _code_of(handler: Any) -> CodeType | None:
    """The code of a function, a bound method, a functools.partial or an object with `__call__`."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not hasattr(handler, "__code__"):
        handler = getattr(handler, "__func__", None) or getattr(handler.__call__, "__func__", None)
    return getattr(handler, "__code__", None)
