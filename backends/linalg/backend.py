"""The backend of target `linalg`: its stages, and where its parts are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from stablehlo_py.backends.base import Backend, refuse_gpu_options, require_only_device

if TYPE_CHECKING:
    from stablehlo_py.backends.cpu.code import CpuCode
    from stablehlo_py.backends.cpu.target import CpuTarget
    from stablehlo_py.mlir import ir
    from stablehlo_py.options import Options
    from stablehlo_py.runtime.program import CompiledProgram


class LinalgBackend(Backend):
    """linalg on tensors for compilers that start there, and native code from it by upstream's passes."""

    name = "linalg"
    platform = "cpu"
    module_stages = ()  # linalg is made of `optimized`
    stages: Mapping[str, str] = {"linalg": "mlir", "kernels": "mlir", "llvm": "ll"}

    def target(self, options: Options) -> CpuTarget:
        """The CPU description that options ask for."""
        from stablehlo_py.backends.cpu.target import host_target, named_target

        refuse_gpu_options(self.name, options)
        return named_target(options.cpu, host_target())

    def describe(self, options: Options) -> str:
        """Name and features of the CPU description."""
        return repr(self.target(options))

    def lower(self, module: ir.Module, stop: str, options: Options) -> str:
        """Text of `linalg`, `kernels` or `llvm`. Raises UnsupportedError, naming every op without a form in linalg."""
        from stablehlo_py.backends.linalg import native

        if stop == "linalg":
            return native.linalg_text(module)
        text = native.llvm_dialect_text(module, self.target(options))
        return text if stop == "kernels" else _llvm_ir(text, self.target(options))

    def compile(self, module: ir.Module, options: Options) -> CompiledProgram:
        """Native code, by upstream's passes. Raises UnsupportedError as `lower`."""
        from stablehlo_py.backends.linalg.native import compile_module

        return compile_module(module, self.name, self.target(options), options)

    def load(self, program: CompiledProgram, device: int = 0) -> CpuCode:
        """Its machine code, in this process. Raises LoadError, ResourceError; ArgumentError: as `Backend.memory`."""
        from stablehlo_py.backends.cpu.code import CpuCode

        require_only_device(self.name, device)
        return CpuCode(program)

    def listings(self, program: CompiledProgram) -> Mapping[str, Callable[[], str]]:
        """LLVM IR, where the kernels are kept."""
        from stablehlo_py.codegen.target import architecture_of

        kernels = program.stages.get("kernels")
        if not isinstance(kernels, str):
            return {}
        from stablehlo_py.backends.common.llvm_ir import llvm_ir

        return {"llvm": lambda: llvm_ir(kernels, architecture_of(program.machine.partition("-")[0]))}

    def custom_calls(self) -> frozenset[str]:
        """None: linalg calls nothing."""
        return frozenset()


def _llvm_ir(text: str, target: CpuTarget) -> str:
    from stablehlo_py.backends.common.llvm_ir import llvm_ir

    return llvm_ir(text, target.architecture)
