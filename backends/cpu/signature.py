"""What code was generated for, in the code: a section of an object file that holds the digest of the program's
description (runtime/artifact.py), as linkers put build IDs into notes; and that of its machine code for a device, which
has no such place in all languages.

Metadata that were changed after the code was generated (smaller buffers, other types) would have it read and write
where nothing is: a program is linked only with the description and the code for a device that it was generated with.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import llvmlite.binding as llvm

from stablehlo_py.errors import LoadError
from stablehlo_py.runtime.artifact import describe
from stablehlo_py.runtime.program import CompiledProgram

SYMBOL, SECTION = "shlo_signature", ".shlo.signature"
_ELF64, _ELF_HEADER = b"\x7fELF\x02\x01", 64


def sign(program: CompiledProgram, device: Sequence[bytes] = ()) -> str:
    """Note the digest of a program whose description is complete; the text of the global that holds it and those of the
    machine code for a `device`, for one of the program's object files."""
    program.digest = hashlib.sha256(describe(program)).digest()
    data = _signature(program, device)
    listed = f'dense<"0x{data.hex().upper()}"> : tensor<{len(data)}xi8>'
    attributes = f'{{addr_space = 0 : i32, section = "{SECTION}"}}'
    return f"llvm.mlir.global external constant @{SYMBOL}({listed}) {attributes} : !llvm.array<{len(data)} x i8>"


def _signature(program: CompiledProgram, device: Sequence[bytes]) -> bytes:
    return b"".join([program.digest, *(hashlib.sha256(code).digest() for code in device)])


def require_signature(program: CompiledProgram, devices: int = 0) -> None:
    """Raises LoadError where the object files were generated for another description, or are none. The last `devices`
    of them are machine code for a device."""
    host, device = program.objects[: len(program.objects) - devices], program.objects[len(program.objects) - devices :]
    if len(device) < devices or not all(map(_is_object_file, host)):
        raise LoadError("the program's machine code is damaged", remedy="compile the model again")
    for content in reversed(host):  # it lies in one of the last
        sections = llvm.ObjectFileRef.from_data(content).sections()
        found = [section.data() for section in sections if section.name() == SECTION.encode()]
        if found:
            if found == [_signature(program, device)]:
                return
            break
    raise LoadError(
        "the program's machine code was generated for another description than the one that lies beside it, or is not "
        "all there",
        remedy="compile the model again",
    )


def _is_object_file(content: bytes) -> bool:
    """Whether this begins as an ELF file, and is as long as its table of sections says; LLVM dies of what is none."""
    if not content.startswith(_ELF64) or len(content) < _ELF_HEADER:
        return False
    (table,) = struct.unpack_from("<Q", content, 40)
    width, count = struct.unpack_from("<HH", content, 58)
    return table + width * count <= len(content)
