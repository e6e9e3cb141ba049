"""The program: one native entry function that runs the kernels of a scheduled module in order.

    int shlo_main(const shlo_call *call)

The structure, and what is returned, are those of include/shlo_call.h; a program of a grid has its process as one more
input.

Every value is a slice that buffer assignment chose, so an operand is a pointer and a constant offset. `scf` loops and
branches become branches; nothing is interpreted. A phase worth more than one thread is handed to the pool, everything
else is a direct call.

A kernel that is called in many places (the layers of a transformer) is called through a function of its own, which
reads where the operands lie from a row of a constant table. So a call has three arguments, whatever the kernel takes,
and a sequence of kernels that repeats (those layers) becomes a loop over rows.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stablehlo_py.backends.cpu import grid
from stablehlo_py.backends.cpu.interrupt import end_if_asked
from stablehlo_py.backends.cpu.kernels.base import Kernel, Phase
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I8, I32, I64, PTR, Function, ScalarType, Value
from stablehlo_py.codegen.size_table import SizeTable
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.dialect.attributes import ARENA_BYTES
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.memory import ARENA, CONSTANT, INPUT, OUTPUT, Slice, aligned, slices_of
from stablehlo_py.dialect.size import is_known, largest, maximum, minimum
from stablehlo_py.dialect.types import byte_size, element_type, i64s, is_tensor, user_location
from stablehlo_py.errors import InternalError, UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.entry import ENDED, FAILED, OFFSETS, OK, OLD_CALL, Call

ENTRY = "shlo_main"
CHUNKS_PER_THREAD = 4
# LLVM takes as long for a function that reads the table as for about this many calls with a dozen operands.
TABLED_CALLS = 4
WORTH_LOOP = 3  # steps spared
MOST_OPERANDS = 512
TABLE, PARALLEL = "shlo_places", "shlo_parallel"


@dataclass
class Program:
    """The emitted entry function and its helpers, and how much memory a call needs beyond the planned arena.

    `table` has rows of two numbers for every operand of a call: the byte at which the array of all buffers has the
    address of its buffer, and its offset in that. `sites` are the ops that communicate, for messages.
    """

    functions: list[Function] = field(default_factory=list)
    table: list[int] = field(default_factory=list)
    arena_bytes: int = 0
    shared_offset: int = 0
    private_offset: int = 0
    private_bytes: int = 0
    uses_pool: bool = False
    loops: bool = False
    sites: list[str] = field(default_factory=list)

    def text(self) -> str:
        """llvm-dialect text of the functions and the table."""
        table = [constant_table(TABLE, np.array(self.table), I64)] if self.table else []
        return "\n".join([*table, *(function.text() for function in self.functions)])

    def externals(self) -> dict[str, str]:
        """What the functions call elsewhere: name -> declaration."""
        return {name: text for function in self.functions for name, text in function.externals.items()}


def arena_bytes(module: ir.Module) -> int:
    """Bytes of the planned arena of a scheduled module, a Size where dimensions are dynamic."""
    attribute = module.operation.attributes[ARENA_BYTES]
    return i64s(module.operation, ARENA_BYTES)[0] if isinstance(attribute, ir.StringAttr) else attribute.value


def emit_program(
    module: ir.Module,
    kernels: Mapping[str, Kernel],
    target: CpuTarget,
    threads: int,
    sizes: SizeTable | None = None,
) -> Program:
    """Emit the entry function of a scheduled module; `kernels` by the name of their fusion function. With a table of
    sizes, its address comes behind the inputs."""
    return _Emitter(module, kernels, target, threads, sizes).emit()


class _Emitter:
    def __init__(
        self,
        module: ir.Module,
        kernels: Mapping[str, Kernel],
        target: CpuTarget,
        threads: int,
        sizes: SizeTable | None,
    ) -> None:
        self.kernels = kernels
        self.target = target
        self.threads = threads
        self.program = Program()
        self.main = main_function(module)
        shared = largest(kernel.shared_bytes for kernel in kernels.values())
        private = aligned(largest(kernel.private_bytes for kernel in kernels.values()))
        planned = aligned(arena_bytes(module))
        self.program.shared_offset = planned
        self.program.private_offset = planned + aligned(shared)
        self.program.private_bytes = private
        self.program.arena_bytes = self.program.private_offset + private * threads
        self.f = Function(ENTRY, [("caller", PTR)], target.emitter(), result=I32)
        size = self.f.load(I64, self._place("size"))
        self.f.ret_if(self.f.cmp("ult", size, self.f.const(ctypes.sizeof(Call))), self.f.const(OLD_CALL, I32))
        self.arena = self._given("workspace")
        self.tables = {INPUT: self._given("inputs"), OUTPUT: self._given("outputs"), CONSTANT: self._given("constants")}
        self.sizes: list[Value] = []  # the table's address, in a program with dynamic dimensions
        if sizes is not None:
            address = self._given("sizes")
            self.f.sizes, self.sizes = (sizes, address), [address]
        self.slices: dict[ir.Value, Slice] = {}
        self.scalars: dict[ir.Value, Value] = {}
        self.tasks: dict[str, Function] = {}  # by phase
        self.counts: Counter[str] = Counter()  # of steps, by name
        self.tabled: dict[str, Function] = {}  # by name of the step
        self.positions: dict[tuple[int, int], int] = {}  # of buffers in the array of all
        self.bases = self.f.null()  # the array of all buffers' addresses, where there is one
        self.contexts: dict[str, Value] = {}  # by function

    def emit(self) -> Program:
        block = self.main.regions[0].blocks[0]
        for number, argument in enumerate(block.arguments):
            self.slices[argument] = Slice(INPUT, number, 0, 0)
        self._survey()
        self._block(block)
        self.f.ret(self.f.const(OK, I32))
        self.program.uses_pool = bool(self.tasks)
        helpers = [_parallel_function(self.target)] if self.tasks else []
        self.program.functions = [*helpers, *self.tasks.values(), *self.tabled.values(), self.f]
        return self.program

    def _place(self, field: str) -> Value:
        """The address of a field of the call."""
        return self.f.gep(self.f.caller, OFFSETS[field], I8)

    def _given(self, field: str) -> Value:
        return self.f.load(PTR, self._place(field))

    def _survey(self) -> None:
        """Count the calls of each kernel and number the buffers; the arena comes first."""
        used = {place.buffer for place in self.slices.values()}

        def visit(op: ir.Operation) -> ir.WalkResult:
            if _HANDLERS.get(op.name) is _Emitter._step and not self._stops(op):
                self.counts[step_name(op)] += 1
            used.update(place.buffer for place in slices_of(op))
            return ir.WalkResult.ADVANCE

        self.main.operation.walk(visit)
        if self.sizes or all(count < TABLED_CALLS for count in self.counts.values()):
            self.counts.clear()  # offsets that are known at run time are not in a constant table
            return
        self.positions[ARENA, 0] = 0
        for space in (INPUT, OUTPUT, CONSTANT):
            start, count = len(self.positions), max((number + 1 for of, number in used if of == space), default=0)
            self.positions |= {(space, number): start + number for number in range(count)}
        self._gather_bases()

    def _gather_bases(self) -> None:
        """Copy the addresses of all buffers into one array."""
        f = self.f
        self.bases = f.alloca(len(self.positions), PTR)
        f.store(self.arena, self.bases)
        for space, table in self.tables.items():
            count = sum(of == space for of, _ in self.positions)
            if count:
                f.copy_memory(f.gep(self.bases, self.positions[space, 0], PTR), table, 8 * count)

    # --- values ------------------------------------------------------------------------------------------------------

    def pointer(self, value: ir.Value) -> Value:
        """The address of a tensor value."""
        place, f = self.slices[value], self.f
        if place.space == ARENA:
            return f.gep(self.arena, place.offset, I8)
        # Loaded anew for every use: values that live across calls make work for the register allocator.
        return f.gep(f.load(PTR, self.tables[place.space], place.number), place.offset, I8)

    def _record(self, op: ir.OpView) -> None:
        places = slices_of(op)
        if not places:
            raise InternalError(f"'{op.operation.name}' has no slice", location=user_location(op.location))
        self.slices.update(zip(op.results, places, strict=True))

    # --- ops ---------------------------------------------------------------------------------------------------------

    def _block(self, block: ir.Block) -> None:
        steps: list[ir.OpView] = []  # kernels and copies that nothing separates
        for op in block.operations:
            handler = _HANDLERS.get(op.operation.name)
            if handler is None:
                raise UnsupportedError(
                    f"the CPU program has no code for '{op.operation.name}'",
                    op=op.operation.name,
                    location=user_location(op.location),
                )
            if any(is_tensor(result) for result in op.operation.results):
                self._record(op)
            if handler is _Emitter._step and not self._stops(op):
                if not self._stays(op):
                    steps.append(op)
            elif handler is not _Emitter._nothing:
                self._steps(steps)
                steps = []
                if handler is _Emitter._step:
                    self._step_or_return(op)
                else:
                    handler(self, op)
        self._steps(steps)

    def _stays(self, op: ir.OpView) -> bool:
        """A copy of a value to where it is."""
        if op.operation.name != "hlo.copy":
            return False
        source, target = self.slices[op.operands[0]], self.slices[op.results[0]]
        return (source.buffer, source.offset) == (target.buffer, target.offset)

    def _nothing(self, op: ir.OpView) -> None:
        """Constants, views and terminators need no code: their slices say all."""

    def _extract(self, op: ir.OpView) -> None:
        type_ = element_type(op.operands[0])
        stored = ScalarType(f"i{8 * byte_size(type_)}", 8 * byte_size(type_))
        loaded = self.f.load(stored, self.pointer(op.operands[0]))
        if type_.width == 1:
            loaded = self.f.cmp("ne", loaded, self.f.const(0, I8))
        self.scalars[op.results[0]] = loaded

    def _index_cast(self, op: ir.OpView) -> None:
        source = self.scalars[op.operands[0]]
        unsigned = op.operation.name == "arith.index_castui"
        self.scalars[op.results[0]] = self.f.cast("zext" if unsigned else "sext", source, I64)

    def _while(self, op: ir.OpView) -> None:
        before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
        carried = [self.slices[result] for result in op.results]
        for argument, place in zip(before.arguments, carried, strict=True):
            self.slices[argument] = place
        for argument, place in zip(after.arguments, carried, strict=True):
            self.slices[argument] = place

        def condition() -> Value:
            self._block(before)
            terminator = before.operations[len(before.operations) - 1]
            return self.scalars[terminator.operands[0]]

        def body() -> list[Value]:
            self._block(after)
            end_if_asked(self.f, self._interrupt(), self.f.const(ENDED, I32))
            return []

        self.f.while_([], condition, body)

    def _if(self, op: ir.OpView) -> None:
        branches = [lambda region=region: self._block(region.blocks[0]) for region in op.regions if len(region.blocks)]
        self.f.if_(self.scalars[op.operands[0]], branches[0], branches[1] if len(branches) > 1 else None)

    def _switch(self, op: ir.OpView) -> None:
        # Region 0 is the default; case i is region i + 1.
        cases = tuple(op.attributes["cases"])
        default, *others = op.regions
        self._choose(self.scalars[op.operands[0]], list(zip(cases, others, strict=True)), default)

    def _choose(self, selector: Value, cases: Sequence[tuple[int, ir.Region]], default: ir.Region) -> None:
        if not cases:
            self._block(default.blocks[0])
            return
        (number, region), *others = cases
        hit = self.f.cmp("eq", selector, self.f.const(number))
        self.f.if_(hit, lambda: self._block(region.blocks[0]), lambda: self._choose(selector, others, default))

    def _steps(self, ops: Sequence[ir.OpView]) -> None:
        for tabled, group in itertools.groupby(ops, lambda op: self.counts[step_name(op)] >= TABLED_CALLS):
            if tabled:
                self._rows(list(group))
                continue
            for op in group:
                self._step(op)

    def _stops(self, op: ir.OpView | ir.Operation) -> bool:
        """May the program have to end after this step?"""
        if op.operation.name != "func.call":
            return False
        kernel = self.kernels[op.attributes["callee"].value]
        return bool(kernel.communicates or kernel.may_fail or kernel.loops)

    def _step_or_return(self, op: ir.OpView) -> None:
        """Run a kernel. Where it fails, or is ended, return: its results are worth nothing, and a loop over them may
        never end."""
        kernel, f = self.kernels[op.attributes["callee"].value], self.f
        if kernel.communicates:
            self._communicate(op)
            return
        record = f.gep(self.arena, self.program.shared_offset, I8)
        if kernel.loops:
            f.store(self._interrupt(), record)
        self._step(op)
        left = f.cmp("ne", f.cast("ptrtoint", f.load(PTR, record), I64), f.const(0))
        if kernel.may_fail:
            f.if_(left, lambda: f.store(record, self._given("error")), unlikely=True)
        f.ret_if(left, f.const(FAILED if kernel.may_fail else ENDED, I32))

    def _interrupt(self) -> Value:
        """The address of the block that may end loops (interrupt.py)."""
        self.program.loops = True
        return self._given("interrupt")

    def _record_of_process(self) -> Value:
        arguments = self.main.regions[0].blocks[0].arguments
        return grid.read(self.f, self.pointer(arguments[len(arguments) - 1]), grid.RECORD, PTR)

    def _communicate(self, op: ir.OpView) -> None:
        """Say where this process is; run the kernel; return where the grid has failed."""
        f, record = self.f, self._record_of_process()
        f.store(f.const(len(self.program.sites)), grid.field(f, record, grid.SITE))
        name = self.kernels[op.attributes["callee"].value].communicates
        self.program.sites.append(f"'{name}' at {user_location(op.location) or 'an unknown place'}")
        self._step(op)
        f.ret_if(grid.has_failed(f, grid.read(f, record, grid.HEADER, PTR)), f.const(ENDED, I32))

    def _step(self, op: ir.OpView) -> None:
        """A kernel or a copy, its operands' addresses as arguments."""
        if op.operation.name == "hlo.copy":
            size = self.slices[op.results[0]].size
            self.f.copy_memory(self.pointer(op.results[0]), self.pointer(op.operands[0]), size)
            return
        pointers = [self.pointer(value) for value in (*op.operands, *op.results)]
        self._phases(self.f, self.kernels[op.attributes["callee"].value], pointers, self.arena)

    def _rows(self, ops: Sequence[ir.OpView]) -> None:
        """Kernels and copies, their operands in rows of the table."""
        table, start = self.program.table, len(self.program.table)
        steps: list[tuple[str, int]] = []  # function, width of its row
        for op in ops:
            places = [self.slices[value] for value in (*op.operands, *op.results)]
            for place in places:
                table += [8 * self.positions[place.buffer], place.offset]
            name = step_name(op)
            if name not in self.tabled:
                self.tabled[name] = self._with_table(op)
            steps.append((self.tabled[name].name, 2 * len(places)))
        self._sequence(steps, self.f.gep(self.f.address_of(TABLE), start, I64))

    def _sequence(self, steps: Sequence[tuple[str, int]], row: Value) -> None:
        """Call functions on successive rows, a sequence of them that repeats in a loop."""
        f, done, offset = self.f, 0, 0
        while done < len(steps):
            period, times = repetition(steps, done)
            unit, first = steps[done : done + period], f.gep(row, offset, I64)
            width = sum(columns for _, columns in unit)
            if times > 1:
                self._loop(unit, first, width, times)
            else:
                f.call(unit[0][0], [self.bases, first, f.caller])
            done, offset = done + period * times, offset + width * times

    def _loop(self, unit: Sequence[tuple[str, int]], first: Value, width: int, times: int) -> None:
        f = self.f
        f.loop(0, times, 1, lambda index: self._sequence(unit, f.gep(first, f.imul(index, width), I64)))

    def _with_table(self, op: ir.OpView) -> Function:
        """call(bases, row, caller): a kernel or copy on operands at bases[row[2 i]] + row[2 i + 1], in bytes."""
        name = step_name(op)
        f = Function(
            f"{name}.call", [("bases", PTR), ("row", PTR), ("caller", PTR)], self.target.emitter(), private=True
        )
        pointers = []
        for position in range(len(op.operands) + len(op.results)):
            base = f.load(PTR, f.gep(f.bases, f.load(I64, f.row, 2 * position), I8))
            pointers.append(f.gep(base, f.load(I64, f.row, 2 * position + 1), I8))
        if op.operation.name == "hlo.copy":
            f.copy_memory(pointers[1], pointers[0], self.slices[op.results[0]].size)
        else:
            self._phases(f, self.kernels[name], pointers, f.load(PTR, f.bases))
        f.ret()
        return f

    def _phases(self, f: Function, kernel: Kernel, pointers: Sequence[Value], arena: Value) -> None:
        """Emit the phases of a kernel into the program, or into a function of it that has the `caller` too."""
        scratch = (self.program.shared_offset, self.program.private_offset)
        values = [*pointers, *self.sizes, *(f.gep(arena, offset, I8) for offset in scratch)]
        phases = [(phase, self._chunk(phase)) for phase in kernel.phases if phase.iterations != 0]
        if any(chunk for _, chunk in phases):
            self._fill_context(f, values)
        for phase, chunk in phases:
            iterations = f.index(phase.iterations)

            def alone(phase: Phase = phase, iterations: Value = iterations) -> None:
                f.call(phase.symbol, [*values, f.const(0), iterations], external=True)

            def shared(phase: Phase = phase, chunk: int | None = chunk, iterations: Value = iterations) -> None:
                task = f.address_of(self._task(phase.symbol, len(values)))
                f.call(PARALLEL, [f.caller, task, self.contexts[f.name], iterations, f.index(chunk or 0)])

            if chunk is None:
                alone()
            elif is_known(phase.iterations):
                shared()
            else:
                least = max(2 * phase.grain, math.ceil(COSTS.parallel_ns / phase.cost))
                f.if_(f.cmp("sge", iterations, f.const(least)), shared, alone)

    def _chunk(self, phase: Phase) -> int | None:
        """Iterations of a chunk when the phase is worth threads, else None. Depends on shapes and the thread count
        only."""
        if self.threads > 1 and not is_known(phase.iterations):
            shares = minimum(CHUNKS_PER_THREAD * self.threads, phase.iterations // max(1, phase.grain))
            return -(-phase.iterations // maximum(2, shares))
        if self.threads == 1 or phase.iterations < 2 * phase.grain or phase.iterations * phase.cost < COSTS.parallel_ns:
            return None
        chunks = min(CHUNKS_PER_THREAD * self.threads, phase.iterations // max(1, phase.grain))
        return -(-phase.iterations // max(2, chunks))

    def _fill_context(self, f: Function, values: Sequence[Value]) -> None:
        """Store the operands of a kernel where its task functions find them."""
        if len(values) > MOST_OPERANDS:
            raise InternalError(f"a kernel takes {len(values)} buffers")
        if f.name not in self.contexts:
            self.contexts[f.name] = f.alloca(MOST_OPERANDS, PTR)
        for position, value in enumerate(values):
            f.store(value, self.contexts[f.name], position)

    def _task(self, symbol: str, count: int) -> str:
        """task(context, begin, end, thread): unpacks the context and gives the thread its own private scratch."""
        name = f"{symbol}.task"
        if name not in self.tasks:
            f = Function(
                name,
                [("context", PTR), ("begin", I64), ("end", I64), ("thread", I64)],
                self.target.emitter(),
                private=True,
            )
            values = [f.load(PTR, f.context, position) for position in range(count)]
            if self.sizes:
                assert self.f.sizes is not None
                f.sizes = self.f.sizes[0], values[-3]
            values[-1] = f.gep(values[-1], f.imul(f.thread, self.program.private_bytes), I8)
            f.call(symbol, [*values, f.begin, f.end], external=True)
            f.ret()
            self.tasks[name] = f
        return name


def step_name(op: ir.OpView) -> str:
    """Equal for kernels, and for copies, that differ in the places of their operands only."""
    if op.operation.name == "hlo.copy":
        return f"shlo_copy_{slices_of(op)[0].size}"
    return op.attributes["callee"].value


def repetition(steps: Sequence[object], start: int) -> tuple[int, int]:
    """(period, times): the sequence that, repeating from `start` on, spares most steps; (1, 1) where none does."""
    best = (1, 1)
    for period in range(1, (len(steps) - start) // 2 + 1):
        unit, times = steps[start : start + period], 1
        while steps[start + period * times : start + period * (times + 1)] == unit:
            times += 1
        spared = period * (times - 1)
        if spared >= WORTH_LOOP and spared > best[0] * (best[1] - 1):
            best = (period, times)
    return best


def _parallel_function(target: CpuTarget) -> Function:
    """parallel(caller, task, context, iterations, chunk): the caller's threads work, or, where it lends none, this one
    alone."""
    parameters = [("caller", PTR), ("task", PTR), ("context", PTR), ("iterations", I64), ("chunk", I64)]
    f = Function(PARALLEL, parameters, target.emitter(), private=True)
    parallel_for, own = (
        f.load(PTR, f.gep(f.caller, OFFSETS[field], I8)) for field in ("parallel_for", "parallel_context")
    )

    def alone() -> None:
        f.call_pointer(f.task, [f.context, f.const(0), f.iterations, f.const(0)])

    def together() -> None:
        f.call_pointer(parallel_for, [own, f.task, f.context, f.iterations, f.chunk])

    f.if_(f.cmp("eq", f.cast("ptrtoint", parallel_for, I64), f.const(0)), alone, together)
    f.ret()
    return f


_HANDLERS = {
    "func.call": _Emitter._step,
    "func.return": _Emitter._nothing,
    "hlo.constant": _Emitter._nothing,
    "hlo.reshape": _Emitter._nothing,
    "hlo.copy": _Emitter._step,
    "tensor.extract": _Emitter._extract,
    "arith.index_cast": _Emitter._index_cast,
    "arith.index_castui": _Emitter._index_cast,
    "scf.while": _Emitter._while,
    "scf.condition": _Emitter._nothing,
    "scf.yield": _Emitter._nothing,
    "scf.if": _Emitter._if,
    "scf.index_switch": _Emitter._switch,
}
