"""Tensors in global memory as a machine's copy engine sees them: it copies boxes of them to shared memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

LINE_BYTES = 128  # of shared memory
BYTES = 128  # of the opaque object that the engine reads
MOST_DIMENSIONS = 5


@dataclass(frozen=True)
class TensorMap:
    """A tensor, and the boxes that are copied from it (PTX ISA 5.5: tensors, tiled mode).

    A box lies in shared memory line by line, each of `LINE_BYTES`, at a multiple of 1024 bytes; in a line, the pieces
    of 16 bytes lie where the number of a piece, xor the number of the line modulo eight, says. What a box has outside
    of the tensor is zero.

    Attributes:
        bits: of an element: 8 or 16.
        sizes: of the tensor along its dimensions, first that whose elements are neighbours; no more than
            `MOST_DIMENSIONS`.
        strides: bytes from one to the next along the other dimensions, multiples of 16.
        box: sizes of a box, likewise: `LINE_BYTES` along the first dimension, at most 256 along others.
    """

    bits: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]

    @property
    def box_bytes(self) -> int:
        """Of one box."""
        return math.prod(self.box) * self.bits // 8
