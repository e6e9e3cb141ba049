"""The public functions: compile, and what they return."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stablehlo_py.backends.base import get_backend
from stablehlo_py.compiler import bytecode, cache_key, compile_cached, load_cached
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.frontend.load import load
from stablehlo_py.frontend.refine import symbolic_inputs
from stablehlo_py.interrupts import deferred
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.runtime.executable import Executable, executable
from stablehlo_py.runtime.program import CompiledProgram
from stablehlo_py.runtime.symbolic import SymbolicExecutable

if TYPE_CHECKING:
    import jax.export


@deferred()
def compile(
    source: bytes | str | os.PathLike[str] | jax.export.Exported | ir.Module,
    target: str = "cpu",
    entry: str | None = None,
    options: Options | None = None,
) -> Executable | SymbolicExecutable:
    """Compile a StableHLO module to native code.

    Args:
        source: a path, bytes or text of a portable artifact, `Exported.serialize()`, MLIR bytecode or MLIR text; a
            `jax.export.Exported`; or a module that `load` returned.
        target: name of a backend.
        entry: the function to compile when the module has no `main` and several public functions.
        options: see `Options`.

    Returns:
        An executable. A module with symbolic dimensions gives one whose specs hold None, and which compiles once per
        shapes it is called with.

    Raises:
        LoadError: the source is not a StableHLO module (VersionError: written by a newer StableHLO).
        UnsupportedError: it holds ops that are not implemented; all of them are named.
        OptionError: target, entry or an option does not exist.
        ResourceError: a file or directory cannot be used, or the model needs more memory than there is.
    """
    made = _make(source, target, entry, options or Options())
    return made if isinstance(made, SymbolicExecutable) else executable(made)


@deferred()
def compile_program(
    source: bytes | str | os.PathLike[str] | jax.export.Exported | ir.Module,
    target: str = "cpu",
    entry: str | None = None,
    options: Options | None = None,
) -> CompiledProgram:
    """Compile like `compile`, but load nothing: the program may be for a CPU that this one is not.

    Raises:
        UnsupportedError: the module has symbolic dimensions. Otherwise as `compile`.
    """
    made = _make(source, target, entry, options or Options())
    if isinstance(made, SymbolicExecutable):
        raise UnsupportedError(
            "the model has symbolic dimensions: there is no one program to write",
            remedy="export it with concrete shapes, or use stablehlo_py.compile, which specializes per call",
        )
    return made


def _make(source: Any, target: str, entry: str | None, options: Options) -> CompiledProgram | SymbolicExecutable:
    backend = get_backend(target)
    key = None
    if options.cache_dir is not None:
        key = cache_key(source, backend, options, entry or "")
        program = load_cached(key, options)
        if program is not None:
            return program
    if isinstance(source, ir.Module):
        with source.context:
            module = ir.Module.parse(bytecode(source))  # compiling changes it, and it is the caller's
    else:
        module = load(source, entry=entry, isolate=options.isolate)
    shapes = symbolic_inputs(module)
    if any(None in sizes for sizes in shapes):
        return SymbolicExecutable(module, shapes, target, options)
    return compile_cached(module, backend, options, key)
