"""stablehlo-py: a StableHLO compiler in readable Python, producing native code for whole programs.

import stablehlo_py as shlo
exe = shlo.compile("model.mlirbc")
outputs = exe(*arrays)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from stablehlo_py import errors
from stablehlo_py.interrupts import deferred

if TYPE_CHECKING:
    from stablehlo_py import aot as aot
    from stablehlo_py.api import compile
    from stablehlo_py.custom_calls import register_custom_call, unregister_custom_call
    from stablehlo_py.errors import (
        ArgumentError,
        AutotuneWarning,
        CacheWarning,
        CallError,
        CommunicationError,
        InternalError,
        LoadError,
        OptionError,
        ResourceError,
        ShloError,
        UnsupportedError,
        VersionError,
    )
    from stablehlo_py.frontend.load import load
    from stablehlo_py.handlers import get_include
    from stablehlo_py.jitted import jit
    from stablehlo_py.options import Options
    from stablehlo_py.runtime.buffer import Buffer
    from stablehlo_py.runtime.executable import Executable
    from stablehlo_py.runtime.grid import GridExecutable
    from stablehlo_py.runtime.load_library import load_library
    from stablehlo_py.runtime.loading import load_executable
    from stablehlo_py.runtime.model import CompiledModel
    from stablehlo_py.runtime.program import Spec
    from stablehlo_py.runtime.symbolic import SymbolicExecutable

__version__ = "0.1.0"

# Imported at first use: `shlo-opt` pays for none of the code generator.
_HOMES = {
    "compile": "api",
    "load": "frontend.load",
    "jit": "jitted",
    "Options": "options",
    "register_custom_call": "custom_calls",
    "unregister_custom_call": "custom_calls",
    "get_include": "handlers",
    "Buffer": "runtime.buffer",
    "CompiledModel": "runtime.model",
    "Executable": "runtime.executable",
    "GridExecutable": "runtime.grid",
    "load_executable": "runtime.loading",
    "load_library": "runtime.load_library",
    "SymbolicExecutable": "runtime.symbolic",
    "Spec": "runtime.program",
    **dict.fromkeys(
        (
            "ArgumentError",
            "AutotuneWarning",
            "CacheWarning",
            "CallError",
            "CommunicationError",
            "InternalError",
            "LoadError",
            "OptionError",
            "ResourceError",
            "ShloError",
            "UnsupportedError",
            "VersionError",
        ),
        "errors",
    ),
}

__all__ = [
    "ArgumentError",
    "AutotuneWarning",
    "Buffer",
    "CacheWarning",
    "CallError",
    "CommunicationError",
    "CompiledModel",
    "Executable",
    "GridExecutable",
    "InternalError",
    "LoadError",
    "OptionError",
    "Options",
    "ResourceError",
    "ShloError",
    "Spec",
    "SymbolicExecutable",
    "UnsupportedError",
    "VersionError",
    "compile",
    "get_include",
    "jit",
    "load",
    "load_executable",
    "load_library",
    "register_custom_call",
    "unregister_custom_call",
]


def __dir__() -> list[str]:
    return [*__all__, "aot", "__version__"]


# Errors are here at once: an `except` clause must not import anything.
globals().update({name: getattr(errors, name) for name, home in _HOMES.items() if home == "errors"})


def __getattr__(name: str) -> object:
    if name in _HOMES or name == "aot":
        with deferred():  # Python drops an exception of Ctrl-C where an import happens to run a weakref's callback
            module = import_module(f"stablehlo_py.{_HOMES.get(name, name)}")
            value = globals()[name] = module if name == "aot" else getattr(module, name)
        return value
    raise AttributeError(f"module 'stablehlo_py' has no attribute '{name}'")
