"""A scheduled module becomes kernels for a GPU and a native function for the host that starts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stablehlo_py import progress
from stablehlo_py.backends.common.description import describe, everywhere, is_grid
from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.common.program import ENTRY
from stablehlo_py.backends.common.sizes import size_table
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.target import host_target, required_features
from stablehlo_py.backends.gpu.kernels import emit_kernel
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.machine_code import extensions, machine_code
from stablehlo_py.backends.gpu.program import GpuProgram
from stablehlo_py.backends.gpu.target import SPIRV64, GpuTarget
from stablehlo_py.dialect.attributes import FUSION
from stablehlo_py.dialect.symint import SPECIALIZE
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.interrupts import checkpoint
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.runtime.program import CompiledProgram


def lower(module: ir.Module, stop: str, target: GpuTarget) -> str:
    """Text of `kernels`, `llvm`, or the machine code's."""
    text = _text(_kernels(module, target))
    if stop == "kernels":
        return text
    progress.at("LLVM")
    return llvm_ir(text, target.architecture)


def compile_module(module: ir.Module, backend: str, target: GpuTarget, options: Options) -> CompiledProgram:
    """Generate and compile everything that a call will run.

    Raises:
        UnsupportedError: naming every fusion without a kernel; the program is for several processes, or for all shapes.
    """
    kernels = _kernels(module, target)
    if is_grid(module):
        raise UnsupportedError(
            f"the backend '{backend}' runs one process, which meets no other",
            remedy="compile for the processor: target='cpu'",
        )
    program = GpuProgram(module, kernels, host_target().emitter)
    made = describe(module, backend, target.name, options)
    made.arena_bytes, made.loops = program.arena_bytes, program.loops
    made.kernels = tuple(program.symbols)
    text = _text(kernels)
    made.stages = {"kernels": text}
    progress.at("machine code")
    host = compile_units([Unit((ENTRY,), program.text(), tuple(program.externals().items()))])
    binary = machine_code(llvm_ir(text, target.architecture), target) if program.symbols else b""
    made.objects = [host, binary]
    made.features = required_features(host_target())
    if binary and target.architecture is SPIRV64:
        made.features += extensions(binary)
    made.report = _report(module, kernels, made)
    return made


def _text(kernels: dict[str, GpuKernel]) -> str:
    """One module's text."""
    functions = {name: text for kernel in kernels.values() for name, text in kernel.functions.items()}
    tables = {name: text for kernel in kernels.values() for name, text in kernel.tables.items()}
    declared = {name: text for kernel in kernels.values() for name, text in kernel.externals.items()}
    missing = [text for name, text in declared.items() if name not in functions]
    return "\n".join((*missing, *tables.values(), *functions.values()))


def _kernels(module: ir.Module, target: GpuTarget) -> dict[str, GpuKernel]:
    """By the name of their fusion function. Raises UnsupportedError: as `compile_module`."""
    if size_table(module) is not None:
        raise UnsupportedError(f"there are no kernels for all shapes on {target.name}", remedy=SPECIALIZE)
    kernels: dict[str, GpuKernel] = {}
    failures: dict[str, Sequence[Problem]] = {}
    functions = fusions(module)
    for number, function in enumerate(functions):
        checkpoint()
        progress.at("kernels", number, len(functions))
        name = function.attributes["sym_name"].value
        try:
            kernels[name] = emit_kernel(function, target)
        except UnsupportedError as error:
            failures[name] = error.problems
    if failures:
        problems = everywhere(module, failures)
        what = "1 part of the model has" if len(problems) == 1 else f"{len(problems)} parts of the model have"
        raise UnsupportedError(f"{what} no GPU kernel", problems=problems)
    return kernels


def _report(module: ir.Module, kernels: dict[str, GpuKernel], program: CompiledProgram) -> str:
    kinds = Counter(function.attributes[FUSION].value for function in fusions(module))
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return "\n".join(
        (
            f"kernels: {len(kernels)} distinct ({listed or 'none'})",
            f"code: {len(program.objects[1]) / 1024:.0f} KiB for {program.target}",
            f"memory: {program.arena_bytes / 2**20:.2f} MiB for a call",
        )
    )
