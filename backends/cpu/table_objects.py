"""Long tables as an object file, written without LLVM."""

from __future__ import annotations

from collections.abc import Mapping

from stablehlo_py.backends.cpu.elf import (
    ALLOCATE,
    CONTENT,
    GLOBAL,
    OBJECT,
    SYMBOL,
    SYMBOLS,
    TEXTS,
    UNDEFINED,
    Names,
    Section,
    Symbol,
    pack_file,
)
from stablehlo_py.backends.cpu.relocations import MACHINES
from stablehlo_py.codegen.emitters.llvm_ir import ALIGNMENT
from stablehlo_py.codegen.target import Architecture

_DATA, _SYMBOLS, _NAMES = 1, 2, 3  # sections


def object_of_tables(tables: Mapping[str, bytes], architecture: Architecture) -> bytes:
    """An object file that defines some tables, by their names, for others."""
    names, content, symbols = Names(), bytearray(), [Symbol(0, 0, 0, UNDEFINED, 0, 0)]
    for name, table in tables.items():
        content += bytes(-len(content) % ALIGNMENT)
        symbols.append(Symbol(names.add(name), GLOBAL | OBJECT, 0, _DATA, len(content), len(table)))
        content += table
    data, listed, texts = (names.add(name) for name in (".rodata", ".symtab", ".strtab"))
    in_file = 0, 0, 0  # address, offset and size, which are filled in
    sections = [
        Section(data, CONTENT, ALLOCATE, *in_file, 0, 0, ALIGNMENT, 0),
        Section(listed, SYMBOLS, 0, *in_file, _NAMES, 1, 8, SYMBOL.itemsize),
        Section(texts, TEXTS, 0, *in_file, 0, 0, 1, 0),
    ]
    contents = [bytes(content), b"".join(symbol.packed for symbol in symbols), bytes(names.content)]
    return pack_file(MACHINES[architecture.name].number, 0, list(zip(sections, contents, strict=True)), _NAMES)
