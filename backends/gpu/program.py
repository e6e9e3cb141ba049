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
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.entry import ENDED

#: What `shlo_call.stream` points to: addresses and handles, and the first error, 0 as long as there is none.
FIELDS = ("queue", "kernels", "set_argument", "enqueue", "copy", "status")
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
    kernel = f.load(PTR, _field(f, "kernels"), f.kernel)
    set_argument = _field(f, "set_argument")

    def argument(i: Value) -> None:
        _checked(f, f.call_pointer(set_argument, [kernel, f.cast("trunc", i, I32), f.load(PTR, f.operands, i)], I32))

    f.loop(0, f.count, 1, argument)
    everything, block = f.alloca(1, I64), f.alloca(1, I64)
    f.store(f.all, everything)
    f.store(f.block, block)
    null, one, none = f.null(), f.const(1, I32), f.const(0, I32)
    operands = [_field(f, "queue"), kernel, one, null, everything, block, none, null, null]
    _checked(f, f.call_pointer(_field(f, "enqueue"), operands, I32))
    f.ret()
    return f


def _copy(emitter: Emitter) -> Function:
    """shlo_copy(caller, target, source, bytes, whether to wait for it)."""
    parameters = [("caller", PTR), ("target", PTR), ("source", PTR), ("bytes", I64), ("waits", I32)]
    f = Function(COPY, parameters, emitter, private=True)
    null = f.null()
    operands = [_field(f, "queue"), f.waits, f.target, f.source, f.bytes, f.const(0, I32), null, null]
    _checked(f, f.call_pointer(_field(f, "copy"), operands, I32))
    f.ret()
    return f


def _checked(f: Function, status: Value | None) -> None:
    """Keep the first error of the driver."""
    assert status is not None
    place = f.gep(given(f, "stream"), FIELDS.index("status"), I64)
    before = f.load(I64, place)
    f.store(f.select(f.cmp("eq", before, f.const(0)), f.cast("sext", status, I64), before), place)
