"""The element types of models, by their names in StableHLO, as NumPy has them (ml_dtypes for the small ones)."""

from __future__ import annotations

import ml_dtypes
import numpy as np

#: In the order of their numbers in include/shlo_custom_call.h, which begin with 1.
ELEMENT_TYPES: dict[str, np.dtype] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "i1": np.bool_,
        "i2": ml_dtypes.int2,
        "i4": ml_dtypes.int4,
        "i8": np.int8,
        "i16": np.int16,
        "i32": np.int32,
        "i64": np.int64,
        "ui2": ml_dtypes.uint2,
        "ui4": ml_dtypes.uint4,
        "ui8": np.uint8,
        "ui16": np.uint16,
        "ui32": np.uint32,
        "ui64": np.uint64,
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "f32": np.float32,
        "f64": np.float64,
        "complex<f32>": np.complex64,
        "complex<f64>": np.complex128,
        "f8E4M3FN": ml_dtypes.float8_e4m3fn,
        "f8E5M2": ml_dtypes.float8_e5m2,
        "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
        "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
        "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
        "f8E4M3": ml_dtypes.float8_e4m3,
        "f8E3M4": ml_dtypes.float8_e3m4,
        "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
        "f6E2M3FN": ml_dtypes.float6_e2m3fn,
        "f6E3M2FN": ml_dtypes.float6_e3m2fn,
        "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    }.items()
}
