"""A program on a GPU, ready to be called."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

from stablehlo_py.backends.base import Code
from stablehlo_py.backends.cpu import helpers, host
from stablehlo_py.backends.cpu.code import require_host
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.signature import require_signature
from stablehlo_py.backends.cpu.symbols import bound
from stablehlo_py.backends.gpu.driver.device import Built, Device
from stablehlo_py.backends.gpu.driver.memory import GpuAllocation, GpuMemory
from stablehlo_py.backends.gpu.driver.queue import HOST, KERNELS, PLANS, STARTED, STATUS, Asked
from stablehlo_py.backends.gpu.libraries.choice import LibraryChoice
from stablehlo_py.backends.gpu.replay import Replay
from stablehlo_py.errors import LoadError, ResourceError, UnsupportedError
from stablehlo_py.runtime.buffer import Event
from stablehlo_py.runtime.callbacks import failure_of
from stablehlo_py.runtime.entry import FAILED, Call
from stablehlo_py.runtime.memory import Block, require
from stablehlo_py.runtime.memory_plan import arena_entries
from stablehlo_py.runtime.program import CompiledProgram

_LARGEST = 3  # values of the arena that a message names


class GpuCode(Code):
    """A program on a device. Calls are thread-safe: the host asks for one after the other, in the device's order.

    Raises:
        LoadError: the device does not take the code, or it is for another machine.
        ResourceError: there is no memory for a call.
    """

    def __init__(self, program: CompiledProgram, device: Device[Any, Any]) -> None:
        require_host(program, device.require(program.features))
        require_signature(program, devices=1 + len(program.modules))
        self._device = device
        self._queue = device.queue
        helpers.provide(program.helpers)
        symbols, self._bound = bound(program.symbols)
        self._native = NativeCode(program.objects[:1], symbols)
        self._built = self._build(program.objects[1]) if program.objects[1] else None
        self._symbols = program.kernels
        others = zip(program.modules, program.objects[2:], strict=True)
        self._modules = {symbol: self._build(binary) for symbol, binary in others}
        self._kernels = _table(map(self._handle, program.kernels))
        memory = device.memory
        self._arena = _arena(program, memory)
        self._held = []
        for constant in program.constants:
            self._held.append(memory.allocate(constant.nbytes))
            memory.write(constant, self._held[-1])
        self._constants = _table(each.address for each in self._held)
        self._choice = LibraryChoice(program.library_calls, self._queue)
        fields = self._queue.fields
        values = {KERNELS: self._kernels.buffer_info()[0], PLANS: self._choice.plans.buffer_info()[0]}
        values |= self._queue.native()
        require(program.host_bytes, "what runs on the host in a call of this model")
        self._host_bytes, self._host = program.host_bytes, Block(program.host_bytes)
        values[HOST] = self._host.address
        self._driver = _table(values.get(field, 0) for field in fields)
        self._status, self._started, self._host_at = map(fields.index, (STATUS, STARTED, HOST))
        self._inputs, self._outputs = (_table([0] * len(specs)) for specs in (program.inputs, program.outputs))
        self._error = _table([0])  # where the record of a call on the host that failed lies
        self._call = Call(
            ctypes.sizeof(Call),
            self._inputs.buffer_info()[0],
            self._outputs.buffer_info()[0],
            self._arena.address,
            self._constants.buffer_info()[0],
            stream=self._driver.buffer_info()[0],
            error=self._error.buffer_info()[0],
        )
        entry = self._native.address("shlo_main")
        self._interrupts = host.interrupts() if program.loops else None
        self._guarded = host.Guarded(entry, ctypes.addressof(self._call))
        # A library asks the driver by itself: what it asks for is not written down.
        has_graph = program.graphs and not any(self._choice.plans)
        self._replay = Replay(device, self._driver, self._kernels, program.accesses) if has_graph else None

    def _handle(self, symbol: str) -> int:
        """Of a kernel. Raises LoadError: there is none of this name."""
        built = self._modules.get(symbol, self._built)
        if built is None:
            raise LoadError(f"the program has no code of its kernel '{symbol}'", remedy="compile the model again")
        return built.kernel(symbol)

    def _build(self, binary: bytes) -> Built:
        """The kernels, on the device."""
        return self._device.build(binary)

    @property
    def memory(self) -> GpuMemory:
        """The device's."""
        return self._device.memory

    @property
    def is_lost(self) -> bool:
        """Whether the device has said that it is not there any more."""
        return self._queue.is_lost

    @property
    def choices(self) -> Sequence[str]:
        """What libraries compute."""
        return self._choice.texts

    @property
    def asked(self) -> Asked | None:
        """How native code calls it; None: it does not, as calls wait, or call functions on the host, or a graph is
        still to be made of them."""
        has_graph = self._replay is not None and self._replay.is_wanted
        replay = self._replay.native if self._replay is not None and has_graph else 0
        may_wait = not replay and (has_graph or self._interrupts is not None)
        if may_wait or self._host_bytes:
            return None
        call = self._call
        return Asked(self._native.address("shlo_main"), call.constants, call.workspace, call.stream, replay)

    def fail(self, status: int) -> None:
        """Raise what a status of a call says; who calls this holds the queue's lock."""
        started = self._driver[self._started]
        if started > len(self._symbols):
            self._queue.finish()  # a fault of the device comes first
            raise self._choice.failure(status, started - 1 - len(self._symbols))
        self._queue.check(status, f"a call, at kernel '{self._symbols[started - 1]}'," if started else "a call")

    def run(self, inputs: Sequence[int], outputs: Sequence[int]) -> Event | None:
        """One call."""
        queue = self._queue
        queue.library.require()  # before the lock, which another thread may have held when this process was forked
        with queue.lock, queue.current:
            if not self._driver[self._host_at]:
                raise UnsupportedError(
                    "a function that the executable calls has called it: it has memory for one call at a time",
                    remedy="let the function call another executable of the model",
                )
            self._inputs[: len(inputs)] = array.array("q", inputs)
            self._outputs[: len(outputs)] = array.array("q", outputs)
            if self._interrupts is not None:
                self._call.interrupt = self._interrupts.of_this_thread()
            status = self._replay.run(self._ask) if self._replay is not None else None
            if status is None:
                status = self._ask()
            if status:
                self.fail(status)
            return queue.last_event()

    def _ask(self) -> int:
        """Run the host's part. The driver's first error; 0: none. Raises what ended it: CallError, a call on the host
        failed."""
        self._driver[self._started] = 0
        returned, error = self._guarded.run()
        status, self._driver[self._status] = self._driver[self._status], 0
        if returned == FAILED:
            error = failure_of(self._error[0], error)
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback has this frame
        return status


def _table(numbers: Iterable[int]) -> array.array[int]:
    """64-bit numbers (pointers, handles) where native code finds them."""
    return array.array("q", numbers) or array.array("q", [0])


def _arena(program: CompiledProgram, memory: GpuMemory) -> GpuAllocation:
    """Memory for a call. Raises ResourceError: it is not to be had; what takes most of it is named."""
    try:
        return memory.allocate(program.arena_bytes)
    except ResourceError as error:
        try:
            entries = [str(entry) for entry in arena_entries(program, {})[:_LARGEST]]
        except ModuleNotFoundError:  # of MLIR, which reads the plan
            entries = []
        listed = f"; the largest: {'; '.join(entries)}" if entries else ""
        raise ResourceError(
            f"the intermediate values of a call take {program.arena_bytes} bytes at their peak: {error.reason}{listed}",
            remedy=error.remedy,
        ) from error
