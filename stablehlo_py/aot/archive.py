"""Static libraries: archives of object files with an index of their symbols, as `ar` of GNU and LLVM write them for
ELF, COFF and WebAssembly."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_MAGIC = b"!<arch>\n"


def archive(members: Mapping[str, bytes], symbols: Mapping[str, Sequence[str]]) -> bytes:
    """The bytes of an archive: object files by their names (of at most 15 characters), and the symbols that each of
    them defines. Dates and owners are zero, so equal members give equal bytes."""
    names = [symbol for member in members for symbol in symbols[member]]
    text = b"".join(name.encode() + b"\0" for name in names)
    index_size = 4 + 4 * len(names) + len(text)
    offsets, at = {}, len(_MAGIC) + 60 + _even(index_size)
    for name, content in members.items():
        offsets[name] = at
        at += 60 + _even(len(content))
    places = [offsets[member] for member in members for _ in symbols[member]]
    index = struct.pack(f">I{len(places)}I", len(places), *places) + text
    parts = [_MAGIC, _member("/", index)]
    parts += [_member(f"{name}/", content) for name, content in members.items()]
    return b"".join(parts)


def _even(size: int) -> int:
    return size + size % 2


def _member(name: str, content: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode()
    return head + content + b"\n" * (len(content) % 2)
