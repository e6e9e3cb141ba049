"""Programs into this process: which kind of executable each is."""

from __future__ import annotations

import os

from stablehlo_py.boundary import number, public
from stablehlo_py.interrupts import deferred
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.grid import GridExecutable
from stablehlo_py.runtime.program import CompiledProgram
from stablehlo_py.runtime.symbolic import SymbolicExecutable


@deferred()
@public
def load_executable(
    path: str | os.PathLike[str] | bytes, *, sha256: str | None = None, device: int = 0
) -> Executable | SymbolicExecutable:
    """Load an artifact written by `Executable.save` or `shlo-compile`, from its path or its content.

    An artifact is native code: load only what you would run (docs/security.md). With `sha256`, the file's digest in
    hexadecimal digits, no other file is loaded. It runs on the `device` of this number, of those of its backend.

    Raises:
        ResourceError: the file cannot be read. OptionError: `sha256` is no digest.
        ArgumentError: there is no device of this number; those that there are are listed.
        LoadError: the file is not an artifact, is damaged, has another digest, was compiled for another kind of
            machine, or by a backend that is not installed.
    """
    place = number(device, "device", "the number of a device, from 0 on")
    program = artifact.load(path, sha256)
    return executable(program, place) if program.dynamic is None else SymbolicExecutable.of_program(program, place)


@deferred()
def executable(program: CompiledProgram, device: int = 0) -> Executable:
    """Load a static program into this process, for a device. Raises as `Backend.load`."""
    return Executable(program, device) if program.grid is None else GridExecutable(program, device)
