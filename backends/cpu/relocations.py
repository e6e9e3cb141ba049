"""What becomes of addresses in machine code: the relocations of each processor that generated code contains.

Code is generated for the large code model: instructions hold whole addresses of 64 bits, what they name may lie
anywhere, and there are few kinds of relocations (ELF for the x86-64 architecture, 4.4; ELF for the Arm 64-bit
architecture, 5.7). On Arm calls are branches all the same, and addresses that other files define are read from memory:
there each symbol has a place with its address, behind instructions that go there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from stablehlo_py.backends.cpu.elf import damaged

# Values and places of relocations as numbers of 64 bits -> the bits to write, or to set in an instruction.
Bits = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Machine:
    """A processor.

    Attributes:
        number: its number in ELF.
        addresses: relocations, by their numbers, that store an address.
        moves: those that set bits of an instruction of 32 bits to a part of an address; `branches`: to the distance of
            a function; `slots`: to a part of the place where an address lies.
        stub: instructions that go to the address behind them: a branch to what another file defines leads there, and
            that address is the one that lies in a slot.
    """

    number: int
    addresses: frozenset[int]
    moves: Mapping[int, Bits] = field(default_factory=dict)
    branches: Mapping[int, Bits] = field(default_factory=dict)
    slots: Mapping[int, Bits] = field(default_factory=dict)
    stub: bytes = b""


def _move(part: int) -> Bits:
    """MOVZ, MOVK: 16 bits of a value from bit 5 on."""
    return lambda values, places: (values >> np.uint64(16 * part) & np.uint64(0xFFFF)) << np.uint64(5)


def _branch(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """B, BL: a distance in instructions, 26 bits."""
    distances = (values - places).view(np.int64)
    if (abs(distances) >= 1 << 27).any():
        raise damaged("has a branch that does not reach where it leads")
    return (distances >> 2 & 0x3FFFFFF).view(np.uint64)


def _page(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """ADRP: a distance in pages of 4 KiB, 21 bits, the lowest two of them from bit 29 on."""
    distances = (values >> np.uint64(12)) - (places >> np.uint64(12))
    return (distances & np.uint64(3)) << np.uint64(29) | (distances >> np.uint64(2) & np.uint64(0x7FFFF)) << np.uint64(
        5
    )


def _in_page(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """LDR of 64 bits: the place within a page, in units of 8 bytes, from bit 10 on."""
    return (values & np.uint64(0xFFF)) >> np.uint64(3) << np.uint64(10)


# R_X86_64_64; R_AARCH64_ABS64, R_AARCH64_MOVW_UABS_G0 to G3 with and without _NC, _JUMP26 and _CALL26, _ADR_GOT_PAGE,
# _LD64_GOT_LO12_NC.
_MOVES = {263: 0, 264: 0, 265: 1, 266: 1, 267: 2, 268: 2, 269: 3}
MACHINES = {
    "x86_64": Machine(62, frozenset({1})),
    "aarch64": Machine(
        183,
        frozenset({257}),
        {number: _move(part) for number, part in _MOVES.items()},
        {282: _branch, 283: _branch},
        {311: _page, 312: _in_page},
        struct.pack("<II", 0x58000050, 0xD61F0200),  # ldr x16, 8 bytes further; br x16
    ),
}
