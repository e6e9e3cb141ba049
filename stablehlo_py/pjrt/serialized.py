"""Executables as bytes, which JAX's cache of compilations keeps: an artifact (runtime/artifact.py), behind what JAX
asked for when it was compiled, how its arguments and results are sharded and lie in memory, and the kinds of
memory of the results."""

from __future__ import annotations

import struct

from stablehlo_py.errors import LoadError
from stablehlo_py.pjrt.executable import Compiled
from stablehlo_py.pjrt.options import CompileOptions
from stablehlo_py.pjrt.shardings import Shardings
from stablehlo_py.pjrt.signature import Layouts, Order
from stablehlo_py.runtime import artifact

_COUNTS = struct.Struct("<qq")
_SIZE = struct.Struct("<q")


def serialize(executable: Compiled) -> bytes:
    """A program as bytes."""
    options, shardings, kinds = executable.options, executable.shardings, executable.kinds
    layouts = [",".join(map(_written, orders)) for orders in (executable.layouts.arguments, executable.layouts.results)]
    described = [options.content, bytes(kinds), ";".join(layouts).encode()]
    head = (*described, *shardings.parameters, *shardings.outputs)
    counts = _COUNTS.pack(len(shardings.parameters), len(shardings.outputs))
    return b"".join([counts, *map(_with_size, head), artifact.serialize(executable.program)])


def deserialize(content: bytes, options: bytes) -> Compiled:
    """What `serialize` was given. `options` take the place of those that are in it, unless they are empty.

    Raises:
        LoadError: the bytes are no executable, or one of another version or machine.
    """
    try:
        parameters, outputs = _COUNTS.unpack_from(content)
        at, found = _COUNTS.size, []
        for _ in range(3 + parameters + outputs):
            (size,) = _SIZE.unpack_from(content, at)
            at += _SIZE.size + size
            found.append(content[at - size : at])
    except struct.error as error:
        raise LoadError("the serialized executable is damaged", remedy="compile the program again") from error
    program = artifact.deserialize(content[at:], "the serialized executable")
    shardings = Shardings(tuple(found[3 : 3 + parameters]), tuple(found[3 + parameters :]))
    layouts = Layouts(*(tuple(map(_read, part.split(","))) if part else () for part in found[2].decode().split(";")))
    return Compiled(program, CompileOptions.of(options or found[0]), shardings, tuple(found[1]), layouts)


def _written(order: Order) -> str:
    return " ".join(map(str, order)) or "-"


def _read(written: str) -> Order:
    return () if written == "-" else tuple(map(int, written.split()))


def _with_size(content: bytes) -> bytes:
    return _SIZE.pack(len(content)) + content
