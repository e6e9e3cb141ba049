"""Libraries in Python, with the errors of this package."""

from __future__ import annotations

import os
from types import NoneType
from typing import NoReturn

from stablehlo_py.boundary import expect, number, public
from stablehlo_py.errors import ArgumentError, CallError, LoadError, ShloError, clipped, shown
from stablehlo_py.files import why_no_file_name
from stablehlo_py.runtime.native_library import NativeLibrary

_ERRORS: dict[str, type[ShloError]] = {"load": LoadError, "argument": ArgumentError, "call": CallError}

_REMEDIES = {
    "load": "write the library again, with this version of the package",
    "argument": "pass NumPy arrays as `library.inputs` describes them",
    "call": "see the function that the model calls",
}


class _Library(NativeLibrary):
    """A library whose errors are those of this package."""

    def _fail(self, kind: str, reason: str, remedy: str = "") -> NoReturn:
        raise _ERRORS[kind](reason, remedy=remedy or _REMEDIES[kind])


def _reason(error: OSError) -> str:
    """The linker's, without the path that it says first."""
    return clipped(error.strerror or str(error).partition(": ")[2] or str(error), 80)


@public
def load_library(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    constants: str | os.PathLike[str] | None = None,
    threads: int = 1,
) -> NativeLibrary:
    """Load a shared library that `shlo-compile --emit=shared` or `shlo.aot.compile` wrote. It needs NumPy, and neither
    MLIR nor JAX.

    Args:
        path: of the library, which is native code: load only what you would run.
        name: of the model in it; None: that of the file, without `lib`.
        constants: path of its file of constants, if it has one.
        threads: how many it may start, if it was written with threads of its own.

    Raises:
        LoadError: the file cannot be loaded, holds no such model, or the constants are not those of the model.
    """
    for what, given in (("path", path), ("constants", constants)):
        reason = None if given is None and what == "constants" else why_no_file_name(given)  # type: ignore[arg-type]
        if reason is not None:
            raise LoadError(f"{what} is {shown(given)}: {reason}", remedy="pass the path of a file")
    expect(name, (str, NoneType), "name", "the name of the model, or None")
    try:
        return _Library(path, name, constants, threads=number(threads, "threads"))
    except OSError as error:
        raise LoadError(
            f"{shown(os.fspath(path))} cannot be loaded: {_reason(error)}",
            remedy="pass a shared library for this machine",
        ) from error
