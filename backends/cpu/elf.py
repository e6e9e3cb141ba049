"""Object files as LLVM writes them for programs (ELF, relocatable, 64 bits, little-endian)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

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
_MAGIC, _RELOCATABLE = b"\x7fELF\x02\x01", 1  # 64 bits, little-endian; ET_REL
CONTENT, SYMBOLS, RELOCATIONS, NOTES = 1, 2, 4, 7  # SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_NOTE
WRITE, ALLOCATE, EXECUTE = 1, 2, 4  # SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR
UNDEFINED, RESERVED = 0, 0xFF00  # SHN_UNDEF, SHN_LORESERVE
LOCAL = 0  # STB_LOCAL
_FRAMES = ".eh_frame"


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
    """A relocatable file; `header` and `sections` are its records. Raises LoadError: it is none, or ends too early."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.header = self._records(HEADER, 0, 1)[0]
        if not content.startswith(_MAGIC) or self.header["type"] != _RELOCATABLE:
            raise damaged("is damaged: it is no object file")
        self.sections = self._records(SECTION, int(self.header["sections"]), int(self.header["count"]))

    def _records(self, kind: np.dtype, offset: int, count: int) -> np.ndarray:
        if offset + count * kind.itemsize > len(self._content):
            raise damaged("is damaged: an object file ends too early")
        return np.frombuffer(self._content, kind, count, offset)

    @property
    def machine(self) -> int:
        """The number of its processor in ELF."""
        return int(self.header["machine"])

    def data(self, number: int) -> memoryview:
        """The content of a section."""
        section = self.sections[number]
        records = self._records(np.dtype("u1"), int(section["offset"]), int(section["size"]))
        return memoryview(records)  # type: ignore[arg-type]

    def _text(self, table: int, place: int) -> str:
        begin = int(self.sections[table]["offset"]) + place
        return self._content[begin : self._content.index(b"\0", begin)].decode()

    @cached_property
    def names(self) -> list[str]:
        """Of the sections."""
        return [self._text(int(self.header["names"]), int(place)) for place in self.sections["name"]]

    def table(self, number: int, kind: np.dtype) -> np.ndarray:
        """The records of a section."""
        section = self.sections[number]
        return self._records(kind, int(section["offset"]), int(section["size"]) // kind.itemsize)

    def numbers(self, kind: int) -> list[int]:
        """The sections of one type."""
        return [int(number) for number in np.flatnonzero(self.sections["type"] == kind)]

    @cached_property
    def symbols(self) -> tuple[np.ndarray, list[str]]:
        """All symbols, and their names."""
        for number in self.numbers(SYMBOLS):
            records, texts = self.table(number, SYMBOL), int(self.sections[number]["link"])
            return records, [self._text(texts, int(place)) for place in records["name"]]
        return np.empty(0, SYMBOL), []

    @cached_property
    def exchanged(self) -> list[int]:
        """The numbers of symbols that it defines for others, or others for it."""
        records, _ = self.symbols
        return np.flatnonzero(records["info"] >> 4 != LOCAL).tolist()

    def placed(self) -> Iterator[tuple[int, bool]]:
        """The sections that code needs while it runs, each with whether it is code."""
        for number, (section, name) in enumerate(zip(self.sections, self.names, strict=True)):
            flags = int(section["flags"])
            if not flags & ALLOCATE or name == _FRAMES or section["type"] == NOTES or not section["size"]:
                continue
            if section["type"] != CONTENT or flags & WRITE:
                raise damaged(f"has a section {name}, which is not only read")
            yield number, bool(flags & EXECUTE)
