"""The CPU backend: its policy, and where its parts are. They are imported when they are needed, for passes ask for the
policy alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from stablehlo_py.backends.base import Backend
from stablehlo_py.backends.cpu.policy import BLOCKING, FUSION
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.errors import OptionError, shown
from stablehlo_py.interrupts import deferred

if TYPE_CHECKING:
    from stablehlo_py.backends.cpu.code import CpuCode
    from stablehlo_py.backends.cpu.target import CpuTarget
    from stablehlo_py.mlir import ir
    from stablehlo_py.options import Options
    from stablehlo_py.runtime.program import CompiledProgram

STAGES = {"kernels": "mlir", "llvm": "ll", "object": "s"}


class CpuBackend(Backend):
    """Native code for x86-64 (AVX-512, AVX2, baseline) and other CPUs that LLVM knows."""

    name = "cpu"
    platform = "cpu"
    stages = STAGES
    costs, fusion, blocking = COSTS, FUSION, BLOCKING

    def target(self, options: Options) -> CpuTarget:
        """The CPU description that options ask for."""
        from stablehlo_py.backends.cpu.target import NAMED, host_target

        if options.gpu is not None:
            reason = f"the backend 'cpu' generates no code for GPUs, gpu is {shown(options.gpu)}"
            raise OptionError(reason, remedy="pass target='cuda' or 'rocm' too, or leave it out")
        if options.cpu is None:
            return host_target()
        if options.cpu not in NAMED:
            raise OptionError(f"there is no CPU description '{options.cpu}'", remedy=f"use one of {', '.join(NAMED)}")
        return NAMED[options.cpu]

    def describe(self, options: Options) -> str:
        """Name and features of the CPU description."""
        return repr(self.target(options))

    def lower(self, module: ir.Module, stop: str, options: Options) -> str:
        """Text of `kernels`, `llvm` or `object`."""
        from stablehlo_py.backends.cpu.compile import lower

        return lower(module, stop, self.target(options), options)

    def compile(self, module: ir.Module, options: Options) -> CompiledProgram:
        """Generate and compile everything that a call will run. Raises as `compile.compile_module`."""
        from stablehlo_py.backends.cpu.compile import compile_module

        return compile_module(module, self.name, self.target(options), options)

    @deferred()
    def load(self, program: CompiledProgram) -> CpuCode:
        """Its machine code, in this process. Raises LoadError, ResourceError."""
        from stablehlo_py.backends.cpu.code import CpuCode

        return CpuCode(program)

    def listings(self, program: CompiledProgram) -> Mapping[str, Callable[[], str]]:
        """LLVM IR, where the kernels are kept, and machine code."""
        from stablehlo_py.backends.common.llvm_ir import llvm_ir
        from stablehlo_py.backends.cpu import listing
        from stablehlo_py.codegen.target import architecture_of

        derived: dict[str, Callable[[], str]] = {"object": lambda: listing.disassembly(program.objects)}
        kernels = program.stages.get("kernels")
        if isinstance(kernels, str):
            architecture = architecture_of(program.machine.partition("-")[0])
            derived = {"llvm": lambda: llvm_ir(kernels, architecture), **derived}
        return derived

    def custom_calls(self) -> frozenset[str]:
        """Targets that have a kernel."""
        from stablehlo_py.backends.cpu.kernels.custom_call import known_targets

        return known_targets()
