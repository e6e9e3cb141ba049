"""A scheduled module becomes kernels for a GPU and a native function for the host that starts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stablehlo_py import progress
from stablehlo_py.backends.common.description import describe, everywhere, is_grid
from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.common.kernels import kernels_of, kinds_of
from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.common.meanwhile import Meanwhile
from stablehlo_py.backends.common.program import ENTRY
from stablehlo_py.backends.common.sizes import size_table
from stablehlo_py.backends.cpu import helpers
from stablehlo_py.backends.cpu.helper_objects import helper_objects
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.signature import global_of, signature, stamped
from stablehlo_py.backends.cpu.symbols import calls_registered, outside_symbols
from stablehlo_py.backends.cpu.target import CpuTarget, baseline_target, required_features
from stablehlo_py.backends.gpu.cuda.calls import CudaCalls
from stablehlo_py.backends.gpu.device_code import DeviceCode, device_code
from stablehlo_py.backends.gpu.driver.calls import Calls
from stablehlo_py.backends.gpu.hip.calls import HipCalls
from stablehlo_py.backends.gpu.kernels import addresses, emit_kernel
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, Module, fused_op, modules_of
from stablehlo_py.backends.gpu.kernels.host_call import HostCall, runs_there
from stablehlo_py.backends.gpu.kernels.host_call import emit as host_call
from stablehlo_py.backends.gpu.kernels.whole_loop import WholeLoop
from stablehlo_py.backends.gpu.launches import program_module
from stablehlo_py.backends.gpu.libraries.match import Matched, library_calls
from stablehlo_py.backends.gpu.loops import only_inside, whole_loops
from stablehlo_py.backends.gpu.machine_code import assembly, machine_code
from stablehlo_py.backends.gpu.opencl.calls import OpenClCalls
from stablehlo_py.backends.gpu.plans import STAGE as PLANS
from stablehlo_py.backends.gpu.plans import Plans
from stablehlo_py.backends.gpu.program import GpuProgram
from stablehlo_py.backends.gpu.ptx import assemble, disassembly
from stablehlo_py.backends.gpu.target import AMDGCN, NVPTX64, SPIRV64, GpuTarget
from stablehlo_py.backends.gpu.touched import touched
from stablehlo_py.backends.gpu.usage import Usage
from stablehlo_py.codegen.target import Architecture
from stablehlo_py.dialect.symint import SPECIALIZE
from stablehlo_py.dialect.types import user_location
from stablehlo_py.errors import Problem, UnsupportedError, elided
from stablehlo_py.mlir import ir
from stablehlo_py.options import TRITON, Options
from stablehlo_py.runtime.library_calls import (
    LibraryCall,
    LibraryConvolution,
    LibraryFactorization,
    LibraryProduct,
    LibraryTransform,
    counted,
)
from stablehlo_py.runtime.program import CompiledProgram

CALLS: dict[Architecture, Calls] = {SPIRV64: OpenClCalls(), NVPTX64: CudaCalls(), AMDGCN: HipCalls()}


def lower(
    module: ir.Module,
    stop: str,
    target: GpuTarget,
    host: CpuTarget,
    plans: Plans | None = None,
    libraries: Sequence[str] = (),
) -> str:
    """Text of `plans`, sources of Triton, the whole program (`kernels`); of its kernels `llvm`, machine code ("sass"),
    or else what LLVM generates."""
    kernels, loops, host_calls = _parts(module, target, plans, host)
    if stop == PLANS:
        return _taken(module, kernels, target, plans).text()
    modules = modules_of(kernels)
    if stop == TRITON:
        return _sources(modules)
    if stop == "kernels":
        matched = library_calls(module, libraries, target)
        kernels |= _beside(matched)
        return _program_text(_program(module, kernels, loops, target, host, matched, host_calls), target)
    progress.at("LLVM")
    text = llvm_ir(_text(kernels), target.architecture)
    if stop == "llvm":
        return text
    progress.at("machine code")
    if stop == "sass":
        has_own = any(kernel.functions for kernel in kernels.values())
        own = [assemble(machine_code(text, target), target.name)[0]] if has_own else []
        return "\n".join(map(disassembly, (*own, *(module.binary for module in modules.values()))))
    return assembly(text, target)


@dataclass(frozen=True)
class Generated:
    """Kernels by the name of their fusion function, loops that are kernels by their first results, and their plans;
    what libraries may compute instead, and what runs on the host, by the same names; the code of all kernels, for which
    `code` waits."""

    kernels: Mapping[str, GpuKernel]
    loops: Mapping[ir.Value, WholeLoop]
    code: Callable[[], DeviceCode]
    plans: Plans
    matched: Mapping[str, Matched[LibraryCall]]
    host_calls: Mapping[str, HostCall]


def generate(
    module: ir.Module,
    target: GpuTarget,
    plans: Plans | None = None,
    libraries: Sequence[str] = (),
    host: CpuTarget | None = None,
) -> Generated:
    """Kernels of a scheduled module, by plans where there are some for them, and for a `host` (None: any) what runs
    there. Raises UnsupportedError: naming every fusion without one; OptionError: a kernel has no such plan."""
    kernels, loops, host_calls = _parts(module, target, plans, host or baseline_target())
    taken = _taken(module, kernels, target, plans)
    matched = library_calls(module, libraries, target)
    kernels |= _beside(matched)
    progress.at("machine code")
    return Generated(kernels, loops, _device_code(module, kernels, target), taken, matched, host_calls)


def compile_module(
    module: ir.Module,
    backend: str,
    target: GpuTarget,
    host: CpuTarget,
    options: Options,
    plans: Plans | None = None,
) -> CompiledProgram:
    """Generate and compile everything that a call will run, on a GPU and on the host that has it.

    Raises:
        OptionError: a kernel has no such plan as `plans` say.
        UnsupportedError: naming every fusion without a kernel; the program is for several processes, or for all shapes.
    """
    generated = generate(module, target, plans, options.libraries, host)  # an op without a kernel is named first
    require_one_process(module, backend)
    return program_of(module, generated, backend, target, host, options)


def require_one_process(module: ir.Module, backend: str) -> None:
    """Raises UnsupportedError: the program is for several processes."""
    if is_grid(module):
        raise UnsupportedError(
            f"the backend '{backend}' runs one process, which meets no other",
            remedy="compile for the processor: target='cpu'",
        )


def program_of(
    module: ir.Module, generated: Generated, backend: str, target: GpuTarget, host: CpuTarget, options: Options
) -> CompiledProgram:
    """The host's part and that of the device, of a module that is no grid. The device's is made meanwhile."""
    kernels, matched = generated.kernels, generated.matched
    program = _program(module, kernels, generated.loops, target, host, matched, generated.host_calls)
    made = describe(module, backend, target.name, options)
    made.arena_bytes, made.host_bytes, made.loops = program.arena_bytes, program.host_bytes, program.loops
    made.kernels, modules = tuple(program.symbols), modules_of(kernels)
    made.modules = tuple(modules)
    made.graphs = options.graphs and CALLS[target.architecture].has_graphs and not program.waits
    if made.graphs:
        made.accesses = touched(module, kernels, program.symbols, target.parameters)
    library = [each.call for each in matched.values()]
    made.products = tuple(each for each in library if isinstance(each, LibraryProduct))
    made.transforms = tuple(each for each in library if isinstance(each, LibraryTransform))
    made.factorizations = tuple(each for each in library if isinstance(each, LibraryFactorization))
    made.convolutions = tuple(each for each in library if isinstance(each, LibraryConvolution))
    made.stages = {PLANS: generated.plans.text(), "kernels": _program_text(program, target)}
    if modules:
        made.stages = {**made.stages, TRITON: _sources(modules)}
    units = program.host_units()
    made.symbols = outside_symbols(name for unit in units for name, _ in unit.externals)
    made.helpers = helper_objects([helpers.CALLS, *([helpers.CLOSURE] if calls_registered(made.symbols) else [])])
    parts = [b"", *(module.binary for module in modules.values())]  # the first: code that is not there yet
    unsigned = global_of(b"\xff" * len(signature(made, parts)))
    units.append(Unit((ENTRY,), f"{unsigned}\n{program.native()}", tuple(program.externals().items())))
    own = compile_units(units)
    code = generated.code()
    made.features = required_features(host) + code.features
    device = [code.binary, *parts[1:]]
    made.objects = [stamped(own, signature(made, device)), *device]
    made.report = _report(module, made, generated, code.usage)
    return made


def _beside(matched: Mapping[str, Matched[LibraryCall]]) -> dict[str, GpuKernel]:
    """Our own kernels beside calls of libraries, by name."""
    return {name: kernel for each in matched.values() for name, kernel in each.beside.items()}


def _program(
    module: ir.Module,
    kernels: Mapping[str, GpuKernel],
    loops: Mapping[ir.Value, WholeLoop],
    target: GpuTarget,
    host: CpuTarget,
    matched: Mapping[str, Matched[LibraryCall]],
    host_calls: Mapping[str, HostCall],
) -> GpuProgram:
    calls = CALLS[target.architecture]
    return GpuProgram(module, kernels, loops, host.emitter, calls, target.parameters, matched, host_calls)


def _program_text(program: GpuProgram, target: GpuTarget) -> str:
    return program_module(_text(program.kernels), target, program.foreign, program.declared_text())


def _sources(modules: Mapping[str, Module]) -> str:
    return "\n\n".join(f"# {symbol}\n{module.source}" for symbol, module in modules.items())


def _device_code(module: ir.Module, kernels: Mapping[str, GpuKernel], target: GpuTarget) -> Callable[[], DeviceCode]:
    """Starts to make the code of all kernels; what waits for it. That raises UnsupportedError: LLVM has none for some
    of them, which are named."""
    own = {name: kernel for name, kernel in kernels.items() if kernel.functions}
    launches = [launch for kernel in kernels.values() for launch in kernel.launches]
    given = {launch.symbol: launch.shared_bytes for launch in launches}
    others = [made.feature for made in modules_of(kernels).values()]

    def compiled(some: Mapping[str, GpuKernel]) -> DeviceCode:
        return device_code(llvm_ir(_text(some), target.architecture), target)

    started = Meanwhile(lambda: compiled(own)) if own else None

    def wait() -> DeviceCode:
        try:
            code = started.result() if started else DeviceCode(b"")
        except UnsupportedError:
            failures = dict(_refused(module, own, compiled))
            if not failures:
                raise  # of all of them together
            problems = everywhere(module, failures)
            raise UnsupportedError("a part of the model has no machine code", problems=problems) from None
        usage = {name: replace(each, shared=each.shared + given.get(name, 0)) for name, each in code.usage.items()}
        return replace(code, features=tuple(dict.fromkeys((*code.features, *others))), usage=usage)

    return wait


def _refused(
    module: ir.Module, kernels: Mapping[str, GpuKernel], compiled: Callable[[Mapping[str, GpuKernel]], DeviceCode]
) -> Iterator[tuple[str, list[Problem]]]:
    """The fusions for which LLVM has no code, each with what is wrong with it."""
    for function in fusions(module):
        name, op = function.attributes["sym_name"].value, fused_op(function)
        if name not in kernels:  # it is a part of a loop
            continue
        try:
            compiled({name: kernels[name]})
        except UnsupportedError as error:
            place = user_location(op.location)
            yield name, [replace(problem, op=op.name, location=place) for problem in error.problems]


def _text(kernels: Mapping[str, GpuKernel]) -> str:
    """One module's text."""
    functions = {name: text for kernel in kernels.values() for name, text in kernel.functions.items()}
    tables = {name: text for kernel in kernels.values() for name, text in kernel.tables.items()}
    declared = {name: text for kernel in kernels.values() for name, text in kernel.externals.items()}
    missing = [text for name, text in declared.items() if name not in functions]
    return "\n".join((*missing, *tables.values(), *functions.values()))


def _taken(module: ir.Module, kernels: Mapping[str, GpuKernel], target: GpuTarget, plans: Plans | None) -> Plans:
    return Plans.taken(module, kernels, target.name, plans.device if plans else "")


def _parts(
    module: ir.Module, target: GpuTarget, plans: Plans | None, host: CpuTarget
) -> tuple[dict[str, GpuKernel], Mapping[ir.Value, WholeLoop], dict[str, HostCall]]:
    """The kernels by name, the loops that are among them by their first results, and what runs on the host by name.
    Raises UnsupportedError: as `compile_module`."""
    if size_table(module) is not None:
        raise UnsupportedError(f"there are no kernels for all shapes on {target.name}", remedy=SPECIALIZE)
    loops = whole_loops(module, target)

    def emit(function: ir.OpView) -> GpuKernel | HostCall:
        if runs_there(function, target):
            return host_call(function, host)
        return emit_kernel(function, target, plans.of(function) if plans else None)

    parts = dict(kernels_of(module, emit, "GPU", only_inside(module, loops)))
    kernels = {name: part for name, part in parts.items() if isinstance(part, GpuKernel)}
    kernels |= {loop.name: loop.kernel for loop in loops.values()}
    if any(kernel.pointers > target.parameters for kernel in kernels.values()):
        kernels[addresses.NAME] = addresses.emit(target)
    return kernels, loops, {name: part for name, part in parts.items() if isinstance(part, HostCall)}


def _report(module: ir.Module, program: CompiledProgram, generated: Generated, usage: Mapping[str, Usage]) -> str:
    plans, loops = generated.plans, len(generated.loops)
    lines = [kinds_of(module), *([f"loops that are one kernel: {loops}"] if loops else [])]
    if generated.host_calls:
        targets = dict.fromkeys(call.target for call in generated.host_calls.values())
        lines.append(f"calls that run on the host: {', '.join(targets)}")
    lines += [f"code: {sum(map(len, program.objects[1:])) / 1024:.0f} KiB for {program.target}"]
    lines += [f"kernels by Triton: {', '.join(program.modules)}"] if program.modules else []
    if usage:
        spilling = [name for name, each in usage.items() if each.spills]
        most = max(each.registers for each in usage.values())
        lines.append(f"registers of a thread: at most {most}; spills: {elided(spilling) if spilling else 'none'}")
    if plans.device:
        lines.append(f"plans: {len(plans.kernels)}, of kernels that were timed on {plans.device}")
    memory = f"memory: {program.arena_bytes / 2**20:.2f} MiB for a call"
    if program.library_calls:
        workspace = max(each.workspace_bytes for each in program.library_calls) / 2**20
        kinds = (program.products, program.transforms, program.factorizations, program.convolutions)
        may = [f"{calls[0].library} may compute {counted(calls, len(calls))}" for calls in kinds if calls]
        lines.append(f"libraries: {', '.join(may)}")
        memory += f", of which a library works in {workspace:.0f} MiB"
    if program.host_bytes:
        memory += f", {program.host_bytes / 2**20:.2f} MiB of the host's for what runs there"
    return "\n".join([*lines, memory])
