"""Calls of a program from Python that go through no code of Python: native code (fastcall.py) looks at the arguments,
makes the results, and calls the program. A call takes as long as one of a NumPy function.

A dispatch is for programs whose sizes are known and who call no Python, in processes whose Python and NumPy have the
objects that fastcall.py reads, which is looked at once; everything else goes the long way (runtime/executable.py).
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module

import numpy as np

from stablehlo_py.backends.cpu import helpers, layout
from stablehlo_py.backends.cpu.native import once
from stablehlo_py.foreign import pointer_of_capsule
from stablehlo_py.runtime.memory import ArrayMemory, Layouts

#: What a call gives: its results, or None, when it has to go the long way.
FastCall = Callable[..., "tuple[np.ndarray, ...] | None"]

_METH_FASTCALL = 0x80
_FUNCTIONS = {layout.NEW_FROM_DESCR: 94, layout.SET_BASE_OBJECT: 282}  # numbers in the table of NumPy's C API


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


class _Table(np.ndarray):
    """The words of a dispatch, and the objects that they are addresses of."""

    kept: list[object]


def fast_call(
    inputs: Layouts,
    outputs: Layouts,
    donations: Mapping[int, int],
    memory: ArrayMemory,
    frames: list[int],
    addresses: Mapping[int, int],
) -> FastCall | None:
    """The function that calls a program with arrays; None: this process needs the long way.

    Args:
        donations: by output, the input that is donated to it.
        memory: that of its results.
        frames: the addresses of `shlo_call` structures that are free; it takes one while it runs.
        addresses: PROGRAM, POOL, SIGNALS of the dispatch (layout.py).
    """
    if not is_known():
        return None
    kept: list[object] = [frames]
    given = _records(inputs, layout.INPUT_BYTES, kept)
    made = _records(outputs, layout.OUTPUT_BYTES, kept)
    for number, (_, _, size) in enumerate(outputs):
        owners = memory.kept(size)
        kept.append(owners)
        record = made[number]
        record[layout.OF_BYTES // 8] = size
        record[layout.OF_KEPT // 8] = 0 if owners is None else id(owners)
        record[layout.OF_SOURCE // 8] = donations.get(number, -1)
    words = {
        layout.INPUT_COUNT: len(inputs),
        layout.OUTPUT_COUNT: len(outputs),
        layout.INPUTS: given.ctypes.data,
        layout.OUTPUTS: made.ctypes.data,
        layout.FRAMES: id(frames),
        layout.NONE: id(None),
        layout.ARRAY_TYPE: id(np.ndarray),
        **{offset: _numpy_function(number) for offset, number in _FUNCTIONS.items()},
        **addresses,
    }
    table = np.array([words[offset] for offset in range(0, layout.DISPATCH_BYTES, 8)], np.int64).view(_Table)
    table.kept = [*kept, given, made]
    function: FastCall = _new_function(ctypes.addressof(_method()), table, None)
    return function


def _records(layouts: Layouts, size: int, kept: list[object]) -> np.ndarray:
    """A row for each array; `kept` gets what they are addresses of."""
    rows = np.zeros((len(layouts), size // 8), np.int64)
    for row, (shape, dtype, _) in zip(rows, layouts, strict=True):
        own = np.dtype(dtype.type)  # the object of this process: a dtype that was read from a file is a copy
        sizes = np.array([*shape, 0], np.intp)
        kept += [own, sizes]
        row[layout.OF_DTYPE // 8], row[layout.OF_RANK // 8] = id(own), len(shape)
        row[layout.OF_SIZES // 8] = sizes.ctypes.data
    return rows


@once
def _method() -> _MethodDef:
    address = helpers.code(helpers.FASTCALL).address("shlo_fastcall")
    made = _MethodDef(b"call", address, _METH_FASTCALL, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # functions refer to it as long as they live
    return made


@cache
def _numpy_function(number: int) -> int:
    table = pointer_of_capsule(import_module("numpy._core._multiarray_umath")._ARRAY_API)
    return ctypes.c_void_p.from_address(table + 8 * number).value or 0


@cache
def is_known() -> bool:
    """Whether objects of this Python and this NumPy are what layout.py says: as an array shows that is made for it."""
    if sys.implementation.name != "cpython" or hasattr(sys, "gettotalrefcount"):  # or its objects have more fields
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED") or sys.maxsize != 2**63 - 1:
        return False
    array = np.zeros((5, 7), np.float32)
    listed: list[object] = [array] * 3
    start, words, halves = id(array), ctypes.c_uint64, ctypes.c_uint32
    sizes = words.from_address(start + layout.SIZES).value
    found: Sequence[tuple[int, int]] = (
        (halves.from_address(start + layout.REFERENCES).value, sys.getrefcount(array) - 1),
        (words.from_address(start + layout.TYPE).value, id(np.ndarray)),
        (words.from_address(id(listed) + layout.LENGTH).value, len(listed)),
        (words.from_address(start + layout.DATA).value, array.__array_interface__["data"][0]),
        (halves.from_address(start + layout.RANK).value, 2),
        (words.from_address(start + layout.DTYPE).value, id(np.dtype(np.float32))),
        (halves.from_address(start + layout.FLAGS).value, array.flags.num),
    )
    flags = layout.DENSE | layout.WRITEABLE
    if any(first != second for first, second in found) or array.flags.num & flags != flags:
        return False
    return [words.from_address(sizes + 8 * number).value for number in range(2)] == [5, 7]
