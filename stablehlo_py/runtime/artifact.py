"""Artifact files: compiled programs that load again, in this process or in another. Cache entries are such files.

    8 bytes      "\\x89SHLOEXE"
    4 bytes      version of the format; integers are little-endian
    32 bytes     SHA-256 of everything that follows
    2 x 8 bytes  sizes of the next two
    description  JSON: what generated code relies on (`describe`)
    contents     JSON: the key of a cache entry, the report, sizes of the parts
    parts        object files, helpers of the runtime, constants, texts of stages

The digest finds damage. It says nothing of who wrote the file (docs/security.md). So a description is checked before it
is used, and a backend can find out whether its code was generated with that one (`CompiledProgram.digest`).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stablehlo_py.errors import LOCATION_LENGTH, LoadError, OptionError, ResourceError, clipped, shown
from stablehlo_py.files import why_no_file_name, write_whole
from stablehlo_py.runtime.program import CompiledProgram
from stablehlo_py.runtime.program_checks import require_consistent
from stablehlo_py.runtime.records import from_json, read_fields, to_json, write_fields

MAGIC = b"\x89SHLOEXE"
FORMAT = 19
_HEAD = struct.Struct("<8sI32s")
_SIZES = struct.Struct("<QQ")
_PARTS = ("objects", "helpers", "constants", "stages")
_NOT_DESCRIBED = (*_PARTS, "report", "digest")  # fields of a program that code does not rely on
_WRITE_AGAIN = "write it again with Executable.save or shlo-compile"
_OTHER_FILE = "load what Executable.save or shlo-compile wrote; for a StableHLO module call stablehlo_py.compile"


@dataclass(frozen=True)
class _Constant:
    """An array among the parts."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class _Stage:
    """The text of a stage among the parts, `size` bytes; a `binary` one is MLIR bytecode."""

    name: str
    binary: bool
    size: int


@dataclass(frozen=True)
class _Helper:
    """An object file of the runtime's own among the parts, `size` bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class _Contents:
    """What is in a file beside the description: sizes of object files in bytes, helpers, the stages."""

    key: str
    report: str
    objects: tuple[int, ...]
    helpers: tuple[_Helper, ...]
    stages: tuple[_Stage, ...]


def describe(program: CompiledProgram) -> bytes:
    """Everything that generated code relies on: shapes, types, memory, threads, symbols, the calling convention."""
    described = write_fields(program, without=_NOT_DESCRIBED)
    constants = [to_json(_Constant(array.shape, array.dtype)) for array in program.constants]
    return json.dumps({"program": described, "constants": constants}).encode()


def serialize(program: CompiledProgram, key: str = "") -> bytes:
    """The artifact of a program; `key` is that of the cache entry that it becomes."""
    texts = [text if isinstance(text, bytes) else text.encode() for text in program.stages.values()]
    stages = [
        _Stage(name, isinstance(text, bytes), len(encoded))
        for (name, text), encoded in zip(program.stages.items(), texts, strict=True)
    ]
    helpers = tuple(_Helper(name, len(code)) for name, code in program.helpers.items())
    contents = _Contents(key, program.report, tuple(map(len, program.objects)), helpers, tuple(stages))
    description, encoded = describe(program), json.dumps(to_json(contents)).encode()
    parts: list[bytes | memoryview] = [_SIZES.pack(len(description), len(encoded)), description, encoded]
    parts += [*program.objects, *program.helpers.values(), *map(_bytes_of, program.constants), *texts]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([_HEAD.pack(MAGIC, FORMAT, digest.digest()), *parts])


def _bytes_of(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def is_artifact(content: bytes) -> bool:
    """Whether a file is an artifact, whole or not, by its first bytes."""
    return content.startswith(MAGIC)


def deserialize(content: bytes, name: str = "the artifact", key: str = "") -> CompiledProgram:
    """Read an artifact back; `name` stands for it in errors, `key` is that of the cache entry that it has to be.

    Raises:
        LoadError: it is not an artifact, is damaged, has another format version, another key, or describes no program.
    """
    if not is_artifact(content):
        raise LoadError(f"{name} is not an executable artifact", remedy=_OTHER_FILE)
    try:
        _, format_, digest = _HEAD.unpack_from(content)
        if format_ != FORMAT:
            raise LoadError(
                f"{name} has artifact format {format_}, this version reads {FORMAT}", remedy="compile the model again"
            )
        body = memoryview(content)[_HEAD.size :]
        if hashlib.sha256(body).digest() != digest:
            raise ValueError("its SHA-256 is not the one that it was written with")
        program = _read(body, key)
        require_consistent(program)
        return program
    except (struct.error, ValueError, KeyError, TypeError, RecursionError) as error:
        raise LoadError(f"{name} is not a whole executable artifact: {error}", remedy=_WRITE_AGAIN) from error


def _read(body: memoryview, key: str) -> CompiledProgram:
    description_size, contents_size = _SIZES.unpack_from(body)
    description = bytes(_cut(body, _SIZES.size, description_size))
    after = _SIZES.size + description_size
    contents = from_json(_Contents, json.loads(bytes(_cut(body, after, contents_size))))
    if key and contents.key != key:
        raise ValueError("it was filed under another key")
    described = json.loads(description)
    if type(described) is not dict or described.keys() != {"program", "constants"}:
        raise ValueError("its description is none")
    arrays = from_json(tuple[_Constant, ...], described["constants"])
    sizes = [*contents.objects, *(part.size for part in (*contents.helpers, *arrays, *contents.stages))]
    parts = _parts(body[after + contents_size :], sizes)
    return CompiledProgram(
        objects=[bytes(next(parts)) for _ in contents.objects],
        helpers={helper.name: bytes(next(parts)) for helper in contents.helpers},
        constants=[np.frombuffer(next(parts), array.dtype).reshape(array.shape) for array in arrays],
        stages={stage.name: _decoded(next(parts), stage.binary) for stage in contents.stages},
        report=contents.report,
        digest=hashlib.sha256(description).digest(),
        **read_fields(CompiledProgram, described["program"], without=_NOT_DESCRIBED),
    )


def _parts(data: memoryview, sizes: Sequence[int]) -> Iterator[memoryview]:
    """The parts in order, which fill the data."""
    if min(sizes, default=0) < 0 or sum(sizes) != len(data):
        raise ValueError("its parts are not of the sizes that it says")
    place = 0
    for size in sizes:
        yield _cut(data, place, size)
        place += size


def _cut(data: memoryview, place: int, size: int) -> memoryview:
    if not 0 <= size <= len(data) - place:
        raise ValueError("it ends too early")
    return data[place : place + size]


def _decoded(text: memoryview, binary: bool) -> str | bytes:
    return bytes(text) if binary else bytes(text).decode()


def load(source: str | os.PathLike[str] | bytes, sha256: str | None = None) -> CompiledProgram:
    """The program of an artifact, from its path or its content; `sha256`, in hexadecimal digits, is what the file's own
    has to be (`sha256sum FILE` prints it).

    Raises:
        ResourceError: the file cannot be read. OptionError: `sha256` is no digest.
        LoadError: as `deserialize`, or the file is not the one that `sha256` is of.
    """
    if sha256 is not None and not (isinstance(sha256, str) and re.fullmatch("[0-9a-fA-F]{64}", sha256)):
        raise OptionError(f"sha256 is {shown(sha256)}", remedy="pass 64 hexadecimal digits, as sha256sum prints them")
    if isinstance(source, (bytes, bytearray, memoryview)):
        name, content = "the artifact", bytes(source)
    else:
        content = _content_of(source)
        name = clipped(os.fsdecode(source), LOCATION_LENGTH)
    if sha256 is not None:
        found = hashlib.sha256(content).hexdigest()
        if found != sha256.lower():
            raise LoadError(
                f"{name} has the SHA-256 {found}, not {sha256.lower()}",
                remedy="do not load it: get the file again from where the digest comes from",
            )
    return deserialize(content, name)


def _content_of(path: str | os.PathLike[str]) -> bytes:
    reason = why_no_file_name(path)
    if reason is not None:
        raise ResourceError(f"{shown(path)} cannot be read: {reason}", remedy="check the path")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ResourceError(f"{shown(path)} cannot be read: {error.strerror}", remedy="check the path") from error


def save(program: CompiledProgram, path: str | os.PathLike[str]) -> str:
    """Write an artifact file, whole or not at all. Returns its SHA-256, in hexadecimal digits.

    Raises:
        ResourceError: the file cannot be written.
    """
    content = serialize(program)
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()
