"""`load()`: any source -> a StableHLO module in a context of ours, with `@main` as its entry."""

from __future__ import annotations

import os
from types import NoneType
from typing import TYPE_CHECKING, NamedTuple

from stablehlo_py.boundary import expect, public
from stablehlo_py.dialect.census import Census, Contents
from stablehlo_py.dialect.context import make_context
from stablehlo_py.frontend.declared import check_declared, may_declare
from stablehlo_py.frontend.entry import check_entry, select_entry
from stablehlo_py.frontend.gspmd import translate
from stablehlo_py.frontend.isolate import the_worker
from stablehlo_py.frontend.jax_export import attach
from stablehlo_py.frontend.limits import check_elements
from stablehlo_py.frontend.nesting import check_module
from stablehlo_py.frontend.parse import parse, parse_again, readable_names
from stablehlo_py.frontend.shards import expand
from stablehlo_py.frontend.source import Source, read
from stablehlo_py.frontend.tokens import make_tokens_arrays
from stablehlo_py.interrupts import deferred
from stablehlo_py.mlir import ir

if TYPE_CHECKING:
    import jax.export


@deferred()
@public
def load(
    source: bytes | str | os.PathLike[str] | jax.export.Exported,
    *,
    context: ir.Context | None = None,
    entry: str | None = None,
    isolate: bool = True,
) -> ir.Module:
    """Read a StableHLO module.

    Args:
      source: a path, text (a str with a newline, or that starts like MLIR), bytes, or a `jax.export.Exported`. Files
        and bytes may hold a portable artifact, MLIR bytecode, MLIR text, or what `Exported.serialize()` returns.
      context: where the module lives; a fresh `make_context()` by default.
      entry: the function to run, when it is not `main` or the only public one. It becomes the public `@main`; every
        other function becomes private, and symbol-dce removes those that are not called.
      isolate: let a child process read the source first, since a damaged or hostile one can crash MLIR. An `Exported`
        is trusted.

    Dynamic dimensions are kept: see docs/dynamic-shapes.md. Shardings are kept as text: see docs/sharding.md.

    Raises:
      LoadError: the content is not a StableHLO module; one Problem per diagnostic, at the user's file and line. Or its
        attributes or calls are not what they must be (frontend/declared.py).
      VersionError: a portable artifact for a newer StableHLO.
      OptionError: `entry` does not exist, or is needed.
      ResourceError: the file cannot be read, or a tensor has more elements than any memory holds.
      UnsupportedError: a computation on shards (shard_map) has a sharding that is not known; regions are nested too
        deeply.
    """
    check_entry(entry)
    expect(context, (ir.Context, NoneType), "context", "what dialect.context.make_context() returns, or None")
    expect(isolate, bool, "isolate", "True or False")
    return load_source(read(source), context or make_context(), entry, isolate).module


class Loaded(NamedTuple):
    """A module, and its contents where they are known; they stay true until it is changed."""

    module: ir.Module
    contents: Contents | None


def load_source(found: Source, context: ir.Context, entry: str | None = None, isolate: bool = True) -> Loaded:
    """What `load` does with a source that was read."""
    module, has_calls, contents = _load(found, context, entry, isolate)
    if has_calls:  # marks are some of them
        with readable_names(found):
            expand(module)
    return Loaded(module, None if has_calls else contents)


def load_marked(found: Source, context: ir.Context, entry: str | None = None, isolate: bool = True) -> ir.Module:
    """The same, but calls still mark where values become shards and whole again (frontend/shards.py)."""
    return _load(found, context, entry, isolate)[0]


def _load(
    found: Source, context: ir.Context, entry: str | None, isolate: bool
) -> tuple[ir.Module, bool, Contents | None]:
    """The module, whether it has custom calls, and its contents where they are known."""
    module = read_module(found, context, isolate)
    with readable_names(found):
        select_entry(module, entry, found.name)
        census = Census.of(module, may_declare)
        check_elements(census.types)
        calls = check_declared(module, census.ops)
        translate(module, calls)
        if found.tokens:
            make_tokens_arrays(module)
    if found.export is not None:
        attach(module, found.export)
    return module, bool(calls), None if found.tokens else census.contents


def read_module(source: Source, context: ir.Context, isolate: bool = True) -> ir.Module:
    """The verified module in a source, of any dialect in the context. Raises what `load` does, but for OptionError."""
    if isolate and not source.trusted:
        bytecode = the_worker().read(source, context.allow_unregistered_dialects)
        return parse_again(source, bytecode, context)
    module = parse(source, context)
    with readable_names(source):
        check_module(module)
    return module
