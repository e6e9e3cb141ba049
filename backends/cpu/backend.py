"""The CPU backend: its policy, and where its parts are. They are imported when they are needed, for passes ask for the
policy alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from stablehlo_py.backends.base import Backend, refuse_gpu_options, require_only_device
from stablehlo_py.interrupts import deferred

if TYPE_CHECKING:
    from stablehlo_py.backends.cpu.code import CpuCode
    from stablehlo_py.backends.cpu.target import CpuTarget
    from stablehlo_py.mlir import ir
    from stablehlo_py.options import Options
    from stablehlo_py.passes.policy import Blocking, Costs, FusionPolicy
    from stablehlo_py.runtime.library import Interface, Library
    from stablehlo_py.runtime.program import CompiledProgram

STAGES = {"kernels": "mlir", "llvm": "ll", "object": "s"}


class CpuBackend(Backend):
    """Native code for x86-64 (AVX-512, AVX2, baseline) and other CPUs that LLVM knows (`OTHER_CPUS`)."""

    name = "cpu"
    platform = "cpu"
    stages: Mapping[str, str] = STAGES

    @property
    def costs(self) -> Costs:
        """Those of policy_costs.py."""
        from stablehlo_py.backends.cpu.policy_costs import COSTS

        return COSTS

    @property
    def fusion(self) -> FusionPolicy:
        """That of policy.py."""
        from stablehlo_py.backends.cpu.policy import FUSION

        return FUSION

    @property
    def blocking(self) -> Blocking:
        """That of policy.py."""
        from stablehlo_py.backends.cpu.policy import BLOCKING

        return BLOCKING

    def target(self, options: Options) -> CpuTarget:
        """The CPU description that options ask for."""
        from stablehlo_py.backends.cpu.target import host_target, named_target

        refuse_gpu_options(self.name, options)
        return named_target(options.cpu, host_target())

    def pipeline(self, stage: str, options: Options) -> Sequence[str]:
        """The usual passes; for a CPU with matrix units, constant weights become tiles before fusions are formed. Loops
        that copy what they carry alternate between buffers, and what they stack is computed in its place."""
        passes = list(super().pipeline(stage, options))
        if stage == "fused" and options.opt_level > 0:
            passes.insert(0, "clamp-before-loops")
            types = ",".join(self.target(options).packed_types)
            passes.insert(-1, f"tile-weights{{target={self.name} types={types}}}")
        if stage == "scheduled" and options.opt_level > 0:
            passes[-1:-1] = [f"double-buffer-loops{{target={self.name}}}", "place-results"]
        return passes

    def describe(self, options: Options) -> str:
        """Name and features of the CPU description."""
        return repr(self.target(options))

    def lower(self, module: ir.Module, stop: str, options: Options) -> str:
        """Text of `kernels`, `llvm` or `object`."""
        from stablehlo_py.backends.cpu.compile import lower
        from stablehlo_py.backends.cpu.target import runs_here

        target = self.target(options)
        if stop != "object" or runs_here(target):
            return lower(module, stop, target, options)
        from stablehlo_py.backends.cpu.target_machine import assembly, entries_of

        text = lower(module, "llvm", target, options)
        return assembly(text, target, public=entries_of(text))

    def compile(self, module: ir.Module, options: Options) -> CompiledProgram:
        """Generate and compile everything that a call will run.

        Raises:
            OptionError: object files can be generated for this CPU, and no program of this process. Otherwise as
                `compile.compile_module`.
        """
        from stablehlo_py.backends.cpu.compile import compile_module
        from stablehlo_py.backends.cpu.target import require_own

        target = self.target(options)
        require_own(target, options.cpu)
        return compile_module(module, self.name, target, options)

    def library(self, module: ir.Module, options: Options, interface: Interface) -> Library:
        """An object file. Raises as `library.library`."""
        from stablehlo_py.backends.cpu.library import library

        refuse_gpu_options(self.name, options)
        return library(module, self.name, options, interface)

    @deferred()
    def load(self, program: CompiledProgram, device: int = 0) -> CpuCode:
        """Its machine code, in this process. Raises LoadError, ResourceError; ArgumentError: as `Backend.memory`."""
        from stablehlo_py.backends.cpu.code import CpuCode

        require_only_device(self.name, device)

        return CpuCode(program)

    def listings(self, program: CompiledProgram) -> Mapping[str, Callable[[], str]]:
        """LLVM IR, where the kernels are kept, and machine code."""
        from stablehlo_py.backends.cpu import listing

        def llvm() -> str:
            from stablehlo_py.backends.common.llvm_ir import llvm_ir
            from stablehlo_py.codegen.target import architecture_of

            return llvm_ir(str(program.stages["kernels"]), architecture_of(program.machine.partition("-")[0]))

        machine_code: dict[str, Callable[[], str]] = {"object": lambda: listing.disassembly(program.objects)}
        return {"llvm": llvm, **machine_code} if "kernels" in program.stages else machine_code

    def custom_calls(self) -> frozenset[str]:
        """Targets that have a kernel."""
        from stablehlo_py.backends.cpu.kernels.custom_call import known_targets

        return known_targets()
