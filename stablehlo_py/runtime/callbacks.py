"""Custom calls at run time: what a Python function gets of a call and gives to it, and what went wrong in one.

The structures are those of include/shlo_custom_call.h.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.errors import CallError
from stablehlo_py.foreign import memory_at

VERSION = 1
SCALAR, ARRAY, STRING, DICTIONARY = 1, 2, 3, 4
NUMBERS = {name: number for number, name in enumerate(ELEMENT_TYPES, 1)}
DTYPES = dict(enumerate(ELEMENT_TYPES.values(), 1))
# What a failed call leaves in memory: where it stands in the program, and a message.
SITE_BYTES, MESSAGE_BYTES = 8, 1016


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int64),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    )


class _Attribute(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int64),
        ("dtype", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("data", ctypes.c_void_p),
    )


class Call(ctypes.Structure):
    """shlo_custom_call."""

    _fields_ = (
        ("version", ctypes.c_int64),
        ("num_operands", ctypes.c_int64),
        ("operands", ctypes.POINTER(_Buffer)),
        ("num_results", ctypes.c_int64),
        ("results", ctypes.POINTER(_Buffer)),
        ("num_attributes", ctypes.c_int64),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("message", ctypes.c_void_p),
        ("message_bytes", ctypes.c_int64),
    )


def attributes_in(attribute: _Attribute) -> list[_Attribute]:
    """Those that a dictionary holds."""
    return list((_Attribute * attribute.count).from_address(attribute.data)) if attribute.count else []


BUFFER_WORDS, ATTRIBUTE_WORDS, CALL_WORDS = (ctypes.sizeof(structure) // 8 for structure in (_Buffer, _Attribute, Call))


def python_handler(function: Callable[..., Any]) -> Callable[[int], None]:
    """A Python function `f(*operands, **attributes)` as one of the address of a call's structure. It raises what
    `function` does, and TypeError for results that do not fit: to carry any exception out of the call is the task of
    who makes a C function of it."""

    def handle(address: int) -> None:
        call = Call.from_address(address)
        operands, results = arrays_of(call)
        operands = [operand.copy(order="K") for operand in operands]
        attributes = dict(map(_attribute, call.attributes[: call.num_attributes]))
        _store(function(*operands, **attributes), results)

    return handle


def failure_of(record: int, exception: BaseException | None) -> BaseException:
    """The error of a call that failed: `record` is the address of a pointer to where it stands in the program (its
    target and the user's line, with a newline between them), and of a message behind it; `exception` what a Python
    function raised."""
    if exception is not None and not isinstance(exception, Exception):
        return exception  # Ctrl-C, or an exit
    site = ctypes.c_char_p.from_address(record).value or b""
    message = ctypes.string_at(record + SITE_BYTES).decode(errors="replace")
    if exception is not None:
        message = _description(exception)
    target, _, location = site.decode(errors="replace").partition("\n")
    error = CallError(
        f"the custom call '{target}' failed: {message or 'its function says no more'}",
        op="stablehlo.custom_call",
        location=location or None,
        remedy="correct the function that is registered for it, or the arguments of the model",
    )
    error.__cause__ = exception
    return error


def _description(exception: Exception) -> str:
    """Its class and message; a class whose `__str__` raises is still named."""
    try:
        text = str(exception)
    except Exception as error:
        text = f"(a message that cannot be had: {type(error).__name__})"
    return f"{type(exception).__name__}: {text}"[:MESSAGE_BYTES]


def arrays_of(call: Call) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The memory of operands, which must not be written, and of results. It is the program's, as long as the call."""
    return [_array(each) for each in call.operands[: call.num_operands]], [
        _array(each) for each in call.results[: call.num_results]
    ]


def _array(buffer: _Buffer) -> np.ndarray:
    dtype, rank = DTYPES[buffer.dtype], buffer.rank
    shape, strides = tuple(buffer.dims[:rank]), [stride * dtype.itemsize for stride in buffer.strides[:rank]]
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.ndarray(shape, dtype, memory_at(buffer.data, math.prod(shape) * dtype.itemsize), 0, strides)


def _attribute(attribute: _Attribute) -> tuple[str, Any]:
    name = attribute.name.decode()
    if attribute.kind == DICTIONARY:
        return name, dict(map(_attribute, attributes_in(attribute)))
    if attribute.kind == STRING:
        return name, ctypes.string_at(attribute.data, attribute.count).decode(errors="surrogateescape")
    dtype = DTYPES[attribute.dtype]
    values = np.frombuffer(ctypes.string_at(attribute.data, attribute.count * dtype.itemsize), dtype)
    return name, values[0].item() if attribute.kind == SCALAR else values.copy()


def _store(returned: Any, results: Sequence[np.ndarray]) -> None:
    """Copy what a function returned to where the results belong."""
    values = list(returned) if isinstance(returned, tuple | list) else [] if returned is None else [returned]
    if len(values) != len(results):
        raise TypeError(f"the function returned {len(values)} results, the call has {len(results)}")
    for number, (value, result) in enumerate(zip(values, results, strict=True)):
        array = np.asarray(value)
        if (array.shape, array.dtype) != (result.shape, result.dtype):
            raise TypeError(
                f"result {number} is {array.dtype}{list(array.shape)}, the call has {result.dtype}{list(result.shape)}"
            )
    for value, result in zip(values, results, strict=True):
        result[...] = value
