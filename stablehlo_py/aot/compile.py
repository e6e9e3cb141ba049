"""Models as libraries: what `shlo.aot.compile` makes, and where its parts are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING

import numpy as np

from stablehlo_py.aot.archive import archive
from stablehlo_py.aot.bindings import BINDINGS, binding_files
from stablehlo_py.aot.check_program import check_program
from stablehlo_py.aot.header import header
from stablehlo_py.aot.link import architecture_name, linked
from stablehlo_py.aot.names import Names, model_name
from stablehlo_py.aot.side_file import content_before, side_file
from stablehlo_py.aot.size_report import size_report
from stablehlo_py.api import module_for, source_of
from stablehlo_py.backends.base import get_backend
from stablehlo_py.boundary import expect, public
from stablehlo_py.compiler import compile_library
from stablehlo_py.dialect.context import make_context
from stablehlo_py.errors import OptionError, shown
from stablehlo_py.files import writable_directory, write_whole
from stablehlo_py.frontend.entry import check_entry
from stablehlo_py.interrupts import deferred
from stablehlo_py.options import MAX_THREADS, Options
from stablehlo_py.runtime.library import Interface, Library
from stablehlo_py.targets import DEFAULT_TARGET

if TYPE_CHECKING:
    import jax.export

    from stablehlo_py.mlir import ir

EMIT = ("object", "static", "shared", "c")
THREADS = ("off", "own", "callback")
CONSTANTS = ("embed", "file")
MOST_THREADS = 8  # where options do not say how many


@dataclass(frozen=True)
class Build:
    """A library and what belongs to it.

    Attributes:
        library: the code, and what it takes and gives. names: the identifiers in its header.
        files: contents by the names of the files.
        links: what a program is linked with, as arguments of a compiler.
    """

    library: Library
    names: Names
    files: Mapping[str, bytes] = field(repr=False)
    links: tuple[str, ...]

    @property
    def size_report(self) -> str:
        """What takes space, for a person."""
        return size_report(self.library)

    @public
    def with_test(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Build:
        """The same with NAME_test.c, a program that calls the library with these inputs and compares its results with
        these outputs.

        Raises:
            UnsupportedError: they are too large for a C program.
        """
        name, text = check_program(self.library, self.names, inputs, outputs)
        return replace(self, files={**self.files, name: text.encode()})

    @public
    def write(self, folder: str | os.PathLike[str] = ".") -> list[Path]:
        """Write all files into a folder, which is made where it does not exist; a file of constants that is there
        keeps what it holds. Returns their paths.

        Raises:
            ResourceError: one cannot be written. LoadError: the file of constants there is none of ours.
        """
        directory = writable_directory(folder, "output")
        contents = dict(self.files)
        side = f"{self.names.model}.safetensors"
        if side in contents:
            contents[side] = side_file(self.library.program.constants, content_before(directory / side))
        for name, content in contents.items():
            write_whole(directory / name, content)
        return [directory / name for name in contents]


@deferred()
@public
def compile(
    source: bytes | str | os.PathLike[str] | jax.export.Exported | ir.Module,
    name: str,
    *,
    emit: str = "object",
    target: str = DEFAULT_TARGET,
    triple: str | None = None,
    cpus: Sequence[str] = (),
    threads: str = "off",
    constants: str = "embed",
    bindings: Sequence[str] = (),
    entry: str | None = None,
    options: Options | None = None,
) -> Build:
    """Compile a StableHLO module to a native library that needs no Python and no runtime, with a C header.

    Args:
        source, entry: as for `stablehlo_py.compile`.
        name: of the model: all symbols begin with it, so several models go into one binary.
        emit: "object", "static" (an archive), "shared" (by a linker that is there; of WebAssembly a module), or "c":
            source code in C99, by the backend of that name.
        target: name of the backend.
        triple: system and object format, as LLVM writes them ("aarch64-linux-gnu", "arm64-apple-darwin"); None: the
            usual one of `options.cpu`.
        cpus: instead of `options.cpu` several of x86-64, for Linux with glibc: a call takes the code of the last one
            that the machine has ("x86-64-v2", "x86-64-v3", "x86-64-v4").
        threads: "off": a call computes in the thread that makes it; "own": the library has threads, which the caller
            starts; "callback": the caller lends its own. `options.threads` says how many there are at most (8).
        constants: "embed": in the library; "file": in NAME.safetensors, which the caller maps.
        bindings: more files, of "c++", "rust", "python", "go", "cmake", "pkg-config".
        options: as for `stablehlo_py.compile`. Where `cpu` is None, the code is for this machine.

    Returns:
        The files, not yet written. Equal arguments give equal bytes.

    Raises:
        UnsupportedError: the model needs what a library or its target has not.
        OptionError: an argument is none of these. LoadError, ResourceError: as `stablehlo_py.compile`.
    """
    options = Options.of(options)
    for what, value, allowed in (
        ("emit", emit, EMIT),
        ("threads", threads, THREADS),
        ("constants", constants, CONSTANTS),
    ):
        _require_one_of(what, value, allowed)
    expect(bindings, (tuple, list, set, frozenset), "bindings", "a tuple of names")
    expect(triple, (str, NoneType), "triple", "a target triple, or None")
    expect(cpus, (tuple, list), "cpus", "a tuple of names")
    for each in cpus:
        expect(each, str, "cpus", "a tuple of names")
    for each in bindings:
        _require_one_of("bindings", each, tuple(BINDINGS))
    expect(name, str, "name", "the name of the model")
    if emit == "c":
        target = "c"
    backend = get_backend(target)
    check_entry(entry)
    most = (options.threads or MOST_THREADS) if threads != "off" else 1
    if threads != "off" and not 1 < most <= MAX_THREADS:
        raise OptionError(
            f"threads is {shown(threads)} for {most} thread", remedy="pass threads='off', or more of them"
        )
    interface = Interface(model_name(name), threads, constants, most, triple, tuple(cpus))
    module = module_for(source_of(source), make_context(), backend, entry, options).module
    library = compile_library(module, backend, replace(options, threads=most), interface)
    return _build(library, emit, triple, bindings)


def _require_one_of(what: str, value: object, allowed: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise OptionError(f"{what} is {shown(value)}", remedy=f"use {', '.join(allowed[:-1])} or {allowed[-1]}")


def _build(library: Library, emit: str, triple: str | None, bindings: Sequence[str]) -> Build:
    names, interface = Names.of(library), library.interface
    system = library.triple
    own = ["-lm"] if "none" not in system else []
    own += ["-lpthread"] if interface.threads == "own" else []
    own += ["-llapack", "-lblas"] if library.routines else []
    wasm = architecture_name(system).startswith("wasm")
    windows = "windows" in system
    stem = f"lib{interface.name}"
    files: dict[str, bytes]
    if emit == "object":
        file = f"{stem}.o"
        files = {file: library.code}
    elif emit == "c":
        file = f"{interface.name}.c"
        files = {file: library.code}
    elif emit == "static":
        if "darwin" in system or "apple" in system:
            raise OptionError(
                f"static libraries for {system} are not made here", remedy="write an object file, and use libtool there"
            )
        file = f"{interface.name}.lib" if windows else f"{stem}.a"
        files = {file: archive({"model.o": library.code}, {"model.o": library.public})}
    else:
        file = f"{interface.name}.wasm" if wasm else f"{stem}.so"
        files = {file: linked(library.code, file, system, library.public, [] if wasm else own)}
    links = (file, *(own if not wasm else ()))
    files[f"{interface.name}.h"] = header(library, names, links).encode()
    if interface.constants == "file":
        files[f"{interface.name}.safetensors"] = side_file(library.program.constants)
    files |= {name: text.encode() for name, text in binding_files(library, names, bindings, file, links).items()}
    return Build(library, names, files, links)
