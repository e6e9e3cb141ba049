"""Functions outside of the compiled program that it calls by name: LAPACK and BLAS, as SciPy links them, and custom
calls that users have registered.

Object files hold names only, `shlo.lapack.dgetrf`, `shlo.call.my_target`; the addresses are looked up when a program is
loaded, in the process that runs it. SciPy publishes those of LAPACK for Cython (`scipy.linalg.cython_lapack`): C
functions that take every argument by pointer, as Fortran does, with `int` for integers, and no hidden lengths of
strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module

from stablehlo_py.backends.cpu.host import Closure
from stablehlo_py.errors import LoadError, Problem, UnsupportedError
from stablehlo_py.foreign import pointer_of_capsule
from stablehlo_py.handlers import handler_of

PREFIX = "shlo."
_SAFE = re.compile(r"[A-Za-z0-9_]")


def library_symbol(library: str, routine: str) -> str:
    """The name by which generated code calls a routine of "lapack" or "blas"."""
    return f"{PREFIX}{library}.{routine}"


def call_symbol(target: str) -> str:
    """The name by which generated code calls a registered custom call. What a symbol cannot hold is `$` and two hex
    digits a byte."""
    safe = "".join(chr(byte) if _SAFE.match(chr(byte)) else f"${byte:02x}" for byte in target.encode())
    return f"{PREFIX}call.{safe}"


def target_of(symbol: str) -> str:
    """The target of a custom call by its symbol (`call_symbol`)."""
    name = symbol.removeprefix(call_symbol(""))
    return re.sub(rb"\$([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), name.encode()).decode()


def outside_symbols(symbols: Iterable[str]) -> tuple[str, ...]:
    """Those that `bound` resolves (and not of libm, the pool, or another object)."""
    return tuple(sorted({symbol for symbol in symbols if symbol.startswith(PREFIX)}))


def calls_registered(symbols: Iterable[str]) -> bool:
    """Is one of these symbols a custom call that a user registers, which may be a function of Python?"""
    return bool(registered_targets(symbols))


def registered_targets(symbols: Iterable[str]) -> list[str]:
    """The custom calls among these symbols that users register."""
    return [target_of(symbol) for symbol in symbols if symbol.startswith(call_symbol(""))]


def bound(symbols: Iterable[str]) -> tuple[dict[str, int], list[object]]:
    """The addresses of these symbols in this process, and what must live as long as code that has them.

    Raises:
        LoadError: naming every one that does not exist here.
    """
    problems: list[Problem] = []
    addresses: dict[str, int] = {}
    owners: list[object] = []
    for symbol in symbols:
        library, _, name = symbol.removeprefix(PREFIX).partition(".")
        if library == "call":
            handler = handler_of(target_of(symbol))
            if handler is None:
                problems.append(_unregistered(target_of(symbol)))
                continue
            if handler.address is None:
                closure = Closure(handler.owner)
                owners.append(closure)
                addresses[symbol] = closure.address
            else:
                owners.append(handler)
                addresses[symbol] = handler.address
            continue
        address = library_address(library, name)
        if address is None:
            problems.append(Problem(f"the program calls '{symbol}', which this process does not have"))
            continue
        addresses[symbol] = address
    if problems:
        raise LoadError("the program cannot be linked", problems=problems)
    return addresses, owners


def _unregistered(target: str) -> Problem:
    return Problem(
        f"the program calls '{target}', which is not registered in this process",
        op="stablehlo.custom_call",
        remedy=f"call stablehlo_py.register_custom_call({target!r}, ...) before the program is loaded",
    )


_LIBRARIES = {"lapack": "scipy.linalg.cython_lapack", "blas": "scipy.linalg.cython_blas"}


def library_address(library: str, routine: str) -> int | None:
    """The address of a routine of "lapack", e.g. "dgetrf", or "blas"; None where SciPy has none of that name.

    Raises:
        UnsupportedError: SciPy is built with 64-bit LAPACK integers.
    """
    return _pointer(_LIBRARIES[library], routine) if library in _LIBRARIES else None


@cache
def _capsules(module: str) -> dict[str, object]:
    """The function pointers that a Cython module exports.

    The wheels of SciPy have 32-bit integers in LAPACK; a build with 64-bit ones says so by this function.
    """
    library = import_module(module)
    size = getattr(library, "_blas_int_size", lambda: 4)()
    if size != 4:
        raise UnsupportedError(
            f"this SciPy's LAPACK has integers of {8 * size} bits, generated code passes 32",
            remedy="install SciPy from PyPI (pip install scipy)",
        )
    return library.__pyx_capi__


@cache
def _pointer(module: str, name: str) -> int | None:
    capsule = _capsules(module).get(name)
    if capsule is None:
        return None
    return pointer_of_capsule(capsule)
