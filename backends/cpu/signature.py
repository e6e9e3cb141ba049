"""What code was generated for, in the code: a section of an object file that holds the digest of the program's
description (runtime/artifact.py), as linkers put build IDs into notes; and those of its machine code for a device,
which has no such place in all languages, and of the runtime's code that it brings along.

Metadata that were changed after the code was generated (smaller buffers, other types) would have it read and write
where nothing is: a program is linked only with the description and the code for a device that it was generated with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stablehlo_py.backends.cpu.elf import ObjectFile, reading
from stablehlo_py.errors import LoadError
from stablehlo_py.runtime.artifact import describe
from stablehlo_py.runtime.program import CompiledProgram

if TYPE_CHECKING:
    from stablehlo_py.codegen.emitter import Emitter

SYMBOL, SECTION = "shlo_signature", ".shlo.signature"


def sign(program: CompiledProgram) -> str:
    """Note the digest of a program whose description is complete; the text of the global that holds it and those of its
    helpers, for one of the program's object files."""
    return global_of(signature(program))


def global_of(data: bytes, emitter: type[Emitter] | None = None) -> str:
    """The text of a global that is the section, in the llvm dialect or as an emitter writes it."""
    from stablehlo_py.codegen.emitters.llvm import LlvmEmitter  # processes that only run programs have none

    return (emitter or LlvmEmitter).section(SYMBOL, SECTION, data)


def signature(program: CompiledProgram, device: Sequence[bytes] = ()) -> bytes:
    """Note the digest of a program whose description is complete; what lies in the section: that, and digests of the
    machine code for a `device` and of helpers."""
    program.digest = hashlib.sha256(describe(program)).digest()
    return _signature(program, device)


def _signature(program: CompiledProgram, device: Sequence[bytes]) -> bytes:
    helpers = [part for name, code in program.helpers.items() for part in (name.encode(), code)]
    return b"".join([program.digest, *(hashlib.sha256(part).digest() for part in (*device, *helpers))])


def stamped(content: bytes, data: bytes) -> bytes:
    """An object file with the section, and other data of that size in it."""
    file = ObjectFile(content)
    row = file.rows[file.names.index(SECTION)]
    assert row.size == len(data)
    return content[: row.offset] + data + content[row.offset + row.size :]


def require_signature(program: CompiledProgram, devices: int = 0) -> None:
    """Raises LoadError where the object files were generated for another description, or are none. The last `devices`
    of them are machine code for a device."""
    host, device = program.objects[: len(program.objects) - devices], program.objects[len(program.objects) - devices :]
    if len(device) < devices:
        raise LoadError("the program's machine code is not all there", remedy="compile the model again")
    for content in reversed(host):  # it lies in one of the last
        with reading():
            file = ObjectFile(content)
            found = bytes(file.data(file.names.index(SECTION))) if SECTION in file.names else None
        if found == _signature(program, device):
            return
        if found is not None:
            break
    raise LoadError(
        "the program's machine code was generated for another description than the one that lies beside it, or is not "
        "all there",
        remedy="compile the model again",
    )
