"""JAX on this compiler: a PJRT platform in Python, without C++ (docs/jax-platform.md).

import stablehlo_py.pjrt
stablehlo_py.pjrt.initialize()      # before JAX makes its first array
jax.devices("shlo")
"""

from stablehlo_py.pjrt.plugin import handles, initialize

__all__ = ["handles", "initialize"]
