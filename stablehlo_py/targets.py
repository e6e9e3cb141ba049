"""Where backends are found: by name, through the entry point group `stablehlo_py.backends`, or by registration.

Nothing here knows what a backend is (backends/base.py does), so that a pass can ask the backend of its target for
policy without importing one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

from stablehlo_py.errors import OptionError, elided, shown

GROUP = "stablehlo_py.backends"
DEFAULT_TARGET = "cpu"
_SHIPPED = {  # also where nothing is installed
    DEFAULT_TARGET: ("stablehlo_py.backends.cpu.backend", "CpuBackend"),
    "c": ("stablehlo_py.backends.c.backend", "CBackend"),
    "cuda": ("stablehlo_py.backends.gpu.backend", "CudaBackend"),
    "linalg": ("stablehlo_py.backends.linalg.backend", "LinalgBackend"),
    "opencl": ("stablehlo_py.backends.gpu.backend", "OpenClBackend"),
    "opencl-races": ("stablehlo_py.backends.gpu.races", "RaceCheckBackend"),
    "rocm": ("stablehlo_py.backends.gpu.backend", "RocmBackend"),
}
_registered: dict[str, Callable[[], object]] = {}


def register_backend(name: str, make: Callable[[], object]) -> None:
    """Make a backend known in this process, before or instead of an entry point: `make` gives it when it is first
    asked for."""
    _registered[name] = make
    _made.cache_clear()


def unregister_backend(name: str) -> None:
    """Take back `register_backend`."""
    _registered.pop(name, None)
    _made.cache_clear()


def find_backend(name: str) -> object:
    """The backend of a target name; the same object for all.

    Raises:
        OptionError: no installed package registers it; the message lists those that are.
    """
    if not isinstance(name, str):
        raise OptionError(f"the target is {shown(name)}", remedy=f"pass the name of a backend, as '{DEFAULT_TARGET}'")
    return _made(name)


def known_targets() -> list[str]:
    """The names of the backends that are shipped, installed or registered."""
    from importlib.metadata import entry_points

    return sorted({*_SHIPPED, *_registered, *(point.name for point in entry_points(group=GROUP))})


@cache
def _made(name: str) -> object:
    if name in _registered:
        return _registered[name]()
    from importlib.metadata import entry_points  # takes long to import, and tools ask for help and versions

    found = {point.name: point for point in entry_points(group=GROUP)}
    if name in found:
        return found[name].load()()
    if name in _SHIPPED:
        module, attribute = _SHIPPED[name]
        return getattr(import_module(module), attribute)()
    raise OptionError(f"there is no backend for target '{name}'", remedy=f"installed: {elided(known_targets())}")
