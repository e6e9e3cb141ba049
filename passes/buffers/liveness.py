"""The program as one line of positions: where every value is made and read for the last time, through loops and
branches.

Ops of `@main` and of its regions are numbered in the order of the text; a region lies between its op's position and
its op's end. A value that a loop reads from outside is live until the loop ends. Views (`hlo.reshape`) and carries
that a loop hands on unchanged are not values of their own: they are the value that they show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from stablehlo_py.dialect.attributes import PLACED
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.dialect.memory import CONSTANT, INPUT, WINDOW
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import i64s, tensor_bytes
from stablehlo_py.mlir import ir


@dataclass(slots=True)
class BlockInfo:
    """A block: its nesting, and the numbers of the op around it and of its terminator in `Program.ops` (numbers: steps
    refer to blocks, and what refers to itself stays in memory until Python's garbage collector runs)."""

    parent: BlockInfo | None
    around: int | None
    terminator: int = -1


@dataclass(slots=True)
class Step:
    """One op. `operands` and `results` are value numbers (-1 for what is not a tensor); positions `start` to `end`
    hold its regions. `callee` is the function that a call names, "" of other ops."""

    op: ir.Operation
    name: str
    block: BlockInfo
    start: int
    end: int
    operands: list[int]
    callee: str = ""
    results: list[int] = field(default_factory=list)
    arguments: list[list[int]] = field(default_factory=list)  # of each region
    regions: list[BlockInfo] = field(default_factory=list)


@dataclass(slots=True)
class Value:
    """A tensor value with memory of its own: live from `first` to `last`, both included."""

    value: ir.Value
    bytes: IntLike
    block: BlockInfo
    first: int
    last: int
    space: tuple[int, int] | None = None  # (INPUT, number), (CONSTANT, number), (WINDOW, number); None: to be placed


class Program:
    """Live ranges of `@main`. `number[value]` is the number of the value (of what it shows, for views) in `values`."""

    def __init__(self, function: ir.Operation) -> None:
        self.function = function
        self.ops: list[Step] = []
        self.values: list[Value] = []
        self.number: dict[ir.Value, int] = {}
        self._bytes: Callable[[ir.Type], IntLike] = cache(tensor_bytes)
        self._clock = 0
        self._constants = self._windows = 0
        self._until_end: dict[int, list[int]] = {}  # number of a loop -> values from outside that it reads
        block = function.regions[0].blocks[0]
        self.main = BlockInfo(None, None)
        for index, argument in enumerate(block.arguments):
            self._make(argument, self.main, (INPUT, index))
        self._visit(block, self.main)
        self.returned = self.terminator(self.main).operands
        for number in self.returned:
            self.values[number].last = self._clock + 1

    def terminator(self, block: BlockInfo) -> Step:
        """The last op of a block."""
        return self.ops[block.terminator]

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _make(self, value: ir.Value, block: BlockInfo, space: tuple[int, int] | None = None) -> int:
        type_ = value.type
        if not isinstance(type_, ir.RankedTensorType):
            return -1
        self.number[value] = len(self.values)
        self.values.append(Value(value, self._bytes(type_), block, self._clock, self._clock, space))
        return len(self.values) - 1

    def _use(self, value: ir.Value, block: BlockInfo, position: int) -> int:
        number = self.number.get(value, -1)
        if number < 0:
            return -1
        used = self.values[number]
        inside: BlockInfo | None = block
        while inside is not None and inside is not used.block:
            around = inside.around
            if around is not None and self.ops[around].name == "scf.while":
                self._until_end.setdefault(around, []).append(number)
            inside = inside.parent
        used.last = position  # none was later
        return number

    def _visit(self, block: ir.Block, info: BlockInfo) -> None:
        for view in block.operations:
            op = view.operation
            name = op.name
            start = self._tick()
            callee = op.attributes["callee"].value if name == "func.call" else ""
            step = Step(op, name, info, start, start, [self._use(value, info, start) for value in op.operands], callee)
            info.terminator = number = len(self.ops)
            self.ops.append(step)
            if name == "hlo.reshape":
                self.number[op.results[0]] = step.operands[0]
                step.results = [step.operands[0]]
                continue
            if len(op.regions):
                self._regions(number)
            if name == "hlo.constant":
                step.results = [self._make(op.results[0], info, (CONSTANT, self._constants))]
                self._constants += 1
            elif name == "scf.while":
                kept = unchanged_carries(op)
                for index, result in enumerate(op.results):
                    if kept[index]:
                        self.number[result] = step.operands[index]
                        step.results.append(step.operands[index])
                    else:
                        step.results.append(self._make(result, info))
            elif PLACED in op.attributes:
                placed = i64s(op, PLACED)
                step.results = [
                    self._make(result, info, self._window() if number in placed else None)
                    for number, result in enumerate(op.results)
                ]
            else:
                step.results = [self._make(result, info) for result in op.results]

    def _window(self) -> tuple[int, int]:
        self._windows += 1
        return WINDOW, self._windows

    def _regions(self, number: int) -> None:
        step = self.ops[number]
        kept = unchanged_carries(step.op) if step.name == "scf.while" else []
        for region in step.op.regions:
            inner = BlockInfo(step.block, number)
            step.regions.append(inner)
            step.arguments.append([])
            for block in region.blocks:
                self._tick()
                for index, argument in enumerate(block.arguments):
                    if kept and kept[index]:
                        self.number[argument] = step.operands[index]
                        step.arguments[-1].append(step.operands[index])
                    else:
                        step.arguments[-1].append(self._make(argument, inner))
                self._visit(block, inner)
        step.end = self._tick()
        for value in self._until_end.pop(number, ()):
            self.values[value].last = step.end


def unchanged_carries(op: ir.Operation) -> list[bool]:
    """For every carry of an `scf.while`: does the body hand on the very argument that it got?"""
    body = op.regions[1].blocks[0]
    return [argument == value for argument, value in zip(body.arguments, terminator(body).operands, strict=True)]
