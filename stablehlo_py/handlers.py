"""The table of what users bound targets of custom calls to.

A program holds the name of a target only. It is looked up when the program is loaded, so a saved program finds what is
registered in the process that runs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from stablehlo_py import forks
from stablehlo_py.boundary import public

_lock = forks.Lock()
_bound: dict[tuple[str, str], Handler] = {}
_kept_elsewhere: WeakValueDictionary[tuple[str, str], Handler] = WeakValueDictionary()
_numbers = count()
_OF_THIS_PROCESS = "callback."


@dataclass(frozen=True)
class Handler:
    """A C function `int32_t (const shlo_custom_call *)`, and what must live as long as it may be called.

    One that is of Python has no address: `owner` takes that of the call as an int, and it is for the backend to make a
    C function of it, one that fails whenever `owner` raises.
    """

    address: int | None
    owner: Any


def bind(platform: str, target: str, handler: Handler) -> None:
    """Let a target be this handler from now on."""
    with _lock:
        _bound[platform, target] = handler


def unbind(platform: str, target: str) -> bool:
    """Forget a target; whether it was bound."""
    with _lock:
        return _bound.pop((platform, target), None) is not None


def bind_here(platform: str, what: str, handler: Handler) -> str:
    """A new target for this handler, which is bound as long as the caller keeps the handler: what a framework makes of
    a function that has no name in other processes. `what` is for messages."""
    target = f"{_OF_THIS_PROCESS}{next(_numbers)}.{what}"
    _kept_elsewhere[platform, target] = handler
    return target


def is_bound_here(target: str) -> bool:
    """Is it a target that `bind_here` made, and that means nothing to other processes?"""
    return target.startswith(_OF_THIS_PROCESS)


def handler_of(target: str, platform: str = "cpu") -> Handler | None:
    """What a target is bound to."""
    return _bound.get((platform, target)) or _kept_elsewhere.get((platform, target))


def bound_to(platform: str) -> frozenset[str]:
    """All targets of a platform."""
    with _lock:
        return frozenset(target for where, target in _bound if where == platform)


@public
def get_include() -> str:
    """The folder of the header shlo_custom_call.h."""
    return str(Path(__file__).parent / "include")
