"""Elementwise ops of a straight-line kernel that are one loop over their vectors (straight_line.py).

A function of many instructions is a loop over the vectors of its operand, where these are several. The loop takes in
functions beside it and what reads them, where that is fewer lines: code of an op in the loop is there once, not for
each vector, but what goes in and out is stored and loaded. What comes before functions stays outside, and a function of
their results is another loop: longer chains of ops of one vector do not overlap with those of the next
(docs/decisions.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from stablehlo_py.backends.cpu.kernels.registers import SCALARS, WIDTH, Registers
from stablehlo_py.codegen.arith import ARITH, RealFunction, apply
from stablehlo_py.codegen.builder import Function, Value, vector
from stablehlo_py.codegen.shared import Row, in_turns
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.regions import captured_values
from stablehlo_py.dialect.types import num_elements, static_shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes.policy import flops_per_element

LONG_FLOPS = 6  # of an element: from here on a function is long
TURNS = 4  # so many vectors are worth a loop
MOVED = 2  # lines for a vector that goes into a loop or out of it: its place, and a store or a load


@dataclass(eq=False)
class Run:
    """Ops of a block that are made together, where the last of them stands."""

    ops: dict[int, ir.OpView] = field(default_factory=dict)  # by their places
    made: set[ir.Value] = field(default_factory=set)
    operands: set[ir.Value] = field(default_factory=set)  # what is made outside
    results: list[ir.Value] = field(default_factory=list)  # what others read
    passed: set[ir.Value] = field(default_factory=set)  # what further runs alone read
    inputs: dict[ir.Value, Registers | Row] = field(default_factory=dict)  # the operands, once the kernel has them

    @classmethod
    def of(cls, ops: Mapping[int, ir.OpView]) -> Run:
        """Of these."""
        run = cls()
        for place, op in ops.items():
            run.add(place, op)
        return run

    def add(self, place: int, op: ir.OpView) -> None:
        """One more, behind the others."""
        self.ops[place] = op
        self.made.add(op.results[0])
        self.operands.update(value for value in op.operands if value not in self.made)

    @property
    def last(self) -> int:
        """The place of its last op."""
        return max(self.ops)

    def emit(self, f: Function, rows: dict[ir.Value, Row]) -> dict[ir.Value, Registers]:
        """Its results, but for those that runs alone read; they lie in `rows` then. Equal vectors are made once."""
        held = [*self.inputs.values()]
        count = -(-int(num_elements(self.results[0])) // WIDTH)
        keys = [tuple(n if isinstance(each, Row) else id(each.chunks[n]) for each in held) for n in range(count)]
        first: dict[tuple[int, ...], int] = {}
        for number, key in enumerate(keys):
            first.setdefault(key, number)
        different = [*first.values()]
        if len(different) < TURNS:
            vectors = [self._code(f, *self._vectors(number)) for number in different]
            columns = dict(zip(self.results, zip(*vectors, strict=True), strict=True))
        else:
            columns = self._in_turns(f, different, rows if len(different) == count else None)
        numbers = [different.index(first[key]) for key in keys]
        return {
            result: Registers(static_shape(result), element(result), tuple(column[number] for number in numbers))
            for result, column in columns.items()
        }

    def _vectors(self, number: int) -> list[Value]:
        """One of each of its inputs, which are in registers."""
        held = [each for each in self.inputs.values() if isinstance(each, Registers)]
        return cast("list[Value]", [each.chunks[number] for each in held])

    def _in_turns(
        self, f: Function, numbers: Sequence[int], rows: dict[ir.Value, Row] | None
    ) -> dict[ir.Value, tuple[Value, ...]]:
        """The vectors of its results, of those vectors of its inputs. `rows`: None where these are not all."""
        operands: dict[ir.Value, Value | Row] = {}
        for value, held in self.inputs.items():
            operands[value] = held if isinstance(held, Row) else _operand(f, held, numbers)
        types = [vector(WIDTH, element(result).compute) for result in self.results]
        made = dict(zip(self.results, in_turns(f, self._code, len(numbers), [*operands.values()], types), strict=True))
        loaded = made
        if rows is not None:
            rows |= made
            loaded = {result: row for result, row in made.items() if result not in self.passed}
        places = [number * WIDTH for number in range(len(numbers))]
        return {result: tuple(row.load(f, place) for place in places) for result, row in loaded.items()}

    def _code(self, f: Function, *vectors: Value) -> list[Value]:
        """The results of a vector of each of its inputs."""
        known = dict(zip(self.inputs, vectors, strict=True))
        for op in self.ops.values():
            made = apply(f, op, [known[operand] for operand in op.operands])
            assert isinstance(made, Value)  # of real numbers
            known[op.results[0]] = made
        return [known[result] for result in self.results]


def _operand(f: Function, held: Registers, numbers: Sequence[int]) -> Value | Row:
    """The vectors with these numbers, in memory; only one where they are the same."""
    vectors = cast("list[Value]", [held.chunks[number] for number in numbers])
    if all(each is vectors[0] for each in vectors):
        return vectors[0]
    row = Row.of(f, vectors[0].type, len(vectors))
    for number, each in enumerate(vectors):
        row.store(f, number * WIDTH, each)
    return row


def is_long(op: ir.OpView) -> bool:
    """Whether an elementwise op takes many instructions for each vector."""
    return flops_per_element(record_of(op.operation.name)) >= LONG_FLOPS


def runs(ops: Sequence[ir.OpView], outputs: Sequence[ir.Value]) -> Mapping[int, Run]:
    """The runs of the ops of a block, by the places of their ops; `outputs`: what is read after them."""
    first = next((place for place, op in enumerate(ops) if _is_seed(op)), None)
    return {} if first is None else _Block({place: ops[place] for place in range(first, len(ops))}, outputs).runs()


def _is_seed(op: ir.OpView) -> bool:
    """Whether an op by itself is worth a loop."""
    if not is_long(op) or RealFunction.of(op) is None:
        return False
    return num_elements(op.results[0]) > (TURNS - 1) * WIDTH


class _Block:
    """The ops of a block, from the first function on, by their places."""

    def __init__(self, ops: Mapping[int, ir.OpView], outputs: Sequence[ir.Value]) -> None:
        self._ops = ops
        self._operands = {
            place: [*op.operands, *(captured_values(op) if op.regions else ())] for place, op in ops.items()
        }
        self._readers: dict[ir.Value, set[int]] = {}  # their places; outputs are read behind all ops
        for place, values in (*self._operands.items(), (max(ops) + 1, outputs)):
            for value in values:
                self._readers.setdefault(value, set()).add(place)
        self._fixed: dict[ir.Value, bool] = {}
        self._joining = {place for place, op in ops.items() if self._may_join(op)}
        self._seeds = {place for place in self._joining if _is_seed(ops[place])}
        self._stored: set[ir.Value] = set()  # what runs make, which is in memory for further ones

    def _may_join(self, op: ir.OpView) -> bool:
        """Whether an op is elementwise, on vectors that differ, of real numbers."""
        if op.operation.name.removeprefix("hlo.") not in ARITH or num_elements(op.results[0]) <= SCALARS:
            return False
        if any(element(value).is_complex for value in (*op.operands, *op.results)):
            return False
        return not all(map(self._is_fixed, op.operands))

    def _is_fixed(self, value: ir.Value) -> bool:
        """Whether a value is the same number everywhere."""
        if value not in self._fixed:
            self._fixed[value] = not isinstance(value.owner, ir.Block) and self._makes_fixed(value.owner)
        return self._fixed[value]

    def _makes_fixed(self, op: ir.OpView | ir.Operation) -> bool:
        if op.name == "hlo.broadcast":
            return num_elements(op.operands[0]) == 1
        return op.name.removeprefix("hlo.") in ARITH and all(map(self._is_fixed, op.operands))

    def runs(self) -> Mapping[int, Run]:
        """The runs, by the places of their ops."""
        found: dict[int, Run] = {}
        for begun in self._begun():
            run = self._ended(begun)
            run.results = self._results(run)
            if run.results and not any(map(_is_mask, run.results)):
                found |= dict.fromkeys(run.ops, run)
                self._stored |= run.made
        for run in found.values():
            run.passed = {value for value in run.results if self._readers[value] <= found.keys()}
        return found

    def _results(self, run: Run) -> list[ir.Value]:
        """What others read of what it makes."""
        made = (op.results[0] for op in run.ops.values())
        return [value for value in made if not self._readers.get(value, set()) <= run.ops.keys()]

    def _begun(self) -> list[Run]:
        """Functions, and all that reads them, until something else does: what they make is there by then."""
        begun: list[Run] = []
        run: Run | None = None
        for place, op in self._ops.items():
            if place in self._seeds:
                if run is None or not self._is_beside(run, place):
                    run = Run()
                    begun.append(run)
                run.add(place, op)
            elif run is not None and not run.made.isdisjoint(self._operands[place]):
                if place in self._joining and not any(map(_is_mask, self._brought(run, place))):
                    run.add(place, op)
                else:
                    run = None
        return begun

    def _is_beside(self, run: Run, place: int) -> bool:
        """Whether a function is of as many elements as a run, reads nothing of it, and neither leaves the loop anyway:
        nothing is won then."""
        values = {*run.made, self._ops[place].results[0]}
        leave = (value for other in self._seeds & {*run.ops, place} for value in self._ops[other].results)
        is_alike = len({num_elements(value) for value in values}) == 1
        return is_alike and run.made.isdisjoint(self._operands[place]) and not any(map(self._leaves, leave))

    def _leaves(self, value: ir.Value) -> bool:
        """Whether ops that no loop takes in read a value."""
        return not self._readers.get(value, set()) <= self._joining

    def _ended(self, run: Run) -> Run:
        """Without what comes after its functions, as far as that is fewest lines."""
        function = max(self._seeds & run.ops.keys())
        best = Run.of({place: op for place, op in run.ops.items() if place <= function})
        trial = Run.of(best.ops)
        lines = fewest = 0
        for place, op in run.ops.items():
            if place <= function:
                continue
            brought = self._brought(trial, place)
            own = trial.made.intersection(op.operands)
            trial.add(place, op)
            inside = sum(self._readers[value] <= trial.ops.keys() for value in own)  # no results any more
            lines += MOVED * (len(brought) + 1 - inside) - 1
            if lines < fewest and not any(map(_is_mask, self._results(trial))):
                best, fewest = Run.of(trial.ops), lines
        return best

    def _brought(self, run: Run, place: int) -> set[ir.Value]:
        """What would be stored for an op that joins a run: vectors that differ, which the run does not read yet."""
        values = set(self._operands[place]) - run.made - run.operands - self._stored
        return {value for value in values if not self._is_fixed(value)}


def _is_mask(value: ir.Value) -> bool:
    """Whether it is no numbers, which memory has no vectors of."""
    return element(value).compute.bits == 1
