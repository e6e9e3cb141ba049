"""Object files that LLVM writes for AMD's GPUs become code objects, which drivers load: shared ELF files for amdhsa
(LLVM, User Guide for AMDGPU Backend, ELF Code Object), as `ld.lld -shared` makes them.

Three segments, in pages of their own: what is only read (notes, symbols, descriptors of kernels, tables), code, and the
table for dynamic linkers. Nothing is left to relocate when a code object is loaded: in one, all addresses are relative.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from stablehlo_py.backends.cpu.elf import (
    ALLOCATE,
    CONTENT,
    EXECUTE,
    NOTES,
    RELOCATION,
    RELOCATIONS,
    RESERVED,
    SECTION,
    SEGMENT,
    SYMBOL,
    SYMBOLS,
    UNDEFINED,
    WRITE,
    ObjectFile,
)
from stablehlo_py.errors import InternalError

AMDGPU, SHARED = 224, 3  # EM_AMDGPU, ET_DYN
PAGE = 4096
_TEXTS, _HASHES, _DYNAMIC, _DYNAMIC_SYMBOLS = 3, 5, 6, 11  # SHT_STRTAB, SHT_HASH, SHT_DYNAMIC, SHT_DYNSYM
# PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_PHDR, PT_GNU_STACK
LOADED, DYNAMIC_SEGMENT, NOTE_SEGMENT, HEADERS_SEGMENT, STACK_SEGMENT = 1, 2, 4, 6, 0x6474E551
RUN, CHANGE, READ = 1, 2, 4  # PF_X, PF_W, PF_R
# Entries of the table for dynamic linkers: DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT.
_HASHES_AT, _TEXTS_AT, _SYMBOLS_AT, _TEXTS_SIZE, _SYMBOL_WIDTH = 4, 5, 6, 10, 11
_VISIBILITY, _HIDDEN = 3, (1, 2)  # STV_INTERNAL, STV_HIDDEN
# Relocations: how many bits of the distance to the symbol are left out, and how the others are written.
# R_AMDGPU_REL32, _REL64, _REL32_LO, _REL32_HI.
_DISTANCES = {4: (0, "<I"), 5: (0, "<Q"), 10: (0, "<I"), 11: (32, "<I")}


@dataclass
class _Section:
    """A section of the code object. `link` is the name of the section that explains it, `first` the number of its first
    global symbol, `width` that of its records in bytes."""

    name: str
    type: int
    content: bytearray
    flags: int = 0
    alignment: int = 1
    width: int = 0
    link: str = ""
    first: int = 0
    offset: int = field(default=0, init=False)
    address: int = field(default=0, init=False)


def code_object(made: bytes) -> bytes:
    """The code object of an object file that defines everything that it uses.

    Raises:
        InternalError: it holds what cannot be linked; LLVM makes no such file of generated code.
    """
    return _CodeObject(ObjectFile(made)).linked()


class _CodeObject:
    """A code object on its way."""

    def __init__(self, file: ObjectFile) -> None:
        self._file = file
        self._placed: dict[int, _Section] = {}  # by their number in the object file
        if file.machine != AMDGPU:
            raise InternalError(f"an object file for the machine {file.machine} becomes no code object of AMD")
        for number in file.numbers(NOTES):
            self._place(number, NOTES, ALLOCATE)
        notes = list(self._placed.values())
        data = [self._place(number, CONTENT, ALLOCATE) for number, is_code in file.placed() if not is_code]
        code = [self._place(number, CONTENT, ALLOCATE | EXECUTE) for number, is_code in file.placed() if is_code]
        records, names = file.symbols, file.symbol_names
        self._exported = [number for number in file.exchanged if self._is_exported(records[number], names[number])]
        texts, places = _joined([names[number] for number in self._exported])
        symbols = np.zeros(1 + len(self._exported), SYMBOL)
        symbols[1:] = records[self._exported]
        symbols["name"][1:] = places
        self._symbols = symbols

        def tables(kind: int, symbols_name: str, texts_name: str, flags: int) -> list[_Section]:
            room = bytearray(symbols.nbytes)
            width = SYMBOL.itemsize
            return [
                _Section(symbols_name, kind, room, flags, 8, width, link=texts_name, first=1),
                _Section(texts_name, _TEXTS, bytearray(texts), flags),
            ]

        looked_up = tables(_DYNAMIC_SYMBOLS, ".dynsym", ".dynstr", ALLOCATE)
        hashes = bytearray(_hashes([names[number] for number in self._exported]))
        looked_up.insert(1, _Section(".hash", _HASHES, hashes, ALLOCATE, 4, 4, link=".dynsym"))
        dynamic = _Section(".dynamic", _DYNAMIC, bytearray(6 * 16), ALLOCATE | WRITE, 8, 16, link=".dynstr")
        self._segments = {READ: [*notes, *looked_up, *data], READ | RUN: code, READ | CHANGE: [dynamic]}
        self._segments = {flags: sections for flags, sections in self._segments.items() if sections}
        loaded = [section for sections in self._segments.values() for section in sections]
        others = tables(SYMBOLS, ".symtab", ".strtab", 0)
        named = _Section(".shstrtab", _TEXTS, bytearray())
        self._sections = [*loaded, *others, named]
        names_of_sections, self._name_places = _joined([section.name for section in self._sections])
        named.content += names_of_sections
        self._header_count = len(self._segments) + len(notes[:1]) + 3

    def _place(self, number: int, kind: int, flags: int) -> _Section:
        """The section of the code object that takes over one of the object file."""
        source = self._file.sections[number]
        alignment = max(1, int(source["alignment"]))
        if alignment > PAGE:
            raise InternalError(f"a section of a code object is aligned to {alignment} bytes")
        content = bytearray(self._file.data(number))
        self._placed[number] = made = _Section(self._file.names[number], kind, content, flags, alignment)
        return made

    def _is_exported(self, record: np.void, name: str) -> bool:
        section = int(record["section"])
        if section == UNDEFINED:
            raise InternalError(f"nothing defines {name}, which a code object uses")
        return section < RESERVED and int(record["other"]) & _VISIBILITY not in _HIDDEN and section in self._placed

    def linked(self) -> bytes:
        """The file."""
        end = self._lay_out()
        self._write_symbols()
        self._relocate()
        header = self._file.header.copy()
        header["type"], header["sections"] = SHARED, end
        header["segments"], header["segment_width"] = header.nbytes, SEGMENT.itemsize
        header["segment_count"] = self._header_count
        header["count"], header["names"] = len(self._sections) + 1, len(self._sections)
        numbers = {section.name: number for number, section in enumerate(self._sections, 1)}
        rows = np.zeros(len(self._sections) + 1, SECTION)
        for row, section, name in zip(rows[1:], self._sections, self._name_places, strict=True):
            row["name"], row["type"], row["flags"] = name, section.type, section.flags
            row["address"], row["offset"], row["size"] = section.address, section.offset, len(section.content)
            row["link"], row["info"] = numbers.get(section.link, 0), section.first
            row["alignment"], row["width"] = section.alignment, section.width
        image = bytearray(end)
        segments = np.array(list(self._headers()), SEGMENT).tobytes()
        image[: header.nbytes + len(segments)] = header.tobytes() + segments
        for section in self._sections:
            image[section.offset : section.offset + len(section.content)] = section.content
        return bytes(image) + rows.tobytes()

    def _lay_out(self) -> int:
        """Set offsets and addresses; where the table of sections is. A segment goes on in the file where the one before
        ends, and in memory at the same place of a later page."""
        offset = self._file.header.nbytes + SEGMENT.itemsize * self._header_count
        shift = 0  # of addresses against offsets
        for sections in self._segments.values():
            offset = _aligned(offset, sections[0].alignment)
            for section in sections:
                section.offset = _aligned(offset, section.alignment)
                section.address = section.offset + shift
                offset = section.offset + len(section.content)
            shift += PAGE
        for section in self._sections:
            if not section.flags & ALLOCATE:
                section.offset = _aligned(offset, section.alignment)
                offset = section.offset + len(section.content)
        return _aligned(offset, 8)

    def _headers(self) -> Iterator[tuple[int, ...]]:
        """The rows of the table of segments."""
        width = self._file.header.nbytes, SEGMENT.itemsize * self._header_count
        yield HEADERS_SEGMENT, READ, width[0], width[0], width[0], width[1], width[1], 8
        for position, (flags, sections) in enumerate(self._segments.items()):
            first = (0, 0) if not position else (sections[0].offset, sections[0].address)  # with the headers
            yield _row(LOADED, flags, sections, first, PAGE)
        for kind, type_, flags in ((DYNAMIC_SEGMENT, _DYNAMIC, READ | CHANGE), (NOTE_SEGMENT, NOTES, READ)):
            some = [section for section in self._sections if section.type == type_]
            if some:
                yield _row(kind, flags, some, (some[0].offset, some[0].address), some[0].alignment)
        yield STACK_SEGMENT, READ | CHANGE, 0, 0, 0, 0, 0, 0

    def _write_symbols(self) -> None:
        """Fill the tables that hold addresses."""
        numbers = {id(section): number for number, section in enumerate(self._sections, 1)}
        for row, number in zip(self._symbols[1:], self._exported, strict=True):
            section = self._placed[int(self._file.symbols[number]["section"])]
            row["section"], row["value"] = numbers[id(section)], section.address + int(row["value"])
        by_name = {section.name: section for section in self._sections}
        for name in (".dynsym", ".symtab"):
            by_name[name].content[:] = self._symbols.tobytes()
        texts = by_name[".dynstr"]
        entries = {
            _SYMBOLS_AT: by_name[".dynsym"].address,
            _SYMBOL_WIDTH: SYMBOL.itemsize,
            _TEXTS_AT: texts.address,
            _TEXTS_SIZE: len(texts.content),
            _HASHES_AT: by_name[".hash"].address,
            0: 0,
        }
        by_name[".dynamic"].content[:] = b"".join(struct.pack("<QQ", *entry) for entry in entries.items())

    def _relocate(self) -> None:
        """Write the distances that code and descriptors hold."""
        records, names = self._file.symbols, self._file.symbol_names
        for number in self._file.numbers(RELOCATIONS):
            section = self._placed.get(int(self._file.sections[number]["info"]))
            if section is None:
                continue
            for place, kind, symbol, addend in self._file.table(number, RELOCATION).tolist():
                target = self._placed.get(int(records[symbol]["section"]))
                if kind not in _DISTANCES or target is None:
                    raise InternalError(f"a code object has no relocation of type {kind} to '{names[symbol]}'")
                skipped, form = _DISTANCES[kind]
                distance = target.address + int(records[symbol]["value"]) + addend - (section.address + place)
                bits = distance >> skipped & (1 << 8 * struct.calcsize(form)) - 1
                struct.pack_into(form, section.content, place, bits)


def _aligned(place: int, alignment: int) -> int:
    return -(-place // alignment) * alignment


def _row(kind: int, flags: int, sections: list[_Section], first: tuple[int, int], alignment: int) -> tuple[int, ...]:
    """Of the table of segments: these sections, from an offset and address on."""
    offset, address = first
    size = sections[-1].offset + len(sections[-1].content) - offset
    return kind, flags, offset, address, address, size, size, alignment


def _joined(names: list[str]) -> tuple[bytes, list[int]]:
    """Names in one table, and where each of them begins."""
    table, places = bytearray(b"\0"), []
    for name in names:
        places.append(len(table))
        table += name.encode() + b"\0"
    return bytes(table), places


def _hashes(names: list[str]) -> bytes:
    """The table by which symbols are found by name (System V ABI, Hash Table): how many buckets and symbols there
    are, the first symbol of each bucket, and for each symbol the next one of its bucket. Names begin at symbol 1."""
    count = 1 + len(names)
    buckets, chains = [0] * count, [0] * count
    for number, name in enumerate(names, 1):
        bucket = _hash(name) % count
        chains[number], buckets[bucket] = buckets[bucket], number
    return np.array([count, count, *buckets, *chains], "<u4").tobytes()


def _hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value
