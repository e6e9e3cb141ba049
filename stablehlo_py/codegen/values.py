"""Types and values of the kernel language. Emitters spell them (codegen/emitter.py)."""

from __future__ import annotations

import enum
import math
import struct
from dataclasses import dataclass, field
from typing import TypeAlias

from stablehlo_py.dialect.symint import IntLike


class Space(enum.Enum):
    """Where what a pointer points to lies. Machines with one memory have GENERIC pointers only."""

    GENERIC = "generic"  # anywhere
    GLOBAL = "global"  # memory of the device
    SHARED = "shared"  # of one block of threads
    CONSTANT = "constant"  # read by all, written by none
    PRIVATE = "private"  # of one thread


@dataclass(frozen=True)
class ScalarType:
    """A scalar: "f32", "i64", "ptr" ...

    Attributes:
        text: its name; types with the same name are equal.
        bits: its width; 0 for a pointer, whose width is the target's.
        space: of a pointer, where what it points to lies.
    """

    text: str
    bits: int = field(compare=False)
    is_float: bool = field(default=False, compare=False)
    space: Space | None = field(default=None, compare=False)

    lanes: int = field(default=1, init=False, compare=False)

    @property
    def element(self) -> ScalarType:
        return self

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class VectorType:
    """A fixed vector of scalars."""

    lanes: int = field(compare=False)
    element: ScalarType = field(compare=False)
    text: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"vector<{self.lanes}x{self.element.text}>")

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


def pointer(space: Space) -> ScalarType:
    """The type of a pointer into an address space."""
    return ScalarType("ptr" if space is Space.GENERIC else f"ptr<{space.value}>", 0, space=space)


I1, I8, I16, I32, I64 = (ScalarType(f"i{bits}", bits) for bits in (1, 8, 16, 32, 64))
F16, F32, F64 = (ScalarType(f"f{bits}", bits, True) for bits in (16, 32, 64))
BF16 = ScalarType("bf16", 16, True)
PTR = pointer(Space.GENERIC)


def vector(lanes: int, element: ScalarType) -> Type:
    """`vector<lanes x element>`, or the scalar itself for one lane."""
    return element if lanes == 1 else VectorType(lanes, element)


Bounds: TypeAlias = tuple[int, int]


class Value:
    """An SSA value: its name in the text, its type, and the level of the region that defines it (0: the function's
    body). Of an index it may be known between which numbers it is."""

    __slots__ = ("bounds", "constant", "level", "ref", "type")

    def __init__(
        self,
        ref: str,
        type_: Type,
        constant: IntLike | float | None = None,
        level: int = 0,
        bounds: Bounds | None = None,
    ) -> None:
        self.ref = ref
        self.type = type_
        self.constant = constant
        self.level = level
        self.bounds = bounds

    def __repr__(self) -> str:
        return f"{self.ref}: {self.type}"


Index: TypeAlias = Value | IntLike

_FLOAT_BITS = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}


def float_bits(number: float, type_: ScalarType) -> int:
    """The bits of the nearest float of a type, infinity beyond its largest; those of a NaN are kept."""
    if type_ is BF16:
        import ml_dtypes
        import numpy as np

        return int(np.array(number, ml_dtypes.bfloat16).view(np.uint16))
    float_format, integer_format = _FLOAT_BITS[type_.text]
    try:
        packed = struct.pack(float_format, number)
    except OverflowError:
        packed = struct.pack(float_format, math.copysign(math.inf, number))
    (bits,) = struct.unpack(integer_format, packed)
    return int(bits)
