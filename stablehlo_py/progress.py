"""How far a compilation is, for whoever shows it: compiling says `at(...)`, a tool listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Inside, `listener` gets what the compilations of this thread are at, in a few words, whenever it changes."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def at(what: str, number: int = 0, total: int = 0) -> None:
    """Tell the listener: the stage, and where it has parts, how many of them are done."""
    listener = _listener.get()
    if listener is not None:
        listener(f"{what} {number}/{total}" if total else what)
