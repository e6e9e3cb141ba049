"""The native code that programs bring along for the runtime (helpers.py), generated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from stablehlo_py.backends.cpu import calls, channels, fastcall, grid, helpers, interrupt, pool
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.target import CpuTarget, baseline_target
from stablehlo_py.codegen.builder import Function

_FUNCTIONS: dict[str, Callable[[CpuTarget], list[Function]]] = {
    helpers.CALLS: lambda target: [*calls.functions(target), *interrupt.functions(target)],
    helpers.CLOSURE: calls.closure_functions,
    helpers.POOL: pool.functions,
    helpers.GRID: lambda target: [*grid.functions(target), *channels.functions(target)],
    helpers.FASTCALL: fastcall.functions,
}


@cache
def _object(kind: str) -> bytes:
    """For any processor of this architecture, since they are on the way of all programs, and compute nothing."""
    return compile_units([Unit.of(*_FUNCTIONS[kind](baseline_target()))])


def helper_objects(kinds: Iterable[str] = helpers.KINDS) -> dict[str, bytes]:
    """Object files by their kinds."""
    return {kind: _object(kind) for kind in kinds}
