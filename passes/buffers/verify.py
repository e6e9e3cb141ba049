"""A checker for assigned memory that shares no code with the planner: it runs the program on names instead of numbers.

Memory is a list of byte ranges, each holding the name of the value that was written there. Every op checks that its
operands are still intact, then writes its scratch, wherever `hlo.free_memory` allows it, and its results. Loop bodies
run three times, so that what one iteration leaves is what the next one reads; branches run one after the other on
copies of memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect.alignment import ALIGNMENT
from stablehlo_py.dialect.attributes import ARENA_BYTES, DONATIONS, INPLACE, PLACED, SLICES, UNREAD
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.dialect.memory import ARENA, CONSTANT, INPUT, FreeMemory, Slice, free_memory, slices_of
from stablehlo_py.dialect.types import i64s, tensor_bytes, user_location
from stablehlo_py.errors import InternalError, Problem
from stablehlo_py.mlir import ir
from stablehlo_py.passes._functions import functions
from stablehlo_py.passes.buffers.windows import reader, updated_window

_ITERATIONS = 3


def verify_buffers(module: ir.Module) -> None:
    """Raises InternalError that lists every read of overwritten memory and every slice that is missing, misplaced
    or too small."""
    problems = _Checker(module).run()
    if problems:
        raise InternalError("buffer assignment lets values overwrite each other", problems=problems[:20])


class _Checker:
    def __init__(self, module: ir.Module) -> None:
        self.module = module
        (self.main, *_), self.functions = functions(module)
        self.problems: list[Problem] = []
        self.slices: dict[ir.Value, Slice] = {}
        self.names: dict[ir.Value, int] = {}
        self.memory: list[tuple[Slice, int]] = []
        self.open: dict[Slice, ir.Operation] = {}  # values with a window that is written: the updates they wait for
        self.serial = 0
        attributes = module.operation.attributes
        self.arena = attributes[ARENA_BYTES].value if ARENA_BYTES in attributes else 0
        self.free = free_memory(module)
        pairs = list(attributes[DONATIONS]) if DONATIONS in attributes else []
        self.donations = dict(zip(pairs[1::2], pairs[::2], strict=True))

    def run(self) -> list[Problem]:
        block = self.main.regions[0].blocks[0]
        for number, argument in enumerate(block.arguments):
            self.slices[argument] = Slice(INPUT, number, 0, tensor_bytes(argument))
            self._write(argument, self._fresh())
        self._block(block)
        last = terminator(block)
        for output, value in enumerate(last.operands):
            place = self.slices[value]
            expected = (1, self.donations[output]) if output in self.donations else (2, output)
            if (place.space, place.number, place.offset) != (*expected, 0):
                self._report(last, f"result {output} does not lie in its output but in {place}")
        return self.problems

    # --- memory ------------------------------------------------------------------------------------------------------

    def _fresh(self) -> int:
        self.serial += 1
        return self.serial

    def _write(self, value: ir.Value, name: int) -> None:
        place = self.slices[value]
        self.memory = [(other, known) for other, known in self.memory if not other.overlaps(place)]
        self.memory.append((place, name))
        self.names[value] = name

    def _check(self, op: ir.Operation, position: int, value: ir.Value) -> None:
        if not isinstance(value.type, ir.RankedTensorType):
            return
        place, name = self.slices.get(value), self.names.get(value)
        if place is None or name is None:
            self._report(op, f"operand {position} has no slice")
        elif place.size and (place, name) not in self.memory:
            self._report(op, f"operand {position} at {place} has been overwritten")
        elif place in self.open and self.open[place] != op:
            self._report(op, f"operand {position} at {place} is read while a window of it is written")

    def _report(self, op: ir.Operation, reason: str) -> None:
        self.problems.append(Problem(reason, user_location(op.location), op.name))

    def _place(self, op: ir.Operation) -> None:
        """Read `hlo.slices` of an op."""
        results = [result for result in op.results if isinstance(result.type, ir.RankedTensorType)]
        if not results:
            return
        numbers = list(op.attributes[SLICES]) if SLICES in op.attributes else []
        if len(numbers) != 4 * len(results):
            self._report(op, f"{SLICES} needs four numbers for each result")
        places = slices_of(op) if len(numbers) == 4 * len(results) else [Slice(ARENA, 0, 0, 0)] * len(results)
        for index, (result, place) in enumerate(zip(results, places, strict=True)):
            if place.size != tensor_bytes(result):
                self._report(op, f"result {index} takes {tensor_bytes(result)} bytes, its slice has {place.size}")
            if place.space == ARENA and place.offset + place.size > self.arena:
                self._report(op, f"result {index} lies outside the arena")
            if place.space == ARENA and place.offset % ALIGNMENT:
                self._report(op, f"result {index} is not aligned")
            self.slices[result] = place

    # --- ops ---------------------------------------------------------------------------------------------------------

    def _block(self, block: ir.Block) -> None:
        for view in block.operations:
            op = view.operation
            for position, operand in enumerate(op.operands):
                self._check(op, position, operand)
            self._place(op)
            if op.name == "scf.while":
                self._while(op)
            elif op.name in ("scf.if", "scf.index_switch"):
                self._branches(op)
            elif op.name == "hlo.reshape":
                self._same_place(op, op.operands[0], op.results[0])
            elif op.name == "hlo.constant":
                self._write(op.results[0], self._fresh())
            elif op.name in ("func.call", "hlo.copy"):
                self._compute(op)

    def _same_place(self, op: ir.Operation, source: ir.Value, target: ir.Value) -> None:
        """`target` is another name of `source`: same slice, same contents."""
        if self.slices.get(source) != self.slices.get(target):
            self._report(op, f"{self.slices.get(source)} and {self.slices.get(target)} should be the same slice")
        if source in self.names:
            self.names[target] = self.names[source]

    def _compute(self, op: ir.Operation) -> None:
        allowed: set[tuple[int, int]] = set()
        if op.name == "hlo.copy":
            allowed = {(0, 0)}
        elif (
            function := self.functions.get(op.attributes["callee"].value)
        ) is not None and INPLACE in function.attributes:
            pairs = list(function.attributes[INPLACE])
            allowed = set(zip(pairs[::2], pairs[1::2], strict=True))
        places = [self.slices[result] for result in op.results]
        for output, place in enumerate(places):
            for position, operand in enumerate(op.operands):
                other = self.slices.get(operand)
                if (
                    other is not None
                    and other.overlaps(place)
                    and not (other == place and (position, output) in allowed)
                ):
                    self._report(
                        op, f"result {output} is written over operand {position}, which {INPLACE} does not list"
                    )
            if any(place.overlaps(other) for other in places[:output]):
                self._report(op, f"result {output} overlaps another result")
            if place.space == CONSTANT or (place.space == INPUT and place.number not in self.donations.values()):
                self._report(op, f"result {output} is written into an input or a constant")
        for position, output in allowed:
            if op.name == "func.call" and self.slices.get(op.operands[position]) != places[output]:
                self._report(op, f"{INPLACE} lists ({position}, {output}), which do not share memory")
        if op.name == "func.call":
            self._scratch(op, places)
            self._windows(op)
        for result in op.results:
            self._write(result, self._fresh())

    def _windows(self, op: ir.Operation) -> None:
        """From the call on whose result lies in a window until the update, nobody else may read the whole."""
        if op in self.open.values():
            self.open = {place: update for place, update in self.open.items() if update != op}
        for number in i64s(op, PLACED) if PLACED in op.attributes else ():
            update = reader(op.results[number])
            found = updated_window(update, self.functions)
            if found is None or UNREAD not in update.attributes:
                self._report(op, f"result {number} has no window")
            else:
                self.open[self.slices[found[0].value]] = update

    def _scratch(self, op: ir.Operation, places: Sequence[Slice]) -> None:
        """Overwrite what may be scratch of a call with results at `places`."""
        free = self.free.get(op.attributes["callee"].value, FreeMemory((), self.arena))
        used = [*places, *(self.slices[operand] for operand in op.operands if operand in self.slices)]
        for begin, end in (*free.gaps, (free.end, self.arena)):
            scratch = Slice(ARENA, 0, begin, end - begin)
            if any(scratch.overlaps(place) for place in used):
                self._report(op, f"its scratch, from {begin} to {end}, overlaps an operand or a result")
            self.memory = [(other, known) for other, known in self.memory if not other.overlaps(scratch)]

    def _while(self, op: ir.Operation) -> None:
        before, after = (region.blocks[0] for region in op.regions)
        condition, yielded = terminator(before), terminator(after)
        incoming = list(op.operands)
        for iteration in range(_ITERATIONS + 1):
            for argument, value, result in zip(before.arguments, incoming, op.results, strict=True):
                self.slices[argument] = self.slices[result]
                self._same_place(op, value, argument)
            self._block(before)
            for result, value in zip(op.results, list(condition.operands)[1:], strict=True):
                self._same_place(op, value, result)
            if iteration == _ITERATIONS:
                break
            for argument, value in zip(after.arguments, list(condition.operands)[1:], strict=True):
                self.slices[argument] = self.slices[value]
                self.names[argument] = self.names[value]
            self._block(after)
            incoming = list(yielded.operands)
        for result in op.results:
            self._check(op, 0, result)

    def _branches(self, op: ir.Operation) -> None:
        start, ends = self.memory, []
        for region in op.regions:
            self.memory = list(start)
            for block in region.blocks:
                self._block(block)
                last = terminator(block)
                for value, result in zip(last.operands, op.results, strict=True):
                    self._same_place(last, value, result)
                    self._check(last, 0, value)
            ends.append(self.memory)
        # What every branch leaves intact is intact; results get one new name.
        self.memory = [entry for entry in ends[0] if all(entry in end for end in ends[1:])] if ends else start
        for result in op.results:
            self._write(result, self._fresh())
