"""How processes end: tools that get SIGTERM or SIGHUP, and the children of tools."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP raise `Ended` in the main thread, as Ctrl-C raises KeyboardInterrupt: temporary files
    are removed and children ended on the way out. More of them do not disturb that. A signal that the process ignores
    (nohup), or has a handler for, keeps its meaning."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise Ended(number)

    for number in numbers:
        signal.signal(number, end)
    ended = False
    try:
        yield
    except Ended:
        ended = True  # the process is about to end: nothing is to disturb that any more
        raise
    finally:
        for number in () if ended else numbers:
            signal.signal(number, signal.SIG_DFL)


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
