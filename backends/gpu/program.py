"""The host's part of a program for a GPU: a native function that starts kernels and copies, one after another.

It knows a driver by a structure, `shlo_call.stream`, of functions and handles (`FIELDS`); what calls them is written
here too, a function for each driver, so that no Python runs between kernels. Everything is asked for in order: what a
kernel reads is there when it begins. The host waits where it needs a number to decide, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stablehlo_py.backends.common.loops import end_if_asked
from stablehlo_py.backends.common.program import NativeProgram, arena_bytes, given
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.codegen.builder import I8, I32, I64, PTR, Function, ScalarType, Value
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.dialect.memory import aligned
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import byte_size, element_type
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.entry import ENDED

#: What `shlo_call.stream` points to: addresses and handles, and the first error, 0 as long as there is none. `last` is
#: the address of the event of the last command (`Queue.last`), which every command waits for and takes the place of.
FIELDS = ("queue", "kernels", "last", "set_argument", "enqueue", "copy", "release", "status")
LAUNCH, COPY = "shlo_launch", "shlo_copy"
MOST_OPERANDS = 512


class GpuProgram(NativeProgram):
    """The entry of a scheduled module, `kernels` by the name of their fusion function.

    Attributes:
        symbols: of the kernels, in the order of `kernels` in the driver's structure.
        arena_bytes: device memory for a call.
    """

    def __init__(self, module: ir.Module, kernels: Mapping[str, GpuKernel], emitter: Callable[[], Emitter]) -> None:
        super().__init__(module, emitter, None)
        self.kernels = kernels
        self.symbols = [launch.symbol for kernel in kernels.values() for launch in kernel.launches]
        self._numbers = {symbol: number for number, symbol in enumerate(self.symbols)}
        self._places: dict[str, Value] = {}  # of operands, by function
        self.scratch_offset = aligned(int(arena_bytes(module)))
        self.arena_bytes = self.scratch_offset + max((kernel.scratch_bytes for kernel in kernels.values()), default=0)
        self.emit()

    def helpers(self) -> Sequence[Function]:
        """What calls the driver."""
        return [_launch(self.emitter()), _copy(self.emitter())]

    def start(self, f: Function, kernel: str, pointers: Sequence[Value], arena: Value) -> None:
        """Emit the launches of a kernel."""
        launches = self.kernels[kernel].launches
        if not launches:
            return
        values = [*pointers, f.gep(arena, self.scratch_offset, I8)]
        if len(values) > MOST_OPERANDS:
            raise UnsupportedError(f"a kernel takes {len(values)} buffers, and a device {MOST_OPERANDS} at most")
        if f.name not in self._places:
            self._places[f.name] = f.alloca(MOST_OPERANDS, PTR)
        for position, value in enumerate(values):
            f.store(value, self._places[f.name], position)
        for launch in launches:
            numbers = (self._numbers[launch.symbol], launch.blocks * launch.threads, launch.threads, len(values))
            f.call(LAUNCH, [f.caller, self._places[f.name], *map(f.const, numbers)])

    def copy(self, f: Function, target: Value, source: Value, size: IntLike) -> None:
        """Emit a copy in the device's memory."""
        f.call(COPY, [f.caller, target, source, f.index(size), f.const(0, I32)])

    def element(self, value: ir.Value) -> Value:
        """Wait for a scalar, and read it."""
        type_, f = element_type(value), self.f
        size = byte_size(type_)
        stored = ScalarType(f"i{8 * size}", 8 * size)
        place = f.alloca(1, stored)
        f.store(f.const(0, stored), place)  # what it is where the driver has failed: nothing is left to chance
        f.call(COPY, [f.caller, place, self.pointer(value), f.const(size), f.const(1, I32)])
        loaded = f.load(stored, place)
        return f.cmp("ne", loaded, f.const(0, I8)) if type_.width == 1 else loaded

    def loop(self, condition: Callable[[], Value], body: Callable[[], None]) -> None:
        """A native loop, which ends the program where that is asked for, or the driver has failed."""
        f = self.f

        def trip() -> list[Value]:
            body()
            end_if_asked(f, self.interrupt(), f.const(ENDED, I32))
            f.ret_if(f.cmp("ne", _field(f, "status", I64), f.const(0)), f.const(ENDED, I32))
            return []

        f.while_([], condition, trip)


# --- the driver: OpenCL ----------------------------------------------------------------------------------------------


def _field(f: Function, name: str, type_: ScalarType = PTR) -> Value:
    """A field of the driver's structure."""
    return f.load(type_, f.gep(given(f, "stream"), FIELDS.index(name), I64))


def _launch(emitter: Emitter) -> Function:
    """shlo_launch(caller, operands, kernel, threads of all blocks, threads of a block, number of operands)."""
    parameters = [("caller", PTR), ("operands", PTR), ("kernel", I64), ("all", I64), ("block", I64), ("count", I64)]
    f = Function(LAUNCH, parameters, emitter, private=True)
    _end_if_failed(f)
    kernel = f.load(PTR, _field(f, "kernels"), f.kernel)
    set_argument = _field(f, "set_argument")

    def argument(i: Value) -> None:
        _checked(f, f.call_pointer(set_argument, [kernel, f.cast("trunc", i, I32), f.load(PTR, f.operands, i)], I32))

    f.loop(0, f.count, 1, argument)
    _end_if_failed(f)  # the arguments may be those of another launch
    everything, block = f.alloca(1, I64), f.alloca(1, I64)
    f.store(f.all, everything)
    f.store(f.block, block)
    null = f.null()
    _enqueue(f, "enqueue", [_field(f, "queue"), kernel, f.const(1, I32), null, everything, block])
    f.ret()
    return f


def _copy(emitter: Emitter) -> Function:
    """shlo_copy(caller, target, source, bytes, whether to wait for it)."""
    parameters = [("caller", PTR), ("target", PTR), ("source", PTR), ("bytes", I64), ("waits", I32)]
    f = Function(COPY, parameters, emitter, private=True)
    _end_if_failed(f)
    _enqueue(f, "copy", [_field(f, "queue"), f.waits, f.target, f.source, f.bytes])
    f.ret()
    return f


def _end_if_failed(f: Function) -> None:
    """Return where the driver has failed: what comes after would work on what is not there."""
    f.ret_if(f.cmp("ne", _field(f, "status", I64), f.const(0)))


def _enqueue(f: Function, function: str, operands: Sequence[Value]) -> None:
    """Ask for a command behind the last one. The queue is in order, so it waits for nothing new; but one that waits for
    a command that failed fails itself (OpenCL 3.0, 5.11), and a device need not stop for that by itself."""
    last, made = _field(f, "last"), f.alloca(1, PTR)
    before = f.load(PTR, last)
    f.store(f.null(), made)
    is_first = f.is_null(before)
    events = [f.select(is_first, f.const(0, I32), f.const(1, I32)), f.select(is_first, f.null(), last), made]
    _checked(f, f.call_pointer(_field(f, function), [*operands, *events], I32))
    f.ret_if(f.is_null(f.load(PTR, made)))  # one that was waited for may have failed, and have an event
    f.store(f.load(PTR, made), last)
    f.ret_if(is_first)
    f.call_pointer(_field(f, "release"), [before], I32)


def _checked(f: Function, status: Value | None) -> None:
    """Keep the first error of the driver."""
    assert status is not None
    place = f.gep(given(f, "stream"), FIELDS.index("status"), I64)
    before = f.load(I64, place)
    f.store(f.select(f.cmp("eq", before, f.const(0)), f.cast("sext", status, I64), before), place)
