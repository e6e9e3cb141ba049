"""A CPU program in this process: its machine code, and the memory that calls of it need."""

from __future__ import annotations

import array
import ctypes
import struct
from collections.abc import Callable, Sequence

from stablehlo_py.backends.base import Code
from stablehlo_py.backends.cpu import features as cpu_features
from stablehlo_py.backends.cpu import helpers, host, layout
from stablehlo_py.backends.cpu.dispatch import FastCall, fast_call
from stablehlo_py.backends.cpu.grid_memory import GridMemory
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.signature import require_signature
from stablehlo_py.backends.cpu.symbols import bound
from stablehlo_py.backends.cpu.threads import ThreadPool, parallel_for, pool_for
from stablehlo_py.errors import LoadError, elided
from stablehlo_py.runtime import program as programs
from stablehlo_py.runtime.arguments import aligned_copy
from stablehlo_py.runtime.callbacks import failure_of
from stablehlo_py.runtime.entry import FAILED, Call, Entry
from stablehlo_py.runtime.memory import ArrayMemory, Block, Layouts, address_of, require
from stablehlo_py.runtime.program import CompiledProgram

# shlo_main and shlo_sizes (include/shlo_call.h).
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_SIZES = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


LEAST_ARENA = 64


class Frame:
    """What one call needs for itself: the arena, the tables of pointers, and the call that names them."""

    __slots__ = ("address", "arena", "call", "error", "guarded", "inputs", "outputs")

    def __init__(self, arena_bytes: int, inputs: int, outputs: int, constants: int, pool: ThreadPool | None) -> None:
        self.arena = Block(arena_bytes)
        self.inputs, inputs_address = _table([0] * (inputs + 1))  # one for the process of a grid
        self.outputs, outputs_address = _table([0] * max(1, outputs))
        self.error, error_address = _table([0])
        size = ctypes.sizeof(Call)
        self.call = Call(size, inputs_address, outputs_address, self.arena.address, constants, error=error_address)
        if pool is not None:
            self.call.parallel_for, self.call.parallel_context = parallel_for(), pool.address
        self.address = ctypes.addressof(self.call)
        self.guarded: host.Guarded | None = None


def _table(numbers: Sequence[int]) -> tuple[array.array[int], int]:
    """64-bit numbers (pointers, sizes) where native code finds them, and their address."""
    table = array.array("q", numbers)
    return table, table.buffer_info()[0]


class CpuCode(Code):
    """The machine code of a program. Frames of calls that have ended serve later ones.

    Raises:
        LoadError: the code is for another machine, for another description, or calls what this process does not have.
        ResourceError: a call needs more memory than there is.
    """

    def __init__(self, program: CompiledProgram) -> None:
        require_host(program, program.features)
        require_signature(program)
        require(program.arena_bytes, "a call of this model")
        self._program = program
        self._pool: ThreadPool | None = None
        helpers.provide(program.helpers)
        alone = program.grid is None or program.grid.processes == 1  # several processes are threads themselves
        if program.uses_pool and program.threads > 1 and alone:
            self._pool = pool_for(program.threads)
        symbols, self._bound = bound(program.symbols)
        if program.grid:
            symbols |= helpers.code(helpers.GRID).symbols
        self._code = NativeCode(program.objects, symbols)
        self._entry_address = self._code.address("shlo_main")
        self._entry = _ENTRY(self._entry_address)
        self._calls_python = bool(program.grid and program.grid.ports) or any(
            isinstance(owner, host.Closure) for owner in self._bound
        )
        self._guarded = program.loops or self._calls_python
        # Where calls of one thread find the block that may end their loops; processes of a grid have their own.
        self._interrupts = host.interrupts() if program.loops else None
        if program.dynamic is not None:
            self._layout = program.dynamic
            self._fill = _SIZES(self._code.address("shlo_sizes"))
            self._sizes = [0] * (program.dynamic.slots + 1)
        # The copies take the place of the module's own arrays, which would keep the whole module alive.
        program.constants = self._constants = [aligned_copy(array) for array in program.constants]
        pointers = [address_of(array) for array in self._constants]
        self._constant_table, self._constants_address = _table(pointers or [0])
        self._frames: dict[int, Frame] = {}
        self._free: list[int] = []  # their addresses, of those that no call has
        self._arena_bytes = max(LEAST_ARENA, program.arena_bytes)
        self._write_inputs = struct.Struct(f"{len(program.inputs)}q").pack_into
        self._write_outputs = struct.Struct(f"{len(program.outputs)}q").pack_into

    @property
    def entry(self) -> Entry:
        """The program's C function."""
        if self._program.dynamic is None:
            return Entry(self._entry_address, self._program.arena_bytes, self._constants_address)
        sizes, layout = self._code.address("shlo_sizes"), self._layout
        known = layout.arena_bytes if layout.arena_bytes >= 0 else None
        slot = -1 - layout.arena_bytes if known is None else 0
        return Entry(self._entry_address, known, self._constants_address, sizes, layout.slots + 1, slot)

    @property
    def calls_python(self) -> bool:
        """Whether it calls functions of Python."""
        return self._calls_python

    def run(self, inputs: Sequence[int], outputs: Sequence[int], table: Sequence[int] | None = None) -> None:
        """One call. Raises CallError, ResourceError, and what the handler of a signal raises in a loop."""
        if table is None:
            frame = self._frame(self._arena_bytes)
        else:
            assert isinstance(table, array.array)
            frame = self._frame(max(LEAST_ARENA, self._layout.number(table, self._layout.arena_bytes)))
            frame.call.sizes = table.buffer_info()[0]
        if self._interrupts is not None:
            frame.call.interrupt = self._interrupts.of_this_thread()
        self._call(frame, inputs, outputs)

    def fast_call(self, inputs: Layouts, outputs: Layouts, memory: ArrayMemory) -> FastCall | None:
        """A function that does all of a call in native code, where that can be."""
        if helpers.FASTCALL not in self._program.helpers or self._calls_python:
            return None
        addresses = {
            layout.PROGRAM: self._entry_address,
            layout.POOL: 0 if self._pool is None else self._pool.address,
            layout.SIGNALS: 0 if self._interrupts is None else self._interrupts.address,
        }
        return fast_call(inputs, outputs, dict(self._program.donations), memory, self._free, addresses)

    # --- dynamic dimensions -------------------------------------------------------------------------------------------

    def sizes(self, symbols: Sequence[int]) -> array.array[int]:
        """The table of a call. Raises OverflowError."""
        given, table = array.array("q", symbols), array.array("q", self._sizes)
        self._fill(given.buffer_info()[0], table.buffer_info()[0])
        return table

    # --- grids --------------------------------------------------------------------------------------------------------

    def grid(self, transfer: Callable[[int, int, int], None], random_keys: Sequence[int]) -> GridMemory:
        """Memory of one call as a grid."""
        plan = self._program.grid
        assert plan is not None

        def enter(process: int, interrupt: int, inputs: Sequence[int], outputs: Sequence[int]) -> None:
            frame = self._frame(self._arena_bytes)
            if plan.communicates:
                frame.inputs[len(inputs)] = process
            frame.call.interrupt = interrupt
            self._call(frame, inputs, outputs)

        return GridMemory(plan, enter, transfer, random_keys)

    # --- a call -------------------------------------------------------------------------------------------------------

    def _frame(self, size: int) -> Frame:
        """A frame, with an arena of that size: of an earlier call where it is large enough."""
        try:
            frame = self._frames[self._free.pop()]
        except IndexError:
            frame = None
        if frame is None or frame.arena.size < size:
            if frame is not None:
                del self._frames[frame.address]
            if self._program.dynamic is not None:
                require(size, "a call of this model with these shapes")
            counts = len(self._program.inputs), len(self._program.outputs)
            frame = Frame(size, *counts, self._constants_address, self._pool)
            if self._guarded:
                frame.guarded = host.Guarded(self._entry_address, frame.address)
            self._frames[frame.address] = frame
        return frame

    def _call(self, frame: Frame, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self._write_inputs(frame.inputs, 0, *inputs)
        self._write_outputs(frame.outputs, 0, *outputs)
        if self._pool is not None:
            self._pool.start()
        status, error = (self._entry(frame.address), None) if frame.guarded is None else frame.guarded.run()
        if status == FAILED:
            error = failure_of(frame.error[0], error)  # its record lies in the frame
        self._free.append(frame.address)
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback has this frame


def require_host(program: CompiledProgram, features: Sequence[str]) -> None:
    """Refuse what this machine cannot run, before it dies of an illegal instruction. `features` are those that the
    code for the CPU needs. Raises LoadError."""
    if program.machine != programs.this_machine():
        raise LoadError(
            f"this program was compiled for {program.machine}, this machine is {programs.this_machine()}",
            remedy="compile the model on the machine that runs it",
        )
    missing = cpu_features.missing_features(features)
    if missing and cpu_features.is_refused(missing):
        raise LoadError(
            "this program uses AMX, which the system does not let this process use",
            remedy="load it before threads get alternate signal stacks, or compile it with Options(cpu='avx512bf16')",
        )
    if missing:
        raise LoadError(
            f"this program was compiled for the CPU '{program.target}'; this one lacks {elided(missing)}",
            remedy="compile the model here, or with Options(cpu=...) set to a CPU that every machine has",
        )
