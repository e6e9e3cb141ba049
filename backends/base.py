"""What a backend is, and how one is found.

XLA splits this interface in four (Compiler, Executable, TransferManager, StreamExecutor); here it is one class,
registered under the entry point group `stablehlo_py.backends`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol

from stablehlo_py.errors import OptionError
from stablehlo_py.mlir import ir

if TYPE_CHECKING:
    from stablehlo_py.options import Options
    from stablehlo_py.runtime.program import CompiledProgram

GROUP = "stablehlo_py.backends"


class Backend(Protocol):
    """One target."""

    @property
    def name(self) -> str:
        """The name that `compile(target=...)` takes."""

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages after `scheduled`."""

    def describe(self, options: Options) -> str:
        """What code is generated for, in words that go into the cache key."""

    def lower(self, module: ir.Module, stop: str, options: Options) -> str:
        """Text of one of the backend's own stages of a scheduled module."""

    def compile(self, module: ir.Module, options: Options) -> CompiledProgram:
        """Code of a scheduled module, ready to be loaded or saved."""


@cache
def get_backend(name: str) -> Backend:
    """The backend of a target name.

    Raises:
        OptionError: no installed package registers it; the message lists those that are.
    """
    found = {point.name: point for point in entry_points(group=GROUP)}
    if name in found:
        return found[name].load()()
    if name == "cpu":  # also from a plain checkout, where no entry points are installed
        from stablehlo_py.backends.cpu.backend import CpuBackend

        return CpuBackend()
    raise OptionError(
        f"there is no backend for target '{name}'", remedy=f"installed: {', '.join(sorted({'cpu', *found}))}"
    )
