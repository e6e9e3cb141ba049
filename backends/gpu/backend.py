"""The backends of GPUs, one for each driver: their policy, and where their parts are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from stablehlo_py.backends.base import Backend
from stablehlo_py.backends.gpu.policy import COSTS, FUSION
from stablehlo_py.interrupts import deferred

if TYPE_CHECKING:
    from stablehlo_py.backends.gpu.code import OpenClCode
    from stablehlo_py.backends.gpu.target import GpuTarget
    from stablehlo_py.mlir import ir
    from stablehlo_py.options import Options
    from stablehlo_py.runtime.program import CompiledProgram

STAGES = {"kernels": "mlir", "llvm": "ll"}


class OpenClBackend(Backend):
    """Kernels as SPIR-V for devices of OpenCL: GPUs of Intel, Arm and others, and CPUs."""

    name = "opencl"
    platform = "cpu"  # what JAX exports for it
    stages = STAGES
    costs, fusion = COSTS, FUSION

    def target(self) -> GpuTarget:
        """The description that kernels are generated for."""
        from stablehlo_py.backends.gpu.target import OPENCL

        return OPENCL

    def describe(self, options: Options) -> str:
        """The description of the device, and of the host."""
        from stablehlo_py.backends.cpu.target import host_target

        return f"{self.target()!r} {host_target()!r}"

    def lower(self, module: ir.Module, stop: str, options: Options) -> str:
        """Text of `kernels` or `llvm`."""
        from stablehlo_py.backends.gpu.compile import lower

        return lower(module, stop, self.target())

    def compile(self, module: ir.Module, options: Options) -> CompiledProgram:
        """Generate and compile everything that a call will run. Raises as `compile.compile_module`."""
        from stablehlo_py.backends.gpu.compile import compile_module

        return compile_module(module, self.name, self.target(), options)

    @deferred()
    def load(self, program: CompiledProgram) -> OpenClCode:
        """The program, on the first device. Raises ResourceError, LoadError."""
        from stablehlo_py.backends.gpu.code import OpenClCode

        return OpenClCode(program)

    def listings(self, program: CompiledProgram) -> Mapping[str, Callable[[], str]]:
        """LLVM IR, where the kernels are kept."""
        from stablehlo_py.backends.common.llvm_ir import llvm_ir

        kernels = program.stages.get("kernels")
        if not isinstance(kernels, str):
            return {}
        return {"llvm": lambda: llvm_ir(kernels, self.target().architecture)}

    def custom_calls(self) -> frozenset[str]:
        """None."""
        return frozenset()
