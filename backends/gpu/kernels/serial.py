"""Everything that has no template of its own: the phases of the CPU's kernels, one element at a time instead of
vectors, their iterations shared out among threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels import custom_call, emit_kernel
from stablehlo_py.backends.cpu.kernels.base import Kernel, Phase
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.backends.gpu.kernels import host_call, lapack, triton_call
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, Launch, fused_op, global_number, kernel_name, pointers_of
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import I8, Function
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.dialect.alignment import aligned
from stablehlo_py.dialect.triton_calls import TARGETS as TRITON_CALLS
from stablehlo_py.dialect.types import text, user_location
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

THREADS = 64  # of a block: iterations are long, and few
PRIVATE_BYTES = 64 << 20  # for the scratch memory of all threads together


@dataclass(frozen=True)
class Thread(CpuTarget):
    """One thread of a GPU, as a CPU's template sees it: a processor without vectors."""

    gpu: GpuTarget = field(kw_only=True)

    @classmethod
    def of(cls, gpu: GpuTarget) -> Thread:
        """Of a GPU."""
        return cls(gpu.name, gpu.features, gpu.vector_bits, gpu.registers, gpu.architecture, gpu=gpu)

    def emitter(self) -> Emitter:
        """What writes a function that kernels call."""
        return self.gpu.emitter()

    def lanes(self, bits: int) -> int:
        """As the GPU says."""
        return self.gpu.lanes(bits)


def emit(function: ir.OpView, target: GpuTarget) -> GpuKernel:
    """The kernel of a fusion of any kind. Raises UnsupportedError: it waits for others, or runs on the host
    (host_call.py)."""
    op = fused_op(function)
    called = text(op, "call_target_name") if op.name == "stablehlo.custom_call" else None
    if host_call.runs_there(function, target):
        raise _unsupported(function, target, "it runs on the host")
    if called in TRITON_CALLS:
        return triton_call.emit(Fusion.read(function), target)
    if called is not None and called not in custom_call.known_targets():
        raise custom_call.unknown_target(op.opview, "GPU")
    thread = Thread.of(target)
    kernel = lapack.emit(Fusion.read(function), thread) if called in lapack.targets() else emit_kernel(function, thread)
    if kernel.communicates:
        raise _unsupported(function, target, "it would wait for other processes, or for the host")
    if kernel.may_fail or kernel.loops or kernel.externals:
        raise _unsupported(function, target, "it calls functions of the host")
    return of_phases(kernel, Fusion.read(function), target)


def of_phases(
    kernel: Kernel, fusion: Fusion, target: GpuTarget, kernels: Mapping[str, Function] | None = None
) -> GpuKernel:
    """A launch for each phase, whose iterations threads share out; those of the phases that are among `kernels`, by
    their symbols, are launched as they are."""
    shared, private = aligned(int(kernel.shared_bytes)), aligned(int(kernel.private_bytes))
    pointers = pointers_of(fusion)
    functions, launches, most = dict(kernel.functions), [], 0
    externals: dict[str, str] = {}
    for phase in kernel.phases:
        if phase.iterations == 0:
            continue
        if kernels and phase.symbol in kernels:
            f = kernels[phase.symbol]
            launches.append(Launch.of(f))
            externals |= f.externals
            continue
        threads = _threads(int(phase.iterations), private, target)
        most = max(most, threads)
        f = _wrapper(phase, pointers, shared, private, threads, target)
        functions[f.name] = f.text()
        externals |= f.externals
        launches.append(Launch(f.name, threads // THREADS, THREADS))
    if not launches:  # nor is anything called
        return GpuKernel((), {})
    return GpuKernel(tuple(launches), functions, externals, kernel.tables, shared + private * most)


def _unsupported(function: ir.OpView, target: GpuTarget, why: str) -> UnsupportedError:
    """The error about the op of a fusion that has no kernel."""
    op = fused_op(function)
    of = f" of '{text(op, 'call_target_name')}'" if "call_target_name" in op.attributes else ""
    return UnsupportedError(
        f"there is no kernel{of} for {target.name}: {why}",
        op=op.name,
        location=user_location(op.location),
        remedy="compile the model for the processor: target='cpu'",
    )


def _threads(iterations: int, private: int, target: GpuTarget) -> int:
    """How many threads share so many iterations: whole blocks."""
    most = min(iterations, target.resident, PRIVATE_BYTES // private if private else target.resident)
    return max(1, -(-most // THREADS)) * THREADS


def _wrapper(phase: Phase, pointers: list[str], shared: int, private: int, threads: int, target: GpuTarget) -> Function:
    """The kernel that runs a phase."""
    f = target.kernel(kernel_name(f"{phase.symbol}.kernel"), pointers, threads // THREADS, THREADS)
    number = global_number(f)
    own = f.gep(f.scratch, f.iadd(f.imul(number, private), shared), I8)
    operands = [f.parameters[pointer] for pointer in pointers[:-1]]
    f.loop(
        number,
        phase.iterations,
        threads,
        lambda i: f.call(phase.symbol, [*operands, f.scratch, own, i, f.index(f.iadd(i, 1))]),
    )
    f.ret()
    return f
