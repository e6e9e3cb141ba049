"""The host's part of a program for a GPU: a native function that starts kernels and copies, one after another.

It knows a driver by a structure of functions and handles, `shlo_call.stream`; what calls them is native too
(driver/calls.py), so that no Python runs between kernels. Everything is asked for in order: what a kernel reads is
there when it begins. The host waits where it needs a number to decide, or operands of what runs there
(kernels/host_call.py), and nowhere else.

Where steps are written down (driver/recording.py), it decides nothing: it goes through all ways of a branch, and
through one trip of a loop of unknown length, and says where each of them begins and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from stablehlo_py.backends.common.loops import end_if_asked
from stablehlo_py.backends.common.program import ENTRY, NativeProgram, arena_bytes, step_name
from stablehlo_py.backends.cpu.objects import Unit, render
from stablehlo_py.backends.gpu.driver.calls import COPY, MARK, READ, Calls
from stablehlo_py.backends.gpu.driver.queue import PLANS
from stablehlo_py.backends.gpu.driver.recording import BODY, END
from stablehlo_py.backends.gpu.kernels import addresses, host_call
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, Launch, Module, modules_of
from stablehlo_py.backends.gpu.kernels.host_call import HostCall
from stablehlo_py.backends.gpu.kernels.whole_loop import WholeLoop
from stablehlo_py.backends.gpu.launches import KERNELS, native_host
from stablehlo_py.backends.gpu.libraries.calls import CALL_LIBRARY, bases, call_library
from stablehlo_py.backends.gpu.libraries.match import Matched
from stablehlo_py.backends.gpu.libraries.plan import BASES
from stablehlo_py.codegen.builder import I1, I8, I32, I64, PTR, Function, ScalarType, Value
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.dialect.alignment import aligned
from stablehlo_py.dialect.calls import functions_of
from stablehlo_py.dialect.memory import ARENA
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.trips import trip_count
from stablehlo_py.dialect.types import byte_size, element_type
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.entry import ENDED, OK
from stablehlo_py.runtime.library_calls import LibraryCall

WORKSPACE_ALIGNMENT = 256  # bytes, that libraries want


class GpuProgram(NativeProgram):
    """The entry of a scheduled module, `kernels` by the name of their fusion function.

    Args:
        loops: those that are kernels, by their first results.
        calls: how the driver is called.
        parameters: of a launch, at most.
        matched: what a library may compute, by the name of its fusion function.
        host_calls: what runs on the host, by the same names.

    Attributes:
        symbols: of the kernels, in the order of `kernels` in the driver's structure.
        arena_bytes: device memory for a call. host_bytes: of the host, for calls that run there.
        waits: whether the host reads what kernels compute, which cannot be written down.
    """

    def __init__(
        self,
        module: ir.Module,
        kernels: Mapping[str, GpuKernel],
        loops: Mapping[ir.Value, WholeLoop],
        emitter: Callable[[], Emitter],
        calls: Calls,
        parameters: int,
        matched: Mapping[str, Matched[LibraryCall]],
        host_calls: Mapping[str, HostCall],
    ) -> None:
        super().__init__(module, emitter, None)
        self._parameters = parameters
        self._loops, self._functions = loops, functions_of(module)
        self._calls = calls
        self.kernels = kernels
        self._matched, self._host_calls = matched, host_calls
        self.host_bytes = max((call.bytes for call in host_calls.values()), default=0)
        launched = (launch.symbol for kernel in kernels.values() for launch in kernel.launches)
        self.symbols = list(dict.fromkeys(launched))  # a kernel may start one of them several times
        self._numbers = {symbol: number for number, symbol in enumerate(self.symbols)}
        self.waits = False
        # Scalars that the host reads, and what it makes of them, by their names: the number of the one that was read,
        # and the body it was read in. Bodies: what branches and loops run, as they are written down.
        self._scalars: dict[str, tuple[int, int]] = {}
        self._scalar_count = self._body = self._body_count = 0
        self._places: dict[str, Value] = {}  # of operands, by function
        self._most_places = max((kernel.pointers for kernel in kernels.values()), default=0) + len(BASES)
        self.scratch_offset = aligned(int(arena_bytes(module)))
        scratch = max(map(self._scratch_bytes, kernels.values()), default=0)
        workspace = max((each.call.workspace_bytes for each in matched.values()), default=0)
        self._workspace_offset = -(-self.scratch_offset // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
        self.arena_bytes = max(self.scratch_offset + scratch, self._workspace_offset + workspace if workspace else 0)
        self.emit()

    @property
    def foreign(self) -> list[str]:
        """The kernels that another generator made."""
        return list(modules_of(self.kernels))

    def declared_text(self) -> str:
        """Text of the functions, and of what they call: what runs on the host, and declarations of all else."""
        own = Unit((ENTRY,), self.text(), tuple(self.externals().items()))
        return render([*self.host_units(), own])

    def host_units(self) -> list[Unit]:
        """The kernels that run on the host."""
        return [call.unit() for call in self._host_calls.values()]

    def native(self) -> str:
        """Text of the functions in the llvm dialect alone."""
        return native_host(self.text(), self.symbols, self.foreign, self.externals())

    def helpers(self) -> Sequence[Function]:
        """What calls the driver."""
        calling = [call_library(self._calls, self.emitter)] if self._matched else []
        calling += [host_call.function_of(call, self._calls, self.emitter) for call in self._host_calls.values()]
        return [*self._calls.functions(self.emitter), *calling]

    def may_end(self, op: ir.OpView | ir.Operation) -> bool:
        """What runs on the host may fail, and finds that the driver has."""
        return op.name == "func.call" and step_name(op) in self._host_calls

    def step_or_end(self, op: ir.OpView) -> None:
        """Run it there."""
        self.waits = True
        pointers = [self.pointer(value) for value in (*op.operands, *op.results)]
        status = self.f.call(self._host_calls[step_name(op)].symbol, [self.f.caller, *pointers], I32)
        self.f.ret_if(self.f.cmp("ne", status, self.f.const(OK, I32)), status)

    def start(self, f: Function, kernel: str, pointers: Sequence[Value], arena: Value) -> None:
        """Emit the launches of a kernel, or the call of the library that was chosen for it when the program was
        loaded."""
        if kernel not in self._matched:
            self._start(f, kernel, pointers, arena)
            return
        number = list(self._matched).index(kernel)
        plan = f.load(PTR, self._calls.field(f, PLANS), number)
        f.if_(
            f.is_null(plan),
            lambda: self._start(f, kernel, pointers, arena),
            lambda: self._call_library(f, kernel, [plan, f.const(len(self.symbols) + number)], pointers, arena),
        )

    def _call_library(
        self, f: Function, kernel: str, plan: Sequence[Value], pointers: Sequence[Value], arena: Value
    ) -> None:
        """What a library computes, and our kernels beside it."""
        matched = self._matched[kernel]
        if matched.in_place_bytes:
            self.copy(f, pointers[matched.target], pointers[0], matched.in_place_bytes)
        if matched.before:
            self._start(f, matched.before_name, pointers, arena, self._workspace_offset)
        places = self._operands(f)
        bases(self._calls, f, places, f.gep(arena, self._workspace_offset, I8), pointers)
        f.call(CALL_LIBRARY, [f.caller, *plan, places])
        if matched.behind:
            self._start(f, matched.behind_name, pointers, arena, self._workspace_offset)

    def _operands(self, f: Function) -> Value:
        """Where the driver and libraries find addresses."""
        if f.name not in self._places:
            self._places[f.name] = f.alloca(self._most_places, PTR)
        return self._places[f.name]

    def _start(
        self, f: Function, kernel: str, pointers: Sequence[Value], arena: Value, scratch: int | None = None
    ) -> None:
        """Emit the launches of a kernel, whose scratch memory is at that byte of the arena unless it is where that of
        all is."""
        launches = self.kernels[kernel].launches
        if not launches:
            return
        values = [*pointers, f.gep(arena, self.scratch_offset if scratch is None else scratch, I8)]
        if len(values) > self._parameters:
            table = f.gep(arena, self.scratch_offset + aligned(self.kernels[kernel].scratch_bytes), I8)
            self._write_table(f, table, values)
            self._reach(f, launches, values)
            values = [table]
        for launch in launches:
            module = self.kernels[kernel].module_of(launch)
            self._launch(f, launch, [*values, *[f.null()] * (module.unused_pointers if module else 0)], module)

    def _launch(self, f: Function, launch: Launch, operands: Sequence[Value], module: Module | None = None) -> None:
        kernel = f"@{launch.symbol if module else KERNELS}::@{launch.symbol}"
        f.launch(kernel, launch.blocks, launch.threads, operands, f.caller, launch.shared_bytes)

    def _reach(self, f: Function, launches: Sequence[Launch], addresses: Sequence[Value]) -> None:
        """Tell the driver what kernels find in their table."""
        places = self._operands(f)
        for position, value in enumerate(addresses):
            f.store(value, places, position)
        for launch in launches:
            self._calls.reach(f, self._numbers[launch.symbol], places, len(addresses))

    def _table_slots(self, kernel: GpuKernel) -> int:
        """Addresses in the table of a kernel that has one (kernels/addresses.py): whole launches of what writes it."""
        width = self._parameters - 1
        return -(-kernel.pointers // width) * width if kernel.pointers > self._parameters else 0

    def _scratch_bytes(self, kernel: GpuKernel) -> int:
        return aligned(kernel.scratch_bytes) + 8 * self._table_slots(kernel)

    def _write_table(self, f: Function, table: Value, values: Sequence[Value]) -> None:
        """Emit the launches that write addresses into a table."""
        (writer,), width = self.kernels[addresses.NAME].launches, self._parameters - 1
        padded = [*values, *[table] * (-len(values) % width)]
        for first in range(0, len(padded), width):
            self._launch(f, writer, [f.gep(table, first, I64), *padded[first : first + width]])

    def copy(self, f: Function, target: Value, source: Value, size: IntLike) -> None:
        """Emit a copy in the device's memory."""
        if size == 0:
            return
        f.call(COPY, [f.caller, target, source, f.index(size), f.const(0, I32)])

    def element(self, value: ir.Value) -> Value:
        """Wait for a scalar, and read it."""
        type_ = element_type(value)
        loaded = self._read(self.pointer(value), byte_size(type_))
        return self._is_not(loaded, I8) if type_.width == 1 else loaded

    def _read(self, source: Value, size: int) -> Value:
        """Wait for an integer of so many bytes, and read it."""
        f, stored = self.f, ScalarType(f"i{8 * size}", 8 * size)
        place = f.alloca(1, stored)
        f.store(f.const(0, stored), place)  # what it is where the driver has failed: nothing is left to chance
        if not self._calls.has_conditions:
            self.waits = True
            f.call(COPY, [f.caller, place, source, f.const(size), f.const(1, I32)])
            return f.load(stored, place)
        f.call(READ, [f.caller, place, source, f.const(size), f.const(self._scalar_count)])
        loaded = f.load(stored, place)
        self._scalars[loaded.ref] = self._scalar_count, self._body
        self._scalar_count += 1
        return loaded

    def _is_not(self, scalar: Value, type_: ScalarType) -> Value:
        """Whether a scalar is not 0."""
        return self._same(scalar, self.f.cmp("ne", scalar, self.f.const(0, type_)))

    def _same(self, scalar: Value, made: Value) -> Value:
        """What was made of a scalar, and says the same to branches."""
        if scalar.ref in self._scalars:
            self._scalars[made.ref] = self._scalars[scalar.ref]
        return made

    def index(self, scalar: Value, *, unsigned: bool) -> Value:
        """An i64. Of less than 0 it is greater than all numbers of branches, as it is for the device."""
        made = super().index(scalar, unsigned=unsigned)
        return made if scalar.type == I1 else self._same(scalar, made)

    def _number(self, scalar: Value) -> int | None:
        """Of a scalar that was read in the body which is emitted now; None: what depends on it is not written down."""
        number, body = self._scalars.get(scalar.ref, (0, -1))
        if body == self._body:
            return number
        self.waits = True
        return None

    @contextmanager
    def _inside(self, *, number: int, way: int = 0, ways: int = 1) -> Iterator[None]:
        """What is emitted is a body, which runs by a scalar of that number."""
        mark = (BODY, number, way, ways)
        self.f.call(MARK, [self.f.caller, *map(self.f.const, mark)])
        before, self._body_count = self._body, self._body_count + 1
        self._body = self._body_count
        yield
        self._body = before

    def _end(self) -> None:
        """The end of a body."""
        self.f.call(MARK, [self.f.caller, *map(self.f.const, (END, 0, 0, 0))])

    def _way(self, number: int, way: int, ways: int, is_taken: Value, block: Callable[[], None]) -> None:
        """One of the ways of a branch. All of them are written down."""

        def take() -> None:
            with self._inside(number=number, way=way, ways=ways):
                block()
            self._end()

        self.f.if_(self.f.binary("or", is_taken, self._calls.is_written_down(self.f)), take)

    def branch(self, condition: Value, then: Callable[[], None], otherwise: Callable[[], None] | None) -> None:
        """One block or the other."""
        number = self._number(condition)
        if number is None:
            super().branch(condition, then, otherwise)
            return
        self._way(number, 1, 2, condition, then)
        if otherwise is not None:
            self._way(number, 0, 2, self.f.cmp("eq", condition, self.f.const(0, I1)), otherwise)

    def _choose(self, selector: Value, cases: Sequence[tuple[int, ir.Region]], default: ir.Region) -> None:
        """One of several blocks: of cases from 0 on, and the default."""
        number, count = self._number(selector), len(cases)
        if number is None or not cases or [case for case, _ in cases] != list(range(count)):
            self.waits = self.waits or bool(cases)
            super()._choose(selector, cases, default)
            return
        for case, region in cases:
            emit = partial(self._block, region.blocks[0])
            self._way(number, case, count + 1, self.equal(selector, case), emit)
        is_default = self.f.cmp("uge", selector, self.f.const(count))
        self._way(number, count, count + 1, is_default, lambda: self._block(default.blocks[0]))

    def in_one(self, op: ir.OpView) -> bool:
        """A loop that is a kernel, or whose trips are counted."""
        whole = self._loops.get(op.results[0]) if len(op.results) else None
        trips = trip_count(op, self._functions)
        if whole is not None:
            self._start_loop(whole)
        elif trips is not None:
            self.f.loop(0, trips, 1, lambda _: self._trip(lambda: self._block(op.regions[1].blocks[0])))
        else:
            return False
        return True

    def _start_loop(self, whole: WholeLoop) -> None:
        """Launch the kernel of a loop until it has ended."""
        pointers = [
            self.arena if space == ARENA else self.f.load(PTR, self.tables[space], number)
            for space, number in whole.buffers
        ]

        def start() -> Value:
            self.start(self.f, whole.name, pointers, self.arena)
            goes_on = self._read(self.f.gep(self.arena, self.scratch_offset, I8), I32.bits // 8)
            return self._is_not(goes_on, I32)

        if whole.ends:
            self.start(self.f, whole.name, pointers, self.arena)
        else:
            self.loop(start, lambda: None)

    def loop(self, condition: Callable[[], Value], body: Callable[[], None]) -> None:
        """A native loop, which ends the program where that is asked for, or the driver has failed. One trip is written
        down, and the condition before it and at its end."""
        f, first = self.f, self._scalar_count
        number: int | None = None

        def goes_on(trips: Value) -> Value:
            nonlocal number
            value = condition()
            number = self._number(value)
            if number is not None and number < first:  # the body does not read it again
                self.waits, number = True, None
            if number is None:
                return value
            return f.select(self._calls.is_written_down(f), f.cmp("eq", trips, f.const(0)), value)

        def trip(trips: Value) -> list[Value]:
            if number is None:
                self._trip(body)
            else:
                with self._inside(number=number):
                    self._trip(body)
            return [f.index(f.iadd(trips, 1))]

        f.while_([f.const(0)], goes_on, trip)
        if number is not None:
            self._end()

    def _trip(self, body: Callable[[], None]) -> None:
        body()
        end_if_asked(self.f, self.interrupt(), self.f.const(ENDED, I32))
        self.f.ret_if(self._calls.is_failed(self.f), self.f.const(ENDED, I32))
