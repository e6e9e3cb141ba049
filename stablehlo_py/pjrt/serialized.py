"""Executables as bytes, which JAX's cache of compilations keeps: an artifact (runtime/artifact.py), behind what JAX
asked for when it was compiled, how its arguments and results are sharded, and the kinds of memory of the results."""

from __future__ import annotations

import struct

from stablehlo_py.errors import LoadError
from stablehlo_py.pjrt.options import CompileOptions
from stablehlo_py.pjrt.shardings import Shardings
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.program import CompiledProgram

_COUNTS = struct.Struct("<qq")
_SIZE = struct.Struct("<q")


def serialize(program: CompiledProgram, options: CompileOptions, shardings: Shardings, kinds: tuple[int, ...]) -> bytes:
    """An executable as bytes."""
    head = (options.content, bytes(kinds), *shardings.parameters, *shardings.outputs)
    counts = _COUNTS.pack(len(shardings.parameters), len(shardings.outputs))
    return b"".join([counts, *map(_with_size, head), artifact.serialize(program)])


def deserialize(content: bytes, options: bytes) -> tuple[CompiledProgram, CompileOptions, Shardings, tuple[int, ...]]:
    """What `serialize` was given. `options` take the place of those that are in it, unless they are empty.

    Raises:
        LoadError: the bytes are no executable, or one of another version or machine.
    """
    try:
        parameters, outputs = _COUNTS.unpack_from(content)
        at, found = _COUNTS.size, []
        for _ in range(2 + parameters + outputs):
            (size,) = _SIZE.unpack_from(content, at)
            at += _SIZE.size + size
            found.append(content[at - size : at])
    except struct.error as error:
        raise LoadError("the serialized executable is damaged", remedy="compile the program again") from error
    program = artifact.deserialize(content[at:], "the serialized executable")
    shardings = Shardings(tuple(found[2 : 2 + parameters]), tuple(found[2 + parameters :]))
    return program, CompileOptions.of(options or found[0]), shardings, tuple(found[1])


def _with_size(content: bytes) -> bytes:
    return _SIZE.pack(len(content)) + content
