"""The public functions: compile, and what they return."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from stablehlo_py.backends.base import Backend, get_backend
from stablehlo_py.boundary import public
from stablehlo_py.compiler import cache_entry, compile_cached, load_cached
from stablehlo_py.dialect.context import lent_context
from stablehlo_py.dialect.dynamic import is_symbolic
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.frontend.entry import check_entry
from stablehlo_py.frontend.load import Loaded, load_source
from stablehlo_py.frontend.platform import choose_platform
from stablehlo_py.frontend.signature import check_signature
from stablehlo_py.frontend.source import Source, read
from stablehlo_py.interrupts import deferred
from stablehlo_py.mlir import bytecode, ir
from stablehlo_py.options import Options
from stablehlo_py.passmanager.pipeline import without_cyclic_gc
from stablehlo_py.runtime.cache import CacheEntry
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.loading import executable
from stablehlo_py.runtime.program import CompiledProgram
from stablehlo_py.runtime.symbolic import SymbolicExecutable
from stablehlo_py.specialization import compile_once, symbolic_executable
from stablehlo_py.targets import DEFAULT_TARGET

if TYPE_CHECKING:
    import jax.export

T = TypeVar("T")

KEPT_SOURCE = 1 << 20  # bytes: it is kept, and taken to a stage again when somebody asks for that


@deferred()
@public
def compile(
    source: bytes | str | os.PathLike[str] | jax.export.Exported | ir.Module,
    target: str = DEFAULT_TARGET,
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
        An executable. A module with symbolic dimensions gives one whose specs hold None (docs/dynamic-shapes.md).

    Raises:
        LoadError: the source is not a StableHLO module (VersionError: written by a newer StableHLO).
        UnsupportedError: it holds ops that are not implemented; all of them are named.
        OptionError: target, entry or an option does not exist.
        ArgumentError: the backend has no device of the number that options ask for.
        ResourceError: a file or directory cannot be used, or the model needs more memory than there is.
    """
    options = Options.of(options)
    if options.device:
        get_backend(target).memory(options.device)  # refuses one that is not there before there is work to lose

    def symbolic(module: ir.Module) -> SymbolicExecutable:
        return symbolic_executable(module, target, options)

    found = _compiled(source, target, entry, options, symbolic)
    return executable(found, options.device) if isinstance(found, CompiledProgram) else found


@deferred()
@public
def compile_program(
    source: bytes | str | os.PathLike[str] | jax.export.Exported | ir.Module | Source,
    target: str = DEFAULT_TARGET,
    entry: str | None = None,
    options: Options | None = None,
    keep_stages: bool = False,
) -> CompiledProgram:
    """Compile like `compile`, but load nothing: the program may be for a machine that this one is not. `keep_stages`
    keeps each stage on the way (3 % of the time), for who writes the program to a file.

    Raises:
        UnsupportedError: the module has symbolic dimensions, and one program for all shapes cannot be had, or options
            ask for specializations. Otherwise as `compile`.
    """
    options = Options.of(options)

    def symbolic(module: ir.Module) -> CompiledProgram:
        if options.dynamic == "specialize":
            raise UnsupportedError(
                "the model has symbolic dimensions, and Options(dynamic='specialize') makes no program for all shapes",
                remedy="leave the option out, or export the model with concrete shapes",
            )
        return compile_once(bytecode(module), target, options)

    return _compiled(source, target, entry, options, symbolic, keep_stages)


def module_for(
    source: Source | bytes, context: ir.Context, backend: Backend, entry: str | None, options: Options
) -> Loaded:
    """A source (`source_of`) as a module of our own, for the platform of a backend. Raises as `compile`."""
    if isinstance(source, Source):
        module, contents = load_source(source, context, entry, options.isolate)
    else:
        with context:
            module, contents = ir.Module.parse(source), None
    check_signature(module)
    is_changed = choose_platform(module, backend.platform)
    return Loaded(module, None if is_changed else contents)


def source_of(source: Any) -> Source | bytes:
    """What `compile` takes, read; a module, which is the caller's and which compiling would change, as bytecode."""
    if isinstance(source, Source):
        return source
    return bytecode(source) if isinstance(source, ir.Module) else read(source)


def _compiled(
    source: Any,
    target: str,
    entry: str | None,
    options: Options,
    symbolic: Callable[[ir.Module], T],
    keep_stages: bool = False,
) -> CompiledProgram | T:
    """The program of a static module; what `symbolic` makes of one that has dynamic dimensions."""
    backend = get_backend(target)
    check_entry(entry)
    found = source_of(source)
    content = found.key if isinstance(found, Source) else found
    cached = cache_entry(content, backend, options, entry or "")
    program = load_cached(cached, options)
    if program is not None:
        return program
    with lent_context(len(content)) as context, without_cyclic_gc():
        # In a function of its own: no module is left when the context goes to another program.
        return _compiled_in(context, found, backend, entry, options, cached, symbolic, keep_stages)


def _compiled_in(
    context: ir.Context,
    source: Source | bytes,
    backend: Backend,
    entry: str | None,
    options: Options,
    cached: CacheEntry | None,
    symbolic: Callable[[ir.Module], T],
    keep_stages: bool,
) -> CompiledProgram | T:
    loaded = module_for(source, context, backend, entry, options)
    if is_symbolic(loaded.module):
        return symbolic(loaded.module)
    size = len(source.data) if isinstance(source, Source) else len(source)
    may_read_again = size < KEPT_SOURCE and not keep_stages
    again = partial(module_for, source, backend=backend, entry=entry, options=options) if may_read_again else None
    return compile_cached(loaded.module, backend, options, cached, again, loaded.contents)
