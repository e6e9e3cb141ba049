"""JAX on this compiler: a PJRT platform in Python, without C++ (docs/jax-platform.md).

JAX finds it by itself where it is asked for: `JAX_PLATFORMS=shlo python program.py`. A program may ask, too:

import stablehlo_py.pjrt
stablehlo_py.pjrt.initialize()      # before JAX makes its first array
jax.devices("shlo")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stablehlo_py.pjrt.plugin import handles, initialize

__all__ = ["handles", "initialize"]


def __getattr__(name: str) -> object:
    # Every process that imports JAX may import this package, to look for platforms: it takes no time.
    if name in __all__:
        return getattr(import_module("stablehlo_py.pjrt.plugin"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
