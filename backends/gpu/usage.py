"""What kernels take of a machine: registers, memory of threads and blocks. The assembler of NVIDIA says it, and AMD's
code objects hold it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from stablehlo_py.backends.cpu.elf import NOTES, ObjectFile

_KERNEL = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Usage:
    """What one kernel takes.

    Attributes:
        registers: 32-bit ones of a thread; scalars: those that the threads of a subgroup share, on AMD.
        spills: bytes of a thread that are written to memory because there are too few registers.
        stack: bytes of memory of a thread, those of `spills` among them.
        shared: bytes of shared memory of a block.
    """

    registers: int
    scalars: int
    spills: int
    stack: int
    shared: int


def of_ptxas(report: str) -> dict[str, Usage]:
    """By kernel, what `ptxas -v` reports."""
    found = {}
    _, *parts = _KERNEL.split(report)
    for name, said in zip(parts[::2], parts[1::2], strict=True):
        spills, used, shared = _SPILLS.search(said), _USED.search(said), _SHARED.search(said)
        stack, spilled = map(int, spills.groups()) if spills else (0, 0)
        found[name] = Usage(int(used[1]) if used else 0, 0, spilled, stack, int(shared[1]) if shared else 0)
    return found


_NAME_AT, _AMD = 12, b"AMDGPU\0\0"  # in a note: behind the sizes of its name and of what it says, and a type


def of_object(elf: bytes) -> dict[str, Usage]:
    """By kernel, what the metadata of an object file for AMD say (LLVM, User Guide for AMDGPU Backend, Code Object
    V5)."""
    file = ObjectFile(elf)
    notes = [bytes(file.data(number)) for number in file.numbers(NOTES)]
    said = [_unpacked(note, _NAME_AT + len(_AMD))[0] for note in notes if note.startswith(_AMD, _NAME_AT)]
    kernels = [kernel for note in said for kernel in note.get("amdhsa.kernels", ())]
    return {
        kernel[".name"]: Usage(
            kernel[".vgpr_count"],
            kernel[".sgpr_count"],
            4 * (kernel[".vgpr_spill_count"] + kernel[".sgpr_spill_count"]),
            kernel[".private_segment_fixed_size"],
            kernel[".group_segment_fixed_size"],
        )
        for kernel in kernels
    }


def _unpacked(data: bytes, at: int) -> tuple[Any, int]:
    """The value of MessagePack at a place, and where the next one lies: of its types those that LLVM writes."""
    kind = data[at]
    at += 1

    def number(size: int) -> int:
        return int.from_bytes(data[at : at + size], "big")

    if kind < 0x80:
        return kind, at
    if kind < 0xA0 or kind in (0xDC, 0xDD, 0xDE, 0xDF):
        width = 0 if kind < 0xA0 else 2 if kind in (0xDC, 0xDE) else 4
        count = number(width) if width else kind & 15
        is_map = kind < 0x90 or kind in (0xDE, 0xDF)
        at += width
        values = []
        for _ in range(2 * count if is_map else count):
            value, at = _unpacked(data, at)
            values.append(value)
        return (dict(zip(values[::2], values[1::2], strict=True)) if is_map else values), at
    if kind < 0xC0 or 0xD9 <= kind <= 0xDB:
        width = 0 if kind < 0xC0 else 1 << (kind - 0xD9)
        size = number(width) if width else kind & 31
        return data[at + width : at + width + size].decode(), at + width + size
    if kind in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[kind], at
    if 0xCC <= kind <= 0xCF:
        width = 1 << (kind - 0xCC)
        return number(width), at + width
    raise ValueError(f"metadata of AMD hold the type {kind:#x} of MessagePack")
