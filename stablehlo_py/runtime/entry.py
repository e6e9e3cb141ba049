"""The native entry of programs: `int entry(const shlo_call *)`, as include/shlo_call.h describes it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from stablehlo_py.errors import UnsupportedError

# What the entry returns; from WORKSPACE to NULL, what the functions of a library (backends/common/library.py) refuse.
OK, FAILED, ENDED, OLD_CALL, WORKSPACE, SIZES, CONSTANTS, NULL, NO_TILES = range(9)
ASKED, ANSWER = 0, 8  # in bytes, in the block that may end loops (`shlo_call.interrupt`)


class Call(ctypes.Structure):
    """`shlo_call`: everything that one call brings along. Fields are addresses, 0 (None) where there is nothing."""

    parallel_for: int | None
    parallel_context: int | None
    sizes: int | None
    interrupt: int | None

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("sizes", ctypes.c_void_p),
        ("interrupt", ctypes.c_void_p),
        ("parallel_for", ctypes.c_void_p),
        ("parallel_context", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
    )


#: The fields in order, for the code that reads them: each is as wide as a pointer of the target.
FIELDS: tuple[str, ...] = tuple(name for name, _ in Call._fields_)


@dataclass(frozen=True)
class Entry:
    """A program's entry in this process, for callers that are not Python. It is there as long as the executable.

    Attributes:
        address: of `int entry(const shlo_call *)`.
        workspace_bytes: what a call needs; None: slot `workspace_slot` of the table says it.
        constants: the address for `shlo_call.constants`.
        sizes: of a program with dynamic dimensions, the address of
            `void sizes(const int64_t *symbols, int64_t *table)`; else 0.
        table_slots, workspace_slot: numbers in that table, and which of them is the size of the workspace.
    """

    address: int
    workspace_bytes: int | None
    constants: int
    sizes: int = 0
    table_slots: int = 0
    workspace_slot: int = 0


def required(entry: Entry | None, backend: str) -> Entry:
    """The entry of a program that has one.

    Raises:
        UnsupportedError: its backend makes no native function.
    """
    if entry is None:
        raise UnsupportedError(f"programs of the backend '{backend}' have no native entry")
    return entry
