"""DLPack for element types that NumPy's own does not know: bfloat16, and floats of 8 bits.

NumPy exports, and imports, the bits as unsigned integers; the type in the exchanged structure is then set to what they
are. https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import ml_dtypes
import numpy as np

_UNSIGNED = 1  # kDLUInt
# DLDataTypeCode of types that ml_dtypes has.
_CODES = {
    np.dtype(type_): code
    for type_, code in (
        (ml_dtypes.bfloat16, 4),
        (ml_dtypes.float8_e3m4, 7),
        (ml_dtypes.float8_e4m3, 8),
        (ml_dtypes.float8_e4m3b11fnuz, 9),
        (ml_dtypes.float8_e4m3fn, 10),
        (ml_dtypes.float8_e4m3fnuz, 11),
        (ml_dtypes.float8_e5m2, 12),
        (ml_dtypes.float8_e5m2fnuz, 13),
        (ml_dtypes.float8_e8m0fnu, 14),
    )
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
# Where the tensor is in a capsule's structure: DLManagedTensor begins with it, its successor with a version, a context,
# a deleter and flags. And what is changed of a DLTensor: type and number of its device, the code of its type.
_TENSOR_AT = {b"dltensor": 0, b"dltensor_versioned": 32}
_DEVICE_AT, _CODE_AT = 8, 20
Device = tuple[int, int]
HOST: Device = (1, 0)  # kDLCPU

_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))


def _tensor_of(capsule: object) -> int:
    """Where the DLTensor of a capsule is. Raises TypeError: it is no capsule of DLPack."""
    name = next((name for name in _TENSOR_AT if _is_valid(capsule, name)), None)
    if name is None:
        raise TypeError(f"__dlpack__() gives a {type(capsule).__name__}, not a capsule")
    return _pointer(capsule, name) + _TENSOR_AT[name]


def _code_of(capsule: object) -> ctypes.c_uint8:
    """The code of the type in a capsule, which may be set. Raises as `_tensor_of`."""
    return ctypes.c_uint8.from_address(_tensor_of(capsule) + _CODE_AT)


def _set_device(capsule: object, device: Device) -> None:
    """Change the device in a capsule. Raises as `_tensor_of`."""
    (ctypes.c_int32 * 2).from_address(_tensor_of(capsule) + _DEVICE_AT)[:] = list(device)


def exported(array: np.ndarray, **options: Any) -> object:
    """What `__dlpack__(**options)` of an array gives. Raises BufferError: its type has no code."""
    code = _CODES.get(array.dtype)
    if code is None:
        return array.__dlpack__(**options)
    capsule = array.view(f"u{array.dtype.itemsize}").__dlpack__(**options)
    _code_of(capsule).value = code
    return capsule


class _Placed:
    """An array of bytes where nobody reads or writes here: in the memory of a device."""

    def __init__(self, owner: object, address: int, size: int) -> None:
        self._owner = owner
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def placed(owner: object, address: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A dense array at an address of a device, kept alive by an owner. Its elements must not be touched."""
    size = math.prod(shape) * dtype.itemsize
    return np.asarray(_Placed(owner, address, size)).view(dtype).reshape(shape)


def exported_from(device: Device, array: np.ndarray, **options: Any) -> object:
    """As `exported`, of an array that is `placed` on a device."""
    capsule = exported(array, **options)
    _set_device(capsule, device)
    return capsule


class _AsIntegers:
    """The bits of what somebody else exports, from a device as if they were the host's."""

    def __init__(self, value: Any, device: Device | None = None, **options: Any) -> None:
        self._value = value
        self._device = device
        self._options = options
        self.dtype: np.dtype | None = None

    def __dlpack__(self, **options: Any) -> Any:
        if self._device is not None:  # it is asked for what it has, where it is
            options = {name: value for name, value in options.items() if name == "max_version"} | self._options
        capsule = self._value.__dlpack__(**options)
        if self._device is not None:
            _set_device(capsule, HOST)
        code = _code_of(capsule)
        self.dtype = _DTYPES.get(code.value)
        if self.dtype is not None:
            code.value = _UNSIGNED
        return capsule

    def __dlpack_device__(self) -> Device:
        return self._value.__dlpack_device__() if self._device is None else HOST


def device_of(value: Any) -> Device | None:
    """Where what has `__dlpack_device__` is; None: it has not."""
    ask = getattr(value, "__dlpack_device__", None)
    if ask is None:
        return None
    kind, number = ask()
    return int(kind), int(number)


def imported(value: object, device: Device | None = None, **options: Any) -> np.ndarray:
    """An array on the memory of what has `__dlpack__`. Of a `device`, its elements must not be touched; `options` are
    for that `__dlpack__`. Raises as `np.from_dlpack`."""
    bits = _AsIntegers(value, device, **options)
    array = np.from_dlpack(bits)
    return array if bits.dtype is None else array.view(bits.dtype)
