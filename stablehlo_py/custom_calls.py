"""Custom calls that users bind: Python functions on arrays, or C functions (include/shlo_custom_call.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from stablehlo_py import handlers
from stablehlo_py.backends.base import get_backend
from stablehlo_py.boundary import public
from stablehlo_py.errors import OptionError, shown
from stablehlo_py.foreign import name_of_capsule, pointer_of_capsule
from stablehlo_py.handlers import Handler
from stablehlo_py.interrupts import deferred
from stablehlo_py.passmanager.suggest import near_miss
from stablehlo_py.runtime.callbacks import python_handler

CAPSULE = b"shlo_custom_call"
_CTYPES_FUNCTION = ctypes.CFUNCTYPE(None).__mro__[1]  # the base of all ctypes functions, which has no public name


@deferred()
@public
def register_custom_call(name: str, function: Any, *, platform: str = "cpu") -> None:
    """Bind the target `name` of `stablehlo.custom_call`, for programs that are compiled or loaded from now on.

    Args:
        name: the target, e.g. what `jax.ffi.ffi_call` names. Registering a name again replaces the function.
        function: one of
            - a Python function `f(*operands, **attributes)` on NumPy arrays of its own. It returns an array for each
              result (one array, a sequence of them, or None where there is none), of the shapes and dtypes that the
              call has. It holds the GIL while it runs;
            - a C function as the header in `get_include()` describes it: its address, a ctypes function, or a
              PyCapsule named "shlo_custom_call".
        platform: the backend that calls it; those of GPUs call functions of "cpu".

    Raises:
        OptionError: the compiler answers this target itself, there is no such platform, or the function is nothing
            that can be called; the platform is a GPU's.
    """
    called = get_backend(platform).calls_functions_of
    if called != platform:
        raise OptionError(
            f"programs of the backend '{platform}' call functions of the host",
            remedy=f"register it with platform='{called}'",
        )
    _check_name(name)
    if is_built_in(platform, name):
        raise OptionError(
            f"the compiler answers the target '{name}' itself", remedy="register the function under another name"
        )
    handler = _handler(name, function)
    handlers.bind(platform, name, handler)


@deferred()
@public
def unregister_custom_call(name: str, *, platform: str = "cpu") -> None:
    """Forget a target. Programs that are loaded go on calling its function.

    Raises:
        OptionError: it is not registered.
    """
    get_backend(platform)
    _check_name(name)
    if not handlers.unbind(platform, name):
        remedy = near_miss(name, handlers.bound_to(platform))
        raise OptionError(f"no custom call {shown(name)} is registered", remedy=remedy)


def known_custom_calls(platform: str = "cpu") -> frozenset[str]:
    """Targets that can be compiled: those that the compiler answers itself, and registered ones."""
    return _built_in(platform) | handlers.bound_to(get_backend(platform).calls_functions_of)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise OptionError(f"a custom call's target is a name, not {shown(name)}")


def _built_in(platform: str) -> frozenset[str]:
    from stablehlo_py.legalize.custom_call import legalized_targets  # programs that are loaded do without

    return get_backend(platform).custom_calls() | legalized_targets()


def is_built_in(platform: str, name: str) -> bool:
    """Does the compiler answer a target itself?"""
    try:
        return name in _built_in(platform)
    except ModuleNotFoundError:  # there is no compiler: what programs call, it did not answer
        return False


def _handler(name: str, function: Any) -> Handler:
    if isinstance(function, bool):
        raise OptionError(f"custom call '{name}': {function} is not a function")
    if isinstance(function, int):
        if function <= 0:
            raise OptionError(f"custom call '{name}': {function} is no address of a function")
        return Handler(function, None)
    if isinstance(function, _CTYPES_FUNCTION):
        if any(type(kept).__name__ == "CThunkObject" for kept in (getattr(function, "_objects", None) or {}).values()):
            raise OptionError(
                f"custom call '{name}': the ctypes function calls Python, and ctypes drops what that raises",
                remedy="register the Python function itself",
            )
        address = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
        if not address:
            raise OptionError(f"custom call '{name}': the ctypes function is null")
        return Handler(address, function)
    if type(function).__name__ == "PyCapsule":
        return Handler(_pointer_of(name, function), function)
    if isinstance(function, Callable):  # type: ignore[arg-type]
        return Handler(None, python_handler(function))
    raise OptionError(
        f"custom call '{name}': {type(function).__name__} is not a function",
        remedy="pass a Python function, the address of a C function, a ctypes function or a PyCapsule",
    )


def _pointer_of(name: str, capsule: object) -> int:
    found = name_of_capsule(capsule)
    if found != CAPSULE:
        # XLA's capsules hold functions with another signature: to call one would end the process.
        raise OptionError(
            f"custom call '{name}': the capsule is named {(found or b'').decode(errors='replace')!r}",
            remedy=f"wrap the header's kind of function, and name the capsule {CAPSULE.decode()!r}; functions made for "
            "XLA have another signature",
        )
    return pointer_of_capsule(capsule)
