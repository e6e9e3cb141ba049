"""Native code of the runtime's own: how programs enter and leave Python, thread pools, where processes of a grid meet.

It is generated as programs are (helper_objects.py), and a program brings what it needs along
(`CompiledProgram.helpers`), so that it runs where no compiler is. Of each kind the first that comes serves the process.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.errors import LoadError

# The kinds: calls of and by Python, what ends loops; a function of Python as a C function; the pool; grids; calls of
# programs without Python's code.
CALLS, CLOSURE, POOL, GRID, FASTCALL = KINDS = ("calls", "closure", "pool", "grid", "fastcall")

_lock = threading.RLock()
_objects: dict[str, bytes] = {}
_loaded: dict[str, NativeCode] = {}


def provide(helpers: Mapping[str, bytes]) -> None:
    """Take over object files by their kinds."""
    with _lock:
        for kind, content in helpers.items():
            _objects.setdefault(kind, content)


def content(kind: str) -> bytes:
    """The object file of a kind. Raises LoadError: no program has brought it."""
    if kind not in _objects:
        raise LoadError(
            f"the program lacks the part of its machine code that is called '{kind}'", remedy="compile the model again"
        )
    return _objects[kind]


def code(kind: str) -> NativeCode:
    """The code of a kind, one for the process: others know it by its addresses. Raises as `content`."""
    with _lock:
        if kind not in _loaded:
            _loaded[kind] = NativeCode([content(kind)])
        return _loaded[kind]
