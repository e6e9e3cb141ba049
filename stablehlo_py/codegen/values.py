"""Types and values of the kernel language."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class ScalarType:
    """A scalar of the llvm dialect: "f32", "i64", "ptr" ... `bits` is 64 for ptr."""

    text: str
    bits: int
    is_float: bool = False

    lanes: int = field(default=1, init=False)

    @property
    def element(self) -> ScalarType:
        return self

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class VectorType:
    """A fixed vector of scalars."""

    lanes: int
    element: ScalarType

    @property
    def text(self) -> str:
        return f"vector<{self.lanes}x{self.element.text}>"

    @property
    def bits(self) -> int:
        """Bits of one lane."""
        return self.element.bits

    @property
    def is_float(self) -> bool:
        return self.element.is_float

    def __str__(self) -> str:
        return self.text


Type: TypeAlias = ScalarType | VectorType

I1, I8, I16, I32, I64 = (ScalarType(f"i{bits}", bits) for bits in (1, 8, 16, 32, 64))
F16, F32, F64 = (ScalarType(f"f{bits}", bits, True) for bits in (16, 32, 64))
BF16 = ScalarType("bf16", 16, True)
PTR = ScalarType("!llvm.ptr", 64)


def vector(lanes: int, element: ScalarType) -> Type:
    """`vector<lanes x element>`, or the scalar itself for one lane."""
    return element if lanes == 1 else VectorType(lanes, element)


class Value:
    """An SSA value: its name in the text, its type, and the level of the region that defines it (0: the function's
    body)."""

    __slots__ = ("constant", "level", "ref", "type")

    def __init__(self, ref: str, type_: Type, constant: int | float | None = None, level: int = 0) -> None:
        self.ref = ref
        self.type = type_
        self.constant = constant
        self.level = level

    def __repr__(self) -> str:
        return f"{self.ref}: {self.type}"


Index: TypeAlias = Value | int  # or a Size: a number that a call brings along

_FLOAT_BITS = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}


def float_text(number: float, type_: ScalarType) -> str:
    """A float constant as the hex bits of its type: exact, NaN and infinities included."""
    if type_ is BF16:
        import ml_dtypes
        import numpy as np

        return f"0x{int(np.array(number, ml_dtypes.bfloat16).view(np.uint16)):04X}"
    float_format, integer_format = _FLOAT_BITS[type_.text]
    try:
        packed = struct.pack(float_format, number)
    except OverflowError:
        packed = struct.pack(float_format, math.copysign(math.inf, number))
    return f"0x{struct.unpack(integer_format, packed)[0]:0{type_.bits // 4}X}"


def constant_array(name: str, numbers: Sequence[int]) -> str:
    """A read-only global of i64 numbers; `Function.address_of(name)` gives its address."""
    listed, count = ", ".join(map(str, numbers)), len(numbers)
    value = f"(dense<[{listed}]> : tensor<{count}xi64>) {{alignment = 8 : i64}}"
    return f"llvm.mlir.global internal constant @{name}{value} : !llvm.array<{count} x i64>"
