"""Object files of single functions, out of one that LLVM made of a program: each with the constants that it reads,
and one of all that remains.

What is written depends on the functions in it alone, not on those that were compiled with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from struct import Struct

from stablehlo_py.backends.cpu.elf import (
    ALLOCATE,
    CONTENT,
    EXECUTE,
    FUNCTION,
    GLOBAL,
    OBJECT,
    RELOCATIONS,
    SECTION_SYMBOL,
    SYMBOL,
    SYMBOLS,
    TEXTS,
    UNDEFINED,
    Names,
    ObjectFile,
    Section,
    Symbol,
    damaged,
    pack_file,
)

_RELOCATION = Struct("<QIIq")
_LINK_INFO = 0x40  # SHF_INFO_LINK
_TYPE = 0xF  # of a symbol's info
_VECTOR = 64  # bytes of the largest one
_CODE, _CODE_RELOCATIONS, _CONSTANTS, _SYMBOLS, _NAMES = range(1, 6)  # sections


def section_of(symbol: str) -> str:
    """The section in which a function is to lie, so that it can be taken out."""
    return f".text.{symbol}"


def function_object(file: ObjectFile, symbol: str) -> bytes:
    """An object file with that function alone.

    Raises:
        LoadError: it needs more than constants and functions of other files.
    """
    number = file.names.index(section_of(symbol))
    return _taken_out(file, number, [Symbol(0, GLOBAL | FUNCTION, 0, number, 0, file.rows[number].size)], [symbol])


def remaining_object(file: ObjectFile, symbols: Sequence[str]) -> bytes:
    """An object file with those functions, which have no sections of their own, and with all data that have names: the
    constants that functions read have none.

    Raises:
        LoadError: as `function_object`.
    """
    named = dict(zip(file.symbol_names, file.symbol_rows, strict=True))
    data = {name: row for name, row in named.items() if row.info & _TYPE == OBJECT}
    given = [*symbols, *(name for name, row in data.items() if row.is_exchanged)]
    kept = sorted({row.section for row in data.values()})
    return _taken_out(file, named[symbols[0]].section, [named[name] for name in given], given, kept)


def _taken_out(
    file: ObjectFile, number: int, rows: Sequence[Symbol], symbols: Sequence[str], data: Sequence[int] = ()
) -> bytes:
    """A section of code with the constants that it reads, and sections of data as they are; `symbols` that lie in them,
    as `rows` say."""
    places = {number: _CODE, **{section: _NAMES + 1 + place for place, section in enumerate(data)}}
    sections_of = [_CONSTANTS, *places.values()]  # in the order of their symbols
    first = 1 + len(sections_of)
    constants, outside, relocations = _Constants(file), [], []
    for table in file.numbers(RELOCATIONS):
        if file.rows[table].info in data:
            raise damaged("has tables of addresses")
        if file.rows[table].info != number:
            continue
        for place, type_, symbol_number, addend in sorted(_RELOCATION.iter_unpack(file.data(table))):
            named = file.symbol_rows[symbol_number]
            if named.section in places:
                target, addend = 1 + sections_of.index(places[named.section]), named.value + addend
            elif named.section == UNDEFINED or file.rows[named.section].flags & EXECUTE:
                if named.section == UNDEFINED:
                    name = file.symbol_names[symbol_number]
                else:  # a function that was compiled with it
                    name, addend = file.names[named.section].removeprefix(section_of("")), named.value + addend
                if name not in outside:
                    outside.append(name)
                target = first + len(symbols) + outside.index(name)
            else:
                target, addend = 1, constants.place(named.section, named.value + addend)
            relocations.append(_RELOCATION.pack(place, type_, target, addend))
    names = Names()
    inside = [
        row._replace(name=names.add(name), section=places[row.section]) for name, row in zip(symbols, rows, strict=True)
    ]
    all_symbols = [
        Symbol(0, 0, 0, UNDEFINED, 0, 0),
        *(Symbol(0, SECTION_SYMBOL, 0, section, 0, 0) for section in sections_of),
        *inside,
        *(Symbol(names.add(name), GLOBAL, 0, UNDEFINED, 0, 0) for name in outside),
    ]
    alignment = file.rows[number].alignment
    texts = [names.add(name) for name in (".text", ".rela.text", ".rodata", ".symtab", ".strtab")]
    in_file = 0, 0, 0  # address, offset and size, which are filled in
    sections = [
        Section(texts[0], CONTENT, ALLOCATE | EXECUTE, *in_file, 0, 0, alignment, 0),
        Section(texts[1], RELOCATIONS, _LINK_INFO, *in_file, _SYMBOLS, _CODE, 8, _RELOCATION.size),
        Section(texts[2], CONTENT, ALLOCATE, *in_file, 0, 0, constants.alignment, 0),
        Section(texts[3], SYMBOLS, 0, *in_file, _NAMES, first, 8, SYMBOL.itemsize),
        Section(texts[4], TEXTS, 0, *in_file, 0, 0, 1, 0),
        *(
            Section(names.add(file.names[each]), CONTENT, ALLOCATE, *in_file, 0, 0, file.rows[each].alignment, 0)
            for each in data
        ),
    ]
    packed = b"".join(each.packed for each in all_symbols)
    code = [bytes(file.data(number)), b"".join(relocations), bytes(constants.content), packed, bytes(names.content)]
    contents = [*code, *(bytes(file.data(each)) for each in data)]
    return pack_file(file.machine, file.flags, list(zip(sections, contents, strict=True)), _NAMES)


class _Constants:
    """What a function reads, each once."""

    def __init__(self, file: ObjectFile) -> None:
        self._file = file
        self._places: dict[bytes, int] = {}
        self.content = bytearray()
        self.alignment = 1

    def place(self, section: int, offset: int) -> int:
        """Where the constant of that place lies."""
        constant = self._constant(section, offset)
        if constant not in self._places:
            self.content += bytes(-len(self.content) % len(constant))
            self._places[constant] = len(self.content)
            self.content += constant
            self.alignment = max(self.alignment, len(constant))
        return self._places[constant]

    def _constant(self, section: int, offset: int) -> bytes:
        row, data = self._file.rows[section], self._file.data(section)
        if row.flags & EXECUTE or not 0 <= offset < row.size:
            raise damaged(f"refers to {self._file.names[section]}, which does not hold constants")
        if row.width:  # all of one size
            if offset % row.width:
                raise damaged("refers to a part of a constant")
            return bytes(data[offset : offset + row.width])
        # Of a vector's size at most, up to the next one; in between is padding. Code of the large model refers to
        # constants by where they begin.
        ends = {end for end in self._begins.get(section, ()) if end > offset}
        found = bytes(data[offset : min(ends, default=row.size)])
        if any(found[_VECTOR:]):
            raise damaged("refers to a table")
        return found[:_VECTOR].ljust(_VECTOR, b"\0")

    @cached_property
    def _begins(self) -> dict[int, set[int]]:
        """Where constants begin, by sections."""
        begins: dict[int, set[int]] = {}
        for table in self._file.numbers(RELOCATIONS):
            for _, _, number, addend in _RELOCATION.iter_unpack(self._file.data(table)):
                named = self._file.symbol_rows[number]
                begins.setdefault(named.section, set()).add(named.value + addend)
        return begins
