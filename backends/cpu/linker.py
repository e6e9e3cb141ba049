"""Object files are linked for an address: laid out, and their relocations applied.

Frames of the unwinder (.eh_frame) are left out: no exception goes through generated code. Where the system ends a
thread inside of it, unwinding ends there too, as at the end of a stack.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stablehlo_py.backends.cpu.elf import (
    RELOCATION,
    RELOCATIONS,
    RESERVED,
    UNDEFINED,
    ObjectFile,
    damaged,
    reading,
)
from stablehlo_py.backends.cpu.relocations import MACHINES
from stablehlo_py.errors import LoadError

PAGE = mmap.PAGESIZE


@dataclass(frozen=True)
class Image:
    """Linked object files.

    Attributes:
        content: bytes for the address that they were linked for.
        code_bytes: how many of them are code, at the start: whole pages (`PAGE`). What follows is only read.
        symbols: addresses of the functions and data that they define for others.
    """

    content: np.ndarray
    code_bytes: int
    symbols: Mapping[str, int]


class Linker:
    """Some object files, laid out. `size` is what they take in bytes.

    Raises:
        LoadError: one of them is damaged, or not for this machine, as the system calls it.
    """

    @reading()
    def __init__(self, objects: Sequence[bytes], machine: str) -> None:
        if machine not in MACHINES:
            raise LoadError(f"there is no loader of machine code for {machine}", remedy=f"use {' or '.join(MACHINES)}")
        self._machine = MACHINES[machine]
        self._files = [ObjectFile(content) for content in objects]
        self._places: dict[tuple[int, int], int] = {}  # of sections: file and number -> offset
        self._stubs: dict[tuple[int, int], int] = {}  # of symbols: the same
        self.size = self._code_bytes = 0
        if any(file.machine != self._machine.number for file in self._files):
            raise damaged(f"is not for {machine}")
        placed = [(index, *section) for index, file in enumerate(self._files) for section in file.placed()]
        for wanted in (True, False):
            for index, number in ((index, number) for index, number, is_code in placed if is_code == wanted):
                row = self._files[index].rows[number]
                alignment = max(1, row.alignment)
                if alignment > PAGE:
                    raise damaged(f"has a section that is aligned to {alignment} bytes")
                self._places[index, number] = -(-self.size // alignment) * alignment
                self.size = self._places[index, number] + len(self._files[index].data(number))
            if wanted:
                self._place_stubs()
            self.size = -(-self.size // PAGE) * PAGE
            if wanted:
                self._code_bytes = self.size

    def _place_stubs(self) -> None:
        width = len(self._machine.stub) + 8
        for index, file in enumerate(self._files if self._machine.stub else ()):
            for number in file.exchanged:
                self._stubs[index, number] = self.size = -(-self.size // width) * width
                self.size += width

    @reading()
    def link(self, address: int, outside: Callable[[str], int]) -> Image:
        """The image for an address, a multiple of `PAGE`; `outside` says where a symbol is that none of the files
        defines.

        Raises:
            LoadError: what they hold cannot be linked, or `outside` raises it.
        """
        content = np.zeros(self.size, np.uint8)
        for (index, number), place in self._places.items():
            data = self._files[index].data(number)
            content[place : place + len(data)] = np.frombuffer(data, np.uint8)
        defined: dict[str, int] = {}
        values = [self._values(index, address, defined) for index in range(len(self._files))]
        for index, file in enumerate(self._files):
            names = file.symbol_names
            # Where symbols are, where branches to them lead, and where their addresses lie.
            targets = slots = values[index]
            if self._stubs:
                targets, slots = targets.copy(), np.zeros_like(slots)
            for number in file.exchanged:
                if file.symbol_rows[number].section == UNDEFINED:
                    known = defined.get(names[number])
                    values[index][number] = outside(names[number]) if known is None else known
                if self._stubs:
                    place = self._stubs[index, number]
                    stub = self._machine.stub + int(values[index][number]).to_bytes(8, "little")
                    content[place : place + len(stub)] = np.frombuffer(stub, np.uint8)
                    slots[number] = address + place + len(self._machine.stub)
                    targets[number] = targets[number] or address + place
            for number in file.numbers(RELOCATIONS):
                section = index, file.rows[number].info
                if section in self._places:
                    relocations, place = file.table(number, RELOCATION), self._places[section]
                    self._relocate(content, place, address, relocations, values[index], targets, slots)
        return Image(content, self._code_bytes, defined)

    def _values(self, index: int, address: int, defined: dict[str, int]) -> np.ndarray:
        """The addresses of a file's symbols, 0 of those that it does not define; global ones are noted in `defined`."""
        file = self._files[index]
        values = [0] * len(file.symbol_rows)
        for number, (name, row) in enumerate(zip(file.symbol_names, file.symbol_rows, strict=True)):
            if row.section >= RESERVED and row.is_exchanged:
                raise damaged(f"has {name} in no section")
            if (index, row.section) in self._places:
                values[number] = address + self._places[index, row.section] + row.value
                if row.is_exchanged:
                    defined[name] = values[number]
        return np.array(values, np.uint64)

    def _relocate(
        self,
        content: np.ndarray,
        begin: int,
        address: int,
        relocations: np.ndarray,
        values: np.ndarray,
        targets: np.ndarray,
        slots: np.ndarray,
    ) -> None:
        """Apply the relocations of the section that begins there."""
        machine = self._machine
        for kind in sorted(set(relocations["type"].tolist())):
            some = relocations[relocations["type"] == kind]
            symbols = targets if kind in machine.branches else slots if kind in machine.slots else values
            found = symbols[some["symbol"]] + some["addend"].view(np.uint64)
            places = some["place"] + np.uint64(begin)
            bits_of = machine.moves.get(kind) or machine.branches.get(kind) or machine.slots.get(kind)
            if kind in machine.addresses:
                bits = found
            elif bits_of is not None:
                before = content[places[:, None] + np.arange(4, dtype=np.uint64)].view("<u4")[:, 0]
                bits = bits_of(found, places + np.uint64(address)).astype("<u4") | before
            else:
                raise damaged(f"has relocations of type {kind}, which are not known")
            written = np.ascontiguousarray(bits).view(np.uint8).reshape(len(some), -1)
            content[places[:, None] + np.arange(written.shape[1], dtype=np.uint64)] = written
