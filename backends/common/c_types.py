"""Element types as C has them."""

from __future__ import annotations

import numpy as np

from stablehlo_py.dialect.constants import element_name

# Element types that C has no type for: what they are stored as.
_STORED = {"i1": "uint8_t", "f16": "uint16_t", "bf16": "uint16_t", "f32": "float", "f64": "double"}
_STORED |= {"complex<f32>": "float", "complex<f64>": "double"}


def c_type(dtype: np.dtype) -> str:
    """C's type for an element; complex numbers are two of it."""
    name = element_name(dtype)
    if name in _STORED:
        return _STORED[name]
    if name.startswith("f"):
        return "uint8_t"
    bits = max(8, int(name.lstrip("ui")))
    return f"{'u' if name.startswith('u') else ''}int{bits}_t"


def parts(dtype: np.dtype) -> int:
    """How many numbers of `c_type` an element is."""
    return 2 if dtype.kind == "c" else 1
