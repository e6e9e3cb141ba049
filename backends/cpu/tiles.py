"""Permission to use tiles, the registers of AMX, in generated code (features.py: in Python).

The entry of a program asks, so that its object files run in any process. Where permission was given before, that takes
0.13 microseconds.
"""

from __future__ import annotations

from stablehlo_py.backends.cpu.features import REQUEST_PERMISSION, TILE_DATA
from stablehlo_py.codegen.builder import I32, Function, Value

CONFIGURE = "llvm.x86.ldtilecfg"  # what every function begins with that uses tiles


def are_permitted(f: Function) -> Value:
    """Whether the process may use tiles, an i1. It may not where the CPU has none."""
    answer = f.call("arch_prctl", [f.const(REQUEST_PERMISSION, I32), f.const(TILE_DATA)], I32, external=True)
    return f.cmp("eq", answer, f.const(0, I32))
