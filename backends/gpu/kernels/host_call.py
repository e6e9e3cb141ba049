"""Custom calls that run on the host: functions of users, and calls of LAPACK that no GPU has code for.

A program's host part copies the operands to memory of the host, waits for them, runs the CPU's kernel of the call
there, and copies the results back. That kernel is generated for the host, so what a call means, how it fails, and what
it raises is what it is in programs for the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.program import given
from stablehlo_py.backends.cpu.kernels import custom_call, emit_kernel
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.kernels.lapack_routines import TARGETS
from stablehlo_py.backends.cpu.objects import Unit
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.backends.gpu.driver.calls import COPY, Calls
from stablehlo_py.backends.gpu.driver.queue import HOST
from stablehlo_py.backends.gpu.kernels import lapack
from stablehlo_py.backends.gpu.kernels.base import fused_op
from stablehlo_py.backends.gpu.target import NVPTX64, GpuTarget
from stablehlo_py.codegen.builder import I8, I32, I64, PTR, Function, Value
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.dialect.alignment import aligned
from stablehlo_py.dialect.triton_calls import TARGETS as TRITON_CALLS
from stablehlo_py.dialect.types import tensor_bytes, text
from stablehlo_py.handlers import handler_of
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.entry import ENDED, FAILED, OK


@dataclass(frozen=True)
class Room:
    """Where an operand or a result lies in the host's memory: its first byte, and how many."""

    offset: int
    size: int


@dataclass(frozen=True)
class HostCall:
    """A fusion that runs on the host.

    Attributes:
        symbol: of the function that does all of it; target: of the custom call.
        kernel: the CPU's.
        operands, results: where they lie in the host's memory.
        shared, private: where the kernel's scratch memory begins. bytes: of all of this.
    """

    symbol: str
    target: str
    kernel: Kernel
    operands: tuple[Room, ...]
    results: tuple[Room, ...]
    shared: int
    private: int
    bytes: int

    def unit(self) -> Unit:
        """The code of the kernel."""
        kernel = self.kernel
        code = "\n".join((*kernel.functions.values(), *kernel.tables.values()))
        return Unit(tuple(kernel.functions), code, tuple(kernel.externals.items()))


def runs_there(function: ir.OpView, target: GpuTarget) -> bool:
    """Whether a fusion function is a call of the host: of a function that the GPU has no code for, but the host may."""
    op = fused_op(function)
    if op.name != "stablehlo.custom_call":
        return False
    name = text(op, "call_target_name")
    if name in TARGETS:
        return name not in lapack.targets()
    if name in custom_call.known_targets() or (name in TRITON_CALLS and target.architecture is NVPTX64):
        return False
    return handler_of(name) is not None


def emit(function: ir.OpView, host: CpuTarget) -> HostCall:
    """The call of a fusion function that `runs_there`, for the host. Raises UnsupportedError: the call is not as its
    target takes it."""
    fusion, kernel = Fusion.read(function), emit_kernel(function, host)
    assert not (kernel.loops or kernel.communicates or fusion.aliased)
    end, rooms = 0, list[Room]()
    for value in (*fusion.inputs, *fusion.outputs):
        rooms.append(Room(end, int(tensor_bytes(value))))
        end += aligned(rooms[-1].size)
    private = end + aligned(int(kernel.shared_bytes))
    size = private + aligned(int(kernel.private_bytes))
    count, target = len(fusion.inputs), text(fused_op(function), "call_target_name")
    operands, results = tuple(rooms[:count]), tuple(rooms[count:])
    return HostCall(f"{fusion.name}.host", target, kernel, operands, results, end, private, size)


def function_of(call: HostCall, calls: Calls, emitter: Callable[[], Emitter]) -> Function:
    """i32 symbol(caller, operands.., results..), addresses of the device: what the entry returns then, OK where it goes
    on. The host's memory is free when it returns, for the next call, and for who drops the program."""
    operands = [f"in{number}" for number in range(len(call.operands))]
    results = [f"out{number}" for number in range(len(call.results))]
    parameters = [("caller", PTR), *((name, PTR) for name in (*operands, *results))]
    f = Function(call.symbol, parameters, emitter(), result=I32, private=True)
    base = calls.field(f, HOST)

    def at(offset: int) -> Value:
        return f.gep(base, offset, I8)

    copies = zip([at(room.offset) for room in call.operands], map(f.parameters.__getitem__, operands), strict=True)
    _copy(f, list(copies), call.operands)
    f.ret_if(calls.is_failed(f), f.const(ENDED, I32))  # there may be nothing of the operands
    f.store(f.null(), calls.place(f, HOST))
    _run(f, call, at)
    f.store(base, calls.place(f, HOST))
    if call.kernel.may_fail:
        _leave_if_failed(f, at(call.shared))
    copies = zip(map(f.parameters.__getitem__, results), [at(room.offset) for room in call.results], strict=True)
    _copy(f, list(copies), call.results)
    f.ret(f.select(calls.is_failed(f), f.const(ENDED, I32), f.const(OK, I32)))
    return f


def _copy(f: Function, places: Sequence[tuple[Value, Value]], rooms: Sequence[Room]) -> None:
    """Copies to the first places from the second ones; the last one is waited for, and so are all."""
    moved = [(*pair, room.size) for pair, room in zip(places, rooms, strict=True) if room.size]
    for number, (target, source, size) in enumerate(moved, 1):
        waits = f.const(int(number == len(moved)), I32)
        f.call(COPY, [f.caller, target, source, f.const(size), waits])


def _run(f: Function, call: HostCall, at: Callable[[int], Value]) -> None:
    """The kernel, in this thread."""
    values = [at(room.offset) for room in (*call.operands, *call.results)]
    for phase in call.kernel.phases:
        if phase.iterations != 0:
            work = [at(call.shared), at(call.private), f.const(0), f.index(phase.iterations)]
            f.call(phase.symbol, [*values, *work], external=True)


def _leave_if_failed(f: Function, record: Value) -> None:
    """Return where the kernel has failed: a caller who asks is told where the record of that lies."""
    error = given(f, "error")
    left = _is_set(f, f.load(PTR, record))

    def leave() -> None:
        f.if_(_is_set(f, error), lambda: f.store(record, error))

    f.if_(left, leave, unlikely=True)
    f.ret_if(left, f.const(FAILED, I32))


def _is_set(f: Function, pointer: Value) -> Value:
    return f.cmp("ne", f.cast("ptrtoint", pointer, I64), f.const(0))
