"""Element types as PJRT numbers them."""

from __future__ import annotations

from stablehlo_py.element_types import ELEMENT_TYPES

# PJRT_Buffer_Type, from 1 on, by StableHLO's names.
TYPES = (
    *("i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "f32", "f64", "bf16", "complex<f32>"),
    *("complex<f64>", "f8E5M2", "f8E4M3FN", "f8E4M3B11FNUZ", "f8E5M2FNUZ", "f8E4M3FNUZ", "i4", "ui4", "token", "i2"),
    *("ui2", "f8E4M3", "f8E3M4", "f8E8M0FNU", "f4E2M1FN"),
)
NUMBERS = {name: number for number, name in enumerate(TYPES, 1)}


def item_sizes() -> list[int]:
    """Bytes of an element, by PJRT_Buffer_Type; 0: arrays have no such elements."""
    return [0, *(ELEMENT_TYPES[name].itemsize if name in ELEMENT_TYPES else 0 for name in TYPES)]
