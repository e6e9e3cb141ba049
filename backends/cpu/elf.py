"""Object files as LLVM writes them for programs (ELF, relocatable, 64 bits, little-endian), read and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from struct import Struct
from typing import NamedTuple

import numpy as np

from stablehlo_py.errors import LoadError

HEADER = np.dtype(
    [("magic", "V16"), ("type", "<u2"), ("machine", "<u2"), ("version", "<u4"), ("entry", "<u8")]
    + [("segments", "<u8"), ("sections", "<u8"), ("flags", "<u4")]
    + [(name, "<u2") for name in ("header_width", "segment_width", "segment_count", "width", "count", "names")]
)
SEGMENT = np.dtype(
    [("type", "<u4"), ("flags", "<u4")]
    + [(name, "<u8") for name in ("offset", "address", "physical", "file_size", "size", "alignment")]
)
SECTION = np.dtype(
    [(name, "<u4") for name in ("name", "type")]
    + [(name, "<u8") for name in ("flags", "address", "offset", "size")]
    + [(name, "<u4") for name in ("link", "info")]
    + [(name, "<u8") for name in ("alignment", "width")]
)
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
RELOCATION = np.dtype([("place", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])


# The same as numbers of Python: those of NumPy take longer than a small file is worth.
_HEADER, _SECTION, _SYMBOL = Struct("<16sHHIQQQI6H"), Struct("<2I4Q2I2Q"), Struct("<I2BH2Q")


class Section(NamedTuple):
    """A record of `SECTION`."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    width: int


class Symbol(NamedTuple):
    """A record of `SYMBOL`."""

    name: int
    info: int
    other: int
    section: int
    value: int
    size: int

    @property
    def packed(self) -> bytes:
        """As it lies in files."""
        return _SYMBOL.pack(*self)

    @property
    def is_exchanged(self) -> bool:
        """Whether its file defines it for others, or others for it."""
        return self.info >> 4 != LOCAL


_MAGIC, _RELOCATABLE = b"\x7fELF\x02\x01", 1  # 64 bits, little-endian; ET_REL
CONTENT, SYMBOLS, RELOCATIONS, NOTES = 1, 2, 4, 7  # SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_NOTE
WRITE, ALLOCATE, EXECUTE = 1, 2, 4  # SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR
UNDEFINED, RESERVED = 0, 0xFF00  # SHN_UNDEF, SHN_LORESERVE
TEXTS = 3  # SHT_STRTAB
LOCAL, GLOBAL = 0, 1 << 4  # STB_LOCAL, STB_GLOBAL as they lie in a symbol's info, beside its type:
OBJECT, FUNCTION, SECTION_SYMBOL = 1, 2, 3  # STT_OBJECT, STT_FUNC, STT_SECTION
_FRAMES = ".eh_frame"
_TOO_EARLY = "is damaged: an object file ends too early"


def damaged(reason: str) -> LoadError:
    return LoadError(f"the program's machine code {reason}", remedy="compile the model again")


@contextmanager
def reading() -> Iterator[None]:
    """Within it, what contradicts itself in a file is a LoadError."""
    try:
        yield
    except (IndexError, OverflowError, ValueError) as error:
        raise damaged(f"is damaged: {error}") from error


class ObjectFile:
    """A relocatable file. Raises LoadError: it is none, or ends too early."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        (header,) = self._rows(_HEADER, 0, 1)
        _, type_, self.machine, _, _, _, self._sections, self.flags, _, _, _, _, self._count, self._names = header
        if not content.startswith(_MAGIC) or type_ != _RELOCATABLE:
            raise damaged("is damaged: it is no object file")
        self.rows = [Section(*row) for row in self._rows(_SECTION, self._sections, self._count)]

    def _rows(self, kind: Struct, offset: int, count: int) -> Iterator[tuple[int, ...]]:
        if offset + count * kind.size > len(self._content):
            raise damaged(_TOO_EARLY)
        return kind.iter_unpack(memoryview(self._content)[offset : offset + count * kind.size])

    def _records(self, kind: np.dtype, offset: int, count: int) -> np.ndarray:
        if offset + count * kind.itemsize > len(self._content):
            raise damaged(_TOO_EARLY)
        return np.frombuffer(self._content, kind, count, offset)

    @property
    def header(self) -> np.void:
        """Its first record."""
        return self._records(HEADER, 0, 1)[0]

    @property
    def sections(self) -> np.ndarray:
        """The records of the sections."""
        return self._records(SECTION, self._sections, self._count)

    def data(self, number: int) -> memoryview:
        """The content of a section."""
        begin, end = self.rows[number].offset, self.rows[number].offset + self.rows[number].size
        if end > len(self._content):
            raise damaged(_TOO_EARLY)
        return memoryview(self._content)[begin:end]

    def _texts(self, table: int, places: Iterable[int]) -> list[str]:
        content, begin = self._content, self.rows[table].offset
        return [content[begin + place : content.index(b"\0", begin + place)].decode() for place in places]

    @cached_property
    def names(self) -> list[str]:
        """Of the sections."""
        return self._texts(self._names, [row.name for row in self.rows])

    def table(self, number: int, kind: np.dtype) -> np.ndarray:
        """The records of a section."""
        return self._records(kind, self.rows[number].offset, self.rows[number].size // kind.itemsize)

    def numbers(self, kind: int) -> list[int]:
        """The sections of one type."""
        return [number for number, row in enumerate(self.rows) if row.type == kind]

    @property
    def symbols(self) -> np.ndarray:
        """The records of all symbols."""
        for number in self.numbers(SYMBOLS):
            return self.table(number, SYMBOL)
        return np.empty(0, SYMBOL)

    @cached_property
    def symbol_rows(self) -> list[Symbol]:
        """The same as numbers of Python."""
        for number in self.numbers(SYMBOLS):
            row = self.rows[number]
            return [Symbol(*each) for each in self._rows(_SYMBOL, row.offset, row.size // _SYMBOL.size)]
        return []

    @cached_property
    def symbol_names(self) -> list[str]:
        """The names of all symbols."""
        for number in self.numbers(SYMBOLS):
            return self._texts(self.rows[number].link, [row.name for row in self.symbol_rows])
        return []

    @cached_property
    def exchanged(self) -> list[int]:
        """The numbers of symbols that it defines for others, or others for it."""
        return [number for number, row in enumerate(self.symbol_rows) if row.is_exchanged]

    def placed(self) -> Iterator[tuple[int, bool]]:
        """The sections that code needs while it runs, each with whether it is code."""
        for number, (row, name) in enumerate(zip(self.rows, self.names, strict=True)):
            if not row.flags & ALLOCATE or name == _FRAMES or row.type == NOTES or not row.size:
                continue
            if row.type != CONTENT or row.flags & WRITE:
                raise damaged(f"has a section {name}, which is not only read")
            yield number, bool(row.flags & EXECUTE)


class Names:
    """A table of names."""

    def __init__(self) -> None:
        self.content = bytearray(1)

    def add(self, name: str) -> int:
        """Where it lies."""
        place = len(self.content)
        self.content += name.encode() + b"\0"
        return place


def pack_file(machine: int, flags: int, sections: Sequence[tuple[Section, bytes]], names: int) -> bytes:
    """A relocatable file of some sections with their contents, which are numbered from 1; the section `names` has their
    names."""
    parts, place, rows = [b""], _HEADER.size, [Section(*[0] * 10)]
    for section, content in sections:
        gap = -place % max(1, section.alignment)
        rows.append(section._replace(offset=place + gap, size=len(content)))
        parts += [bytes(gap), content]
        place += gap + len(content)
    gap = -place % 8
    table = b"".join(_SECTION.pack(*row) for row in rows)
    magic = _MAGIC + bytes([1])  # the version of ELF
    widths = _HEADER.size, 0, 0, _SECTION.size
    header = _HEADER.pack(magic, _RELOCATABLE, machine, 1, 0, 0, place + gap, flags, *widths, len(rows), names)
    return b"".join([header, *parts, bytes(gap), table])
