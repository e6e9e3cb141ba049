"""CHLO functions on every value of the small floats, against SciPy: the f32 result, rounded once."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from scipy import special

import stablehlo_py as shlo
from stablehlo_py.dialect.rounding import cast

FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "bessel_i1e": special.i1e,
    "cosh": np.cosh,
    "digamma": special.digamma,
    "erf": special.erf,
    "erf_inv": special.erfinv,
    "erfc": special.erfc,
    "sinh": np.sinh,
}
SLACK = 2.0**-18  # relative error of the f32 functions; nearer to a middle than that, either neighbour is right


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn),
        ("f8E5M2FNUZ", ml_dtypes.float8_e5m2fnuz),
        ("f4E2M1FN", ml_dtypes.float4_e2m1fn),
    ],
)
def test_functions(name: str, dtype: type) -> None:
    x = np.arange(1 << ml_dtypes.finfo(dtype).bits, dtype=np.uint8).view(dtype)
    type_ = f"tensor<{x.size}x{name}>"
    lines = [f"%{op} = chlo.{op} %x : {type_} -> {type_}" for op in FUNCTIONS]
    returned, types = ", ".join(f"%{op}" for op in FUNCTIONS), ", ".join([type_] * len(FUNCTIONS))
    module = "\n".join([f"func.func @main(%x: {type_}) -> ({types}) {{", *lines, f"return {returned} : {types} }}"])
    results = shlo.compile(module, options=shlo.Options(threads=1, cache_dir=None))(x)
    exact = x.astype(np.float64)
    for (op, function), result in zip(FUNCTIONS.items(), results, strict=True):
        with np.errstate(all="ignore"):
            expected = function(exact)
            low, high = (cast(expected * (1 + sign * SLACK), x.dtype).astype(np.float64) for sign in (-1, 1))
            got = result.astype(np.float64)
        checked = ~np.isinf(expected)  # upstream's digamma is NaN at its pole at 0
        right = ~checked | (got == low) | (got == high) | (np.isnan(got) & np.isnan(low))
        assert right.all(), (op, exact[~right], got[~right], expected[~right])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("f4E2M1FN", ml_dtypes.float4_e2m1fn),
        ("f6E2M3FN", ml_dtypes.float6_e2m3fn),
        ("f6E3M2FN", ml_dtypes.float6_e3m2fn),
    ],
)
def test_next_after_of_all_pairs(name: str, dtype: type) -> None:
    """Bit for bit as ml_dtypes, zeros' signs included."""
    codes = np.arange(1 << ml_dtypes.finfo(dtype).bits, dtype=np.uint8).view(dtype)
    x, y = (each.ravel() for each in np.meshgrid(codes, codes))
    type_ = f"tensor<{x.size}x{name}>"
    module = f"""func.func @main(%x: {type_}, %y: {type_}) -> {type_} {{
      %0 = chlo.next_after %x, %y : {type_}, {type_} -> {type_}
      return %0 : {type_}
    }}"""
    (result,) = shlo.compile(module, options=shlo.Options(threads=1, cache_dir=None))(x, y)
    np.testing.assert_array_equal(result.view(np.uint8), np.nextafter(x, y).view(np.uint8))
