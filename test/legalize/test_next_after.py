"""`chlo.next_after` of every pair of numbers of the small formats."""

from __future__ import annotations

import numpy as np
import pytest

import stablehlo_py
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.formats import FORMATS
from stablehlo_py.mlir import ir

SMALL = [name for name in FORMATS if int(name.strip("bf").split("E")[0]) <= 8]
OPTIONS = stablehlo_py.Options(threads=1, cache_dir=None)


def expected(x: np.ndarray, y: np.ndarray, codes: np.ndarray) -> np.ndarray:
    numbers = np.unique(codes[~np.isnan(codes)])
    with np.errstate(invalid="ignore"):
        direction = np.sign(y - x, where=x != y, out=np.zeros_like(x))  # inf - inf is NaN
    known = ~np.isnan(x) & ~np.isnan(y)
    place = np.searchsorted(numbers, np.where(known, x, 0)) + np.where(known, direction, 0).astype(int)
    return np.where(known, numbers[place], np.nan)


@pytest.mark.parametrize("name", SMALL)
def test_every_pair(name: str) -> None:
    with make_context():
        dtype = np.dtype(numpy_dtype(ir.Type.parse(name)))
    codes = np.arange(1 << int(name[1]), dtype=np.uint8).view(dtype)
    x, y = np.repeat(codes, codes.size), np.tile(codes, codes.size)
    type_ = f"tensor<{x.size}x{name}>"
    text = f"""func.func @main(%x: {type_}, %y: {type_}) -> {type_} {{
      %0 = chlo.next_after %x, %y : {type_}, {type_} -> {type_}
      return %0 : {type_}
    }}"""
    (result,) = stablehlo_py.compile(text, options=OPTIONS)(x, y)
    wide = [array.astype(np.float64) for array in (x, y, codes)]
    np.testing.assert_array_equal(result.astype(np.float64), expected(*wide))
