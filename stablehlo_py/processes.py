"""How processes end: tools that get SIGTERM or SIGHUP, and the children of tools."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import FrameType

# What asks a process to end, and ends it on the spot unless it is handled.
ENDING = (signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_WHERE = str(Path(__file__).parent.parent)


class Ended(BaseException):
    """A signal asks this process to end; `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


class _Ending:
    """The handler of signals that end the process: it raises their exception, but not where C code would make another
    one of it, or drop it. There it waits for the next call in Python that is none of that code's."""

    def __init__(self) -> None:
        self.number: int | None = None  # of the last signal that came
        self.shows_unraisable = sys.unraisablehook

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        for each in ENDING:
            if signal.getsignal(each) is self:
                signal.signal(each, signal.SIG_IGN)  # nothing is to disturb the way out
        if _initializes_extension(frame):
            sys.setprofile(self._profile)
        else:
            self.raise_exception()

    def raise_exception(self) -> None:
        """Of the signal that came, if one did."""
        if self.number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.number is not None:
            raise Ended(self.number)

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call") and not _initializes_extension(frame):
            sys.setprofile(None)
            self.raise_exception()

    def unraisable(self, dropped: sys.UnraisableHookArgs) -> None:
        """In place of `sys.unraisablehook`: C code has called Python (a finalizer, ctypes) where the signal came."""
        if isinstance(dropped.exc_value, (Ended, KeyboardInterrupt)):
            sys.setprofile(self._profile)
        else:
            self.shows_unraisable(dropped)


def _initializes_extension(frame: FrameType | None) -> bool:
    """Whether a module in C is being initialized: what it imports, it may miss without saying why (NumPy)."""
    while frame is not None and frame.f_code not in _EXTENSION_CODES:
        frame = frame.f_back
    return frame is not None


_EXTENSION_CODES = (ExtensionFileLoader.create_module.__code__, ExtensionFileLoader.exec_module.__code__)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP raise `Ended` in the main thread, as Ctrl-C raises KeyboardInterrupt: temporary files
    are removed and children ended on the way out. More of them do not disturb that. It is left by such an exception if
    such a signal came, whatever became of the one that was raised then. A signal that the process ignores (nohup), or
    has a handler for, keeps its meaning."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = {signal.SIGINT: signal.default_int_handler, **dict.fromkeys(ENDING, signal.SIG_DFL)}
    handled = {number: handler for number, handler in usual.items() if signal.getsignal(number) is handler}
    ending = _Ending()
    sys.unraisablehook = ending.unraisable
    for number in handled:
        signal.signal(number, ending)
    try:
        yield
    finally:
        sys.unraisablehook = ending.shows_unraisable
        for number, handler in handled.items():
            if signal.getsignal(number) is ending:  # else the process is about to end
                signal.signal(number, handler)
        ending.raise_exception()


def die_with_parent() -> None:
    """Let the kernel kill this process when the thread ends that started it: a child that computes without end does not
    notice that nobody waits for it. Linux."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def python_command(code: str) -> list[str]:
    """The command that runs `code` in another Python: with this one's search path, and without what `site` would
    import. Raises FileNotFoundError: this process does not know its interpreter."""
    if not sys.executable:
        raise FileNotFoundError(0, "this process does not know its Python interpreter")
    path = f"import sys; sys.path[:] = {[_WHERE, *sys.path]!r}"
    return [sys.executable, "-I", "-S", "-c", f"{path}; {code}"]
