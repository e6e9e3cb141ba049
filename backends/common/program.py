"""A program as native code: one entry function that runs the kernels of a scheduled module in order.

    int shlo_main(const shlo_call *call)

The structure, and what is returned, are those of include/shlo_call.h. An operand is a pointer and a constant offset;
loops and branches are native. How a kernel is started is the backend's business.

A kernel that is called in many places (the layers of a transformer) is called through a function of its own, which
reads where the operands lie from a row of a constant table. So a call has three arguments, whatever the kernel takes,
and a sequence of kernels that repeats (those layers) becomes a loop over rows.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from stablehlo_py.backends.common.loops import end_if_asked
from stablehlo_py.backends.common.walk import STEPS, Walk
from stablehlo_py.codegen.builder import I8, I32, I64, PTR, Function, Index, ScalarType, Value
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.codegen.size_table import SizeTable
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.dialect.attributes import ARENA_BYTES, PLACED
from stablehlo_py.dialect.memory import ARENA, CONSTANT, INPUT, OUTPUT, WINDOW, slices_of
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import byte_size, element_type, symints
from stablehlo_py.mlir import ir
from stablehlo_py.passes._functions import functions
from stablehlo_py.passes.buffers.windows import reader, updated_window
from stablehlo_py.runtime.entry import ENDED, FIELDS, OK, OLD_CALL

T = TypeVar("T")
Call = tuple[str, tuple[str | int, ...]]
Calls = tuple[Call, ...]

ENTRY = "shlo_main"
# LLVM takes as long for a function that reads the table as for about this many calls with a dozen operands.
TABLED_CALLS = 4
WORTH_LOOP = 3  # steps spared
WORTH_GATHER = 4  # operands, for which addresses are made by a function that calls share
TABLE = "shlo_places"
GATHER = "shlo_gather_addresses"


def arena_bytes(module: ir.Module) -> IntLike:
    """Bytes of the planned arena of a scheduled module, a SymInt where dimensions are dynamic."""
    attribute = module.operation.attributes[ARENA_BYTES]
    return symints(module.operation, ARENA_BYTES)[0] if isinstance(attribute, ir.StringAttr) else attribute.value


def given(f: Function, field: str) -> Value:
    """A field of the `caller` of a function, which is a `shlo_call`."""
    return f.load(PTR, f.gep(f.caller, FIELDS.index(field), PTR))


class NativeProgram(Walk[Value]):
    """The entry function of a scheduled module under construction. With a table of sizes, a call brings one along.

    Attributes:
        emitter: gives what writes one function. f: the entry.
        arena, tables: the address of the arena; those of the addresses of the other buffers, by space.
        sizes: the address of the table of sizes, if there is one.
        functions: once it is emitted, the entry and its helpers.
        table: has rows of two numbers for every operand of a call: the place of its buffer's address in the array of
            all of them, and its offset in the buffer.
        loops: whether it has loops, which may have to be ended.
        gather: stores the addresses of operands by rows of that table.
    """

    def __init__(self, module: ir.Module, emitter: Callable[[], Emitter], sizes: SizeTable | None) -> None:
        super().__init__(module)
        self.emitter = emitter
        self.f = Function(ENTRY, [("caller", PTR)], emitter(), result=I32)
        self.require_size()
        self.arena = self.given("workspace")
        self.tables = {INPUT: self.given("inputs"), OUTPUT: self.given("outputs"), CONSTANT: self.given("constants")}
        self.sizes: list[Value] = []
        if sizes is not None:
            address = self.given("sizes")
            self.f.sizes, self.sizes = (sizes, address), [address]
        self.functions: list[Function] = []
        self._fusions = functions(module)[1]
        self.table: list[int] = []
        self.loops = False
        self._counts: Counter[str] = Counter()  # of steps, by name; none: there is no table
        self._tabled: dict[str, Function] = {}  # by name of the step
        self.gather = Gather(emitter)
        self._positions: dict[tuple[int, int], int] = {}  # of buffers in the array of all
        self._bases = self.f.null()  # the array of all buffers' addresses, where there is one

    def emit(self) -> None:
        """Emit the functions."""
        self._survey()
        self.run()
        self.f.ret(self.f.const(OK, I32))
        self.functions = [*self.helpers(), *self.gather.functions, *self._tabled.values(), self.f]

    @cached_property
    def constant_tables(self) -> dict[str, str]:
        """Texts of tables, by their names: of the places of operands, if they are in one."""
        return {TABLE: constant_table(TABLE, np.array(self.table), I64, self.f.emit)} if self.table else {}

    def text(self) -> str:
        """Text of the functions and the table."""
        return "\n".join([*self.constant_tables.values(), *(function.text() for function in self.functions)])

    def externals(self) -> dict[str, str]:
        """What the functions call elsewhere: name -> declaration."""
        return {name: text for function in self.functions for name, text in function.externals.items()}

    # --- what a backend says -----------------------------------------------------------------------------------------

    @abstractmethod
    def start(self, f: Function, kernel: str, pointers: Sequence[Value], arena: Value) -> None:
        """Emit the start of a kernel, called by the name of its fusion function, on these operands and results: into
        the entry, or a function of the program that has the `caller` too."""

    def copy(self, f: Function, target: Value, source: Value, size: IntLike) -> None:
        """Emit a copy of so many bytes."""
        f.copy_memory(target, source, size)

    def is_tabled(self, op: ir.OpView | ir.Operation, calls: int) -> bool:
        """Whether the places of a step, which is called so often, are in a row of the table."""
        return calls >= TABLED_CALLS

    def calls_of(self, op: ir.OpView, places: list[tuple[int, int]]) -> Calls:
        """What a step with a row of the table calls: functions(bases, row, caller, ...), with what else they get: names
        of functions, and numbers. A backend may add to the places in the row."""
        name = step_name(op)
        if name not in self._tabled:
            self._tabled[name] = self._with_table(op)
        return ((self._tabled[name].name, ()),)

    def helpers(self) -> Sequence[Function]:
        """Functions that kernels are started with, once all are."""
        return ()

    # --- values ------------------------------------------------------------------------------------------------------

    def require_size(self) -> None:
        """Return where the call is of an older version."""
        size, least = self.f.cast("ptrtoint", self.given("size"), I64), len(FIELDS) * self.f.emit.alignment(PTR)
        self.f.ret_if(self.f.cmp("ult", size, self.f.const(least)), self.f.const(OLD_CALL, I32))

    def given(self, field: str) -> Value:
        """A pointer that the call brings along."""
        return given(self.f, field)

    def interrupt(self) -> Value:
        """The address of the block that may end loops (`end_if_asked`)."""
        self.loops = True
        return self.given("interrupt")

    def pointer(self, value: ir.Value) -> Value:
        """The address of a tensor value."""
        place, f = self.slices[value], self.f
        if place.space == WINDOW:
            return self._window(value)
        if place.space == ARENA:
            return f.gep(self.arena, place.offset, I8)
        # Loaded anew for every use: values that live across calls make work for the register allocator.
        return f.gep(f.load(PTR, self.tables[place.space], place.number), place.offset, I8)

    def _window(self, result: ir.Value) -> Value:
        """The address of a result that is computed where an update would put it."""
        found = updated_window(reader(result), self._fusions)
        assert found is not None  # as `place-results` has seen
        window, f = found[0], self.f
        address = self.pointer(window.value)
        for start, stride, last in window.starts:
            at = self.index(self.element(start), unsigned=False)
            inside = f.intrinsic("smax", f.intrinsic("smin", at, f.const(last)), f.const(0))
            address = f.gep(address, f.imul(inside, stride), I8)
        return address

    def element(self, value: ir.Value) -> Value:
        """The one element of a tensor, of a type that predicates and indices have."""
        type_ = element_type(value)
        stored = ScalarType(f"i{8 * byte_size(type_)}", 8 * byte_size(type_))
        loaded = self.f.load(stored, self.pointer(value))
        return self.f.cmp("ne", loaded, self.f.const(0, I8)) if type_.width == 1 else loaded

    def index(self, scalar: Value, *, unsigned: bool) -> Value:
        """An i64."""
        return self.f.cast("zext" if unsigned else "sext", scalar, I64)

    def equal(self, scalar: Value, number: int) -> Value:
        """An i1."""
        return self.f.cmp("eq", scalar, self.f.const(number))

    # --- control flow ------------------------------------------------------------------------------------------------

    def branch(self, condition: Value, then: Callable[[], None], otherwise: Callable[[], None] | None) -> None:
        """A native branch."""
        self.f.if_(condition, then, otherwise)

    def loop(self, condition: Callable[[], Value], body: Callable[[], None]) -> None:
        """A native loop, which ends the program at the end of a trip if that is asked for."""

        def trip() -> list[Value]:
            body()
            end_if_asked(self.f, self.interrupt(), self.f.const(ENDED, I32))
            return []

        self.f.while_([], condition, trip)

    # --- steps -------------------------------------------------------------------------------------------------------

    def steps(self, ops: Sequence[ir.OpView]) -> None:
        """Kernels and copies, those of many calls by way of the table."""
        for tabled, group in itertools.groupby(ops, self._is_tabled):
            if tabled:
                self._rows(list(group))
                continue
            for op in group:
                if op.operation.name == "hlo.copy":
                    place = self.slices[op.results[0]]
                    self.copy(self.f, self.pointer(op.results[0]), self.pointer(op.operands[0]), place.size)
                else:
                    self.start(self.f, step_name(op), [self.pointer(value) for value in _operands(op)], self.arena)

    def _record(self, op: ir.OpView) -> None:
        if op.results[0] not in self.slices:  # as the survey may have read them
            super()._record(op)

    def _is_tabled(self, op: ir.OpView | ir.Operation) -> bool:
        """Whether the places of a step are in a row of the table, as those of many calls are. Where windows are is not
        known before."""
        return bool(self._counts) and self.is_tabled(op, self._counts[step_name(op)]) and PLACED not in op.attributes

    def _survey(self) -> None:
        """Count the calls of each kernel and number the buffers; the arena comes first."""
        used = {place.buffer for place in self.slices.values()}
        steps: list[ir.Operation] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name in STEPS and not self.may_end(op):
                steps.append(op)
            places = slices_of(op)
            used.update([place.buffer for place in places])
            self.slices.update(zip(op.results, places, strict=False))
            return ir.WalkResult.ADVANCE

        self.main.operation.walk(visit)
        counts = Counter(map(step_name, steps))
        if self.sizes or not any(self.is_tabled(op, counts[step_name(op)]) for op in steps):
            return  # offsets that are known at run time are not in a constant table
        self._counts = counts
        self._positions[ARENA, 0] = 0
        for space in self.tables:
            start, count = len(self._positions), max((number + 1 for of, number in used if of == space), default=0)
            self._positions |= {(space, number): start + number for number in range(count)}
        self._gather_bases()

    def _gather_bases(self) -> None:
        """Copy the addresses of all buffers into one array."""
        f = self.f
        self._bases = f.alloca(len(self._positions), PTR)
        f.store(self.arena, self._bases)
        for space, table in self.tables.items():
            count = sum(of == space for of, _ in self._positions)
            if count:
                own = f.gep(self._bases, self._positions[space, 0], PTR)
                # One by one: how wide a pointer is, not every emitter knows.
                f.loop(0, count, 1, lambda i, own=own, table=table: f.store(f.load(PTR, table, i), own, i))

    def _rows(self, ops: Sequence[ir.OpView]) -> None:
        """Kernels and copies, their operands in rows of the table."""
        start = len(self.table)
        steps: list[tuple[Calls, int]] = []  # with the width of its row
        for op in ops:
            slices = [self.slices[value] for value in _operands(op)]
            places = [(self._positions[place.buffer], int(place.offset)) for place in slices]
            calls = self.calls_of(op, places)
            self.table += itertools.chain.from_iterable(places)
            steps.append((calls, 2 * len(places)))
        self._sequence(steps, self.f.gep(self.f.address_of(TABLE), start, I64))

    def _sequence(self, steps: Sequence[tuple[Calls, int]], row: Value) -> None:
        """Call functions on successive rows, a sequence of them that repeats in a loop."""
        f, done, offset = self.f, 0, 0
        numbers = {step: number for number, step in enumerate(dict.fromkeys(steps))}
        letters = "".join(chr(numbers[step]) for step in steps)
        while done < len(steps):
            period, times = repetition(letters, done)
            unit, first = steps[done : done + period], f.gep(row, offset, I64)
            width = sum(columns for _, columns in unit)
            if times > 1:
                self._repeat(unit, first, width, times)
            else:
                for function, others in unit[0][0]:
                    more = [f.address_of(each) if isinstance(each, str) else f.const(each) for each in others]
                    f.call(function, [self._bases, first, f.caller, *more])
            done, offset = done + period * times, offset + width * times

    def _repeat(self, unit: Sequence[tuple[Calls, int]], first: Value, width: int, times: int) -> None:
        f = self.f
        f.loop(0, times, 1, lambda index: self._sequence(unit, f.gep(first, f.imul(index, width), I64)))

    def _with_table(self, op: ir.OpView) -> Function:
        """call(bases, row, caller): a kernel or copy on operands at bases[row[2 i]] + row[2 i + 1] bytes."""
        parameters = [("bases", PTR), ("row", PTR), ("caller", PTR)]
        f = Function(f"{step_name(op)}.call", parameters, self.emitter(), private=True)
        count = len(_operands(op))
        if count < WORTH_GATHER:
            pointers = [_address(f, position) for position in range(count)]
        else:
            # Eight instructions an operand take LLVM more time than all else that such a function does.
            room = f.alloca(count, PTR)
            self.gather(f, count, room)
            pointers = [f.load(PTR, room, position) for position in range(count)]
        if op.operation.name == "hlo.copy":
            self.copy(f, pointers[1], pointers[0], self.slices[op.results[0]].size)
        else:
            self.start(f, step_name(op), pointers, f.load(PTR, f.bases))
        f.ret()
        return f


class Gather:
    """Stores the addresses of operands, by a function that a program has where it calls it."""

    def __init__(self, emitter: Callable[[], Emitter]) -> None:
        self.functions: list[Function] = []
        self._emitter = emitter

    def __call__(self, f: Function, count: int, room: Value) -> None:
        """In a function with `bases` and `row`: store the addresses of so many operands."""
        if not self.functions:
            self.functions.append(_gather(self._emitter()))
        f.call(GATHER, [f.bases, f.row, f.const(count), room])


def _address(f: Function, position: Index) -> Value:
    """Where an operand lies, by a row of the table."""
    base = f.load(PTR, f.bases, f.load(I64, f.row, f.imul(position, 2)))
    return f.gep(base, f.load(I64, f.row, f.iadd(f.imul(position, 2), 1)), I8)


def _gather(emitter: Emitter) -> Function:
    """gather(bases, row, count, addresses): those of so many operands."""
    f = Function(GATHER, [("bases", PTR), ("row", PTR), ("count", I64), ("addresses", PTR)], emitter, private=True)
    f.loop(0, f.count, 1, lambda position: f.store(_address(f, position), f.addresses, position), nonempty=True)
    f.ret()
    return f


def step_name(op: ir.OpView | ir.Operation) -> str:
    """Equal for kernels, and for copies, that differ in the places of their operands only."""
    if op.operation.name == "hlo.copy":
        return f"shlo_copy_{slices_of(op)[0].size}"
    return op.attributes["callee"].value


def repetition(steps: str, start: int) -> tuple[int, int]:
    """(period, times): the sequence that, repeating from `start` on, spares most steps; (1, 1) where none does.

    `steps`: a character for each step, the same for equal ones. The first steps spared are those at the start once
    more: where they do not come again, nothing is compared.
    """
    best = (1, 1)
    head = steps[start : start + WORTH_LOOP]
    again = steps.find(head, start + 1)
    while again > 0:
        unit, period, times = steps[start:again], again - start, 1
        while steps.startswith(unit, start + period * times):
            times += 1
        spared = period * (times - 1)
        if spared >= WORTH_LOOP and spared > best[0] * (best[1] - 1):
            best = (period, times)
        again = steps.find(head, again + 1)
    return best


def repeated(f: Function, items: Sequence[T], emit: Callable[[T], None]) -> None:
    """`emit` for all items, once for each of a sequence that repeats, in a loop."""
    numbers = {item: number for number, item in enumerate(dict.fromkeys(items))}
    letters, done = "".join(chr(numbers[item]) for item in items), 0

    def each(some: Sequence[T]) -> None:
        for item in some:
            emit(item)

    while done < len(items):
        period, times = repetition(letters, done)
        f.loop(0, times, 1, lambda _, unit=items[done : done + period]: each(unit))
        done += period * times


def _operands(op: ir.OpView) -> list[ir.Value]:
    """What a step reads, then what it writes."""
    return [*op.operands, *op.results]
