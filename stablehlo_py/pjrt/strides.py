"""How far apart the elements of arrays are in memory, in bytes, where a layout of PJRT's says it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from stablehlo_py.errors import UnsupportedError
from stablehlo_py.pjrt.api import structure


def dense_strides(shape: Sequence[int], dtype: np.dtype) -> tuple[int, ...]:
    """Of a row-major array."""
    strides, size = [0] * len(shape), dtype.itemsize
    for dimension in reversed(range(len(shape))):
        strides[dimension] = size
        size *= shape[dimension]
    return tuple(strides)


def strides_of(layout: int, shape: Sequence[int], dtype: np.dtype) -> tuple[int, ...] | None:
    """The strides of a dense array in a PJRT_Buffer_MemoryLayout; None: row-major."""
    asked = structure("Layout").from_address(layout)
    if asked.type == 1:
        given = structure("Strides").from_address(layout)
        return tuple((ctypes.c_int64 * given.rank).from_address(given.strides)) if given.rank else None
    if asked.num_tiles:
        raise UnsupportedError("arrays in tiles are not written", remedy="ask for another layout")
    if not asked.rank:
        return None
    order = list((ctypes.c_int64 * asked.rank).from_address(asked.minor_to_major))
    strides, size = [0] * len(shape), dtype.itemsize
    for dimension in order:
        strides[dimension] = size
        size *= shape[dimension]
    return tuple(strides)


def is_row_major(layout: int, shape: Sequence[int], dtype: np.dtype) -> bool:
    """Whether a dense array in a PJRT_Buffer_MemoryLayout is row-major."""
    strides, size = strides_of(layout, shape, dtype), dtype.itemsize
    if strides is None or 0 in shape:
        return True
    for length, stride in reversed(list(zip(shape, strides, strict=True))):
        if length > 1 and stride != size:
            return False
        size *= length
    return True
