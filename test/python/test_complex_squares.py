"""chlo.square of complex numbers."""

from __future__ import annotations

import numpy as np
import pytest

import stablehlo_py as shlo


@pytest.mark.parametrize(("dtype", "part"), [(np.complex64, "f32"), (np.complex128, "f64")])
def test_squares_overflow_only_where_the_result_does(dtype: type, part: str) -> None:
    """(-inf + max i)^2 was NaN, the difference of two infinite squares."""
    largest, inf, nan = float(np.finfo(dtype).max), np.inf, np.nan
    cases = [
        (complex(-inf, largest), complex(inf, -inf)),
        (complex(largest, largest), complex(0, inf)),
        (complex(largest, -largest), complex(0, -inf)),
        (complex(1.5, -inf), complex(-inf, -inf)),
        (complex(0, inf), complex(-inf, nan)),
        (complex(inf, inf), complex(nan, inf)),
        (complex(3, 4), complex(-7, 24)),
        (complex(nan, 1), complex(nan, nan)),
    ]
    z = np.array([number for number, _ in cases], dtype)
    text = f"""func.func @main(%z: tensor<{z.size}xcomplex<{part}>>) -> tensor<{z.size}xcomplex<{part}>> {{
      %0 = chlo.square %z : tensor<{z.size}xcomplex<{part}>> -> tensor<{z.size}xcomplex<{part}>>
      return %0 : tensor<{z.size}xcomplex<{part}>>
    }}"""
    (result,) = shlo.compile(text, options=shlo.Options(cache_dir=None))(z)
    expected = np.array([square for _, square in cases], dtype)
    np.testing.assert_array_equal(result.real, expected.real)
    np.testing.assert_array_equal(result.imag, expected.imag)
