"""The backend that writes a model as one file of C99. Policy and templates are the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from stablehlo_py.backends.base import refuse_gpu_options
from stablehlo_py.backends.cpu.backend import CpuBackend

if TYPE_CHECKING:
    from stablehlo_py.backends.c.target import CTarget
    from stablehlo_py.mlir import ir
    from stablehlo_py.options import Options
    from stablehlo_py.runtime.library import Interface, Library
    from stablehlo_py.runtime.program import CompiledProgram


class CBackend(CpuBackend):
    """C99 for any compiler; in Python it runs by the system's own."""

    name = "c"
    stages: Mapping[str, str] = {"kernels": "c", "c": "c", "object": "s"}

    @property
    def calls_functions_of(self) -> str:
        """The processor's."""
        return "cpu"

    def target(self, options: Options, *, here: bool = False) -> CTarget:
        """The processor that options ask for; one that they do not name is any, or, if a program is to run `here`,
        this one."""
        from stablehlo_py.backends.c.target import CTarget

        refuse_gpu_options(self.name, options)
        return CTarget.of(options.cpu, here=here)

    def describe(self, options: Options) -> str:
        """The processor, and the compiler with its version."""
        from stablehlo_py.backends.c.compiler import version

        return f"{self.target(options, here=True)!r} {version()}"

    def lower(self, module: ir.Module, stop: str, options: Options) -> str:
        """Text of `kernels`, `c` (the whole file) or `object`."""
        from stablehlo_py.backends.c.compile import lower

        return lower(module, stop, self.target(options, here=stop == "object"), options)

    def compile(self, module: ir.Module, options: Options) -> CompiledProgram:
        """Write the file and have the system's C compiler compile it. Raises as `compile.compile_module`."""
        from stablehlo_py.backends.c.compile import compile_module
        from stablehlo_py.backends.cpu.target import require_own

        target = self.target(options, here=True)
        require_own(target.processor, options.cpu)
        return compile_module(module, self.name, target, options)

    def library(self, module: ir.Module, options: Options, interface: Interface) -> Library:
        """The source of a library. Raises as `library.library`."""
        from stablehlo_py.backends.c.library import library

        return library(module, self.name, self.target(options), options, interface)

    def listings(self, program: CompiledProgram) -> Mapping[str, Callable[[], str]]:
        """The file, where it is kept, and machine code."""
        from stablehlo_py.backends.cpu import listing

        text = program.stages.get("c")
        found: dict[str, Callable[[], str]] = {"object": lambda: listing.disassembly(program.objects)}
        return {"c": lambda: str(text), **found} if text is not None else found
