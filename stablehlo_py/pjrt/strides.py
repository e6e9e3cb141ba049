"""How far apart the elements of arrays are in memory, in bytes, where a layout of PJRT's says it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from stablehlo_py.errors import UnsupportedError
from stablehlo_py.pjrt.api import structure
from stablehlo_py.pjrt.signature import Order, row_major

_TILED = 0  # PJRT_Buffer_MemoryLayout_Type: the order of dimensions, and tiles


def dense_strides(shape: Sequence[int], dtype: np.dtype, order: Order | None = None) -> tuple[int, ...]:
    """Of a dense array whose dimensions lie in an order; None: of a row-major one."""
    strides, size = [0] * len(shape), dtype.itemsize
    for dimension in order or row_major(len(shape)):
        strides[dimension] = size
        size *= shape[dimension]
    return tuple(strides)


def order_of(layout: int, shape: Sequence[int], dtype: np.dtype) -> Order:
    """The order of dimensions that a PJRT_Buffer_MemoryLayout says of a dense array."""
    asked = structure("Layout").from_address(layout)
    strides = strides_of(layout, shape, dtype)
    if strides is None:
        return row_major(len(shape))
    if asked.type == _TILED:
        return _listed(asked)
    return tuple(sorted(range(len(shape)), key=lambda dimension: (strides[dimension], shape[dimension], -dimension)))


def strides_of(layout: int, shape: Sequence[int], dtype: np.dtype) -> tuple[int, ...] | None:
    """The strides of a dense array in a PJRT_Buffer_MemoryLayout; None: row-major."""
    asked = structure("Layout").from_address(layout)
    if asked.type != _TILED:
        given = structure("Strides").from_address(layout)
        return tuple((ctypes.c_int64 * given.rank).from_address(given.strides)) if given.rank else None
    if asked.num_tiles:
        raise UnsupportedError("arrays in tiles are not written", remedy="ask for another layout")
    if not asked.rank:
        return None
    return dense_strides(shape, dtype, _listed(asked))


def _listed(layout: Any) -> Order:
    return tuple((ctypes.c_int64 * layout.rank).from_address(layout.minor_to_major))


def is_dense(layout: int, shape: Sequence[int], dtype: np.dtype) -> bool:
    """Whether a dense array in a PJRT_Buffer_MemoryLayout is row-major."""
    strides, size = strides_of(layout, shape, dtype), dtype.itemsize
    if strides is None or 0 in shape:
        return True
    for length, stride in reversed(list(zip(shape, strides, strict=True))):
        if length > 1 and stride != size:
            return False
        size *= length
    return True
