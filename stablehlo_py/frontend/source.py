"""What a source is: reading it, and telling a portable artifact, bytecode, a `jax.export` file and text apart.

Nothing here calls MLIR: a few header bytes decide.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from enum import Enum

from stablehlo_py.errors import ArgumentError, LoadError, ResourceError, shown
from stablehlo_py.files import why_no_file_name
from stablehlo_py.frontend.jax_export import Export, read_flatbuffer
from stablehlo_py.runtime.artifact import MAGIC as ARTIFACT_MAGIC

BYTECODE_MAGIC = b"ML\xefR"
DAMAGED = "the file was cut off or damaged: export or copy it again"
_LOOKS_LIKE_TEXT = re.compile(r"\s*(//|module\s*(@|attributes\b|\{)|func\.func\s|\"builtin\.module\"|[#!][\w.]+\s*=)")
_ARTIFACT_VERSION = re.compile(rb"StableHLO_v(\d+)\.(\d+)\.(\d+)\Z")
_FOREIGN = (
    (ARTIFACT_MAGIC, "an executable artifact", "load it with stablehlo_py.load_executable, or run it with shlo-run"),
    (b"\x1f\x8b", "a gzip file", "decompress it first"),
    (b"PK\x03\x04", "a zip archive", "unpack it and load the StableHLO file inside"),
    (b"\xfd7zXZ", "an xz file", "decompress it first"),
    (b"\x7fELF", "a native object or library", "load the StableHLO module that it was compiled from"),
    (b"\x80\x04\x95", "a Python pickle", "export the function with jax.export and load what serialize() returns"),
    (b"BC\xc0\xde", "LLVM bitcode", "load the StableHLO module that it was compiled from"),
)


class Format(Enum):
    """How a module is encoded."""

    ARTIFACT = "portable artifact"
    BYTECODE = "MLIR bytecode"
    TEXT = "MLIR text"


@dataclass(frozen=True)
class Source:
    """The bytes of one module.

    `name` is what messages call it, `version` the StableHLO version that a portable artifact was written for, `export`
    what `jax.export` says beside the module. `trusted`: JAX made it in this process. `tokens`: those that `@main` takes
    and returns are arrays (frontend/tokens.py).
    """

    name: str
    data: bytes
    format: Format
    version: tuple[int, int, int] | None = None
    export: Export | None = None
    trusted: bool = False
    tokens: bool = False

    @property
    def key(self) -> bytes:
        """What tells this source from others."""
        said = (b"" if self.export is None else repr(self.export).encode()) + (b"tokens" if self.tokens else b"")
        return self.data + said


def read(source: object) -> Source:
    """The module bytes in `source`: bytes, text, a path, or a `jax.export.Exported`.

    Raises ResourceError when a file cannot be read, LoadError when the content is none of the known formats,
    ArgumentError for another Python type.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return identify(bytes(source), "<bytes>")
    if isinstance(source, str) and (not source.strip() or "\n" in source or _LOOKS_LIKE_TEXT.match(source)):
        return identify(_encoded(source), "<text>")
    if isinstance(source, (str, os.PathLike)):
        reason = why_no_file_name(source)
        if reason is not None:
            raise ResourceError(f"{shown(source)} is not a file name: {reason}", remedy="check the path")
        path = os.fsdecode(source)
        return identify(_read_file(path), path)
    # Known by name: importing jax to ask isinstance would cost a second, and jax may not be installed.
    if type(source).__name__ == "Exported" and type(source).__module__.split(".")[0] == "jax":
        name = f"<jax.export of {getattr(source, 'fun_name', 'a function')}>"
        found = identify(bytes(source.mlir_module_serialized), name)  # type: ignore[attr-defined]
        return replace(found, export=Export.of(source), trusted=True)
    raise ArgumentError(
        f"cannot load a {type(source).__name__}",
        remedy="pass a path, text, bytes or a jax.export.Exported "
        "(for a JAX function: jax.export.export(jax.jit(f))(*shapes))",
    )


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise LoadError(
            "the text holds half of a surrogate pair",
            location=f"<text>:{line}",
            remedy="pass the bytes of the file, or text that was decoded without errors='surrogateescape'",
        ) from error


def identify(data: bytes, name: str) -> Source:
    """Decide the format of `data` from its first bytes. Raises LoadError when it is none."""
    if not data.strip():
        raise LoadError("the source is empty", location=name, remedy="was the export interrupted? write the file again")
    if data.startswith(BYTECODE_MAGIC):
        version = artifact_version(data, name)
        return Source(name, data, Format.ARTIFACT if version else Format.BYTECODE, version)
    exported = read_flatbuffer(data)
    if exported is not None and exported[0].startswith(BYTECODE_MAGIC):
        return replace(identify(exported[0], name), export=exported[1])
    for magic, what, remedy in _FOREIGN:
        if data.startswith(magic):
            raise LoadError(f"this is {what}, not a StableHLO module", location=name, remedy=remedy)
    if BYTECODE_MAGIC.startswith(data[:4]):
        raise LoadError("the data end within the first header bytes", location=name, remedy=DAMAGED)
    if not is_text(data):
        raise LoadError(
            f"unknown format: the first bytes are {data[:8].hex(' ')}",
            location=name,
            remedy="give a portable artifact, MLIR bytecode, MLIR text, or what jax.export's serialize() returns",
        )
    return Source(name, data, Format.TEXT)


def artifact_version(data: bytes, name: str) -> tuple[int, int, int] | None:
    """The version in a portable artifact's header; None for bytecode of another producer.

    The header is the magic, MLIR's bytecode version as a variable-length integer, and the producer's name,
    zero-terminated (mlir.llvm.org/docs/BytecodeFormat).
    """
    if len(data) < 6:
        raise LoadError("the data end within the first header bytes", location=name, remedy=DAMAGED)
    end = data.find(b"\0", 5, 5 + 256)
    if end < 0:
        raise LoadError("the bytecode header has no producer name", location=name, remedy=DAMAGED)
    found = _ARTIFACT_VERSION.search(data[4:end])
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def bytecode_version(data: bytes) -> int:
    """MLIR's version of bytecode: an integer of variable length, so far of one byte."""
    return data[len(BYTECODE_MAGIC)] >> 1


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except IsADirectoryError as error:
        remedy = "name the module's file inside it"
        raise ResourceError("this is a directory, not a file", location=path, remedy=remedy) from error
    except OSError as error:
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        remedy = "check the path (text given as a str holds a newline)" if missing else "check the file's permissions"
        raise ResourceError(f"cannot read the file: {error.strerror}", location=path, remedy=remedy) from error


def is_text(data: bytes) -> bool:
    """Whether a module of these bytes can be MLIR text only."""
    try:
        return b"\0" not in data and data.decode() is not None
    except UnicodeDecodeError:
        return False
