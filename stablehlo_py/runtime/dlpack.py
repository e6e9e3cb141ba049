"""DLPack for element types that NumPy's own does not know: bfloat16, and floats of 8 bits.

NumPy exports, and imports, the bits as unsigned integers; the type in the exchanged structure is then set to what they
are. https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
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
# Where the code of a capsule's type is in its structure: DLManagedTensor begins with the tensor, its successor with a
# version, a context, a deleter and flags.
_CODE_AT = {b"dltensor": 20, b"dltensor_versioned": 32 + 20}

_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))


def _code_of(capsule: object) -> ctypes.c_uint8:
    """The code of the type in a capsule, which may be set. Raises TypeError: it is no capsule of DLPack."""
    name = next((name for name in _CODE_AT if _is_valid(capsule, name)), None)
    if name is None:
        raise TypeError(f"__dlpack__() gives a {type(capsule).__name__}, not a capsule")
    return ctypes.c_uint8.from_address(_pointer(capsule, name) + _CODE_AT[name])


def exported(array: np.ndarray, **options: Any) -> object:
    """What `__dlpack__(**options)` of an array gives. Raises BufferError: its type has no code."""
    code = _CODES.get(array.dtype)
    if code is None:
        return array.__dlpack__(**options)
    capsule = array.view(f"u{array.dtype.itemsize}").__dlpack__(**options)
    _code_of(capsule).value = code
    return capsule


class _AsIntegers:
    """The bits of what somebody else exports."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.dtype: np.dtype | None = None

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._value.__dlpack__(**options)
        code = _code_of(capsule)
        self.dtype = _DTYPES.get(code.value)
        if self.dtype is not None:
            code.value = _UNSIGNED
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._value.__dlpack_device__()


def imported(value: object) -> np.ndarray:
    """An array on the memory of what has `__dlpack__`. Raises as `np.from_dlpack`."""
    bits = _AsIntegers(value)
    array = np.from_dlpack(bits)
    return array if bits.dtype is None else array.view(bits.dtype)
